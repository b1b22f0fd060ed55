"""Long work in an event loop, in slices: between two of them others have their turn."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

#: Work between two turns for others.
SLICE_S: Final = 0.005
#: Steps between two reads of the clock.
STEPS: Final = 64


class WorkPace:
    """The slices of one piece of work. `ready`: returns what to await before work goes on after others had their turn;
    None = nothing."""

    def __init__(self, ready: Callable[[], Awaitable[None] | None] = lambda: None) -> None:
        self._ready = ready
        self._until = time.monotonic() + SLICE_S

    async def begin(self) -> None:
        """Waits until work may begin."""
        while (waiting := self._ready()) is not None:
            await waiting
        self._until = time.monotonic() + SLICE_S

    async def pause(self) -> None:
        """Lets others have their turn, if the slice is used up."""
        if time.monotonic() > self._until:
            await asyncio.sleep(0)
            await self.begin()

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yields the items, with pauses."""
        for number, item in enumerate(items, 1):
            yield item
            if not number % STEPS:
                await self.pause()
