"""Windows of the list of jobs: order, words, place and number of rows; what is used again, and for how long."""

import asyncio
from array import array
from pathlib import Path

import pytest

from ctld.core.records.job import JobRow
from ctld.rpc.jobs.jobwindows import KEPT_MAX, REUSE_MAX_S, JobOrder, JobWindows, gpus_of
from ctld.runtime.errors import BadRequest
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.values.jobcolumns import ORDERS, WINDOW_ROWS_MAX
from tests.rpc.clusterkit import Site, jobs_of, some_of_each


async def window(client, **fields) -> tuple[list[int], int]:
    """The job ids of a window, and how many rows pass its filter."""
    which = {name: fields.pop(name) for name in ("filter", "planned") if name in fields}
    request = c.ListJobsRequest(
        all_states=True, window=c.JobWindow(count=WINDOW_ROWS_MAX) if not fields else c.JobWindow(**fields), **which
    )
    pages = [page async for page in client.stream("ListJobs", request)]
    return [job.job_id for page in pages for job in page.jobs], sum(page.total for page in pages)


def test_rows_in_an_order_with_words(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            await some_of_each(site, client)
            jobs = {job.job_id: job for job in await jobs_of(client)}
            every = sorted(jobs)
            assert await window(client) == (every, len(every))
            assert await window(client, order="-job_id", first=1, count=2) == (every[::-1][1:3], len(every))
            assert await window(client, first=len(every), count=5) == ([], len(every))
            assert await window(client, count=0) == ([], len(every))
            for order in ORDERS:
                rising, _ = await window(client, order=order, count=WINDOW_ROWS_MAX, planned=True)
                falling, _ = await window(client, order=f"-{order}", count=WINDOW_ROWS_MAX, planned=True)
                assert sorted(rising) == every and falling == rising[::-1], order
            by_name, _ = await window(client, order="name", count=WINDOW_ROWS_MAX)
            names = [jobs[job_id].request.name for job_id in by_name]
            assert names == sorted(names)
            by_limit, _ = await window(client, order="time_limit_s", count=WINDOW_ROWS_MAX)
            assert jobs[by_limit[-1]].time_limit_s == -1
            found, total = await window(client, words=["HET", "pending"], count=1)
            assert total == 2 and jobs[found[0]].request.name == "het"
            found, total = await window(client, count=5, filter=c.JobFilter(states=["RUNNING"]))
            assert total == 1 and jobs[found[0]].request.name == "runs"
            for bad in (
                {"order": "shoe_size"},
                {"order": "--job_id"},
                {"count": WINDOW_ROWS_MAX + 1},
                {"words": ["x" * 65]},
            ):
                with pytest.raises(PenstockError):
                    await window(client, **bad)

    asyncio.run(story())


def test_a_window_has_no_columns(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():

            def ask() -> None:
                with Client.open(cluster=site.cluster()) as plain:
                    list(plain.stream("ListJobs", c.ListJobsRequest(columns=["job_id"], window=c.JobWindow(count=1))))

            with pytest.raises(PenstockError, match="has no columns"):
                await asyncio.to_thread(ask)

    asyncio.run(story())


class Counted(JobOrder):
    """An order of no rows, which counts how often it is computed and takes `cost_s`."""

    def __init__(self, clock: list[float], cost_s: float) -> None:
        self.count = 0
        self._clock, self._cost_s = clock, cost_s

    async def sorted(self, rows: list[JobRow]) -> "array[int]":
        self.count += 1
        self._clock[0] += self._cost_s
        return array("I")


async def no_rows() -> list[JobRow]:
    return []


@pytest.mark.parametrize(("cost_s", "kept_s"), [(0.0, 0.0), (0.01, 0.1), (5.0, REUSE_MAX_S)])
def test_a_dear_order_is_used_again_for_a_while(cost_s: float, kept_s: float) -> None:
    async def story() -> None:
        clock = [100.0]
        order, windows = Counted(clock, cost_s), JobWindows(lambda: clock[0])

        async def ask(moment: int) -> int:
            await windows.ids("q", (moment,), no_rows, order)
            return order.count

        assert await ask(1) == 1
        clock[0] += 1000
        assert await ask(1) == 1  # nothing was committed
        assert await ask(2) == 2
        clock[0] += kept_s * 0.99
        assert await ask(3) == (2 if kept_s else 3)
        clock[0] += kept_s * 0.02
        assert await ask(4) == (3 if kept_s else 4)

    asyncio.run(story())


def test_orders_that_are_kept_are_bounded_and_failures_are_not_kept() -> None:
    async def story() -> None:
        clock = [0.0]
        windows, orders = JobWindows(lambda: clock[0]), [Counted(clock, 0.0) for _ in range(KEPT_MAX + 1)]
        for number, order in enumerate(orders):
            await windows.ids(number, (), no_rows, order)
        await windows.ids(0, (), no_rows, orders[0])
        await windows.ids(KEPT_MAX, (), no_rows, orders[-1])
        assert (orders[0].count, orders[-1].count) == (2, 1)

        async def fails() -> list[JobRow]:
            raise BadRequest(1, "no")

        with pytest.raises(BadRequest):
            await windows.ids("x", (), fails, orders[1])
        await windows.ids("x", (), no_rows, orders[1])
        assert orders[1].count == 2

    asyncio.run(story())


def test_gpus_of_a_tres_text() -> None:
    texts = ("cpu=4,mem=1M,gres/gpu=6,gres/gpu:a100=6", "gres/gpu=12", "gres/gpu:a100=6", "cpu=1", "")
    assert [gpus_of(text) for text in texts] == [6, 12, 0, 0, 0]
