"""Waits that end with their caller's JSON web token: at its expiry, and at a revocation.

For calls that wait for something which then begins: a step that waits for its job's resources starts as soon as they are
free. The call that waited is authenticated again after its wait, as all calls that wait (entry.py), and refused; since its wait
has ended, nothing starts for it. Calls of others are not concerned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Who = TypeVar("Who")


class ProvenWaits(Generic[Who]):
    """The waits in progress whose callers have a token that can end."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._callers: dict[asyncio.Timeout, Who] = {}

    @contextmanager
    def bounded(self, limit: asyncio.Timeout, who: Who, ends_at_us: int) -> Iterator[None]:
        """Within it, `limit` (entered, with an end) is not later than the end of the caller's token; 0 = it has none."""
        when = limit.when()
        if not ends_at_us or when is None:
            yield
            return
        left_s = (ends_at_us - self._clock_us()) / 1_000_000
        limit.reschedule(min(when, asyncio.get_running_loop().time() + max(0.0, left_s)))
        self._callers[limit] = who
        try:
            yield
        finally:
            del self._callers[limit]

    async def end_those(self, is_over: Callable[[Who], Awaitable[bool]]) -> None:
        """Ends the waits of callers whose token is not valid any more."""
        for limit, who in list(self._callers.items()):
            if await is_over(who) and limit in self._callers and not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
