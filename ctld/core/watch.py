"""What of a request goes into the audit log: tables of records before it and after it, compared.

A handler that changes what is everybody's is wrapped by `watched`, and does not know of it: what it has changed is seen in
the state, so that no change can be forgotten and none is recorded that has not happened. Records of the state are replaced
and never changed, so that a shallow copy of a table is how it was. Accounting has too many records for that: there every
change goes through a draft (draft.py), which says what it has changed when it holds (`tell`).

Jobs are not copied: who acts on somebody else's says so (`meddles`, `Meddling`). A user's own jobs cost one comparison.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctld.core import audit
from ctld.core.effects import Done
from ctld.core.events import (
    Actor,
    ChangeAccounts,
    ChangeQos,
    ClearTriggers,
    CreateReservation,
    DeleteReservation,
    LoadConfig,
    RecordAct,
    UpdateCrontab,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from ctld.core.fairshare import AccountRow, AssocRow, ResourceRow, UserRow, WckeyRow
from ctld.core.model import Job, Qos, node_row
from ctld.core.plain import whole

if TYPE_CHECKING:
    from ctld.core.state import ClusterState

Handler = Callable[["ClusterState", int, Any], None]
#: Records of accounting that are compared in one go: some milliseconds.
RECORDS_AT_ONCE: Final = 100
#: By kind and key, records as they are.
Tables = dict[str, dict[Any, Any]]

ACCOUNT, ASSOC, QOS, USER, WCKEY, RESOURCE = "account", "association", "qos", "user", "wckey", "resource"
#: What sacctmgr's transactions are about, by our kinds.
_TXN_WORDS: Final = {
    ACCOUNT: "Accounts", USER: "Users", ASSOC: "Associations", QOS: "QOS", WCKEY: "WCKeys", RESOURCE: "Resources",
}  # fmt: skip
#: Fields that say nothing to people, that are what the object is called by, or that are private (text of a crontab).
_SKIPPED: Final = frozenset(
    (
        "account", "anchor_at_us", "assoc_id", "boot_id", "changed_at_us", "created_at_us", "deleted", "drain_at_us",
        "drain_uid", "float_us", "idle_since_us", "jobs", "last_busy_at_us", "made_by_itself", "name", "node", "parts",
        "previous_end_at_us", "qos_id", "reason_at_us", "reason_uid", "spool_id", "text", "user_name", "uuid",
        "version", "wckey_id",
    )
)  # fmt: skip


class Change(NamedTuple):
    """What has become of one object."""

    kind: str
    key: Any
    before: audit.Fields | None  # None = it was not there
    after: audit.Fields | None  # None = it is gone

    @property
    def verb(self) -> str:
        """As sacctmgr calls it."""
        return "add" if self.before is None else "remove" if self.after is None else "modify"


def _reservations(state: "ClusterState", event: Any) -> Tables:
    return {"reservation": dict(state.reservations)}


def _nodes(state: "ClusterState", event: UpdateNodes) -> Tables:
    names = list(state.nodes) if [name.upper() for name in event.names] == ["ALL"] else event.names
    nodes = [state.nodes[name] for name in names if name in state.nodes]
    return {
        "node": {node.name: {**audit.image(node_row(node)), "weight": node.weight} for node in nodes},
        "gpu": {f"{node.name} {uuid}": gpu for node in nodes for uuid, gpu in node.gpus.items()},
    }


def _partitions(state: "ClusterState", event: UpdatePartition) -> Tables:
    return {"partition": {name: {"state": one.state} for name, one in state.partitions.items() if name == event.name}}


def _crontabs(state: "ClusterState", event: UpdateCrontab) -> Tables:
    """Those of others; a user's own are his jobs."""
    mine = event.actor.uid == event.owner.uid
    return {"crontab": {} if mine else {tab.user_name: tab for tab in state.periodic.crontabs.values()}}


def _triggers(state: "ClusterState", event: ClearTriggers) -> Tables:
    known = state.periodic.triggers
    return {"trigger": {f"{i} of {one.user_name}": one for i, one in known.items() if one.uid != event.actor.uid}}


class Watch(NamedTuple):
    """What one kind of request may change, and the words that the record has of it."""

    look: Callable[["ClusterState", Any], Tables]
    asked: tuple[str, ...] = ()  # fields of the event


