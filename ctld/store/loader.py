"""Reads what a start needs: the live queue and what ended lately, never history.

Of the steps of a job that has started very many, those that live and the newest that have ended: as many as the core
keeps (stepdesk.ENDED_KEPT). The highest exit of them all is in the job's own row.

`state < 10` and `end_at_us > 0` appear as written-out conditions, since that is how a database knows that a partial
index will do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, case, cast, func, or_, select

from accounting.query import IS_ACTIVE, IS_OF_ARRAY, ended_since
from ctld.core.audit import AuditHead
from ctld.core.budget_book import BudgetRow
from ctld.core.fairshare import ROOT_ID, LoadedShares, TresRow, UsageRow
from ctld.core.model import HistoryRow, JobRow, NodeEvent, ReservationSpan, SpecRow, StepRow
from ctld.core.recover import ArrayCounts, Loaded
from ctld.core.stepdesk import ENDED_KEPT
from ctld.store import rows, steprows
from ctld.store.errors import StoreError
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
    QOS,
    QOS_USAGE,
    RESERVATION,
    RESERVATION_SPAN,
    RESOURCE,
    STEP,
    TRES,
    TXN,
    WCKEY,
)
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet

#: Ids in one IN list: below every driver's limit of parameters.
IDS_PER_QUERY = 500
#: Room for the exit code beside the signal in one number, for the highest pair of an array. Codes end at 255.
_CODE_ROOM = 65_536


def load(connection: Connection, ended_since_us: int, submitted_since_us: int) -> Loaded:
    """Everything, as of one moment: inside the caller's transaction."""
    meta = connection.execute(select(META)).one()
    has_state = and_(JOB.c.state >= ENDED_FROM, JOB.c.state != int(JobState.REQUEUED))
    recent = and_(ended_since(ended_since_us), has_state)
    reader = rows.JobReader()
    jobs = [*_jobs(connection, reader, IS_ACTIVE), *_jobs(connection, reader, recent)]
    jobs = _last_attempts(jobs)
    attempts = {row.job_id: row.attempt for row in jobs if row.state is not JobState.PENDING}
    arrays = sorted({row.array_job_id for row in jobs if row.array_job_id})
    return Loaded(
        epoch=meta.epoch,
        next_job_id=meta.next_job_id,
        next_request_id=meta.next_request_id,
        jobs=jobs,
        steps=[step for some in _chunks(list(attempts)) for step in _steps(connection, some, attempts)],
        nodes=[rows.node_from(tuple(r)) for r in connection.execute(select(NODE).order_by(NODE.c.name))],
        partitions=[
            rows.partition_from(tuple(r))
            for r in connection.execute(select(PARTITION_STATE).order_by(PARTITION_STATE.c.name))
        ],
        amendments=[
            rows.amendment_from(record)
            for (record,) in connection.execute(
                select(AMENDMENT.c.record).order_by(AMENDMENT.c.place, AMENDMENT.c.name)
            )
        ],
        arrays=[counts for some in _chunks(arrays) for counts in _array_counts(connection, some)],
        gpus=[
            rows.gpu_from(record)
            for (record,) in connection.execute(select(GPU.c.record).order_by(GPU.c.node, GPU.c.slot, GPU.c.uuid))
        ],
        qos=[rows.qos_from(tuple(r)) for r in connection.execute(select(QOS).order_by(QOS.c.name))],
        crontabs=[rows.crontab_from(tuple(r)) for r in connection.execute(select(CRONTAB).order_by(CRONTAB.c.uid))],
        triggers=[
            rows.trigger_from(record)
            for (record,) in connection.execute(select(EVENT_TRIGGER.c.record).order_by(EVENT_TRIGGER.c.trigger_id))
        ],
        submit_keys=_submit_keys(connection, submitted_since_us),
        audit=_audit_head(connection),
        shares=_shares(connection),
        qos_usage=[(name, tres) for name, tres in connection.execute(select(QOS_USAGE).order_by(QOS_USAGE.c.name))],
        reservations=tuple(
            rows.reservation_from(record)
            for (record,) in connection.execute(select(RESERVATION.c.record).order_by(RESERVATION.c.resv_id))
        ),
        budgets=_budgets(connection),
        node_events=_open_events(connection),
        reservation_spans=_reservation_spans(connection),
        reservation_id=connection.execute(select(COUNTER.c.value).where(COUNTER.c.name == "reservation")).scalar() or 0,
    )


