"""Questions to the planner that somebody waits for: why, fits, --test-only.

What a question needs is copied on the loop, some milliseconds of work; the planner is asked in a thread of its own, so
that neither the loop nor the scheduler's passes wait. One question is worked on at a time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from ctld.rpc.refusals import BadRequest
from penstock.values.refusals import TEXT, Code

Q = TypeVar("Q")
A = TypeVar("A")
#: Questions that may wait for the thread; each takes up to seconds.
QUEUE_MAX: Final = 32


class Thinker:
    """The thread and its queue."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "thinker")
        self._waiting = 0
        self._turn = asyncio.Lock()

    async def ask(self, work: Callable[[Q], A], take: Callable[[], Q]) -> A:
        """`work` in the thread, on what `take` copies on the loop when it is its turn. Raises BadRequest when too many wait."""
        if self._waiting >= QUEUE_MAX:
            raise BadRequest(Code.BUSY, f"{TEXT[Code.BUSY]}: {QUEUE_MAX} questions to the planner are waiting")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.get_running_loop().run_in_executor(self._thread, work, take())
        finally:
            self._waiting -= 1
