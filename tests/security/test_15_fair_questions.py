"""Item 15: planner questions and queries of accounting are shared between users; a crowd of one user's delays nobody else's."""

import asyncio
import contextlib
import threading
from functools import partial
from typing import Any

import grpc
import pytest
from patience import ANSWER_S, END_S, LONGEST_S

from ctld.rpc.accounting import accounting
from ctld.rpc.explain import explain
from ctld.runtime.errors import BadRequest
from ctld.runtime.fair import QUESTIONS_MAX, FairThreads
from penstock.v1 import accounting_pb2, explain_pb2
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of

CROWD, OTHER = 54_321, 54_322


def run(story):
    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


class Gated:
    """Work that says who began, in order, and continues on command."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = threading.Semaphore(0)

    def __call__(self, name: str) -> str:
        self.begun.append(name)
        assert self.gate.acquire(timeout=ANSWER_S)
        return name


async def until(what) -> None:
    async with asyncio.timeout(ANSWER_S):
        while not what():
            await asyncio.sleep(0.005)


def test_users_take_turns_however_many_questions_one_of_them_has():
    async def story():
        threads, work = FairThreads("questions", 1), Gated()
        crowd = [asyncio.create_task(threads.ask(CROWD, work, partial(str, f"crowd{i}"))) for i in range(20)]
        await until(lambda: work.begun)
        other = asyncio.create_task(threads.ask(OTHER, work, lambda: "other"))
        await asyncio.sleep(0)  # its question is in line
        for _ in range(2):
            work.gate.release()
        assert await other == "other"
        assert work.begun[:2] == ["crowd0", "other"]
        for _ in range(19):
            work.gate.release()
        assert await asyncio.gather(*crowd) == [f"crowd{i}" for i in range(20)]

    run(story)


def test_one_user_has_not_all_threads():
    async def story():
        threads, work = FairThreads("questions", 3), Gated()
        crowd = [asyncio.create_task(threads.ask(CROWD, work, lambda: "crowd")) for _ in range(9)]
        await until(lambda: len(work.begun) == 2)
        other = asyncio.create_task(threads.ask(OTHER, work, lambda: "other"))
        await until(lambda: len(work.begun) == 3)  # at once, while the crowd's first two are worked on
        assert work.begun == ["crowd", "crowd", "other"]
        for _ in range(10):
            work.gate.release()
        await asyncio.gather(other, *crowd)

    run(story)


def test_a_user_with_too_many_questions_is_told_so_and_others_are_not():
    async def story():
        threads, work = FairThreads("questions to the planner", 1, 4), Gated()
        crowd = [asyncio.create_task(threads.ask(CROWD, work, lambda: "crowd")) for _ in range(4)]
        await until(lambda: work.begun)
        with pytest.raises(BadRequest) as refused:
            await threads.ask(CROWD, work, lambda: "one more")
        assert refused.value.code == Code.BUSY
        assert "4 questions to the planner of yours are not answered yet, the limit is 4" in refused.value.text
        other = asyncio.create_task(threads.ask(OTHER, work, lambda: "other"))
        for _ in range(5):
            work.gate.release()
        await asyncio.gather(other, *crowd)
        work.gate.release()
        assert await threads.ask(CROWD, work, lambda: "again") == "again"

    run(story)


def test_those_who_go_away_leave_the_line_and_leave_no_thread_taken():
    async def story():
        threads, work = FairThreads("questions", 1, 3), Gated()
        worked_on, waits = (asyncio.create_task(threads.ask(CROWD, work, partial(str, n))) for n in ("a", "b"))
        await until(lambda: work.begun == ["a"])
        for task in (waits, worked_on):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        other = asyncio.create_task(threads.ask(OTHER, work, lambda: "other"))
        await asyncio.sleep(0)
        assert work.begun == ["a"]  # the thread is still at it
        for _ in range(2):
            work.gate.release()
        assert await other == "other" and work.begun == ["a", "other"]
        for _ in range(3):  # all its places are free again
            work.gate.release()
        assert await asyncio.gather(*(threads.ask(CROWD, work, lambda: "c") for _ in range(3))) == ["c"] * 3

    run(story)


def test_a_question_that_cannot_be_put_harms_nobody():
    async def story():
        threads = FairThreads("questions", 1)

        def broken() -> str:
            raise LookupError("it has gone meanwhile")

        with pytest.raises(LookupError):
            await threads.ask(CROWD, str, broken)
        with pytest.raises(ValueError, match="invalid"):
            await threads.ask(CROWD, int, lambda: "x")
        assert await threads.ask(OTHER, str, lambda: 5) == "5"

    run(story)


def test_penstock_fits_of_a_crowd_delays_another_user_by_one_question(tmp_path, monkeypatch):
    work = Gated()
    monkeypatch.setattr(explain, "inquire_fits", lambda *_: "question")
    monkeypatch.setattr(explain, "find_fits", lambda name: (work(name), ()))

    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller:
            ask = explain_pb2.FitsRequest()
            crowd = [asyncio.create_task(site.call_as(CROWD, "Fits", ask)) for _ in range(QUESTIONS_MAX + 8)]
            refused: list[Any] = []
            async with asyncio.timeout(ANSWER_S):
                while len(refused) < 8:
                    refused = [task for task in crowd if task.done()]
                    await asyncio.sleep(0.01)
            for task in refused:
                error = task.exception()
                assert isinstance(error, grpc.aio.AioRpcError)
                assert (
                    error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "questions to the planner" in error.details()
                )
                assert code_of(error) is Code.BUSY
            before = len(work.begun)
            other = asyncio.create_task(site.call_as(OTHER, "Fits", ask))
            await until(lambda: controller.services.planner_queries.unanswered(OTHER))
            for _ in range(2):  # the one that is worked on, and the other's
                work.gate.release()
            await asyncio.wait_for(other, END_S)
            assert len(work.begun) <= before + 2  # the crowd's next one may have begun
            for _ in range(QUESTIONS_MAX):
                work.gate.release()
            await asyncio.gather(*crowd, return_exceptions=True)

    run(story)


def test_sacct_of_a_crowd_is_served_page_by_page_beside_others(tmp_path, monkeypatch):
    work = Gated()

    def pages(*_):
        for _page in range(3):
            work("page")
            yield []

    monkeypatch.setattr(accounting, "by_bytes", pages)

    async def story():
        site = Site(tmp_path)
        async with site.controller():
            ask = accounting_pb2.ListRecordsRequest()
            crowd = [asyncio.create_task(site.call_as(CROWD, "ListRecords", ask)) for _ in range(10)]
            await until(lambda: len(work.begun) == 1)  # one of the two threads: the other is for somebody else
            other = asyncio.create_task(site.call_as(OTHER, "ListRecords", ask))
            await until(lambda: len(work.begun) == 2)
            for _ in range(8 * 3):
                work.gate.release()
            assert len(await asyncio.wait_for(other, END_S)) == 3
            for _ in range(10 * 3):
                work.gate.release()
            assert [len(found) for found in await asyncio.gather(*crowd)] == [3] * 10

    run(story)
