"""The audit log and the table of transactions: all changes with their authors, written in the batch of the change.

A record is JSON text with sorted keys. Records are chained: the hash of one is SHA-256 over the hash before it and its
own text, both as text, so that `printf '%s%s' PREVIOUS RECORD | sha256sum` reproduces it. Ids have no gaps. The head of
the chain is kept here and read from the table at a start; the records themselves leave with the batch and are not kept.

Recorded are every change that needs rights beyond the caller's own jobs, and every call that was denied.
accounts/audit_diff.py lists the tables that a request may change, and finds the changes. Deliberately absent: changes
by users to their own jobs.

A transaction is the same change of accounting in sacctmgr's terms, for `sacctmgr show transaction`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from penstock.values.auditchain import GENESIS, chained
from penstock.values.limits import Limits
from penstock.values.limits import texts as limit_texts

if TYPE_CHECKING:
    from ctld.core.records.events import Actor

#: Objects in one record; a change of more makes several records.
OBJECTS_MAX: Final = 500
#: Characters of one value in a record: a longer one is truncated, with its length and its hash appended.
VALUE_CHARS_MAX: Final = 4096
DONE: Final = "done"

AuditFields = Mapping[str, object]


class AuditRow(NamedTuple):
    """One audit record. Primary key audit_id; `record` is the text that was hashed."""

    # made by tools/records: row of audit
    audit_id: int
    at_us: int
    user_name: str
    record: str
    hash: str  # hexadecimal
    # end of what is made


class TxnRow(NamedTuple):
    """One transaction, as sacctmgr shows it. Primary key txn_id. Lists have commas between their names."""

    # made by tools/records: row of txn
    txn_id: int
    at_us: int
    action: str  # Add Users, Modify Associations, ...
    actor: str
    whom: str
    info: str
    accounts: str
    users: str
    # end of what is made


class AuditHead(NamedTuple):
    """The positions at which both logs continue."""

    audit_id: int = 0
    hash: str = GENESIS
    txn_id: int = 0


class Trail:
    """The new records of both logs since the last batch, and the positions that they continue from."""

    def __init__(self) -> None:
        self.head = AuditHead()
        self.rows: list[AuditRow] = []
        self.txns: list[TxnRow] = []

    def note(
        self,
        now_us: int,
        actor: "Actor | None",
        action: str,
        objects: Sequence[str] = (),
        before: AuditFields | None = None,
        after: AuditFields | None = None,
        *,
        asked: AuditFields | None = None,
        result: str = DONE,
        more: AuditFields | None = None,
    ) -> None:
        """Adds a record, or several if there are very many objects. `asked`: the request as written."""
        content: dict[str, object] = {"time": date_text(now_us), "action": action, "result": result, **who(actor)}
        content |= {"before": json_value(before), "after": json_value(after)}
        if asked:
            content["asked"] = json_value(asked)
        content |= json_object(more or {})
        for at in range(0, max(1, len(objects)), OBJECTS_MAX):
            self._append(now_us, {**content, "objects": [_cut(text) for text in objects[at : at + OBJECTS_MAX]]})

    def _append(self, now_us: int, content: dict[str, object]) -> None:
        audit_id = self.head.audit_id + 1
        text = canonical({"id": audit_id, **content})
        self.head = self.head._replace(audit_id=audit_id, hash=chained(self.head.hash, text))
        self.rows.append(AuditRow(audit_id, now_us, str(content["user"]), text, self.head.hash))

    def transact(
        self, now_us: int, actor: "Actor", action: str, whom: str, info: str,
        accounts: Sequence[str] = (), users: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Adds a transaction."""
        self.head = self.head._replace(txn_id=self.head.txn_id + 1)
        name = (actor.by or actor).user_name
        self.txns.append(
            TxnRow(self.head.txn_id, now_us, action, name, whom, info, ",".join(accounts), ",".join(users))
        )

    def start_new_batch(self) -> None:
        """Clears the records that are in the batch."""
        if self.rows or self.txns:
            self.rows = []
            self.txns = []


def canonical(content: Mapping[str, object]) -> str:
    """The canonical text of a record."""
    try:
        return msgspec.json.encode(content, order="sorted").decode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return msgspec.json.encode(_encodable(content), order="sorted").decode()


def who(actor: "Actor | None") -> dict[str, object]:
    """Describes the actor: user, authentication, host; with --uid also the user they act as. None = unknown."""
    if actor is None:
        return {"uid": -1, "user": "", "role": "none", "auth": "", "from": ""}
    real = actor.by or actor
    author = {"uid": real.uid, "user": real.user_name, "role": real.role.name.lower(), "auth": real.via}
    return {**author, "from": real.origin} | ({"as": actor.user_name} if actor.by is not None else {})


def difference(before: AuditFields | None, after: AuditFields | None) -> tuple[AuditFields | None, AuditFields | None]:
    """Returns both images with only the fields that differ. For a new or removed object, those that are set."""
    if before is None or after is None:
        said = {name: value for name, value in (before or after or {}).items() if value}
        return (None, said) if before is None else (said, None)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


class _Named(Protocol):
    def _asdict(self) -> dict[str, object]: ...


def image(row: _Named | msgspec.Struct) -> dict[str, object]:
    """Returns the fields of a record of the state."""
    return msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else dict(row._asdict())


def date_text(at_us: int) -> str:
    """Formats a time in UTC, by arithmetic alone: 2026-11-22T04:10:00.000000Z."""
    days, in_day = divmod(at_us // 1_000_000, 86_400)
    days += 719_468  # from 0000-03-01, so that the leap day is the last of a year
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    hour, rest = divmod(in_day, 3_600)
    date = f"{year + era * 400 + (month <= 2):04}-{month:02}-{day:02}"
    return f"{date}T{hour:02}:{rest // 60:02}:{rest % 60:02}.{at_us % 1_000_000:06}Z"


def json_value(value: object) -> object:
    """Converts a value to what JSON can represent."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, Enum):
        return str(value.name or value.value)
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Limits):
        return limit_texts(value)
    if isinstance(value, Mapping):
        return json_object(value)
    if isinstance(value, (tuple, list)):
        return [json_value(one) for one in value]
    return _cut(str(value))


def json_object(fields: Mapping[str, object]) -> dict[str, object]:
    """Converts fields to an object of JSON."""
    return {str(name): json_value(one) for name, one in fields.items()}


def _cut(text: str) -> str:
    if len(text) <= VALUE_CHARS_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{text[:VALUE_CHARS_MAX]}... ({len(text)} characters, SHA-256 {digest})"


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_encodable(name): _encodable(one) for name, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list) else value


__all__ = [
    "DONE", "GENESIS", "AuditHead", "AuditRow", "Trail", "TxnRow", "canonical", "chained", "difference", "image",
    "json_object", "json_value", "limit_texts", "who",
]  # fmt: skip