def _budgets(connection: Connection) -> tuple[BudgetRow, ...]:
    """The last period of each budget."""
    key = (BUDGET_USE.c.assoc_id, BUDGET_USE.c.unit, BUDGET_USE.c.period)
    last = {tuple(row[:3]): row for row in connection.execute(select(BUDGET_USE).order_by(*key, BUDGET_USE.c.start_us))}
    return tuple(rows.budget_from(tuple(row)) for row in last.values())


def _open_events(connection: Connection) -> list[NodeEvent]:
    found = select(NODE_EVENT).where(NODE_EVENT.c.end_at_us == 0)
    return [NodeEvent(*r) for r in connection.execute(found.order_by(NODE_EVENT.c.node, NODE_EVENT.c.start_at_us))]


def _reservation_spans(connection: Connection) -> list[ReservationSpan]:
    """The last one of each reservation that there is; of one that never began only a row without length is left."""
    table = RESERVATION_SPAN
    found = select(table).where(
        table.c.resv_id.in_(select(RESERVATION.c.resv_id)), table.c.end_at_us > table.c.start_at_us
    )
    rows_found = connection.execute(found.order_by(table.c.resv_id, table.c.start_at_us))
    return list({span.resv_id: span for span in (ReservationSpan(*r) for r in rows_found)}.values())


def _last_attempts(jobs: list[JobRow]) -> list[JobRow]:
    """The last attempt of each job, in the order of ids: runs of a crontab's job have ended although it goes on."""
    last: dict[int, JobRow] = {}
    for row in jobs:
        if row.job_id not in last or last[row.job_id].attempt < row.attempt:
            last[row.job_id] = row
    return [last[job_id] for job_id in sorted(last)]


def _shares(connection: Connection) -> LoadedShares:
    """Accounts, users and what they have used."""
    all_of_them = [rows.assoc_from(tuple(r)) for r in connection.execute(select(ASSOC).order_by(ASSOC.c.assoc_id))]
    usage = select(ASSOC_USAGE).order_by(ASSOC_USAGE.c.assoc_id)
    return LoadedShares(
        tuple(row for row in all_of_them if not row.deleted),
        tuple(UsageRow(*r) for r in connection.execute(usage)),
        tuple(rows.account_from(tuple(r)) for r in connection.execute(select(ACCOUNT).order_by(ACCOUNT.c.name))),
        tuple(rows.user_from(tuple(r)) for r in connection.execute(select(ACCOUNT_USER).order_by(ACCOUNT_USER.c.name))),
        max((row.assoc_id for row in all_of_them), default=ROOT_ID) + 1,
        tuple(row for row in all_of_them if row.deleted),
        tuple(rows.wckey_from(tuple(r)) for r in connection.execute(select(WCKEY).order_by(WCKEY.c.wckey_id))),
        tuple(
            rows.resource_from(tuple(r)) for r in connection.execute(select(RESOURCE).order_by(*RESOURCE.primary_key))
        ),
        tuple(TresRow(*r) for r in connection.execute(select(TRES).where(TRES.c.tres_id > 0).order_by(TRES.c.tres_id))),
    )


def _audit_head(connection: Connection) -> AuditHead:
    """Where the audit log and the transactions go on."""
    last = connection.execute(select(AUDIT.c.audit_id, AUDIT.c.hash).order_by(AUDIT.c.audit_id.desc()).limit(1)).first()
    txn_id = connection.execute(select(func.max(TXN.c.txn_id))).scalar() or 0
    return AuditHead(txn_id=txn_id) if last is None else AuditHead(last.audit_id, last.hash, txn_id)


