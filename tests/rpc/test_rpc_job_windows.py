"""Windows of the list of jobs: order, words, place and number of rows."""

import asyncio
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctld.core.records.job import JobRow
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.jobs import jobwindows
from ctld.rpc.jobs.joborders import OrderKey
from ctld.rpc.jobs.jobwindows import JobOrder, with_word
from ctld.runtime.queuecounts import gpus_of
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.values.jobcolumns import ORDERS, WINDOW_ROWS_MAX
from penstock.values.states import JobState, Reason
from tests.rpc.clusterkit import Site, jobs_of, some_of_each


async def window(client, **fields) -> tuple[list[int], int]:
    """The job ids of a window, and how many rows pass its filter."""
    which = {name: fields.pop(name) for name in ("filter", "planned") if name in fields}
    request = c.ListJobsRequest(
        all_states=True, window=c.JobWindow(count=WINDOW_ROWS_MAX) if not fields else c.JobWindow(**fields), **which
    )
    pages = [page async for page in client.stream("ListJobs", request)]
    return [job.job_id for page in pages for job in page.jobs], sum(page.total for page in pages)


@pytest.mark.parametrize("slice_rows", [2, jobwindows.SORTED_ROWS])
def test_rows_in_an_order_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    """Also where a slice sorts so few values that there are many parts."""
    for name in ("SORTED_ROWS", "TAKEN_ROWS", "READ_ROWS"):
        monkeypatch.setattr(jobwindows, name, slice_rows)
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
            assert await window(client, words=["none"], filter=c.JobFilter(states=["RUNNING"])) == (
                [],
                0,
            )  # it has no reason
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


def test_who_types_a_word_or_turns_a_table_round_costs_no_look_at_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of each answer are those that a look at all rows finds, in the same order."""
    site = Site(tmp_path)
    whole: list[int] = []
    sorted_of_all = JobOrder.sorted

    async def counted(order: JobOrder, rows: list[JobRow], pace: ScanPace) -> "array[int]":
        whole.append(len(rows))
        return await sorted_of_all(order, rows, pace)

    monkeypatch.setattr(JobOrder, "sorted", counted)
    asked: list[dict[str, Any]] = [
        {"order": "name"}, {"order": "-name"}, *({"order": "name", "words": ["pending"[:end]]} for end in range(1, 8)),
        {"order": "name", "words": ["pending", "h"]}, {"order": "name", "words": ["pending", "het"]},
        {"order": "-name", "words": ["pending", "het"]}, {"order": "-name", "words": ["PEN"]}, {"order": "name", "words": ["1"]},
    ]  # fmt: skip

    async def story() -> None:
        async with site.controller(), site.client() as client:
            await some_of_each(site, client)
            found = [await window(client, **one, count=WINDOW_ROWS_MAX) for one in asked]
            assert len(whole) == 1 and len({total for _, total in found}) > 2
            monkeypatch.setattr(OrderKey, "wider", lambda key: iter(()))
            every = c.JobFilter(states=[state.name for state in JobState])  # the same jobs by another question
            assert [await window(client, **one, count=WINDOW_ROWS_MAX, filter=every) for one in asked] == found
            assert len(whole) == 1 + len(asked)

    asyncio.run(story())


class Pace:
    """Counts the slices."""

    def __init__(self) -> None:
        self.pauses = 0

    async def pause(self) -> None:
        self.pauses += 1


def test_nodes_are_ordered_as_they_are_counted() -> None:
    """By the first node, n2 before n10; jobs without nodes first, equal ones by id."""
    nodes = ["n10", "n2", "", "n2", "gpu1", "n2-b3", "n002"]
    rows = [
        SimpleNamespace(job_id=at, alloc=[SimpleNamespace(node=name)] if name else [])
        for at, name in enumerate(nodes, 1)
    ]
    order = JobOrder(c.JobWindow(order="node_list"), None, None, 0)  # nothing of a state is read
    found = asyncio.run(order.sorted(rows, Pace()))  # type: ignore[arg-type]  # stand-ins of rows
    assert [nodes[at - 1] for at in found] == ["", "gpu1", "n2", "n2", "n002", "n2-b3", "n10"]


def test_a_word_is_found_in_what_is_shown_of_a_row() -> None:
    """In no reason of a job that does not wait, nor in where it might have run; an array's task by its own number."""

    def row(job_id: int, state: JobState, **fields: object) -> SimpleNamespace:
        request = SimpleNamespace(name="Train", account="Phys", qos="normal", partitions=("gpu", "long"))
        known = {"job_id": job_id, "state": state, "request": request, "user_name": "ann", "reason": Reason.PRIORITY,
                 "partition": "gpu", "alloc": (), "array_job_id": 0, "array_task_id": None}  # fmt: skip
        return SimpleNamespace(**known | fields)

    rows = [
        row(17, JobState.PENDING),
        row(18, JobState.RUNNING, alloc=[SimpleNamespace(node=name) for name in ("n1", "n2", "N3")]),
        row(19, JobState.PENDING, array_job_id=17, array_task_id=4, user_name="bob"),
    ]
    found = {
        "train": [17, 18, 19], "phys": [17, 18, 19], "priority": [17, 19], "gpu,long": [17, 19], "gpu": [17, 18, 19],
        "running": [18], "n3,n[1-2]": [18], "n2": [], "17": [17, 19], "17_4": [19], "18": [18], "4": [19], "bob": [19], "x": [],
    }  # fmt: skip
    for word, ids in found.items():
        assert [one.job_id for one in with_word(word, rows)] == ids, word  # type: ignore[arg-type]  # stand-ins of rows


