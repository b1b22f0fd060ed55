"""sacctmgr show event, transaction, tres, wckey, resource, reservation, runawayjobs, problem, federation, instance.

Each is a `Listing`: the words allowed in the line, the default columns, the values of the fields, and a function that
queries the controller and returns the rows. There are no federations, so that table is empty.
"""

import time
from collections.abc import Callable

# Any: each table has rows of its own type
from typing import Any, Generic, NamedTuple

from cli.accounts.context import check_cluster
from cli.accounts.fields import FieldValue, columns_of, put_table
from cli.accounts.tree import AssociationTree
from cli.accounts.wckeys import load_wckeys
from cli.accounts.words import Grammar, ParsedLine, keywords
from cli.base.confirm import confirmed
from cli.base.document import is_wanted
from cli.base.format import DisplayClock, TableRow
from cli.base.options import OptionValues
from cli.base.run import CommandError
from cli.base.users import named
from penstock.client import Client
from penstock.v1 import controller_pb2 as pb
from penstock.v1 import governance_pb2 as gov
from penstock.values.dates import parse_date_us
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.hostlist import as_lists, expand

S = 1_000_000


class ListView(NamedTuple):
    """The context in which rows are shown."""

    cluster: str
    clock: DisplayClock


class Listing(NamedTuple, Generic[TableRow]):
    """One entity that is only shown."""

    grammar: Grammar
    columns: Callable[[ParsedLine], str]
    values: dict[str, FieldValue[TableRow, ListView]]
    rows: Callable[[Client, ParsedLine, int], list[TableRow]]


def show(client: Client, entity: str, said: ParsedLine, options: OptionValues) -> int:
    """Prints one table."""
    listing = LISTINGS[entity]
    if "all_clusters" not in said.flags:
        check_cluster(said, client.cluster.cluster_name)
    columns = columns_of(said.columns or listing.columns(said), listing.values)
    now_us = time.time_ns() // 1000
    rows = listing.rows(client, said, now_us)
    view = ListView(client.cluster.cluster_name, DisplayClock.of_environment(now_us))
    if is_wanted(options):
        from cli.accounts.jsonacctmgr import put_list

        return put_list(entity, rows, view.cluster, options)
    if entity == "runawayjobs" and not rows:
        print(f"Runaway Jobs: No runaway jobs found on cluster {view.cluster}")  # noqa: T201
        return 0
    if entity == "runawayjobs":
        print(NOTE)  # noqa: T201
    put_table(columns, rows, view, options)
    if entity == "runawayjobs":
        return _fix(client, rows, options)
    return 0


#: A value of rows of any type.
_Value = FieldValue[object, ListView]


def _fixed(text: str) -> Callable[[ParsedLine], str]:
    return lambda said: text


def _cluster(row: object, view: ListView) -> str:
    return view.cluster


def _text(name: str) -> _Value:
    return lambda row, view: str(getattr(row, name))


def _number(name: str) -> _Value:
    return lambda row, view: str(getattr(row, name) or "")


def _time(name: str, unknown: str = "Unknown") -> _Value:
    return lambda row, view: view.clock.text(getattr(row, name), unknown)


def _date(said: ParsedLine, key: str, now_us: int, default_us: int = 0) -> int:
    """The last time that was given for a condition."""
    texts = said.conditions.get(key)
    if not texts:
        return default_us
    try:
        return parse_date_us(texts[-1], now_us, past=True)
    except BadValue as error:
        raise CommandError(f"Invalid time specification (pos=0): {texts[-1]}", detail=str(error)) from None


def _wants(said: ParsedLine, key: str, value: str) -> bool:
    wanted = said.conditions.get(key)
    return wanted is None or value.lower() in (word.lower() for word in wanted)


# ---- events ------------------------------------------------------------------------------------------------------

