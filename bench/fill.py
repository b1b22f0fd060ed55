"""Fills a database with many jobs, quickly, and measures what a restart makes of it.

    python -m bench.fill DATABASE [--finished 1000000] [--pending 100000]
    python -m bench.fill DATABASE --load

Finished jobs are spread over the past 30 days, pending ones over the last hour, each with its own request (as 100,000
people would have sent them) and, when finished, a step. Rows go through the store's own codec and statements.
With --load nothing is added: the database is loaded as a starting controller does it, and time and memory are printed.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator

from ctld.core.effects import Batch
from ctld.core.model import JobRequest, JobRow, NodeAlloc, SpecRow, StepRow
from ctld.store.committer import Store
from penstock.values.states import Hold, JobState, Reason

NOW_US = 1_800_000_000_000_000
DAY_US = 86_400 * 1_000_000
HASH = bytes(32)
#: Jobs in one transaction.
BATCH_JOBS = 5_000
NODES = 200
USERS = 50


def job(job_id: int, submit_at_us: int, finished: bool) -> JobRow:
    """One of many: shapes, names and users repeat with different periods."""
    request = JobRequest(
        name=f"train{job_id % 1000}", partitions=("batch",), account=f"a{job_id % 20}", ntasks=job_id % 4 + 1,
        work_dir=b"/home/u/project", std_out=b"slurm-%j.out", time_limit_s=60 * (job_id % 90 + 1),
        mem_per_node_mb=1000 + job_id % 5000, command="/home/u/project/train.sh", submit_line="sbatch train.sh",
        submit_host="login1",
    )  # fmt: skip
    node = f"n{job_id % NODES}"
    start_us = submit_at_us + 60 * 1_000_000 if finished else 0
    return JobRow(
        job_id=job_id, attempt=0, array_job_id=0, array_task_id=None, array_tasks=None, array_throttle=0,
        request_id=job_id, request=request, spec_hash=HASH, submit_key=f"{job_id:032x}", user_id=1000 + job_id % USERS,
        group_id=100, user_name=f"user{job_id % USERS}", group_name="users", partition="batch",
        state=JobState.COMPLETED if finished else JobState.PENDING, end_state=None,
        reason=Reason.NONE if finished else Reason.PRIORITY, reason_detail="", hold=Hold.NO, priority=2**32 - job_id,
        dependency="", submit_at_us=submit_at_us, eligible_at_us=submit_at_us, start_at_us=start_us,
        end_at_us=start_us + 600 * 1_000_000 if finished else 0, time_limit_s=request.time_limit_s or 0,
        alloc=(NodeAlloc(node, request.ntasks, 1000, request.ntasks, ()),) if finished else (),
        batch_node=node if finished else "", exit_code=0, exit_signal=0, derived_code=0, derived_signal=0,
        cancelled_by_uid=-1, failed_node="", admin_comment="", tres_req=f"cpu={request.ntasks},mem=1000M,node=1",
        tres_alloc=f"cpu={request.ntasks},mem=1000M,node=1" if finished else "",
    )  # fmt: skip


def step(row: JobRow) -> StepRow:
    """The batch step of a finished job."""
    return StepRow(
        row.job_id, 0, -5, "batch", row.state, row.batch_node, 1, 1, row.start_at_us, row.end_at_us, 0, 0, 9_000_000,
        100_000, 50_000, 90_000, 1, 1,
    )  # fmt: skip


def batches(first_id: int, finished: int, pending: int) -> Iterator[Batch]:
    """Finished jobs first, in the order in which they were submitted."""
    total = finished + pending
    for sequence, at in enumerate(range(0, total, BATCH_JOBS), 1):
        rows = []
        for i in range(at, min(at + BATCH_JOBS, total)):
            age_us = 30 * DAY_US * (finished - i) // max(1, finished) + DAY_US // 24 if i < finished else DAY_US // 24
            rows.append(job(first_id + i, NOW_US - age_us, i < finished))
        next_id = first_id + min(at + BATCH_JOBS, total)
        yield Batch(
            sequence=sequence, jobs=rows, requests=[(row.request_id, row.request) for row in rows],
            specs=[SpecRow(HASH, b"#!/bin/sh\n", (), ())], steps=[step(row) for row in rows if row.end_at_us],
            nodes=[], partitions=[], history=[], next_job_id=next_id, next_request_id=next_id, effects=[], purged=[],
        )  # fmt: skip


def fill(place: str, finished: int, pending: int) -> None:
    """Add jobs to a database, new or not."""
    store = Store.open(place, "fill")
    store.acquire_lease(NOW_US)
    for batch in batches(store.load(NOW_US, 0, 0).next_job_id, finished, pending):
        store.commit(batch)
    store.close()


def measure_load(place: str) -> dict[str, float]:
    """What a restart costs: seconds, and the growth of the process's memory."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    store = Store.open(place, "measure")
    store.acquire_lease(NOW_US)
    opened = time.perf_counter()
    loaded = store.load(NOW_US, 300 * 1_000_000, 600 * 1_000_000)
    ended = time.perf_counter()
    store.close()
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    return {"jobs": len(loaded.jobs), "open_s": opened - begun, "load_s": ended - opened, "grown_mb": grown_kb / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database")
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--load", action="store_true", help="add nothing, measure a restart")
    asked = parser.parse_args()
    if not asked.load:
        begun = time.perf_counter()
        fill(asked.database, asked.finished, asked.pending)
        print(f"{asked.finished + asked.pending} jobs in {time.perf_counter() - begun:.1f} s")
        return
    for name, value in measure_load(asked.database).items():
        sys.stdout.write(f"{name} {value:.2f}\n")


if __name__ == "__main__":
    main()
