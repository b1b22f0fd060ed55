"""Shares a turn of the loop between users: a user's calls end their part of it after some time, or bytes of replies.

Many calls that arrive together are all answered in one turn of the loop, if none of them has to wait for anything: 64
listings of megabytes are a second in which no other user is served. So a call that comes when its user has used their
share, or all have used the turn, waits in its user's line: one of each line is served in a turn, and each turn begins
with another user.

Not bounded is one call by itself: its work is bounded by its request (bounds.py). Belongs to one event loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

#: The share of one user, and of all, in one turn.
USER_NS: Final = 10_000_000
ALL_NS: Final = 25_000_000
#: A reply of a MiB counts as a user's whole share, however fast it was made: it has to be sent, too.
NS_PER_BYTE: Final = 10


class TurnMark(NamedTuple):
    """The time at which a call's work began."""

    turn: int
    at_ns: int


class TurnShare:
    """The use of the present turn."""

    def __init__(
        self,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        rest: Callable[[Callable[[], None]], None] = lambda then: then(),
    ) -> None:
        """`rest`: calls back when a turn may end in which a user's share was used up."""
        self._clock_ns = clock_ns
        self._rest = rest
        self._turn = 0
        self._used: dict[int, int] = {}  # ns, by uid
        self._all = 0
        self._lines: dict[int, deque[asyncio.Future[None]]] = {}  # by uid
        self._ends = False  # the end of the turn is scheduled

    def must_wait(self, uid: int) -> bool:
        """Whether a new call of this user has to wait."""
        return uid in self._lines or self._is_spent(uid)

    def waiting(self, uid: int) -> int:
        """How many calls of this user wait."""
        return len(self._lines.get(uid, ()))

    async def wait(self, uid: int) -> None:
        """Waits for the user's turn, in the order of arrival."""
        loop = asyncio.get_running_loop()
        woken = False
        while True:
            line = self._lines.setdefault(uid, deque())
            future: asyncio.Future[None] = loop.create_future()
            (line.appendleft if woken else line.append)(future)
            self._end_soon()
            await future
            if not self._is_spent(uid):
                return
            woken = True

    def mark(self) -> TurnMark:
        """Returns the time at which work begins."""
        return TurnMark(self._turn, self._clock_ns())

    def charge(self, uid: int, mark: TurnMark, reply_bytes: int) -> None:
        """Counts the work of a call. Of one that has waited for something, only the reply counts."""
        took = self._clock_ns() - mark.at_ns if mark.turn == self._turn else 0
        used = took + reply_bytes * NS_PER_BYTE
        self._used[uid] = self._used.get(uid, 0) + used
        self._all += used
        self._end_soon()

    def _is_spent(self, uid: int) -> bool:
        return self._all >= ALL_NS or self._used.get(uid, 0) >= USER_NS

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            asyncio.get_running_loop().call_soon(self._end_now_or_later)

    def _end_now_or_later(self) -> None:
        if self._all >= USER_NS:
            self._rest(self._end)
        else:
            self._end()

    def _end(self) -> None:
        """Begins the next turn, with the line that has waited longest."""
        self._turn += 1
        self._used.clear()
        self._all = 0
        self._ends = False
        for place, (uid, line) in enumerate(tuple(self._lines.items())):
            while line:
                future = line.popleft()
                if not future.done():  # its caller has not left
                    future.set_result(None)
                    break
            if not place or not line:
                del self._lines[uid]
            if line and not place:
                self._lines[uid] = line
        if self._lines:
            self._end_soon()
