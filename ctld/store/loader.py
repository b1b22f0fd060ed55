"""Loads the state at a start: active and recently ended jobs, never history.

Of a job with very many steps it loads the live ones and the newest ended ones: as many as the core keeps
(job_step_table.ENDED_KEPT). The highest exit of them all is in the job's own row.

`state < 10` and `end_at_us > 0` appear as literal conditions, since only then a database uses a partial index.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# Any: columns of any type, and rows in the driver's types
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
)

from accounting.query import IS_ACTIVE, IS_OF_ARRAY, ended_since
from ctld.core.records.audit import AuditHead
from ctld.core.records.budget_book import BudgetRow
from ctld.core.records.gap import OpenGap
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.records.node import NodeEvent
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.qos import Qos
from ctld.core.records.reservation import ReservationSpan
from ctld.core.records.revocation import TokenRevocation
from ctld.core.records.step import StepRow
from ctld.core.recover import ArrayCounts, LoadedState, SubmitKey
from ctld.core.state.fairshare import ROOT_ID, LoadedShares
from ctld.core.state.job_step_table import ENDED_KEPT
from ctld.store import encodings, rows
from ctld.store.damage import UNREADABLE, damaged, decoded
from ctld.store.errors import StoreDamaged
from ctld.store.jobreader import JobReader, RequestMissing
from ctld.store.schema import (
    ACCOUNT,
    ACCOUNT_USER,
    AMENDMENT,
    ASSOC,
    ASSOC_USAGE,
    AUDIT,
    BUDGET_USE,
    COUNTER,
    CRONTAB,
    ENDED_FROM,
    EVENT_TRIGGER,
    GPU,
    JOB,
    JOB_HISTORY,
    JOB_REQUEST,
    JOB_SPEC,
    META,
    NODE,
    NODE_EVENT,
    PARTITION_STATE,
    PERSONAL_TOKEN,
    QOS,
    QOS_USAGE,
    RESERVATION,
    RESERVATION_SPAN,
    RESOURCE,
    STEP,
    TOKEN_REVOCATION,
    TRES,
    TXN,
    WCKEY,
)
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet

#: Ids in one IN list: below every driver's limit of parameters.
IDS_PER_QUERY = 500
T = TypeVar("T")
#: The number that stores when a loss was last accepted, or could not be excluded.
LOSS: Final = "loss_at_us"
#: Factor of the exit code beside the signal in one number, for the highest pair of an array. Codes end at 255.
_CODE_ROOM = 65_536


def load(connection: Connection, ended_since_us: int, submitted_since_us: int) -> LoadedState:
    """Loads everything, as of one moment: inside the caller's transaction."""
    meta = connection.execute(select(META)).one()
    has_state = and_(JOB.c.state >= ENDED_FROM, JOB.c.state != int(JobState.REQUEUED))
    recent = and_(ended_since(ended_since_us), has_state)
    reader = JobReader()
    waits = and_(*(JOB.c[name] == value for name, value in rows.JOB_WAITING_USUAL.items()))
    waiting = _jobs(
        connection, reader.read_waiting, rows.JOB_WAITING_COLUMNS, and_(IS_ACTIVE, waits), submitted_since_us
    )
    others = [
        *_jobs(connection, reader.read, rows.JOB_READ_COLUMNS, and_(IS_ACTIVE, not_(waits)), submitted_since_us),
        *_jobs(connection, reader.read, rows.JOB_READ_COLUMNS, recent, submitted_since_us),
    ]
    jobs = _last_attempts(waiting, others)
    attempts = {row.job_id: row.attempt for row in jobs if row.state is not JobState.PENDING}
    contents = dict.fromkeys(row.spec_hash for row in jobs)
    arrays = sorted({row.array_job_id for row in jobs if row.array_job_id})
    steps = [step for some in _chunks(list(attempts)) for step in _steps(connection, some, attempts)]
    contents |= dict.fromkeys(step.spec_hash for step in steps if step.spec_hash)
    return LoadedState(
        epoch=meta.epoch,
        next_job_id=meta.next_job_id,
        next_request_id=meta.next_request_id,
        jobs=jobs,
        steps=steps,
        spec_sizes=[size for some in _chunks(list(contents)) for size in _spec_sizes(connection, some)],
        request_bytes_max=reader.request_bytes_max,
        nodes=decoded(connection, select(NODE).order_by(NODE.c.name), rows.node_from, NODE),
        partitions=decoded(
            connection,
            select(PARTITION_STATE).order_by(PARTITION_STATE.c.name),
            rows.partition_state_from,
            PARTITION_STATE,
        ),
        amendments=_records(connection, encodings.amendment_from, AMENDMENT, "place", "name"),
        arrays=[counts for some in _chunks(arrays) for counts in _array_counts(connection, some)],
        gpus=_records(connection, encodings.gpu_from, GPU, "node", "slot", "uuid"),
        qos=_qos(connection),
        crontabs=decoded(connection, select(CRONTAB).order_by(CRONTAB.c.uid), rows.crontab_from, CRONTAB),
        triggers=_records(connection, encodings.trigger_from, EVENT_TRIGGER, "trigger_id"),
        submit_keys=_submit_keys(connection, jobs, submitted_since_us),
        audit=_audit_head(connection),
        shares=_shares(connection),
        qos_usage=_qos_usage(connection),
        reservations=tuple(_records(connection, encodings.reservation_from, RESERVATION, "resv_id")),
        budgets=_budgets(connection),
        node_events=_open_events(connection),
        reservation_spans=_reservation_spans(connection),
        reservation_id=_number(connection, "reservation"),
        loss_at_us=_number(connection, LOSS),
        token_revocations=_revocations(connection),
        personal_tokens=_personal_tokens(connection),
        gap=OpenGap(*(_number(connection, name) for name in OpenGap._fields)),
    )


