"""Orders that are kept: with what has changed since, they are those that a look at all rows gives."""

import asyncio
import random
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from _fastsched import contract
from ctld.core.records.effects import Batch
from ctld.core.records.events import JobFilter
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.state.forecast import Forecast
from ctld.rpc.gate.scans import ScanPace, Scans
from ctld.rpc.jobs import joborders, jobwindows
from ctld.rpc.jobs.joborders import JobOrders
from ctld.rpc.jobs.jobwindows import JobOrder
from ctld.rpc.jobs.keptanswers import AnswerMoment
from ctld.rpc.jobs.listing import JobSelection
from ctld.runtime import snapshot as snapshots
from ctld.runtime.snapshot import Snapshot
from penstock.v1 import controller_pb2 as c
from penstock.values.states import Hold, JobState, Reason

UID = 71_002
STATES = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETED)
ORDERS = ("job_id", "name", "user_name", "account", "partition", "state", "reason", "priority", "node_list", "gpus",
          "submit_at_us", "start_at_us", "time_limit_s", "planned_start_at_us")  # fmt: skip


def some_row(chance: random.Random, job_id: int) -> JobRow:
    """A row with one of few values in each column, so that many are equal."""
    state = chance.choice(STATES)
    alloc = () if state is JobState.PENDING else (NodeAlloc(f"n{chance.randrange(12)}", 1, 1, 1, ()),)
    request = JobRequest(name=chance.choice(("Train", "test", "x")), account=chance.choice("ab"), partitions=("p", "q"))
    fields: dict[str, Any] = dict.fromkeys(JobRow._fields, 0) | {
        "job_id": job_id, "array_task_id": None, "array_tasks": None, "state": state, "hold": Hold.NO, "end_state": None,
        "reason": chance.choice((Reason.NONE, Reason.PRIORITY)), "alloc": alloc, "partition": chance.choice("pq"),
        "user_name": chance.choice(("ann", "bob")), "request": request, "priority": chance.randrange(5),
        "tres_req": f"cpu=1,gres/gpu={chance.randrange(3)}", "tres_alloc": "", "submit_at_us": chance.randrange(9),
        "time_limit_s": chance.choice((-1, 60, 3600)), "start_at_us": 0 if not alloc else chance.randrange(1, 9),
    }  # fmt: skip
    return JobRow(**fields)


def batch(jobs: list[JobRow], purged: list[int]) -> Batch:
    return Batch(1, jobs, [], [], [], [], [], [], 1, 1, [], purged)


