"""A cache of answers with an expiry time; concurrent requests for the same answer share one lookup.

A failed answer is not kept. When the cache is full the oldest answer is dropped.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
#: How long an answer is valid.
KEPT_US: Final = 60_000_000
KEPT_MAX: Final = 10_000


class _CachedAnswer(NamedTuple, Generic[V]):
    answer: V
    until_us: int


class AnswerCache(Generic[K, V]):
    """The answers to one kind of question, by what they are about. Belongs to one event loop."""

    def __init__(self, clock_us: Callable[[], int], most: int = KEPT_MAX) -> None:
        self._clock_us = clock_us
        self._most = most
        self._kept: OrderedDict[K, _CachedAnswer[V]] = OrderedDict()
        self._asked: dict[tuple[int, K], asyncio.Task[V]] = {}

    async def get(self, for_uid: int, about: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Returns the answer. `for_uid`: the uid whose turn a question takes; no caller waits for another user's turn."""
        kept = self._kept.get(about)
        if kept is not None and kept.until_us >= self._clock_us():
            return kept.answer
        task = self._asked.get((for_uid, about))
        if task is None:
            task = self._asked[for_uid, about] = asyncio.ensure_future(_awaited(ask))
            task.add_done_callback(partial(self._end, for_uid, about))
        return await asyncio.shield(task)  # another caller may wait for it, too

    def clear(self) -> None:
        """Drops all answers."""
        self._kept.clear()

    def _end(self, for_uid: int, about: K, task: asyncio.Task[V]) -> None:
        del self._asked[for_uid, about]
        if task.cancelled() or task.exception() is not None:
            return
        self._kept.pop(about, None)
        while len(self._kept) >= self._most:
            self._kept.popitem(last=False)
        self._kept[about] = _CachedAnswer(task.result(), self._clock_us() + KEPT_US)


async def _awaited(ask: Callable[[], Awaitable[V]]) -> V:
    return await ask()