def load_accounting(connection: Connection) -> LoadedState:
    """Loads accounts, users, QOS and their usage alone, as of one moment."""
    meta = connection.execute(select(META)).one()
    return LoadedState(
        epoch=meta.epoch,
        next_job_id=meta.next_job_id,
        next_request_id=meta.next_request_id,
        jobs=[],
        steps=[],
        nodes=[],
        partitions=[],
        arrays=[],
        submit_keys=[],
        shares=_shares(connection),
        qos=_qos(connection),
        qos_usage=_qos_usage(connection),
    )


def _qos(connection: Connection) -> list[Qos]:
    return decoded(connection, select(QOS).order_by(QOS.c.name), rows.qos_from, QOS)


def _qos_usage(connection: Connection) -> list[tuple[str, str]]:
    return [(name, tres) for name, tres in connection.execute(select(QOS_USAGE).order_by(QOS_USAGE.c.name))]


def _records(connection: Connection, decode: Callable[[bytes], T], table: Table, *order: str) -> list[T]:
    """Returns the column `record` of the table, decoded, in the order of those columns."""
    found = []
    keys = [column for column in table.primary_key if column.name != "record"]
    for record, *key in connection.execute(select(table.c.record, *keys).order_by(*(table.c[name] for name in order))):
        try:
            found.append(decode(record))
        except UNREADABLE as error:
            named = dict(zip((column.name for column in keys), key, strict=True))
            raise damaged(table, named | {"record": record}, None, error) from error
    return found


def keep_gap(connection: Connection, gap: OpenGap) -> None:
    """Stores that nodes are waited for, so that a process that ends before they are here leaves that to the next one. An
    earlier gap stays: it is the larger one."""
    if _number(connection, OpenGap._fields[0]):
        return
    for name, value in gap._asdict().items():
        connection.execute(delete(COUNTER).where(COUNTER.c.name == name))
        connection.execute(insert(COUNTER).values(name=name, value=value))


def _number(connection: Connection, name: str) -> int:
    return connection.execute(select(COUNTER.c.value).where(COUNTER.c.name == name)).scalar() or 0


