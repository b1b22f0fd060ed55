"""A controller that takes long, or stalls: answers that may take minutes are waited for while it answers other
questions. The loop's clock jumps to the next timer, so no test waits."""

import asyncio
import selectors
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fakerest import TOKEN, FakeRest

from penstock.errors import PenstockError, Unreachable
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply, PingReply
from penstock.v1.explain_pb2 import FitsReply
from penstock.v1.governance_pb2 import ReportReply
from penstock.values.refusals import TEXT, Code
from rest.limits import CALL_TIMEOUT_S

CURRENT, OWN = "/slurm/v0.0.46", "/penstock/v1"
#: What may take long: a plan of the queue, a search of the database, a report, and a list.
SLOW = (f"{OWN}/fits", f"{OWN}/jobs/past", f"{OWN}/usage", f"{CURRENT}/jobs")
LONG_S = 50.0


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the time that it should wait is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            self.now_s += max(timeout, 0.0)
        return ready


class _QuickLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Jumping()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now_s


class Slow:
    """A controller whose answers and pages take `answer_s` each; None: never. `ping`: what it says meanwhile."""

    def __init__(self, answer_s: float | None, ping: PingReply | PenstockError | None, pages: int = 1) -> None:
        self.pings = 0
        self._answer_s, self._ping, self._pages = answer_s, ping, pages
        self.rest = FakeRest({"Ping": self._pong, "Fits": lambda _: self._fits()})
        self.rest.client.follow = self.follow  # type: ignore[method-assign]  # pages of this test

    async def _pong(self, _: Any) -> PingReply:
        self.pings += 1
        if self._ping is None:  # as the client, in the time that it was given
            await asyncio.sleep(CALL_TIMEOUT_S / 2)
            raise Unreachable
        if isinstance(self._ping, PenstockError):
            raise self._ping
        return self._ping

    async def _late(self) -> None:
        await (asyncio.sleep(self._answer_s) if self._answer_s is not None else asyncio.Event().wait())

    async def _fits(self) -> FitsReply:
        await self._late()
        return FitsReply()

    async def follow(
        self, method: str, request: Any, timeout_s: float | None = None, *, proof: Any = None, read_as: Any = None
    ) -> AsyncIterator[Any]:
        made: dict[str, Any] = {
            "ListJobs": ListJobsReply(jobs=[JobInfo(job_id=1)]),
            "ListRecords": ListRecordsReply(records=[JobRecord(job_id=1)]),
            "Report": ReportReply(rolled_up_to_us=7),
        }
        for _ in range(self._pages):
            await self._late()
            reply = made[method]
            yield reply if read_as is None else read_as.FromString(reply.SerializeToString())

    def get(self, path: str) -> tuple[httpx.Response, float]:
        """The answer, and the loop's time then."""
        with asyncio.Runner(loop_factory=_QuickLoop) as runner:

            async def send() -> httpx.Response:
                async with self.rest.session() as session:
                    return await session.get(path, headers=TOKEN)

            return runner.run(send()), runner.get_loop().time()


@pytest.mark.parametrize("path", SLOW)
@pytest.mark.parametrize("ping", [PingReply(), PenstockError(Code.RATE_LIMITED, TEXT[Code.RATE_LIMITED])])
def test_what_takes_long_is_waited_for_while_the_controller_answers(path: str, ping: Any) -> None:
    """A refusal is an answer, too."""
    slow = Slow(LONG_S, ping, 3)
    reply, at_s = slow.get(path)
    assert (reply.status_code, reply.json()["errors"]) == (200, [])
    assert at_s == pytest.approx(LONG_S * (1 if path.endswith("fits") else 3)) and slow.pings >= LONG_S // 10


@pytest.mark.parametrize("path", SLOW)
def test_a_controller_that_stands_still_is_said_to(path: str) -> None:
    reply, at_s = Slow(None, None).get(path)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert at_s == pytest.approx(CALL_TIMEOUT_S)


@pytest.mark.parametrize("path", SLOW)
def test_a_controller_that_is_quick_is_not_asked(path: str) -> None:
    quick = Slow(0.0, None)
    reply, at_s = quick.get(path)
    assert (reply.status_code, at_s, quick.pings) == (200, 0.0, 0)