_EVENT = Grammar(
    keywords(
        "Clusters:1>cluster CondFlags:2 End:1 Events:1>event Format:1 MinCPUs:2 MaxCPUs:2 Nodes:1>node "
        "Reasons:1>reason Start:4 "
        "States:4>state Users:1>user"
    ),
    flags=keywords("All_Clusters:5 All_Time:5"),
    use_set=False,
    bare="",
)
_STATES = frozenset((
    "ALLOC", "ALLOCATED", "COMP", "COMPLETING", "CLOUD", "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL",
    "FAILING", "FUTURE",
    "IDLE", "INVAL", "MAINT", "MIXED", "MIX", "NO_RESPOND", "PLANNED", "POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN",
    "POWERING_UP",
    "REBOOT", "REBOOT_ISSUED", "RESERVED", "RESUME", "UNKNOWN",
))  # fmt: skip
_DAY_US = 24 * 3600 * S


def _midnight_before(now_us: int) -> int:
    """00:00:00 of the day before."""
    today = parse_date_us("today", now_us, past=True)
    return parse_date_us("today", today - _DAY_US // 2, past=True)


def _events(client: Client, said: ParsedLine, now_us: int) -> list[gov.EventInfo]:
    states = [word.upper() for word in said.conditions.get("state", ())]
    for state in states:
        if state.rstrip("*~#!%$@^-") not in _STATES:
            raise CommandError(f"Invalid state: {state.lower()}", plain=True)
    kinds = {_event_kind(word) for word in said.conditions.get("event", ())}
    for flag in said.conditions.get("condflags", ()):
        if flag.lower() != "open":
            raise CommandError(f" Unknown condition flag {flag}", plain=True)
    is_open = "condflags" in said.conditions or (bool(states) and "start" not in said.conditions)
    start_us = _date(said, "start", now_us, 0 if states or "all_time" in said.flags else _midnight_before(now_us))
    request = gov.ListEventsRequest(
        start_at_us=0 if "all_time" in said.flags else start_us,
        end_at_us=_date(said, "end", now_us),
        nodes=[",".join(said.conditions["node"])] if "node" in said.conditions else (),
        states=states,
        users=said.conditions.get("user", []),
        reasons=said.conditions.get("reason", []),
        all_clusters_events=not is_open,
    )
    if states or "user" in said.conditions:
        kinds = {"Node"}
    found = [event for page in client.stream("ListEvents", request) for event in page.events]
    return [
        event
        for event in found
        if (not kinds or (event.event_type or ("Node" if event.node else "Cluster")) in kinds)
        and not (is_open and event.end_at_us)
        and _in_range(said, event)
    ]


def _in_range(said: ParsedLine, event: gov.EventInfo) -> bool:
    """MinCPUs and MaxCPUs."""
    from penstock.values.tres import parse_tres

    for key, sign in (("mincpus", 1), ("maxcpus", -1)):
        for text in said.conditions.get(key, ()):
            if not (text.isascii() and text.isdigit() and len(text) < 12):
                raise CommandError(
                    f"Invalid value for {key} ({text})", detail="it is a number of CPUs with 11 digits at most"
                )
            if (parse_tres(event.tres).get("cpu", 0) if event.tres else 0) * sign < int(text) * sign:
                return False
    return True


def _event_kind(word: str) -> str:
    for kind in ("Cluster", "Node"):
        if word and kind.lower().startswith(word.lower()):
            return kind
    raise CommandError(f" Unknown event type: '{word}'  Valid events are Cluster and Node.", plain=True)


def _event_columns(said: ParsedLine) -> str:
    kinds = {_event_kind(word) for word in said.conditions.get("event", ())}
    return (
        "Cluster,TRES,Start,End,ClusterNodes"
        if kinds == {"Cluster"}
        else "Cluster,NodeName,Start,End,State,Reason,User"
    )


def _duration(row: gov.EventInfo, view: ListView) -> str:
    end_us = row.end_at_us or view.clock.now_us
    return format_duration(max(0, end_us - row.start_at_us) // S)


_EVENT_VALUES: dict[str, FieldValue[gov.EventInfo, ListView]] = {
    "cluster": _cluster, "nodename": _text("node"), "timestart": _time("start_at_us"), "timeend": _time("end_at_us"),
    "state": _text("state"), "reason": _text("reason"), "user": _text("user"), "tres": _text("tres"), "duration": _duration,
    "event": lambda row, view: row.event_type or ("Node" if row.node else "Cluster"),
    "eventraw": lambda row, view: "2" if row.node else "1",
    "clusternodes": lambda row, view: "" if row.node else row.reason,
}  # fmt: skip

# ---- transactions ------------------------------------------------------------------------------------------------

_TRANSACTION = Grammar(
    keywords(
        "Accounts:3>account Acct:4>account Action:4 Actors:4>actor Clusters:3>cluster End:1 Format:1 Ids:1>id Start:1 "
        "Users:1>user"
    ),
    flags=keywords("WithAssoc:5"),
    use_set=False,
    bare="id",
)


def _transactions(client: Client, said: ParsedLine, now_us: int) -> list[gov.TransactionInfo]:
    ids = said.conditions.get("id", [])
    for text in ids:
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise CommandError(f" Unknown condition: {text}", plain=True)
    request = gov.ListTransactionsRequest(
        start_at_us=_date(said, "start", now_us),
        end_at_us=_date(said, "end", now_us),
        actions=said.conditions.get("action", []),
        actors=said.conditions.get("actor", []),
        accounts=said.conditions.get("account", []),
        users=said.conditions.get("user", []),
        ids=[int(text) for text in ids],
    )
    return [one for page in client.stream("ListTransactions", request) for one in page.transactions]


_TRANSACTION_VALUES: dict[str, FieldValue[gov.TransactionInfo, ListView]] = {
    "timestamp": _time("at_us"), "action": _text("action"), "actor": _text("actor"), "where": _text("where"),
    "info": _text("info"), "id": _text("id"), "actionraw": _text("action"), "cluster": _cluster,
    "account": lambda row, view: ",".join(row.accounts), "user": lambda row, view: ",".join(row.users),
}  # fmt: skip


def _transaction_columns(said: ParsedLine) -> str:
    return "Time,Action,Actor,Where,Info" + (",User,Account,Cluster" if "withassoc" in said.flags else "")


# ---- TRES, wckeys, resources -------------------------------------------------------------------------------------


def _tres(client: Client, said: ParsedLine, now_us: int) -> list[gov.TresInfo]:
    return [
        one
        for one in client.call("ListTres", gov.ListTresRequest()).tres
        if _wants(said, "type", one.type) and _wants(said, "name", one.name) and _wants(said, "id", str(one.id))
    ]


def _wckeys(client: Client, said: ParsedLine, now_us: int) -> list[gov.WckeyInfo]:
    return [
        one
        for one in load_wckeys(client, "withdeleted" in said.flags)
        if _wants(said, "name", one.name) and _wants(said, "user", one.user) and _wants(said, "id", str(one.id))
    ]


RESOURCE = Grammar(
    keywords(
        "Clusters:2>cluster Descriptions:3>description Flags:2 Format:2 Ids:1>id Names:1>name "
        "PercentAllowed:1>allowed Servers:2>server "
        "ServerType:7>servertype Type:1"
    ),
    keywords(
        "Allowed:2 PercentAllowed:1>allowed Count:3 Descriptions:1>description Flags:2 LastConsumed:2 ServerType:7 "
        "Manager:3>servertype "
        "Type:1"
    ),
    keywords("Names:1>name Resources:1>name Clusters:2>cluster Servers:2>server"),
    keywords("WithDeleted:5 WithClusters:5"),
    use_set=False,
)


def _resources(client: Client, said: ParsedLine, now_us: int) -> list[gov.ResourceInfo]:
    return [
        one
        for one in client.call("ListResources", gov.ListResourcesRequest()).resources
        if _wants(said, "name", one.name)
        and _wants(said, "server", one.server)
        and _wants(said, "servertype", one.manager)
        and _wants(said, "description", one.description)
    ]


def _resource_columns(said: ParsedLine) -> str:
    more = ",Cluster,Allowed" if "withclusters" in said.flags else ""
    return "Name,Server,Type,Count,LastConsumed,Allocated,ServerType,Flags" + more


# ---- reservations ------------------------------------------------------------------------------------------------

_RESERVATION = Grammar(
    keywords("Clusters:1>cluster End:1 Format:1 Ids:1>id Names:3>name Nodes:3>node Start:5"), use_set=False, bare="name"
)


def _reservations(client: Client, said: ParsedLine, now_us: int) -> list[pb.ReservationInfo]:
    start_us = _date(said, "start", now_us, parse_date_us("today", now_us, past=True))
    end_us = _date(said, "end", now_us, now_us)
    wanted = {name for text in said.conditions.get("node", ()) for name in expand(text)}
    return [
        one
        for one in client.call("ListReservations", pb.ListReservationsRequest()).reservations
        if _wants(said, "name", one.name)
        and one.start_at_us <= end_us
        and one.end_at_us >= start_us
        and (not wanted or bool(wanted & set(expand(one.node_list) if one.node_list else ())))
    ]


# ---- runaway jobs ------------------------------------------------------------------------------------------------

NOTE = "NOTE: Runaway jobs are jobs that don't exist in the controller but have a start time and no end time in the database"
FIX = (
    "\nWould you like to fix these runaway jobs?\n"
    "(This will set the end time for each job to the latest out of the start, eligible, or submit times, and set the "
    "state to "
    "completed.\n"
    "Once corrected, this will trigger the rollup to reroll usage from before the earliest submit time of all the "
    "runaway jobs.)\n"
)


def _runaway(client: Client, said: ParsedLine, now_us: int) -> list[gov.RunawayJob]:
    return list(client.call("ListRunaway", gov.ListRunawayRequest()).jobs)


def _fix(client: Client, rows: list[gov.RunawayJob], options: OptionValues) -> int:
    if not options.flag("immediate") and not confirmed(FIX):
        return 0
    if options.flag("readonly"):
        raise CommandError("Can't run this command in readonly mode.", plain=True)
    client.call("FixRunaway", gov.FixRunawayRequest(job_ids=[row.job_id for row in rows]))
    return 0


# ---- problems ----------------------------------------------------------------------------------------------------


class RecordProblem(NamedTuple):
    """An account or association that no job can use."""

    account: str
    user: str
    problem: str


def _problems(client: Client, said: ParsedLine, now_us: int) -> list[RecordProblem]:
    """Accounts without users or accounts below them, users without an association or a uid."""
    import pwd

    tree = AssociationTree.load(client)
    filled = {one.parent for one in tree.whole.associations if not one.user} | {
        one.account for one in tree.whole.associations if one.user
    }
    found = [
        RecordProblem(name, "", "Account has no users")
        for name in sorted(tree.accounts)
        if name != "root" and name not in filled
    ]
    known = {entry.pw_name for entry in pwd.getpwall()}
    with_assoc = {one.user for one in tree.whole.associations}
    for name in sorted(tree.users):
        if name not in with_assoc:
            found.append(RecordProblem("", name, "User has no associations"))
        elif name not in known and named(name) is None:
            found += [
                RecordProblem(one.account, name, "User does not have a uid")
                for one in tree.whole.associations
                if one.user == name
            ]
    return [one for one in found if _wants(said, "account", one.account) and _wants(said, "user", one.user)]


def _instances(client: Client, said: ParsedLine, now_us: int) -> list[pb.NodeInfo]:
    """Machines of a cloud that are nodes now; earlier ones are not recorded."""
    wanted = [
        (name, said.conditions[name]) for name in ("instanceid", "instancetype", "extra") if name in said.conditions
    ]
    names = [name for text in said.conditions.get("node", ()) for name in expand(text)]
    reply = client.call("ListNodes", pb.ListNodesRequest(names=as_lists(names)))
    fields = {"instanceid": "instance_id", "instancetype": "instance_type", "extra": "extra"}
    return [
        node
        for node in reply.nodes
        if (node.instance_id or node.instance_type)
        and all(getattr(node, fields[name]) in values for name, values in wanted)
    ]


def _none(client: Client, said: ParsedLine, now_us: int) -> list[object]:
    return []


_PLAIN = Grammar(keywords("Clusters:1>cluster Format:1"), use_set=False, bare="")
LISTINGS: dict[str, Listing[Any]] = {
    "event": Listing(_EVENT, _event_columns, _EVENT_VALUES, _events),
    "transaction": Listing(_TRANSACTION, _transaction_columns, _TRANSACTION_VALUES, _transactions),
    "tres": Listing(
        Grammar(keywords("Format:1 Ids:1>id Names:1>name Type:2"), flags=keywords("WithDeleted:5"), use_set=False, bare="type"),
        _fixed("Type,Name%15,ID"),
        {"type": _text("type"), "name": _text("name"), "id": _text("id"), "count": _text("count")},
        _tres,
    ),
    "wckey": Listing(
        Grammar(
            keywords("Clusters:3>cluster Format:1 Ids:1>id Names:1>name WCKeys:1>name Users:1>user End:1 Start:1"),
            flags=keywords("WithDeleted:5"), use_set=False,
        ),
        _fixed("Name,Cluster,User"),
        {
            "name": _text("name"), "wckey": _text("name"), "cluster": _cluster, "user": _text("user"), "id": _text("id"),
        },
        _wckeys,
    ),
    "resource": Listing(
        RESOURCE,
        _resource_columns,
        {
            "name": _text("name"), "server": _text("server"), "type": lambda row, view: row.type or "License",
            "count": _text("count"), "lastconsumed": _text("last_consumed"), "allocated": _text("allowed"),
            "allowed": _text("allowed"), "servertype": _text("manager"), "description": _text("description"), "cluster": _cluster,
            "flags": lambda row, view: ",".join(row.flags), "countallowed": lambda row, view: str(row.count * row.allowed // 100),
        },
        _resources,
    ),
    "reservation": Listing(
        _RESERVATION,
        _fixed("Cluster,Name%15,TRES%30,TimeStart,TimeEnd,Unused"),
        {
            "cluster": _cluster, "name": _text("name"), "tres": _text("tres"), "timestart": _time("start_at_us"),
            "timeend": _time("end_at_us"), "flags": _text("flags"), "nodename": _text("node_list"),
            "associations": lambda row, view: ",".join(row.accounts), "account": lambda row, view: ",".join(row.accounts),
            "user": lambda row, view: ",".join(row.users),
        },
        _reservations,
    ),
    "runawayjobs": Listing(
        _PLAIN,
        _fixed("ID%-12,Name,Part,Cluster,State%10,Submit,Start,End"),
        {
            "id": _text("job_id"), "name": _text("name"), "partition": _text("partition"), "cluster": _cluster,
            "state": _text("state"), "timesubmit": _time("submit_at_us"), "timestart": _time("start_at_us"),
            "timeend": _time("end_at_us"), "user": _text("user"), "account": _text("account"),
        },
        _runaway,
    ),
    "problem": Listing(
        Grammar(keywords("Accounts:2>account Acct:4>account Clusters:1>cluster Format:1 Users:1>user"), use_set=False, bare=""),
        _fixed("Cl,Acct,User,Problem"),
        {"cluster": _cluster, "account": _text("account"), "user": _text("user"), "problem": _text("problem")},
        _problems,
    ),
    "federation": Listing(
        Grammar(keywords("Names:1>name Clusters:1>cluster Format:1"), flags=keywords("Tree:4 WithDeleted:5"), use_set=False),
        _fixed("Federation,Cluster,ID%2,Features,FedState"),
        {},
        _none,
    ),
    "instance": Listing(
        Grammar(
            keywords("Clusters:1>cluster End:1 Extra:2 Format:1 InstanceId:9 InstanceType:9 Nodes:1>node Start:1"),
            use_set=False, bare="",
        ),
        _fixed("Cluster,NodeName,Start,End,InstanceId,InstanceType,Extra"),
        {
            "cluster": _cluster, "nodename": _text("name"), "timestart": _time("boot_at_us"),
            "timeend": lambda row, view: "Unknown", "instanceid": _text("instance_id"),
            "instancetype": _text("instance_type"), "extra": _text("extra"),
        },
        _instances,
    ),
}  # fmt: skip