def _budgets(connection: Connection) -> tuple[BudgetRow, ...]:
    """Returns the last period of each budget."""
    key = (BUDGET_USE.c.assoc_id, BUDGET_USE.c.unit, BUDGET_USE.c.period)
    query = select(BUDGET_USE).order_by(*key, BUDGET_USE.c.start_us)
    found = decoded(connection, query, lambda row: (row[:3], rows.budget_use_from(row)), BUDGET_USE)
    return tuple(dict(found).values())


def _open_events(connection: Connection) -> list[NodeEvent]:
    found = select(NODE_EVENT).where(NODE_EVENT.c.end_at_us == 0)
    query = found.order_by(NODE_EVENT.c.node, NODE_EVENT.c.start_at_us)
    return decoded(connection, query, rows.node_event_from, NODE_EVENT)


def _reservation_spans(connection: Connection) -> list[ReservationSpan]:
    """Returns the last one of each existing reservation; for one that never began this is a row without length."""
    table = RESERVATION_SPAN
    found = select(table).where(
        table.c.resv_id.in_(select(RESERVATION.c.resv_id)), table.c.end_at_us > table.c.start_at_us
    )
    spans = decoded(connection, found.order_by(table.c.resv_id, table.c.start_at_us), rows.reservation_span_from, table)
    return list({span.resv_id: span for span in spans}.values())


def _last_attempts(waiting: Iterable[JobRow], others: Iterable[JobRow]) -> list[JobRow]:
    """Returns the last attempt of each job, in the order of ids: runs of a crontab's job have ended although the job is
    active. `waiting`: first attempts, so each job occurs once."""
    last = {row.job_id: row for row in waiting}
    for row in others:
        if row.job_id not in last or last[row.job_id].attempt < row.attempt:
            last[row.job_id] = row
    return [last[job_id] for job_id in sorted(last)]


def _shares(connection: Connection) -> LoadedShares:
    """Returns accounts, users and their usage."""
    ordered = select(ASSOC).order_by(ASSOC.c.assoc_id)
    all_of_them = decoded(connection, ordered, rows.assoc_from, ASSOC)
    usage = select(ASSOC_USAGE).order_by(ASSOC_USAGE.c.assoc_id)
    users = select(ACCOUNT_USER).order_by(ACCOUNT_USER.c.name)
    resources = select(RESOURCE).order_by(*RESOURCE.primary_key)
    tres = select(TRES).where(TRES.c.tres_id > 0).order_by(TRES.c.tres_id)
    return LoadedShares(
        tuple(row for row in all_of_them if not row.deleted),
        tuple(decoded(connection, usage, rows.assoc_usage_from, ASSOC_USAGE)),
        tuple(decoded(connection, select(ACCOUNT).order_by(ACCOUNT.c.name), rows.account_from, ACCOUNT)),
        tuple(decoded(connection, users, rows.account_user_from, ACCOUNT_USER)),
        max((row.assoc_id for row in all_of_them), default=ROOT_ID) + 1,
        tuple(row for row in all_of_them if row.deleted),
        tuple(decoded(connection, select(WCKEY).order_by(WCKEY.c.wckey_id), rows.wckey_from, WCKEY)),
        tuple(decoded(connection, resources, rows.resource_from, RESOURCE)),
        tuple(decoded(connection, tres, rows.tres_from, TRES)),
    )


def _revocations(connection: Connection) -> tuple[TokenRevocation, ...]:
    query = select(TOKEN_REVOCATION).order_by(TOKEN_REVOCATION.c.user_name)
    return tuple(decoded(connection, query, rows.token_revocation_from, TOKEN_REVOCATION))


def _personal_tokens(connection: Connection) -> tuple[PersonalToken, ...]:
    query = select(PERSONAL_TOKEN).order_by(PERSONAL_TOKEN.c.created_at_us, PERSONAL_TOKEN.c.token_id)
    return tuple(decoded(connection, query, rows.personal_token_from, PERSONAL_TOKEN))


