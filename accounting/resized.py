"""The records of a job that has been resized: one for each of its sizes.

The job's row has its present allocation; JOB_SPAN has the earlier ones, each with its nodes and the time of the resize.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection, select

from accounting.filter import FilterRecord, RecordFilter, StepRecord
from accounting.tables import JOB_SPAN
from penstock.values.states import ALLOCATED_STATES, JobState, parse_job_states
from penstock.values.tres import parse_tres

#: The fields of an ended size that the job's row has only for the last one.
_NOT_ENDED = {"exit_code": 0, "exit_signal": 0, "derived_code": 0, "derived_signal": 0, "cancelled_by_uid": -1}


class EarlierSize(NamedTuple):
    """What a job had until a resize."""

    end_at_us: int
    tres: str
    node_list: str


def resizes_of(connection: Connection, job_ids: Sequence[int]) -> dict[tuple[int, int], list[EarlierSize]]:
    """Reads the earlier sizes of these jobs by (job id, attempt), the oldest first."""
    found: dict[tuple[int, int], list[EarlierSize]] = {}
    asked = select(
        JOB_SPAN.c.job_id, JOB_SPAN.c.attempt, JOB_SPAN.c.end_at_us, JOB_SPAN.c.tres, JOB_SPAN.c.node_list
    ).where(JOB_SPAN.c.job_id.in_(job_ids), JOB_SPAN.c.node_list != "")
    for job_id, attempt, *size in connection.execute(asked.order_by(JOB_SPAN.c.end_at_us)):
        found.setdefault((job_id, attempt), []).append(EarlierSize(*size))
    return found


def by_size(record: FilterRecord, sizes: Sequence[EarlierSize]) -> Iterator[FilterRecord]:
    """Yields the job at its present size, then at its earlier ones, the newest first."""
    if not sizes:
        yield record
        return
    last_us = sizes[-1].end_at_us
    steps = tuple(step for step in record.steps if step.step_id < 0 or _began(step) >= last_us)
    yield replace(
        record,
        submit_at_us=last_us,
        eligible_at_us=last_us,
        start_at_us=last_us,
        tres_req=record.tres_alloc,
        steps=steps,
    )
    for at in reversed(range(len(sizes))):
        yield _earlier(record, sizes[at], sizes[at - 1].end_at_us if at else 0)


def is_asked(asked: RecordFilter, record: FilterRecord) -> bool:
    """Whether one of a job's sizes passes the states and the window of a filter that the job as a whole passes."""
    since_us, until_us = asked.start_at_us, asked.end_at_us
    if (since_us and 0 < record.end_at_us < since_us) or (until_us and record.start_at_us > until_us):
        return False
    states, every = parse_job_states(",".join(asked.states) or "all")
    if every or record.state in states:
        return True
    return bool(states & (ALLOCATED_STATES | {JobState.PENDING})) and bool(since_us or until_us)


def _earlier(record: FilterRecord, size: EarlierSize, since_us: int) -> FilterRecord:
    tres = parse_tres(size.tres)
    times = {"submit_at_us": since_us, "eligible_at_us": since_us, "start_at_us": since_us} if since_us else {}
    return replace(
        record, **times, **_NOT_ENDED, end_at_us=size.end_at_us, state=JobState.RESIZING, reason="None",
        tres_alloc=size.tres, tres_req=size.tres if since_us else record.tres_req, node_list=size.node_list,
        nodes_alloc=tres.get("node", 0), cpus_alloc=tres.get("cpu", 0),
        steps=tuple(
            step for step in record.steps if step.step_id >= 0 and since_us <= _began(step) < size.end_at_us
        ),
    )  # fmt: skip


def _began(step: StepRecord) -> int:
    return step.submit_at_us or step.start_at_us
