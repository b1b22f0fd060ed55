"""Limits the programs that run beside the loop at a time, and shares these slots between the users for whom they run.

Rules
    - `at_once` programs run, those of one owner at most `of_owner`: programs that take long leave slots to others.
    - Owners that wait take turns; programs of one owner run in the order of arrival.

Deliberately absent: limits on how many wait, which are the callers'.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

E = TypeVar("E")
#: Owner of programs that run for no user.
NOBODY = -1


class ProgramSlots:
    """The slots of one kind of program."""

    def __init__(self, at_once: int, of_owner: int = 0) -> None:
        """`of_owner` 0: as many as there are slots."""
        self._free = at_once
        self._of_owner = of_owner or at_once
        self._running: Counter[int] = Counter()
        self._lines: dict[int, deque[asyncio.Future[None]]] = {}  # by owner, the next turn first
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._counts: Counter[int] = Counter()

    def __len__(self) -> int:
        """Returns the number of running and waiting ones."""
        return len(self._tasks)

    def count_of(self, owner: int) -> int:
        """Returns the number of running and waiting ones of an owner."""
        return self._counts[owner]

    def start(self, work: Callable[[E], Awaitable[None]], effect: E, owner: int = NOBODY) -> None:
        """Runs `work(effect)` as soon as it has a slot."""
        task = asyncio.create_task(self._in_turn(work, effect, owner))
        self._tasks[task] = owner
        self._counts[owner] += 1
        task.add_done_callback(self._forget)

    def stop(self) -> None:
        """Cancels all work, without waiting for it."""
        for task in list(self._tasks):
            task.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        owner = self._tasks.pop(task)
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]

    async def _in_turn(self, work: Callable[[E], Awaitable[None]], effect: E, owner: int) -> None:
        await self._take(owner)
        try:
            await work(effect)
        finally:
            self._give_back(owner)

    async def _take(self, owner: int) -> None:
        if self._free and self._running[owner] < self._of_owner:
            self._occupy(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(owner)  # it was given a slot while it was cancelled
            raise

    def _occupy(self, owner: int) -> None:
        self._free -= 1
        self._running[owner] += 1

    def _give_back(self, owner: int) -> None:
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        while self._free and (following := self._next()) is not None:
            self._occupy(following)
            self._lines[following].popleft().set_result(None)
            line = self._lines.pop(following)
            if line:
                self._lines[following] = line  # behind the others

    def _next(self) -> int | None:
        """Returns the owner whose turn it is; None = no waiting owner may run one more."""
        for owner, line in list(self._lines.items()):
            while line and line[0].done():
                line.popleft()  # cancelled
            if not line:
                del self._lines[owner]
            elif self._running[owner] < self._of_owner:
                return owner
        return None
