"""Runaway jobs: active in the database, and unknown to the controller.

The controller starts from the active rows, so that it knows all of them; runaway rows result from databases that were
edited by hand or restored in parts. Repair gives such an attempt an end, as Slurm does: the end of its last step, else
its start; open steps end with it. The roll-up subtracts the usage that was counted after that.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, case, func, literal_column, select, update

from accounting.dbrow import DbRow
from accounting.query import IS_ACTIVE
from accounting.schema import ENDED_FROM, JOB, STEP
from penstock.values.states import JobState

#: Rows in one answer.
RUNAWAY_MAX = 10_000

_COLUMNS = (
    JOB.c.job_id, JOB.c.attempt, JOB.c.name, JOB.c.partition, JOB.c.state, JOB.c.submit_at_us, JOB.c.start_at_us,
    JOB.c.end_at_us, JOB.c.user_name, JOB.c.account,
)  # fmt: skip


def active(connection: Connection) -> list[DbRow]:
    """Yields all active rows: the caller knows which of the jobs really exist."""
    return list(connection.execute(select(*_COLUMNS).where(IS_ACTIVE).order_by(JOB.c.job_id, JOB.c.attempt)))


def fix(connection: Connection, attempts: Sequence[tuple[int, int]]) -> int:
    """Ends these attempts. Returns how many were still active."""
    fixed = 0
    for job_id, attempt in attempts:
        steps = select(func.max(STEP.c.end_at_us)).where(STEP.c.job_id == job_id, STEP.c.attempt == attempt)
        row = connection.execute(
            select(JOB.c.start_at_us, JOB.c.submit_at_us).where(
                and_(JOB.c.job_id == job_id, JOB.c.attempt == attempt, IS_ACTIVE)
            )
        ).one_or_none()
        if row is None:
            continue
        end_us = max(connection.execute(steps).scalar() or 0, row.start_at_us, row.submit_at_us)
        state = JobState.FAILED if row.start_at_us else JobState.CANCELLED
        connection.execute(
            update(JOB)
            .where(JOB.c.job_id == job_id, JOB.c.attempt == attempt)
            .values(state=int(state), end_state=None, end_at_us=end_us)
        )
        connection.execute(
            update(STEP)
            .where(STEP.c.job_id == job_id, STEP.c.attempt == attempt, STEP.c.state < literal_column(str(ENDED_FROM)))
            .values(state=int(state), end_at_us=case((STEP.c.start_at_us > end_us, STEP.c.start_at_us), else_=end_us))
        )
        fixed += 1
    return fixed