def some_forecast(chance: random.Random, jobs: int) -> Forecast:
    """A start for some of the jobs; of equal times, as passes find them."""
    ids = np.array(chance.sample(range(1, jobs), jobs // 2))
    starts_s = np.array([chance.choice((-1, 100, 200, 300)) for _ in ids])
    result: Any = SimpleNamespace(start_s=starts_s, reason=np.full(len(ids), contract.PRIORITY))
    return Forecast(1, ids, result, (), None)


class World:
    """Kept orders of a snapshot; `whole`: how many looks at all rows there were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: list[JobRow]) -> None:
        self.whole = self.passes = 0
        self.snapshot = Snapshot(rows)
        self.snapshot.forecast = some_forecast(random.Random(3), max(len(rows), 4))
        state = SimpleNamespace(priorities=None)
        runtime: Any = SimpleNamespace(
            core=SimpleNamespace(state=state), snapshot=self.snapshot, clock_us=lambda: 10**15
        )
        self.orders = JobOrders(runtime, Scans())
        of_all = JobOrder.sorted

        async def counted(order: JobOrder, rows: list[JobRow], pace: ScanPace) -> "array[int]":
            self.whole += 1
            return await of_all(order, rows, pace)

        monkeypatch.setattr(JobOrder, "sorted", counted)
        self._of_all = of_all
        self.runtime = runtime

    async def get(self, which: JobFilter, order: str, *words: str) -> list[int]:
        """The ids, of this moment."""
        self.passes += 1
        depends = order.removeprefix("-") in ("priority", "planned_start_at_us")  # on priorities, or the plan
        passes = 0 if depends else self.passes  # those are new with each question
        moment = AnswerMoment(self.snapshot.revision, passes, passes)
        selection = JobSelection(which, which == JobFilter(), frozenset())
        ids, is_of_now = await self.orders.get(UID, which, selection, c.JobWindow(order=order, words=words), moment)
        assert is_of_now
        return list(ids)

    async def by_all(self, which: JobFilter, order: str, *words: str) -> list[int]:
        """The ids by a look at all rows."""
        wanted = JobOrder(
            c.JobWindow(order=order, words=words), self.runtime.core.state, self.snapshot.forecast, 10**15
        )
        rows = JobSelection(which, which == JobFilter(), frozenset()).passing(list(self.snapshot.jobs.values()))
        pace: Any = SimpleNamespace(pause=None)  # so few rows are one slice
        return list(await self._of_all(wanted, sorted(rows, key=lambda row: row.job_id), pace))


@pytest.mark.parametrize("seed", range(8))
def test_changed_jobs_are_put_to_their_places(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Jobs that come, change and go; in each order, both ways, with a filter and with words."""
    chance = random.Random(seed)
    world = World(monkeypatch, [some_row(chance, job_id) for job_id in range(1, 60)])
    questions = [
        (which, f"{sign}{order}", *words)
        for order in chance.sample(ORDERS, 5)
        for sign in ("", "-")
        for which, words in (
            (JobFilter(), ()),
            (JobFilter(states=(JobState.PENDING,)), ()),
            (JobFilter(), ("tr", "ann")),
        )
    ]

    async def story() -> None:
        for question in questions:
            await world.get(*question)
        began = world.whole
        for turn in range(12):
            ids = list(world.snapshot.jobs)
            jobs = [some_row(chance, chance.choice([*ids, 60 + turn])) for _ in range(chance.randrange(4))]
            gone = [chance.choice(ids) for _ in range(chance.randrange(2))]
            world.snapshot.apply(batch(jobs, gone))
            for question in questions if turn % 3 else questions[::2]:
                assert await world.get(*question) == await world.by_all(*question), question
        assert world.whole == began

    asyncio.run(story())


def test_an_order_by_planned_start_asks_the_plan_once_for_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for each job, the plan took two seconds of the loop for 100,000 jobs, after each whole pass."""
    chance = random.Random(4)
    rows = [some_row(chance, job_id)._replace(state=JobState.PENDING) for job_id in range(1, 2_000)]
    monkeypatch.setattr(jobwindows, "SORTED_ROWS", 500)
    world = World(monkeypatch, rows)
    calls: list[int] = []
    starts_s = Forecast.starts_s

    def asked(forecast: Forecast, job_ids: list[int]) -> list[int]:
        calls.append(len(job_ids))
        return starts_s(forecast, job_ids)

    monkeypatch.setattr(Forecast, "starts_s", asked)
    found = asyncio.run(world.get(JobFilter(states=(JobState.PENDING,)), "planned_start_at_us"))
    assert calls == [500, 500, 500, 499]
    starts = starts_s(world.snapshot.forecast or some_forecast(chance, 4), found)
    known = [start for start in starts if start >= 0]
    assert known == sorted(known) and starts[len(known) :] == [-1] * (len(found) - len(known)) and len(known) > 500


def test_too_many_changes_are_a_new_look_at_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are put to their places one by one are bounded, and so are those that are known."""
    chance = random.Random(1)
    world = World(monkeypatch, [some_row(chance, job_id) for job_id in range(1, 40)])
    question = JobFilter(), "name"

    async def after(changed: range) -> int:
        before = world.whole
        world.snapshot.apply(batch([some_row(chance, job_id) for job_id in changed], []))
        assert await world.get(*question) == await world.by_all(*question)
        return world.whole - before

    async def story() -> None:
        monkeypatch.setattr(joborders, "REUSE_FACTOR", 0.0)
        world.orders = JobOrders(world.runtime, Scans())
        await world.get(*question)
        monkeypatch.setattr(joborders, "CHANGES_MAX", 5)
        assert await after(range(1, 6)) == 0
        assert await after(range(1, 7)) == 1
        assert await after(range(1, 6)) == 0
        monkeypatch.setattr(snapshots, "CHANGES_KEPT", 3)
        assert await after(range(1, 5)) == 1

    asyncio.run(story())


def test_what_has_changed_since_a_revision_is_known_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "CHANGES_KEPT", 4)
    chance = random.Random(2)
    snapshot = Snapshot()
    assert snapshot.changed_since(0) == set()
    snapshot.apply(batch([some_row(chance, 1), some_row(chance, 2)], []))
    snapshot.apply(batch([], []))
    snapshot.apply(batch([some_row(chance, 2)], [1]))
    assert [snapshot.changed_since(since) for since in range(4)] == [{1, 2}, {1, 2}, {1, 2}, set()]
    snapshot.apply(batch([some_row(chance, 5)], []))  # the first batch is known no more
    assert [snapshot.changed_since(since) for since in range(5)] == [None, {1, 2, 5}, {1, 2, 5}, {5}, set()]