def _audit_head(connection: Connection) -> AuditHead:
    """Returns the heads of the audit log and of the transactions."""
    last = connection.execute(select(AUDIT.c.audit_id, AUDIT.c.hash).order_by(AUDIT.c.audit_id.desc()).limit(1)).first()
    txn_id = connection.execute(select(func.max(TXN.c.txn_id))).scalar() or 0
    return AuditHead(txn_id=txn_id) if last is None else AuditHead(last.audit_id, last.hash, txn_id)


def _jobs(
    connection: Connection,
    read: Callable[[Any], JobRow],
    names: Sequence[str],
    condition: ColumnElement[bool],
    since_us: int,
) -> list[JobRow]:
    """Returns the jobs with their requests. Submit keys before `since_us` are left out: no client repeats them."""
    columns: list[ColumnElement[object]] = [JOB.c[name] for name in names]
    key = case((JOB_REQUEST.c.submitted_at_us >= since_us, JOB_REQUEST.c.submit_key), else_="")
    columns += [
        (key if name == "submit_key" else JOB_REQUEST.c[name]).label(f"{JOB_REQUEST.name}.{name}")
        for name in rows.JOB_REQUEST_READ_COLUMNS
    ]
    tables = JOB.outerjoin(JOB_REQUEST, JOB.c.request_id == JOB_REQUEST.c.request_id)
    query = select(*columns).select_from(tables).where(condition)
    found = connection.execute(query)
    driver: Any = found.cursor  # read without SQLAlchemy: with 100,000 rows each microsecond is a tenth of a second
    try:
        return list(map(read, driver))
    except RequestMissing:
        job_id, request_id = connection.execute(
            select(JOB.c.job_id, JOB.c.request_id)
            .select_from(tables)
            .where(condition, JOB_REQUEST.c.request_id.is_(None))
            .order_by(JOB.c.job_id)
        ).first() or (0, 0)
        raise StoreDamaged(f"job {job_id}: its request {request_id} is not in the database") from None
    except UNREADABLE:
        decoded(connection, query, read, JOB)  # which raises for that row
        raise
    finally:
        found.close()


def _steps(connection: Connection, job_ids: Sequence[int], attempts: Mapping[int, int]) -> Iterator[StepRow]:
    """Returns steps of the present attempts; of a job with very many the live ones and those with the ENDED_KEPT
    highest ids."""
    highest = select(STEP.c.job_id, STEP.c.attempt, func.max(STEP.c.step_id)).where(STEP.c.job_id.in_(job_ids))
    highest = highest.group_by(STEP.c.job_id, STEP.c.attempt).having(func.max(STEP.c.step_id) >= ENDED_KEPT)
    long = {job_id: last for job_id, attempt, last in connection.execute(highest) if attempts[job_id] == attempt}
    short = [job_id for job_id in job_ids if job_id not in long]
    conditions: list[ColumnElement[bool]] = [STEP.c.job_id.in_(short)] if short else []
    for job_id, last in sorted(long.items()):
        is_kept = or_(STEP.c.step_id < 0, STEP.c.step_id > last - ENDED_KEPT, STEP.c.state < ENDED_FROM)
        conditions.append(and_(STEP.c.job_id == job_id, STEP.c.attempt == attempts[job_id], is_kept))
    for condition in conditions:
        for step in decoded(
            connection, select(STEP).where(condition).order_by(*STEP.primary_key), rows.step_from, STEP
        ):
            if step.attempt == attempts[step.job_id]:
                yield step


