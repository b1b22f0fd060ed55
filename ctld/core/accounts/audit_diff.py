"""Computes the audit records of a request by comparing the tables before it and after it.

`audited` wraps the handlers of requests that change shared records. The handlers need no code for it: changes are found
in the state, so none can be omitted and none is recorded that has not happened. Records of the state are replaced and
never modified, so a shallow copy of a table preserves its former content. Accounting has too many records for a copy:
there every change goes through a draft (draft.py), which lists its changes (`record_changes`).

Jobs are not copied: code that changes another user's job records it explicitly (`affects_other_user`,
`OthersJobChanges`). A user's own jobs cost one comparison.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

# Any: records of every kind are compared field by field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ctld.core.records import audit
from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, UserRow, WckeyRow
from ctld.core.records.compact_request import whole
from ctld.core.records.effects import Done
from ctld.core.records.events import (
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
from ctld.core.records.job import Job
from ctld.core.records.node import node_row
from ctld.core.records.qos import Qos
from ctld.core.records.reservation import ReservationDemand
from penstock.values.limits import Limits

if TYPE_CHECKING:
    from ctld.core.state.state import ClusterState

#: A record of the state, of any kind: records are compared by their fields.
_Record: TypeAlias = Any
_Handler = Callable[["ClusterState", int, _Record], None]
#: Records of accounting that are compared in one slice, which takes some milliseconds.
RECORDS_AT_ONCE: Final = 100
#: By kind and key, the records themselves.
_Tables = dict[str, dict[str, _Record]]

ACCOUNT = "account"
ASSOC = "association"
QOS = "qos"
USER = "user"
WCKEY = "wckey"
RESOURCE = "resource"
#: The objects of sacctmgr's transactions, by our kinds.
_TXN_WORDS: Final = {
    ACCOUNT: "Accounts", USER: "Users", ASSOC: "Associations", QOS: "QOS", WCKEY: "WCKeys", RESOURCE: "Resources",
}  # fmt: skip
#: Fields that mean nothing to readers, that are the object's name, or that are private (text of a crontab).
_SKIPPED: Final = frozenset(
    (
        "account", "anchor_at_us", "ask", "assoc_id", "boot_id", "changed_at_us", "created_at_us", "deleted", "drain_at_us",
        "drain_uid", "float_us", "idle_since_us", "jobs", "last_busy_at_us", "made_by_itself", "name", "node", "parts",
        "previous_end_at_us", "qos_id", "reason_at_us", "reason_uid", "spool_id", "text", "user_name", "uuid",
        "version", "wckey_id",
    )
)  # fmt: skip


class RecordedChange(NamedTuple):
    """The change of one object."""

    kind: str
    key: object
    before: audit.AuditFields | None  # None = it did not exist
    after: audit.AuditFields | None  # None = it was removed

    @property
    def verb(self) -> str:
        """Returns the change's verb, in sacctmgr's terms."""
        return "add" if self.before is None else "remove" if self.after is None else "modify"


def _reservations(state: "ClusterState", event: _Record) -> _Tables:
    return {"reservation": dict(state.reservations)}


def _nodes(state: "ClusterState", event: UpdateNodes) -> _Tables:
    names = list(state.nodes) if [name.upper() for name in event.names] == ["ALL"] else event.names
    nodes = [state.nodes[name] for name in names if name in state.nodes]
    return {
        "node": {node.name: {**audit.image(node_row(node)), "weight": node.weight} for node in nodes},
        "gpu": {f"{node.name} {uuid}": gpu for node in nodes for uuid, gpu in node.gpus.items()},
    }


def _partitions(state: "ClusterState", event: UpdatePartition) -> _Tables:
    return {"partition": {name: {"state": one.state} for name, one in state.partitions.items() if name == event.name}}


def _crontabs(state: "ClusterState", event: UpdateCrontab) -> _Tables:
    """Returns crontabs of other users; a user's own are recorded as their jobs."""
    mine = event.actor.uid == event.owner.uid
    return {"crontab": {} if mine else {tab.user_name: tab for tab in state.periodic.crontabs.values()}}


def _triggers(state: "ClusterState", event: ClearTriggers) -> _Tables:
    known = state.periodic.triggers
    return {"trigger": {f"{i} of {one.user_name}": one for i, one in known.items() if one.uid != event.actor.uid}}


class AuditedRequest(NamedTuple):
    """The tables that one kind of request may change, and how the audit log names the request."""

    tables: Callable[["ClusterState", _Record], _Tables]
    asked: tuple[str, ...] = ()  # fields of the event