WATCHED: Final[dict[type, Watch]] = {
    CreateReservation: Watch(_reservations),
    UpdateReservation: Watch(_reservations),
    DeleteReservation: Watch(_reservations),
    UpdateNodes: Watch(_nodes, ("changes",)),
    UpdatePartition: Watch(_partitions, ("changes",)),
    UpdateCrontab: Watch(_crontabs),
    ClearTriggers: Watch(_triggers),
}


def watched(handlers: Mapping[type, Handler]) -> dict[type, Handler]:
    """The same handlers, those of WATCHED with an eye on them."""
    return {kind: _eye(one, WATCHED[kind]) if kind in WATCHED else one for kind, one in handlers.items()}


def _eye(handler: Handler, watch: Watch) -> Handler:
    def handle(state: "ClusterState", now_us: int, event: Any) -> None:
        before = watch.look(state, event)
        handler(state, now_us, event)
        asked = {name: getattr(event, name) for name in watch.asked if getattr(event, name)}
        write(state, now_us, event.actor, list(_changes(before, watch.look(state, event))), asked)

    return handle


def _changes(before: Tables, after: Tables) -> Iterable[Change]:
    for kind, old in before.items():
        new = after[kind]
        for key in dict.fromkeys((*old, *new)):
            was, now = old.get(key), new.get(key)
            if was is not now and was != now:
                yield _change(kind, key, was, now)


def _change(kind: str, key: Any, was: Any, now: Any) -> Change:
    return Change(kind, key, *audit.difference(_image(was), _image(now)))


# ---- accounting --------------------------------------------------------------------------------------------------

#: By the kind of a row: what it is called, and its key as people say it.
_BOOKS: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    AccountRow: (ACCOUNT, lambda row: row.name),
    UserRow: (USER, lambda row: row.name),
    AssocRow: (ASSOC, lambda row: "/".join(word for word in (row.account, row.user_name, row.partition) if word)),
    Qos: (QOS, lambda row: row.name),
    WckeyRow: (WCKEY, lambda row: f"{row.name}/{row.user_name}"),
    ResourceRow: (RESOURCE, lambda row: row.key),
}


def tell(
    state: "ClusterState",
    now_us: int,
    actor: Actor,
    request: ChangeAccounts | ChangeQos,
    told: Iterable[tuple[Any, Any]],
) -> Iterator[None]:
    """One request's changes of accounting, record by record: (before, after), in the order in which they were made. Goes on
    a little at a time."""
    asked = {"changes": request.changes} if request.changes else {}
    changes = yield from _merged(told)
    yield from _writing(state, now_us, actor, changes, asked, True)
    if "rawusage" in request.changes:
        names = (*request.names, *(request.accounts if isinstance(request, ChangeAccounts) else ()))
        state.audit.note(now_us, actor, "reset usage", names, asked=asked)


def _merged(told: Iterable[tuple[Any, Any]]) -> Generator[None, None, list[Change]]:
    """What has become of each record in the end, by kinds. What had made itself counts as not there, as for sacctmgr."""
    ends: dict[tuple[str, Any], tuple[str, Any, Any]] = {}
    for was, now in told:
        row = was if now is None else now
        if type(row) in _BOOKS:
            kind, name_of = _BOOKS[type(row)]
            name = name_of(row)
            key = (kind, row.assoc_id if kind == ASSOC else name)
            ends[key] = (name, ends[key][1] if key in ends else was, now)
    found = []
    for number, ((kind, _), (name, was, now)) in enumerate(ends.items(), 1):
        if kind == ASSOC and was is not None and was.made_by_itself:
            was = None
        if was != now:
            found.append(_change(kind, name, was, now))
        if number % RECORDS_AT_ONCE == 0:
            yield
    order = list(_TXN_WORDS)
    return sorted(found, key=lambda change: order.index(change.kind))


def _image(row: Any) -> audit.Fields | None:
    if row is None:
        return None
    found = row if isinstance(row, dict) else audit.image(row)
    limits = found.get("limits")
    more = audit.limit_texts(limits) if limits is not None else {}
    return {name: value for name, value in found.items() if name not in _SKIPPED and name != "limits"} | more


def write(
    state: "ClusterState",
    now_us: int,
    actor: Actor,
    changes: list[Change],
    asked: audit.Fields,
    transacts: bool = False,
) -> None:
    """One record for all objects that the same has happened to."""
    for _ in _writing(state, now_us, actor, changes, asked, transacts):
        pass


