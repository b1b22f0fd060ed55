"""Rows and batches for the store's tests."""

from pathlib import Path
from typing import Any

from ctld.core.records.effects import Batch
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.step import StepRow
from ctld.store.committer import Store
from penstock.values.states import Hold, JobState, Reason

NOW_US = 1_700_000_000_000_000
HASH = bytes(range(32))
SPEC = SpecRow(HASH, b"#!/bin/sh\ntrue\n", (b"a b", b""), (b"HOME=/root", b"X=\xff"))


def make_job(job_id: int, **changes: Any) -> JobRow:
    """A pending job whose request has the job's number."""
    row = JobRow(
        job_id=job_id, attempt=0, array_job_id=0, array_task_id=None, array_tasks=None, array_throttle=0,
        request_id=job_id, request=JobRequest(name=f"job{job_id}", partitions=("debug",)), spec_hash=HASH,
        submit_key=f"{job_id:032x}", user_id=1001, group_id=1001, user_name="ann", group_name="staff",
        partition="debug", state=JobState.PENDING, end_state=None, reason=Reason.PRIORITY, reason_detail="",
        hold=Hold.NO, priority=4_294_000_000, dependency="", submit_at_us=NOW_US, eligible_at_us=NOW_US,
        start_at_us=0, end_at_us=0, time_limit_s=-1, alloc=(), batch_node="", exit_code=0, exit_signal=0,
        derived_code=0, derived_signal=0, cancelled_by_uid=-1, failed_node="", admin_comment="", tres_req="cpu=1",
        tres_alloc="",
    )  # fmt: skip
    return row._replace(**changes)


def start(row: JobRow, node: str = "n1", at_us: int = NOW_US + 1_000_000) -> JobRow:
    return row._replace(
        state=JobState.RUNNING, start_at_us=at_us, alloc=(NodeAlloc(node, 1, 100, 1, ()),), batch_node=node,
        tres_alloc="cpu=1,mem=100M,node=1", reason=Reason.NONE,
    )  # fmt: skip


def end(row: JobRow, at_us: int = NOW_US + 2_000_000, state: JobState = JobState.COMPLETED, **changes: Any) -> JobRow:
    return row._replace(state=state, end_at_us=at_us, reason=Reason.NONE, **changes)


def make_step(job: JobRow, **changes: Any) -> StepRow:
    row = StepRow(
        job.job_id, job.attempt, -5, "batch", JobState.RUNNING, job.batch_node, 1, 1, job.start_at_us, 0, 0, 0, 0, 0, 0,
        0, 0, 0,
    )  # fmt: skip
    return row._replace(**changes)


def make_batch(sequence: int, jobs: list[JobRow] | None = None, next_id: int = 0, **changes: Any) -> Batch:
    """A batch of jobs; the requests of those that were submitted come along when `requests` is not said."""
    jobs = jobs or []
    next_id = next_id or max((row.job_id for row in jobs), default=0) + 1
    batch = Batch(
        sequence=sequence, jobs=jobs, requests=[], specs=[], steps=[], nodes=[], partitions=[], history=[],
        next_job_id=next_id, next_request_id=next_id, effects=[], purged=[],
    )  # fmt: skip
    for name, value in changes.items():
        setattr(batch, name, value)
    return batch


def submitted(sequence: int, jobs: list[JobRow], **changes: Any) -> Batch:
    """A batch in which these jobs are new, each with a request, and one line of history each."""
    changes.setdefault("specs", [SPEC])
    return make_batch(
        sequence,
        jobs,
        requests=list({row.request_id: row.request for row in jobs}.items()),
        history=[HistoryRow(row.submit_at_us, row.job_id, 0, "submit", "") for row in jobs],
        **changes,
    )


def leading(place: str | Path, holder: str = "first", now_us: int = NOW_US) -> Store:
    """An open store that leads."""
    store = Store.open(place, holder)
    store.acquire_lease(now_us)
    return store


def all_jobs(store: Store) -> list[JobRow]:
    """Last attempts of all jobs, whenever they ended."""
    return store.load(NOW_US, NOW_US, NOW_US).jobs
