"""What is computed for several callers: used again for how long, and how much of it is kept."""

import asyncio

import pytest

from ctld.rpc.gate.scans import ScanPace, Scans
from ctld.rpc.jobs.keptanswers import REUSE_MAX_S, AnswerMoment, KeptAnswers
from ctld.runtime.errors import BadRequest
from penstock.values.refusals import Code

UID = 71_001


class Computed:
    """What takes `cost_s` to compute: how often it was."""

    def __init__(self, clock: list[float], cost_s: float = 0.0) -> None:
        self.count = 0
        self._clock, self._cost_s = clock, cost_s

    async def compute(self, pace: ScanPace) -> int:
        self.count += 1
        self._clock[0] += self._cost_s
        return self.count


@pytest.mark.parametrize(
    ("factor", "cost_s", "kept_s"), [(10.0, 0.0, 0.0), (10.0, 0.01, 0.1), (10.0, 5.0, REUSE_MAX_S), (0.0, 5.0, 0.0)]
)
def test_a_dear_answer_is_used_again_for_a_while(factor: float, cost_s: float, kept_s: float) -> None:
    async def story() -> None:
        clock = [100.0]
        computed = Computed(clock, cost_s)
        answers: KeptAnswers[int] = KeptAnswers(Scans(), 4, reuse_factor=factor, clock_s=lambda: clock[0])

        async def ask(revision: int) -> int:
            return (await answers.get(UID, "q", AnswerMoment(revision), computed.compute)).value

        assert await ask(1) == 1
        clock[0] += 1000
        assert await ask(1) == 1  # nothing was committed
        assert await ask(2) == 2
        clock[0] += kept_s * 0.99
        kept = answers.serving("q", AnswerMoment(2))
        assert kept is not None and kept.moment == AnswerMoment(2)
        assert answers.serving("q", AnswerMoment(3)) == (kept if kept_s else None)
        assert await ask(3) == (2 if kept_s else 3)
        clock[0] += kept_s * 0.02
        assert await ask(4) == (3 if kept_s else 4)

    asyncio.run(story())


def test_what_is_kept_is_bounded_by_number_and_size_and_failures_are_not_kept() -> None:
    async def story() -> None:
        clock = [0.0]
        answers: KeptAnswers[str] = KeptAnswers(Scans(), 3, 10, len)

        async def ask(question: str, text: str, revision: int = 1) -> str:
            async def compute(pace: ScanPace) -> str:
                clock[0] += 1
                return f"{text}{clock[0]:.0f}"

            return (await answers.get(UID, question, AnswerMoment(revision), compute)).value

        assert [await ask(name, name) for name in "abcd"] == ["a1", "b2", "c3", "d4"]
        assert await ask("b", "b") == "b2"  # used now: c is the next to go
        assert await ask("a", "a") == "a5"
        assert [await ask(name, name) for name in "bd"] == ["b2", "d4"]
        assert await ask("c", "c") == "c6"  # a went
        assert await ask("e", "x" * 4) == "xxxx7"
        assert [await ask("e", "x"), await ask("c", "c"), await ask("d", "d")] == ["xxxx7", "c6", "d4"]
        assert await ask("f", "x" * 8) == "xxxxxxxx8"  # 10 in all
        assert await ask("f", "y") == "xxxxxxxx8" and await ask("e", "x") == "x9"
        clock[0] = 20.0
        assert await ask("g", "x" * 20) == "x" * 20 + "21"  # larger than all that may be kept
        assert await ask("g", "y") == "y22" and await ask("g", "z", revision=2) == "z23"
        assert await ask("h", "h", revision=2) == "h24" and await ask("f", "f") == "f25"  # stale, so it went first

        async def fails(pace: ScanPace) -> str:
            raise BadRequest(Code.INVALID_VALUE, "no")

        with pytest.raises(BadRequest):
            await answers.get(UID, "x", AnswerMoment(1), fails)
        assert await ask("x", "x") == "x26" and not answers.computed

    asyncio.run(story())


def test_an_answer_that_is_made_from_a_kept_one_is_of_its_moment_and_ends_with_it() -> None:
    async def story() -> None:
        clock = [100.0]
        computed = Computed(clock, 0.05)
        answers: KeptAnswers[int] = KeptAnswers(Scans(), 4, reuse_factor=10.0, clock_s=lambda: clock[0])
        first = await answers.get(UID, "all", AnswerMoment(1), computed.compute)
        clock[0] += 0.3
        source = answers.serving("all", AnswerMoment(2))
        assert source == first and first.reuse_s == pytest.approx(0.5)
        part = await answers.get(UID, "some", AnswerMoment(2), computed.compute, source)
        assert (part.value, part.moment) == (2, AnswerMoment(1))
        assert answers.serving("some", AnswerMoment(2)) == part
        clock[0] = first.made_at_s + 0.51  # it took as long itself, and would be used again for longer
        assert answers.serving("some", AnswerMoment(2)) is None
        assert answers.serving("some", AnswerMoment(1)) == part  # nothing was committed for who asks at that moment

    asyncio.run(story())