def _writing(
    state: "ClusterState", now_us: int, actor: Actor, changes: list[Change], asked: audit.Fields, transacts: bool
) -> Iterator[None]:
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for number, change in enumerate(changes, 1):
        said = (
            audit.canonical(audit.plain({"before": change.before, "after": change.after})) if len(changes) > 1 else ""
        )
        alike.setdefault((change.verb, change.kind, said), []).append(change)
        if number % RECORDS_AT_ONCE == 0:
            yield
    for same in alike.values():
        yield
        first = same[0]
        objects = [f"{one.kind} {one.key}" for one in same]
        state.audit.note(
            now_us, actor, f"{first.verb} {first.kind}", objects, first.before, first.after, asked=asked
        )  # fmt: skip
        if transacts:
            _transact(state, now_us, actor, same)


def _transact(state: "ClusterState", now_us: int, actor: Actor, same: list[Change]) -> None:
    """In the words of sacctmgr show transaction."""
    verb, kind, after = same[0].verb, same[0].kind, audit.plain(same[0].after or {})
    action = f"{verb.capitalize()} {_TXN_WORDS[kind]}"
    if kind == ACCOUNT and verb == "modify" and list(after) == ["coordinators"]:
        added = set(after["coordinators"]) - set((same[0].before or {}).get("coordinators", ()))
        action = "Add Account Coord" if added else "Remove Account Coords"
    keys = [str(one.key) for one in same]
    accounts = {ACCOUNT: keys, ASSOC: [key.split("/")[0] for key in keys]}.get(kind, [])
    users = {USER: keys, ASSOC: [key.split("/")[1] for key in keys if "/" in key]}.get(kind, [])
    state.audit.transact(
        now_us, actor, action, ",".join(keys), ",".join(f"{name}={_word(value)}" for name, value in after.items()),
        tuple(dict.fromkeys(accounts)), tuple(dict.fromkeys(users)),
    )  # fmt: skip


def _word(value: Any) -> str:
    return "'" + (",".join(map(str, value)) if isinstance(value, list) else str(value)) + "'"


# ---- jobs --------------------------------------------------------------------------------------------------------


def meddles(actor: Actor, job: Job) -> bool:
    """Whether this is somebody else's job, also for who acts as somebody else."""
    return actor.uid != job.user_id or actor.by is not None


class Meddling:
    """What a request does to jobs of others, in one record for all that the same is done to."""

    def __init__(self) -> None:
        self._alike: dict[Any, tuple[list[str], audit.Fields | None, audit.Fields | None]] = {}

    @staticmethod
    def look(job: Job) -> tuple[Any, ...]:
        """How a job is before."""
        return job.state, job.hold, job.priority, job.request

    def saw(self, text: str, job: Job, before: tuple[Any, ...]) -> None:
        """It has been done. `text`: what the request calls the job."""
        now = self.look(job)
        was, new = _job_image(before, now), _job_image(now, before)
        key = audit.canonical(audit.plain({"of": job.user_name, "was": was, "new": new}))
        self._alike.setdefault(key, ([], was, new))[0].append(f"job {text} of {job.user_name}")

    def write(self, state: "ClusterState", now_us: int, actor: Actor, action: str, asked: audit.Fields) -> None:
        """At the end of the request."""
        for objects, before, after in self._alike.values():
            state.audit.note(now_us, actor, action, objects, before, after, asked=asked)


def _job_image(mine: tuple[Any, ...], other: tuple[Any, ...]) -> dict[str, Any]:
    names = ("state", "hold", "priority", "request")
    found = {
        name: value for name, value, its in zip(names, mine, other, strict=True) if value != its and name != "request"
    }
    if mine[3] is not other[3]:
        its = audit.image(whole(other[3]))
        found |= {name: value for name, value in audit.image(whole(mine[3])).items() if value != its[name]}
    return found


# ---- what the core does not do itself ----------------------------------------------------------------------------


def record_act(state: "ClusterState", now_us: int, event: RecordAct) -> None:
    """Something that was done, or denied, outside of the core."""
    state.audit.note(
        now_us, event.actor, event.action, event.objects, event.before, event.after, asked=event.asked,
        result=event.result, more=event.more,
    )  # fmt: skip
    if event.transaction is not None and event.actor is not None:
        action, info = event.transaction
        state.audit.transact(now_us, event.actor, action, ",".join(event.objects), info)
    state.reply(event.reply_to, Done())


def config_loaded(state: "ClusterState", now_us: int, event: LoadConfig) -> None:
    """A configuration has taken force by somebody's wish."""
    if event.act is not None:
        record_act(state, now_us, event.act)
