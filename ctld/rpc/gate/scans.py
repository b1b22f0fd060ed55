"""Scans of all jobs: how many a user has at a time, and how they share the loop's turns.

A scan of 100,000 rows takes from 10 ms to some 300 ms, in slices. Of one user's scans SCANS_MAX hold lists of rows, the
others wait in the order of arrival. Of these one has a slice in a turn of the loop, and of all users' some (turnshare.py).
So others wait for two or three slices between two of theirs, and memory does not grow, however many scans a user begins.

A scan may serve several users (keptanswers.py). It goes on at the pace of the one whose turn comes first, so that nobody
waits for the other scans of those who have asked the same.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from ctld.rpc.gate.turnshare import TurnMark, TurnShare

#: Scans of one user that hold rows. They share one thread: more of them would end no sooner.
SCANS_MAX: Final = 4
#: After a turn with a long slice the loop serves everything else until it has nothing to do, for REST_MAX_S at most: gRPC
#: shows one new call in an iteration of the loop, so behind a crowd of calls each slice would be one call's delay.
REST_MAX_S: Final = 0.02
LOOK_S: Final = 0.0005
#: CPU time of the loop's thread between two looks, above which it was busy.
BUSY_NS: Final = 200_000


def rest(then: Callable[[], None]) -> None:
    """Calls back when the loop has served others."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + REST_MAX_S

    def look(used_ns: int) -> None:
        now_ns = time.thread_time_ns()
        if now_ns - used_ns < BUSY_NS or loop.time() >= until_s:
            then()
        else:
            loop.call_later(LOOK_S, look, now_ns)

    loop.call_soon(look, time.thread_time_ns())


class ScanPace:
    """The slices of one scan. `uids`: the users who wait for it, at present."""

    def __init__(self, share: TurnShare, uids: Collection[int]) -> None:
        self._share = share
        self._uids = uids
        self._uid = next(iter(uids))
        self._mark: TurnMark | None = None

    async def begin(self) -> None:
        """Begins a slice, in the user's part of a turn."""
        await self._wait()
        self._mark = self._share.mark()

    def end(self) -> None:
        """Ends a slice."""
        if self._mark is not None:
            self._share.charge(self._uid, self._mark, 0)
            self._mark = None

    async def pause(self) -> None:
        """Ends a slice, and begins the next one in a later turn."""
        self.end()
        if not await self._wait():
            await asyncio.sleep(0)
        self._mark = self._share.mark()

    async def _wait(self) -> bool:
        """Waits for a turn, if need be. Returns whether it had to."""
        self._uid = min(self._uids, key=self._line_of, default=self._uid)
        if not self._share.must_wait(self._uid):
            return False
        await self._share.wait(self._uid)
        return True

    def _line_of(self, uid: int) -> tuple[bool, int]:
        return self._share.must_wait(uid), self._share.waiting(uid)


class Scan:
    """A scan, and those who wait for it. `users`: their calls, by uid; `taken_from`: whose place it has, None = it waits."""

    def __init__(self) -> None:
        self.users: Counter[int] = Counter()
        self.taken_from: int | None = None
        self.is_closed = False
        self.admitted = asyncio.Event()


class Scans:
    """The scans of one controller. Belongs to one event loop."""

    def __init__(self, share: TurnShare | None = None) -> None:
        self._share = share or TurnShare(rest=rest)
        self._running: Counter[int] = Counter()  # by uid
        self._lines: dict[int, deque[Scan]] = {}  # by uid; some have begun in another user's place, or are closed

    @asynccontextmanager
    async def one(self, uid: int) -> AsyncIterator[ScanPace]:
        """Waits until this user may begin a scan, and yields its pace."""
        scan = Scan()
        self.join(scan, uid)
        try:
            async with self.slices(scan) as pace:
                yield pace
        finally:
            self.close(scan)

    @asynccontextmanager
    async def slices(self, scan: Scan) -> AsyncIterator[ScanPace]:
        """Waits until a scan that users have joined may begin, and yields its pace."""
        await scan.admitted.wait()
        pace = ScanPace(self._share, scan.users)
        await pace.begin()
        try:
            yield pace
        finally:
            pace.end()

    def pace(self, uid: int) -> ScanPace:
        """Returns the pace of work that its request bounds, such as a list of ids."""
        return ScanPace(self._share, (uid,))

    def join(self, scan: Scan, uid: int) -> None:
        """Counts a call of this user among those who wait for the scan."""
        scan.users[uid] += 1
        if scan.taken_from is not None:
            return
        if self._running[uid] < SCANS_MAX:
            self._admit(scan, uid)
        elif scan.users[uid] == 1:
            self._lines.setdefault(uid, deque()).append(scan)

    def leave(self, scan: Scan, uid: int) -> None:
        """Ends what `join` has counted."""
        scan.users[uid] -= 1
        if not scan.users[uid]:
            del scan.users[uid]

    def close(self, scan: Scan) -> None:
        """Ends a scan: the next one has its place."""
        if scan.is_closed:
            return
        scan.is_closed = True
        uid = scan.taken_from
        if uid is None:
            return
        self._running[uid] -= 1
        line = self._lines.get(uid, deque())
        while line and self._running[uid] < SCANS_MAX:
            following = line.popleft()
            if not following.is_closed and following.taken_from is None and uid in following.users:
                self._admit(following, uid)
        if not line:
            self._lines.pop(uid, None)
        if not self._running[uid]:
            del self._running[uid]

    def _admit(self, scan: Scan, uid: int) -> None:
        self._running[uid] += 1
        scan.taken_from = uid
        scan.admitted.set()
