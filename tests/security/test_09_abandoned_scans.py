"""Item 9: lists of all jobs that are asked for and given up, again and again, and many at once: nothing is computed for
callers who have gone, memory holds the rows of some, and another user's list comes in its turn."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from patience import ANSWER_S

from ctld.rpc.gate.scans import SCANS_MAX, ScanPace, Scans
from ctld.rpc.gate.turnshare import ALL_NS, USER_NS, TurnShare
from ctld.rpc.jobs import listing
from ctld.rpc.jobs.keptanswers import AnswerMoment, KeptAnswers
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import Site

SOMEBODY, OTHER = 54_321, 54_322
CALLS = 12
#: Each form of the list (ctld/rpc/jobs/joblists.py).
FORMS: dict[str, dict[str, Any]] = {
    "messages": {},
    "columns": {"columns": ["job_id"]},
    "window": {"window": c.JobWindow(count=1)},
    "counts": {"counts": True},
}


async def until(what: Any) -> None:
    async with asyncio.timeout(ANSWER_S):
        while not what():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("form", FORMS)
def test_lists_that_were_given_up_are_computed_no_further(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    scans = Counter[str]()

    async def endless(*args: Any) -> list[Any]:
        scans["begun"] += 1
        scans["now"] += 1
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            scans["now"] -= 1

    async def ask(client: Any, number: int) -> None:
        request = c.ListJobsRequest(filter=c.JobFilter(names=[f"job{number}"]), **FORMS[form])
        async for _ in client.stream("ListJobs", request):
            pass

    async def story() -> None:
        async with site.controller(), site.client() as client:
            with monkeypatch.context() as patched:
                patched.setattr(listing, "select_rows", endless)
                calls = [asyncio.create_task(ask(client, number)) for number in range(CALLS)]
                await until(lambda: scans["now"] == SCANS_MAX)
                for begun in range(SCANS_MAX, CALLS):
                    calls[begun - SCANS_MAX].cancel()
                    await until(lambda: scans["begun"] == begun + 1)
                    assert scans["now"] <= SCANS_MAX
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
                await until(lambda: not scans["now"])
            await ask(client, 0)  # all places are free again

    asyncio.run(story())


def test_200_calls_that_are_given_up_at_once_leave_nothing() -> None:
    async def story() -> None:
        scans = Scans()
        answers: KeptAnswers[int] = KeptAnswers(scans, 4)
        running = Counter[str]()

        async def slow(pace: ScanPace) -> int:
            running["now"] += 1
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                running["now"] -= 1

        async def answer(pace: ScanPace) -> int:
            return 7

        for turns in range(200):
            call = asyncio.create_task(answers.get(SOMEBODY, turns, AnswerMoment(1), slow))
            for _ in range(turns % 4):
                await asyncio.sleep(0)
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert not running["now"] and not answers.computed
        asked = [answers.get(SOMEBODY, number, AnswerMoment(2), answer) for number in range(SCANS_MAX * 3)]
        assert {answer.value for answer in await asyncio.gather(*asked)} == {7}

    asyncio.run(story())


def test_an_answer_for_several_is_computed_for_those_who_stay() -> None:
    async def story() -> None:
        answers: KeptAnswers[int] = KeptAnswers(Scans(), 4)
        gate = asyncio.Event()
        count = Counter[str]()

        async def compute(pace: ScanPace) -> int:
            count["begun"] += 1
            await gate.wait()
            return count["begun"]

        first, second = (
            asyncio.create_task(answers.get(uid, "q", AnswerMoment(1), compute)) for uid in (SOMEBODY, OTHER)
        )
        await until(lambda: count["begun"])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        gate.set()
        assert (await second).value == 1
        gate.clear()
        alone = asyncio.create_task(answers.get(SOMEBODY, "q", AnswerMoment(2), compute))
        await until(lambda: count["begun"] == 2)
        alone.cancel()
        after = asyncio.create_task(answers.get(OTHER, "q", AnswerMoment(2), compute))  # before the first has ended
        gate.set()
        assert (await after).value == 3

    asyncio.run(story())


def test_who_asks_what_another_has_asked_does_not_wait_for_the_others_scans() -> None:
    """Somebody has many scans in progress and in line; the last of them is what the other user asks, too."""

    async def story() -> None:
        now_ns = [0]
        scans = Scans(TurnShare(lambda: now_ns[0]))
        answers: KeptAnswers[int] = KeptAnswers(scans, 4)
        slices = Counter[int]()

        async def ask(uid: int, number: int) -> None:
            async def compute(pace: ScanPace) -> int:
                for _ in range(10):
                    now_ns[0] += USER_NS
                    slices[number] += 1
                    await pace.pause()
                return number

            await answers.get(uid, number, AnswerMoment(1), compute)

        crowd = [asyncio.create_task(ask(SOMEBODY, number)) for number in range(30)]
        while sum(slices.values()) < SCANS_MAX:
            await asyncio.sleep(0)
        before = sum(slices.values())
        assert not slices[29]
        await ask(OTHER, 29)
        assert slices[29] == 10
        assert sum(slices.values()) - before <= 10 + 2 * 10  # one or two beside each of its slices
        await asyncio.gather(*crowd)
        assert set(slices.values()) == {10}

    asyncio.run(story())


def test_scans_of_a_crowd_take_turns_with_one_of_another_user() -> None:
    """Each slice takes a user's part of a turn of the loop. Of the crowd some hold rows, and one has a slice in a turn."""

    async def story() -> None:
        now_ns = [0]
        scans = Scans(TurnShare(lambda: now_ns[0]))
        slices = Counter[int]()
        holding, most = Counter[int](), Counter[int]()

        async def scan(uid: int) -> None:
            async with scans.one(uid) as pace:
                holding[uid] += 1
                most[uid] = max(most[uid], holding[uid])
                try:
                    for _ in range(10):
                        now_ns[0] += USER_NS
                        slices[uid] += 1
                        await pace.pause()
                finally:
                    holding[uid] -= 1

        crowd = [asyncio.create_task(scan(SOMEBODY)) for _ in range(30)]
        await asyncio.sleep(0)
        await scan(OTHER)
        assert slices[OTHER] == 10 and slices[SOMEBODY] <= ALL_NS // USER_NS + 1 + 2 * 10
        crowd[0].cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        assert 290 <= slices[SOMEBODY] <= 300 and most[SOMEBODY] == SCANS_MAX
        await asyncio.wait_for(scan(SOMEBODY), ANSWER_S)

    asyncio.run(story())