def _array_counts(connection: Connection, array_job_ids: Sequence[int]) -> Iterator[ArrayCounts]:
    """Counts ended tasks. Records of several tasks (cancelled before they started) are few."""
    ended = and_(
        IS_OF_ARRAY,
        JOB.c.array_job_id.in_(array_job_ids),
        JOB.c.state >= ENDED_FROM,
        JOB.c.state != int(JobState.REQUEUED),
    )
    is_ok = case((JOB.c.state == int(JobState.COMPLETED), 1), else_=0)
    highest = func.max(cast(JOB.c.exit_signal, BigInteger) * _CODE_ROOM + JOB.c.exit_code)
    query = select(JOB.c.array_job_id, func.sum(is_ok), func.count(), highest).where(ended).group_by(JOB.c.array_job_id)
    more_ok: dict[int, int] = {}
    more_failed: dict[int, int] = {}
    columns = (JOB.c.array_job_id, JOB.c.state, JOB.c.array_tasks, JOB.c.job_id)
    many = select(*columns).where(ended, JOB.c.array_tasks.is_not(None))
    for array_job_id, state, count in decoded(connection, many, _task_count, JOB):
        more = more_ok if state == JobState.COMPLETED else more_failed
        more[array_job_id] = more.get(array_job_id, 0) + count - 1
    for array_job_id, ok, count, pair in connection.execute(query.order_by(JOB.c.array_job_id)):
        yield ArrayCounts(
            array_job_id,
            int(ok) + more_ok.get(array_job_id, 0),
            count - int(ok) + more_failed.get(array_job_id, 0),
            pair % _CODE_ROOM,
            pair // _CODE_ROOM,
        )


def _task_count(values: tuple[int, int, str, int]) -> tuple[int, int, int]:
    array_job_id, state, tasks, _ = values
    return array_job_id, state, len(TaskSet.parse(tasks))


def _submit_keys(connection: Connection, jobs: Iterable[JobRow], since_us: int) -> list[SubmitKey]:
    """Returns the keys in the order of their times. Keys and ids of loaded jobs are the objects of their rows."""
    table = JOB_REQUEST.c
    uid = select(func.min(JOB.c.user_id)).where(JOB.c.job_id == table.job_id).scalar_subquery()
    query = select(uid, table.submit_key, table.job_id, table.submitted_at_us).where(
        table.submitted_at_us >= since_us, table.submit_key != ""
    )
    found = connection.execute(query.order_by(table.submitted_at_us, table.request_id)).all()
    owners = {(row.user_id, row.submit_key): row for row in jobs if row.submit_key} if found else {}
    keys: dict[tuple[int, str], SubmitKey] = {}
    for user_id, key, job_id, at_us in found:
        if user_id is None or (user_id, key) in keys:  # a request that was changed later repeats the key of the job
            continue
        row = owners.get((user_id, key))
        if row is not None and row.job_id == job_id and row.submit_at_us == at_us:
            keys[user_id, key] = SubmitKey(row.user_id, row.submit_key, row.job_id, row.submit_at_us)
        else:
            keys[user_id, key] = SubmitKey(user_id, key, job_id, at_us)
    return list(keys.values())


def spec(connection: Connection, spec_hash: bytes) -> SpecRow | None:
    """Returns one submission's script, arguments and environment."""
    found = connection.execute(select(JOB_SPEC).where(JOB_SPEC.c.spec_hash == spec_hash)).one_or_none()
    return None if found is None else rows.job_spec_from(tuple(found))


def history(connection: Connection, job_id: int) -> list[HistoryRow]:
    """Returns one job's history."""
    columns = [JOB_HISTORY.c[name] for name in HistoryRow._fields]
    query = select(*columns).where(JOB_HISTORY.c.job_id == job_id).order_by(JOB_HISTORY.c.history_id)
    return [rows.job_history_from(tuple(values)) for values in connection.execute(query)]


def _spec_sizes(connection: Connection, hashes: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """Returns the sizes of contents, by their hashes. They are lengths, which databases know without reading the
    content."""
    table = JOB_SPEC.c
    size = func.length(table.script) + func.length(table.argv) + func.length(table.environment)
    for spec_hash, found in connection.execute(select(table.spec_hash, size).where(table.spec_hash.in_(hashes))):
        yield bytes(spec_hash), int(found)


def _chunks(ids: Sequence[T]) -> Iterable[Sequence[T]]:
    return (ids[at : at + IDS_PER_QUERY] for at in range(0, len(ids), IDS_PER_QUERY))