AUDITED: Final[dict[type, AuditedRequest]] = {
    CreateReservation: AuditedRequest(_reservations),
    UpdateReservation: AuditedRequest(_reservations),
    DeleteReservation: AuditedRequest(_reservations),
    UpdateNodes: AuditedRequest(_nodes, ("changes",)),
    UpdatePartition: AuditedRequest(_partitions, ("changes",)),
    UpdateCrontab: AuditedRequest(_crontabs),
    ClearTriggers: AuditedRequest(_triggers),
}


def audited(handlers: Mapping[type, _Handler]) -> dict[type, _Handler]:
    """Wraps the handlers of AUDITED so that their changes are recorded."""
    return {kind: _audit_changes(one, AUDITED[kind]) if kind in AUDITED else one for kind, one in handlers.items()}


def _audit_changes(handler: _Handler, audited_request: AuditedRequest) -> _Handler:
    def handle(state: "ClusterState", now_us: int, event: _Record) -> None:
        before = audited_request.tables(state, event)
        handler(state, now_us, event)
        if state.handling.unfinished is None:
            record(state, now_us, event, before)
        else:
            state.handling.unfinished = finish(state, now_us, event, before, state.handling.unfinished)

    def finish(
        state: "ClusterState", now_us: int, event: _Record, before: _Tables, slices: Iterator[None]
    ) -> Iterator[None]:
        yield from slices
        record(state, now_us, event, before)

    def record(state: "ClusterState", now_us: int, event: _Record, before: _Tables) -> None:
        asked = {name: getattr(event, name) for name in audited_request.asked if getattr(event, name)}
        write(state, now_us, event.actor, list(_changes(before, audited_request.tables(state, event))), asked)

    return handle


def _changes(before: _Tables, after: _Tables) -> Iterable[RecordedChange]:
    for kind, old in before.items():
        new = after[kind]
        for key in dict.fromkeys((*old, *new)):
            was, now = old.get(key), new.get(key)
            if was is not now and was != now:
                yield _change(kind, key, was, now)


def _change(kind: str, key: object, was: _Record, now: _Record) -> RecordedChange:
    return RecordedChange(kind, key, *audit.difference(_image(was), _image(now)))


# ---- accounting --------------------------------------------------------------------------------------------------

#: By the kind of a row: its name, and its key as users write it.
_BOOKS: Final[dict[type, tuple[str, Callable[[_Record], str]]]] = {
    AccountRow: (ACCOUNT, lambda row: row.name),
    UserRow: (USER, lambda row: row.name),
    AssocRow: (ASSOC, lambda row: "/".join(word for word in (row.account, row.user_name, row.partition) if word)),
    Qos: (QOS, lambda row: row.name),
    WckeyRow: (WCKEY, lambda row: f"{row.name}/{row.user_name}"),
    ResourceRow: (RESOURCE, lambda row: row.key),
}


def record_changes(
    state: "ClusterState",
    now_us: int,
    actor: Actor,
    request: ChangeAccounts | ChangeQos,
    recorded: Iterable[tuple[_Record, _Record]],
) -> Iterator[None]:
    """Records one request's changes of accounting, record by record: (before, after), in the order in which they were
    made. Works in slices."""
    asked = {"changes": request.changes} if request.changes else {}
    changes = yield from _merged(recorded)
    yield from _writing(state, now_us, actor, changes, asked, True)
    if "rawusage" in request.changes:
        names = (*request.names, *(request.accounts if isinstance(request, ChangeAccounts) else ()))
        state.audit.note(now_us, actor, "reset usage", names, asked=asked)


def _merged(recorded: Iterable[tuple[_Record, _Record]]) -> Generator[None, None, list[RecordedChange]]:
    """Returns the net change of each record, by kinds. Implicitly created records count as missing, as for sacctmgr."""
    ends: dict[tuple[str, object], tuple[str, _Record, _Record]] = {}
    for was, now in recorded:
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


def _image(row: _Record) -> audit.AuditFields | None:
    if row is None:
        return None
    found = row if isinstance(row, dict) else audit.image(row)
    limits = found.get("limits")
    more: dict[str, object] = {**audit.limit_texts(limits)} if isinstance(limits, Limits) else {}
    demand = found.get("ask")
    if isinstance(demand, ReservationDemand):
        more |= audit.image(demand)
    return {name: value for name, value in found.items() if name not in _SKIPPED and name != "limits"} | more


def write(
    state: "ClusterState",
    now_us: int,
    actor: Actor,
    changes: list[RecordedChange],
    asked: audit.AuditFields,
    transacts: bool = False,
) -> None:
    """Writes one audit record for all objects with the same change."""
    for _ in _writing(state, now_us, actor, changes, asked, transacts):
        pass


