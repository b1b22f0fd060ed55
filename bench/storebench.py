"""Measures commits of the store on SQLite and PostgreSQL: python -m bench.storebench [--seconds 3] [URL ...]

Each place is an empty database: a path or a URL. Without any, an SQLite file in a temporary folder (on its disk). A
batch has JOBS jobs that are new, start or end in turn, as a loaded controller's have: per job of its life, 3 rows of
the job itself, a request, 2 of its step and 3 of history. What is printed: commits and rows a second, the median and the
99th percentile of a commit; for batches of 1, 10, 100 and 1,000 jobs.
"""

import argparse
import tempfile
import time
from pathlib import Path

from accounting.database import shown
from ctld.core.records.effects import Batch
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.step import StepRow
from ctld.store.committer import Store
from penstock.values.states import Hold, JobState, Reason

SIZES = (1, 10, 100, 1_000)
SPEC = SpecRow(bytes(range(32)), b"#!/bin/sh\ntrue\n", (), (b"HOME=/root",) * 30)
NOW_US = 1_700_000_000_000_000


def batches(size: int, first: int):
    """Endlessly: `size` jobs submitted, the same started, the same ended. Yields a batch and its rows."""
    sequence = 0
    while True:
        jobs = [_job(first + i) for i in range(size)]
        first += size
        requests = [(job.request_id, job.request) for job in jobs]
        started = [_started(job) for job in jobs]
        ended = [job._replace(state=JobState.COMPLETED, end_at_us=NOW_US + 9) for job in started]
        steps = [_step(job) for job in started]
        over = [step._replace(state=JobState.COMPLETED, end_at_us=NOW_US + 9) for step in steps]
        for event, rows, made, of in (
            ("submit", jobs, requests, []), ("start", started, [], steps), ("end", ended, [], over),
        ):  # fmt: skip
            sequence += 1
            history = [HistoryRow(NOW_US, row.job_id, 0, event, "") for row in rows]
            batch = Batch(
                sequence=sequence, jobs=rows, requests=made, specs=[SPEC] if made else [], steps=of, nodes=[],
                partitions=[], history=history, next_job_id=first, next_request_id=first, effects=[], purged=[],
            )  # fmt: skip
            yield batch, len(rows) + len(made) + len(of) + len(history)


def measure(place: str, size: int, seconds: float) -> tuple[float, float, float, float]:
    """Commits and rows a second, median and 99th percentile in milliseconds."""
    store = Store.open(place, "bench")
    store.acquire_lease(time.time_ns() // 1000)
    first = store.load(NOW_US, 0, 0).next_job_id
    took: list[float] = []
    rows = 0
    for number, (batch, count) in enumerate(batches(size, first)):
        begun = time.perf_counter()
        store.commit(batch)
        if number >= 6:  # the first ones prepare the statements
            took.append(time.perf_counter() - begun)
            rows += count
        if sum(took) > seconds and number % 3 == 2:
            break
    store.close()
    took.sort()
    whole = sum(took)
    return len(took) / whole, rows / whole, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3


def _job(number: int) -> JobRow:
    return JobRow(
        job_id=number, attempt=0, array_job_id=0, array_task_id=None, array_tasks=None, array_throttle=0,
        request_id=number, request=JobRequest(name=f"job{number}", partitions=("debug",)), spec_hash=SPEC.spec_hash,
        submit_key=f"{number:032x}", user_id=1001, group_id=1001, user_name="ann", group_name="staff",
        partition="debug", state=JobState.PENDING, end_state=None, reason=Reason.PRIORITY, reason_detail="",
        hold=Hold.NO, priority=4_294_000_000, dependency="", submit_at_us=NOW_US, eligible_at_us=NOW_US,
        start_at_us=0, end_at_us=0, time_limit_s=3600, alloc=(), batch_node="", exit_code=0, exit_signal=0,
        derived_code=0, derived_signal=0, cancelled_by_uid=-1, failed_node="", admin_comment="", tres_req="cpu=1",
        tres_alloc="",
    )  # fmt: skip


def _started(job: JobRow) -> JobRow:
    return job._replace(
        state=JobState.RUNNING, start_at_us=NOW_US + 1, alloc=(NodeAlloc("n1", 1, 100, 1, ()),), batch_node="n1",
        tres_alloc="cpu=1,mem=100M,node=1", reason=Reason.NONE,
    )  # fmt: skip


def _step(job: JobRow) -> StepRow:
    zeros = (0,) * 9
    return StepRow(job.job_id, 0, -5, "batch", JobState.RUNNING, "n1", 1, 1, job.start_at_us, *zeros)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.storebench")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each size; default %(default)s")
    parser.add_argument("places", nargs="*", metavar="URL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for place in options.places or [str(Path(folder) / "penstock.db")]:
            print(shown(place))
            print(f"{'jobs':>6}{'commits/s':>12}{'rows/s':>10}{'p50 ms':>9}{'p99 ms':>9}")
            for size in SIZES:
                commits, rows, median, late = measure(place, size, options.seconds)
                print(f"{size:>6}{commits:>12,.0f}{rows:>10,.0f}{median:>9.2f}{late:>9.2f}")


if __name__ == "__main__":
    main()
