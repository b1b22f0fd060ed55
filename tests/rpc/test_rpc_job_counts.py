"""Counts of the queue: kept with each change, they are those of a new count of all rows."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from ctld.core.records.events import JobFilter
from ctld.core.records.job import JobRow
from ctld.rpc.jobs import jobcounts
from ctld.rpc.jobs.jobcounts import JobCounter
from ctld.rpc.jobs.listing import JobSelection
from ctld.runtime.snapshot import Snapshot
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet
from tests.rpc.test_rpc_job_orders import batch, some_row

SELECTIONS = (
    JobSelection(JobFilter(), True, frozenset()),
    JobSelection(JobFilter(), False, frozenset()),
    JobSelection(JobFilter(states=(JobState.PENDING, JobState.RUNNING)), False, frozenset()),
    JobSelection(JobFilter(partitions=("q",)), True, frozenset()),
    JobSelection(JobFilter(uids=(1,)), True, frozenset({"p"})),
    JobSelection(JobFilter(seen_uid=2, seen_accounts=("a",)), True, frozenset()),
    JobSelection(JobFilter(names=("x",)), True, frozenset()),
)


def counted_row(chance: random.Random, job_id: int) -> JobRow:
    """A row of one of three users; some stand for the tasks of an array."""
    row = some_row(chance, job_id)._replace(user_id=chance.randrange(3))
    is_array = row.state is JobState.PENDING and chance.random() < 0.3
    return row._replace(array_tasks=TaskSet.parse(f"1-{chance.randrange(2, 5)}")) if is_array else row


def by_all(snapshot: Snapshot, selection: JobSelection) -> dict[tuple[str, str, str], tuple[int, int]]:
    """A new count."""
    jobs: Counter[tuple[str, str, str]] = Counter()
    gpus: Counter[tuple[str, str, str]] = Counter()
    for row in selection.passing(list(snapshot.jobs.values())):
        is_pending = row.state is JobState.PENDING
        key = row.state.name, ",".join(row.request.partitions) if is_pending else row.partition, row.reason.value
        key = key if is_pending else (*key[:2], "")
        number = len(row.array_tasks) if row.array_tasks is not None else 1
        jobs[key] += number
        gpus[key] += number * int(row.tres_req.rpartition("=")[2])
    return {key: (jobs[key], gpus[key]) for key in jobs}


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Also when jobs change while they are counted for the first time, and when who asked for that has gone."""
    monkeypatch.setattr(jobcounts, "COUNTED_ROWS", 5)
    chance = random.Random(seed)
    snapshot = Snapshot([counted_row(chance, job_id) for job_id in range(1, 40)])
    counter = JobCounter()

    def change() -> None:
        ids = list(snapshot.jobs)
        jobs = [counted_row(chance, chance.choice([*ids, max(ids) + 1])) for _ in range(3)]
        snapshot.apply(batch(jobs, [chance.choice(ids)]))

    class Pace:
        is_over = True

        async def pause(self) -> None:
            change()
            if self.is_over:
                raise asyncio.CancelledError

    async def check(pace: Any) -> None:
        for selection in SELECTIONS:
            found = await counter.counts(snapshot, selection, pace)
            shown = {(one.state, one.partition, one.reason): (one.jobs, one.gpus) for one in found}
            assert shown == by_all(snapshot, selection), selection

    async def story() -> None:
        pace: Any = Pace()
        with pytest.raises(asyncio.CancelledError):
            await counter.counts(snapshot, SELECTIONS[0], pace)
        assert snapshot.queue is None
        pace.is_over = False
        await check(pace)
        for _ in range(20):
            change()
            await check(None)  # no look at all rows, which would have a pause

    asyncio.run(story())