def _writing(
    state: "ClusterState",
    now_us: int,
    actor: Actor,
    changes: list[RecordedChange],
    asked: audit.AuditFields,
    transacts: bool,
) -> Iterator[None]:
    alike: dict[tuple[str, str, str], list[RecordedChange]] = {}
    for number, change in enumerate(changes, 1):
        said = (
            audit.canonical(audit.json_object({"before": change.before, "after": change.after}))
            if len(changes) > 1
            else ""
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


def _transact(state: "ClusterState", now_us: int, actor: Actor, same: list[RecordedChange]) -> None:
    """Records the change as `sacctmgr show transaction` shows it."""
    verb = same[0].verb
    kind = same[0].kind
    after = audit.json_object(same[0].after or {})
    action = f"{verb.capitalize()} {_TXN_WORDS[kind]}"
    if kind == ACCOUNT and verb == "modify" and list(after) == ["coordinators"]:
        added = _names(after["coordinators"]) - _names((same[0].before or {}).get("coordinators"))
        action = "Add Account Coord" if added else "Remove Account Coords"
    keys = [str(one.key) for one in same]
    accounts = {ACCOUNT: keys, ASSOC: [key.split("/")[0] for key in keys]}.get(kind, [])
    users = {USER: keys, ASSOC: [key.split("/")[1] for key in keys if "/" in key]}.get(kind, [])
    state.audit.transact(
        now_us, actor, action, ",".join(keys), ",".join(f"{name}={_word(value)}" for name, value in after.items()),
        tuple(dict.fromkeys(accounts)), tuple(dict.fromkeys(users)),
    )  # fmt: skip


def _names(found: object) -> set[object]:
    return set(found) if isinstance(found, list | tuple) else set()


def _word(value: object) -> str:
    return "'" + (",".join(map(str, value)) if isinstance(value, list) else str(value)) + "'"


# ---- jobs --------------------------------------------------------------------------------------------------------


def affects_other_user(actor: Actor, job: Job) -> bool:
    """Whether the job belongs to another user, also for a caller who acts as another user."""
    return actor.uid != job.user_id or actor.by is not None


class OthersJobChanges:
    """Changes of a request to other users' jobs, in one audit record for all that have the same change."""

    def __init__(self) -> None:
        self._alike: dict[object, tuple[list[str], audit.AuditFields | None, audit.AuditFields | None]] = {}

    @staticmethod
    def image_of(job: Job) -> tuple[object, ...]:
        """Notes the job before the change."""
        return job.state, job.hold, job.priority, job.request

    def note(self, text: str, job: Job, before: tuple[object, ...]) -> None:
        """Notes the job after the change. `text`: how the request names the job."""
        now = self.image_of(job)
        was, new = _job_image(before, now), _job_image(now, before)
        key = audit.canonical(audit.json_object({"of": job.user_name, "was": was, "new": new}))
        self._alike.setdefault(key, ([], was, new))[0].append(f"job {text} of {job.user_name}")

    def write(self, state: "ClusterState", now_us: int, actor: Actor, action: str, asked: audit.AuditFields) -> None:
        """Writes the record at the end of the request."""
        state.applying()
        for objects, before, after in self._alike.values():
            state.audit.note(now_us, actor, action, objects, before, after, asked=asked)


def _job_image(mine: tuple[_Record, ...], other: tuple[_Record, ...]) -> dict[str, object]:
    names = ("state", "hold", "priority", "request")
    found = {
        name: value for name, value, its in zip(names, mine, other, strict=True) if value != its and name != "request"
    }
    if mine[3] is not other[3]:
        its = audit.image(whole(other[3]))
        found |= {name: value for name, value in audit.image(whole(mine[3])).items() if value != its[name]}
    return found


# ---- what happens outside of the core ----------------------------------------------------------------------------


def record_act(state: "ClusterState", now_us: int, event: RecordAct) -> None:
    """Records an action that was done, or denied, outside of the core."""
    state.applying()
    state.audit.note(
        now_us, event.actor, event.action, event.objects, event.before, event.after, asked=event.asked,
        result=event.result, more=event.more,
    )  # fmt: skip
    if event.transaction is not None and event.actor is not None:
        action, info = event.transaction
        state.audit.transact(now_us, event.actor, action, ",".join(event.objects), info)
    state.reply(event.reply_to, Done())


def config_loaded(state: "ClusterState", now_us: int, event: LoadConfig) -> None:
    """Records that a configuration was loaded on a request."""
    if event.act is not None:
        record_act(state, now_us, event.act)
