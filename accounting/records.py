"""sacct's records: rows, their steps and requests, in the order of job ids.

First only the keys of all rows that match are read and sorted; then records are read a page at a time. No transaction
stays open while the caller processes a page, since an open reader keeps the database's log from being truncated.

Without `duplicates`, only the last matching attempt of a job is shown, as in Slurm.

A job that has been resized has a record for each of its sizes, as in Slurm: first the present one, which begins with
the last resize, then those that ended with a resize (RESIZING), the newest first. A step is shown with the size at
which it was created; script and extern step with the last.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType

# Any: values of rows, which SQLAlchemy does not type
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, null, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accounting.database import read_engine
from accounting.dbrow import DbRow, Query
from accounting.filter import FilterRecord, RecordFilter, StepRecord
from accounting.query import END, Ids, Question, question, window_select
from accounting.resized import by_size, is_asked, resizes_of
from accounting.schema import JOB, JOB_REQUEST, JOB_SPEC, STEP, STEP_PROFILE, split_strings
from penstock.values.errors import BadValue
from penstock.values.states import JobState, Reason
from penstock.values.tres import format_tres

#: Records read at a time.
PAGE_RECORDS = 500
#: Jobs whose profiles are read at a time.
PROFILE_JOBS = 20
#: Records in one answer: their keys take 50 MB while they are sorted.
RECORDS_MAX = 1_000_000

#: A key as one number, to sort millions of them: job ids end at 31 bits, attempts far below 2^20.
_ATTEMPT_BITS = 20

_STATES = {int(state): state for state in JobState}
_Row = Sequence[Any]
_R = TypeVar("_R", FilterRecord, StepRecord)
_NodeShare = tuple[Any, ...]  # node, cpus, MB, tasks, GRES, cpu numbers (since they are kept)
_decode_alloc = msgspec.json.Decoder(tuple[_NodeShare, ...]).decode

#: Fields of a record that are columns of the job, unchanged, and further columns that are read.
_JOB_FIELDS = tuple(
    name for name in FilterRecord.__struct_fields__ if name in JOB.c and name not in ("state", "array_tasks")
)
_JOB_COLUMNS = [*(END if name == "end_at_us" else JOB.c[name] for name in _JOB_FIELDS),
                JOB.c.state, JOB.c.end_state, JOB.c.array_tasks, JOB.c.alloc, JOB.c.spec_hash, JOB_REQUEST.c.request]  # fmt: skip
_STEP_FIELDS = tuple(
    name for name in StepRecord.__struct_fields__
    if name in STEP.c and name not in ("state", "tres_alloc", "request", "task_ends")
)  # fmt: skip
_STEP_COLUMNS = [STEP.c.job_id, STEP.c.attempt, *(STEP.c[name] for name in _STEP_FIELDS), STEP.c.state, STEP.c.cpus,
                 STEP.c.tres_alloc, STEP.c.request]  # fmt: skip
_ID, _ATTEMPT, _REASON, _SUBMIT = map(_JOB_FIELDS.index, ("job_id", "attempt", "reason", "submit_at_us"))
_IDS = tuple(_JOB_FIELDS.index(name) for name in ("array_job_id", "array_task_id", "het_job_id", "het_offset"))
_SPEC_HASH = len(_JOB_FIELDS) + 4
_STEP_ID, _NODE = map(_STEP_FIELDS.index, ("step_id", "node"))


class ProfileRecord(NamedTuple):
    """What a node has recorded of a step: time lines, not decoded here (penstock.values.profile)."""

    job_id: int
    attempt: int
    step_id: int
    node: str
    profile: bytes


class RecordsUnavailable(Exception):
    """The database cannot be read."""


class Records:
    """Reads a database that the controller keeps. May be used from several threads."""

    def __init__(self, address: str | Path, engine: Engine | None = None) -> None:
        """`engine`: one for this address whose connections cannot write, in place of its own."""
        self.address = address
        self._engine = engine or read_engine(address)

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def list(self, asked: RecordFilter) -> Iterator[FilterRecord]:
        """Yields all records that match, by job id and attempt. Raises BadValue before the first, RecordsUnavailable."""
        asking = question(asked)
        return self._pages(asking, asked)

    def window(self, asked: RecordFilter, first: int, count: int) -> tuple[int, Sequence[FilterRecord]]:
        """How many records match, and `count` of them from the `first` on, the newest job ids first. Raises as `list` does, at
        once."""
        asking = question(asked)
        try:
            with self._engine.connect() as connection:
                total, keys = _window_keys(connection, asking, asked.duplicates, (first, count))
                return total, _read_page(connection, asking, asked, keys)[::-1] if keys else []
        except SQLAlchemyError as error:
            raise self._unavailable(error) from error

    def profiles(self, asked: RecordFilter) -> Iterator[ProfileRecord]:
        """Yields the profiles of the steps of all records that match. Raises as `list` does."""
        records = self.list(asked)
        while page := list(islice(records, PROFILE_JOBS)):
            steps = {(one.job_id, one.attempt, step.step_id): None for one in page for step in one.steps}
            asking = select(STEP_PROFILE).where(STEP_PROFILE.c.job_id.in_(sorted({key[0] for key in steps})))
            asking = asking.order_by(*STEP_PROFILE.primary_key)
            try:
                with self._engine.connect() as connection:
                    found = [ProfileRecord._make(row) for row in connection.execute(asking)]
            except SQLAlchemyError as error:
                raise self._unavailable(error) from error
            yield from (one for one in found if one[:3] in steps)

    def _pages(self, asking: Question, asked: RecordFilter) -> Iterator[FilterRecord]:
        try:
            with self._engine.connect() as connection:
                keys = _keys(connection, asking, asked.duplicates)
            for at in range(0, len(keys), PAGE_RECORDS):
                with self._engine.connect() as connection:
                    page = _read_page(connection, asking, asked, keys[at : at + PAGE_RECORDS])
                yield from page
        except SQLAlchemyError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: SQLAlchemyError) -> RecordsUnavailable:
        """Returns the error with the driver's text when it was reached; else the pool's (all connections are in use)."""
        said = error.orig if isinstance(error, DBAPIError) else error
        return RecordsUnavailable(f"accounting records {self.address}: {said}")


def _keys(connection: Connection, asking: Question, duplicates: bool) -> "array[int]":
    found = array("q")
    for statement in asking.selects:
        for job_id, attempt, array_id, task_id, tasks, node_list, het_id, offset, submit_us in _stream(
            connection, statement
        ):
            if asking.matches(Ids(job_id, array_id, task_id, tasks, het_id, offset, submit_us), node_list):
                found.append(job_id << _ATTEMPT_BITS | attempt)
                _check_number(len(found))
    keys = array("q")
    for key in sorted(found):
        if keys and (keys[-1] == key or (not duplicates and keys[-1] >> _ATTEMPT_BITS == key >> _ATTEMPT_BITS)):
            keys[-1] = key
        else:
            keys.append(key)
    return keys


def _window_keys(
    connection: Connection, asking: Question, duplicates: bool, window: tuple[int, int]
) -> tuple[int, "array[int]"]:
    """Returns the number of all keys, and those of a window (first, count) of them from the newest, in the order of `_keys`."""
    first, count = window
    if not asking.is_sql:
        keys = _keys(connection, asking, duplicates)
        end = max(len(keys) - first, 0)
        return len(keys), keys[max(end - count, 0) : end]
    found = connection.execute(window_select(asking, duplicates, first, count, RECORDS_MAX)).all()
    is_behind = first > 0 and not found
    counted = connection.execute(window_select(asking, duplicates, 0, 1, RECORDS_MAX)).all() if is_behind else found
    if not counted:
        return 0, array("q")
    _check_number(counted[0].attempts)
    keys = array("q", (row.job_id << _ATTEMPT_BITS | row.attempt for row in reversed(found)))
    return counted[0].total, keys


def _check_number(records: int) -> None:
    if records > RECORDS_MAX:
        raise BadValue(f"more than {RECORDS_MAX} records match; ask for a shorter time or fewer users")


def _stream(connection: Connection, statement: Query) -> Iterator[Any]:
    return iter(connection.execute(statement.execution_options(yield_per=PAGE_RECORDS)))


def _read_page(connection: Connection, asking: Question, asked: RecordFilter, keys: "array[int]") -> list[FilterRecord]:
    """Rows are unpacked by position, since a long answer spends most of its time here."""
    job_ids = sorted({key >> _ATTEMPT_BITS for key in keys})
    wanted = set(keys)
    tables = JOB.outerjoin(JOB_REQUEST, JOB.c.request_id == JOB_REQUEST.c.request_id)
    statement = select(*_JOB_COLUMNS).select_from(tables).where(JOB.c.job_id.in_(job_ids))
    found = connection.execute(statement.order_by(JOB.c.job_id, JOB.c.attempt))
    jobs = [row for row in map(tuple, found) if row[_ID] << _ATTEMPT_BITS | row[_ATTEMPT] in wanted]
    steps: dict[tuple[int, int], list[_Row]] = {}
    if not asked.no_steps:
        ends = STEP.c.task_ends if asked.with_task_ends else null()
        statement = select(*_STEP_COLUMNS, ends).where(STEP.c.job_id.in_(job_ids))
        for job_id, attempt, *step in connection.execute(statement.order_by(STEP.c.step_id)):
            steps.setdefault((job_id, attempt), []).append(step)
    specs: dict[bytes, DbRow] = {}
    if asked.with_script or asked.with_environment:
        hashes = sorted({job[_SPEC_HASH] for job in jobs})
        for spec in connection.execute(select(JOB_SPEC).where(JOB_SPEC.c.spec_hash.in_(hashes))):
            specs[spec.spec_hash] = spec
    records = [
        _record(asking, asked, job, steps.get((job[_ID], job[_ATTEMPT]), ()), specs.get(job[_SPEC_HASH]))
        for job in jobs
    ]
    resized = sorted({record.job_id for record in records if record.resized_at_us})
    if resized:
        spans = resizes_of(connection, resized)
        records = [
            size
            for one in records
            for size in by_size(one, spans.get((one.job_id, one.attempt), ()))
            if size is one or is_asked(asked, size)
        ]
    return [_cut(asked, record) for record in records]


def _record(
    asking: Question, asked: RecordFilter, job: _Row, steps: Sequence[_Row], spec: DbRow | None
) -> FilterRecord:
    state, end_state, array_tasks, alloc, _, request = job[len(_JOB_FIELDS) :]
    array_job_id, array_task_id, het_job_id, het_offset = (job[at] for at in _IDS)
    ids = Ids(job[_ID], array_job_id, array_task_id, array_tasks, het_job_id, het_offset, job[_SUBMIT])
    chosen = asking.wanted_steps(ids) if asking.selectors else None
    shares = {share[0]: share for share in _decode_alloc(alloc)} if steps else {}
    return FilterRecord(
        state=shown_state(state, end_state, job[_REASON]),
        array_tasks=array_tasks or "",
        steps=tuple(
            _step(asked, step, shares.get(step[_NODE])) for step in steps if chosen is None or step[_STEP_ID] in chosen
        ),
        script=spec.script if spec is not None and asked.with_script else b"",
        environment=split_strings(spec.environment) if spec is not None and asked.with_environment else (),
        request=request or b"{}",
        **dict(zip(_JOB_FIELDS, job, strict=False)),
    )


def shown_state(state: int, end_state: int | None, reason: str) -> JobState:
    """The shown state of an attempt, derived from the stored one.

    One that was preempted and requeued is REQUEUED in the controller, and PREEMPTED here. One whose end is decided has
    its end state, as in Slurm, even while processes of it are left (COMPLETING): programs that have cancelled a job
    wait for this state.
    """
    if state == JobState.REQUEUED and reason == Reason.PREEMPTED:
        return JobState.PREEMPTED
    if state == JobState.COMPLETING and end_state is not None and end_state != JobState.REQUEUED:
        return _STATES[end_state]
    return _STATES[state]


def _step(asked: RecordFilter, step: _Row, share: _NodeShare | None) -> StepRecord:
    state, cpus, tres, request, task_ends = step[len(_STEP_FIELDS) :]
    record = StepRecord(
        state=_STATES[state],
        cpus_alloc=cpus or (share[1] if share else 0),
        tres_alloc=tres or (_tres(share) if share else ""),
        request=request or b"",
        task_ends=task_ends or "",
        **dict(zip(_STEP_FIELDS, step, strict=False)),
    )
    return _cut(asked, record)


def _tres(share: _NodeShare) -> str:
    _, cpus, mem_mb, _, gres, *_ = share
    amounts = {"cpu": cpus, "mem": mem_mb, "node": 1}
    for name, type_, mask in gres:
        for key in dict.fromkeys((f"gres/{name}", f"gres/{name}:{type_}" if type_ else f"gres/{name}")):
            amounts[key] = amounts.get(key, 0) + int(mask, 16).bit_count()
    return format_tres(amounts)


def _cut(asked: RecordFilter, record: _R) -> _R:
    """Applies --truncate: no start before the window, no end after it; a job that still ran then ends with it."""
    if not asked.truncate or not record.start_at_us:
        return record
    times: dict[str, int] = {}
    if record.start_at_us < asked.start_at_us:
        times["start_at_us"] = asked.start_at_us
    if asked.end_at_us and not 0 < record.end_at_us <= asked.end_at_us:
        times["end_at_us"] = asked.end_at_us
    return msgspec.structs.replace(record, **times)