def _jobs(connection: Connection, reader: rows.JobReader, condition: ColumnElement[bool]) -> Iterator[JobRow]:
    columns: list[ColumnElement[Any]] = [JOB.c[name] for name in reader.COLUMNS]
    columns += [JOB_REQUEST.c[name].label(f"request_{name}") for name in reader.REQUEST_COLUMNS]
    tables = JOB.outerjoin(JOB_REQUEST, JOB.c.request_id == JOB_REQUEST.c.request_id)
    found = connection.execute(select(*columns).select_from(tables).where(condition))
    driver: Any = found.cursor  # its own rows: of 100,000 each microsecond is a tenth of a second
    for values in driver:
        if values[-1] is None:
            raise StoreError(f"job {values[0]}: its request {values[6]} is not in the database")
        yield reader.read(values)
    found.close()


def _steps(connection: Connection, job_ids: Sequence[int], attempts: Mapping[int, int]) -> Iterator[StepRow]:
    """Steps of the present attempts; of a job with very many the live ones and the newest ENDED_KEPT numbers."""
    highest = select(STEP.c.job_id, STEP.c.attempt, func.max(STEP.c.step_id)).where(STEP.c.job_id.in_(job_ids))
    highest = highest.group_by(STEP.c.job_id, STEP.c.attempt).having(func.max(STEP.c.step_id) >= ENDED_KEPT)
    long = {job_id: last for job_id, attempt, last in connection.execute(highest) if attempts[job_id] == attempt}
    short = [job_id for job_id in job_ids if job_id not in long]
    conditions: list[ColumnElement[bool]] = [STEP.c.job_id.in_(short)] if short else []
    for job_id, last in sorted(long.items()):
        is_kept = or_(STEP.c.step_id < 0, STEP.c.step_id > last - ENDED_KEPT, STEP.c.state < ENDED_FROM)
        conditions.append(and_(STEP.c.job_id == job_id, STEP.c.attempt == attempts[job_id], is_kept))
    for condition in conditions:
        for values in connection.execute(select(STEP).where(condition).order_by(*STEP.primary_key)):
            step = steprows.step_from(tuple(values))
            if step.attempt == attempts[step.job_id]:
                yield step


def _array_counts(connection: Connection, array_job_ids: Sequence[int]) -> Iterator[ArrayCounts]:
    """Counts of ended tasks. Records that stand for several tasks (cancelled before they started) are few."""
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
    many = select(JOB.c.array_job_id, JOB.c.state, JOB.c.array_tasks).where(ended, JOB.c.array_tasks.is_not(None))
    for array_job_id, state, tasks in connection.execute(many):
        more = more_ok if state == JobState.COMPLETED else more_failed
        more[array_job_id] = more.get(array_job_id, 0) + len(TaskSet.parse(tasks)) - 1
    for array_job_id, ok, count, pair in connection.execute(query.order_by(JOB.c.array_job_id)):
        yield ArrayCounts(
            array_job_id,
            int(ok) + more_ok.get(array_job_id, 0),
            count - int(ok) + more_failed.get(array_job_id, 0),
            pair % _CODE_ROOM,
            pair // _CODE_ROOM,
        )


def _submit_keys(connection: Connection, since_us: int) -> list[tuple[str, int, int]]:
    table = JOB_REQUEST.c
    query = select(table.submit_key, table.job_id, table.submitted_at_us).where(
        table.submitted_at_us >= since_us, table.submit_key != ""
    )
    # A request that was changed by its owner repeats the key of the job.
    found = dict.fromkeys(tuple(r) for r in connection.execute(query.order_by(table.submitted_at_us, table.request_id)))
    return list(found)


def spec(connection: Connection, spec_hash: bytes) -> SpecRow | None:
    """One submission's bulk."""
    found = connection.execute(select(JOB_SPEC).where(JOB_SPEC.c.spec_hash == spec_hash)).one_or_none()
    return None if found is None else rows.spec_from(tuple(found))


def history(connection: Connection, job_id: int) -> list[HistoryRow]:
    """One job's story."""
    columns = [JOB_HISTORY.c[name] for name in HistoryRow._fields]
    query = select(*columns).where(JOB_HISTORY.c.job_id == job_id).order_by(JOB_HISTORY.c.history_id)
    return [rows.history_from(tuple(values)) for values in connection.execute(query)]


def _chunks(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[at : at + IDS_PER_QUERY] for at in range(0, len(ids), IDS_PER_QUERY))