def test_many_values_are_sorted_in_slices() -> None:
    """Of 50,000 different names, and of some that are much more frequent than others."""
    names = [f"{number * 7919 % 50_021:05}" for number in range(50_000)] + ["00077"] * 9_000
    rows = [SimpleNamespace(job_id=at, request=SimpleNamespace(name=name)) for at, name in enumerate(names)]
    order, pace = JobOrder(c.JobWindow(order="-name"), None, None, 0), Pace()
    found = asyncio.run(order.sorted(rows, pace))  # type: ignore[arg-type]  # stand-ins of rows
    assert list(found) == [at for _, at in sorted((name, at) for at, name in enumerate(names))][::-1]
    assert pace.pauses >= 50_000 // jobwindows.SORTED_ROWS * 2


def test_how_many_there_are(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            await some_of_each(site, client)
            request = c.ListJobsRequest(all_states=True, counts=True, filter=c.JobFilter(states=["PENDING", "RUNNING"]))
            (page,) = [page async for page in client.stream("ListJobs", request)]
            found = {(one.state, one.reason): one.jobs for one in page.counts}
            assert found["RUNNING", ""] == 1 and found["PENDING", "BeginTime"] == 1
            assert found["PENDING", "JobHeldUser"] == 9 + 1 + 2  # of the array each task is one
            assert {one.partition for one in page.counts} == {"debug"} and not page.jobs

    asyncio.run(story())


def test_a_window_has_no_columns(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():

            def ask() -> None:
                with Client.open(cluster=site.cluster()) as plain:
                    list(plain.stream("ListJobs", c.ListJobsRequest(columns=["job_id"], window=c.JobWindow(count=1))))

            with pytest.raises(PenstockError, match="one of them"):
                await asyncio.to_thread(ask)

    asyncio.run(story())


def test_gpus_of_a_tres_text() -> None:
    texts = ("cpu=4,mem=1M,gres/gpu=6,gres/gpu:a100=6", "gres/gpu=12", "gres/gpu:a100=6", "cpu=1", "")
    assert [gpus_of(text) for text in texts] == [6, 12, 0, 0, 0]
