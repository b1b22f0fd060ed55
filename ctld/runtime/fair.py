"""Shares threads fairly between users whose queries take up to seconds.

Rules
    - Each user has a queue of their own, and the next turn is for the user served least recently: a single query waits
      for at most one query of each other user, however many these have queued.
    - Where there are several threads, one user has at most all but one of them, so a long report leaves room.
    - A user has at most QUESTIONS_MAX queries that wait or run; the next one is refused.
    - A query that is read in pages takes several turns: between two pages other users have theirs.
    - When a caller disconnects, its query leaves the queue. Running work continues to its end, and its thread counts
      as busy until then.

Data of the core that a query needs are copied on the loop (`take`) when its turn comes, some milliseconds of work; the
thread works on the copy. Deliberately absent: priorities, and deadlines (they are the caller's).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from ctld.runtime.errors import BadRequest
from penstock.threads import started_pool
from penstock.values.refusals import TEXT, Code

Q = TypeVar("Q")
A = TypeVar("A")
#: Queries of one user that wait or run, of each kind. A user with a few scripts has some.
QUESTIONS_MAX: Final = 32


class FairThreads:
    """Threads for queries of one kind, shared fairly. Belongs to one event loop."""

    def __init__(self, what: str, threads: int, questions_max: int = QUESTIONS_MAX, share: int = 0) -> None:
        """what: the name of the queries in a refusal, and of the threads. `share`: the most of them that one user has; 0 =
        all but one. With 1, a user's queries keep their order."""
        self._what = what
        self._questions_max = questions_max
        self._pool = started_pool(threads, what.replace(" ", "-"))
        self._free = threads
        self._share = share or max(1, threads - 1)
        self._asked: Counter[int] = Counter()  # questions, by uid
        self._working: Counter[int] = Counter()  # threads, by uid
        self._queues: dict[int, deque[asyncio.Future[None]]] = {}  # by uid
        self._turns = 0
        self._served: dict[int, int] = {}  # by uid with queries: the number of the last turn

    @contextmanager
    def question(self, uid: int) -> Iterator[None]:
        """Admits a query until it is answered completely. Raises BadRequest when the user has too many."""
        if self._asked[uid] >= self._questions_max:
            text = (
                f"{TEXT[Code.BUSY]}: {self._asked[uid]} {self._what} of yours are not answered yet, the limit is "
                f"{self._questions_max}; ask again when one of them is"
            )
            raise BadRequest(Code.BUSY, text)
        self._asked[uid] += 1
        try:
            yield
        finally:
            _less(self._asked, uid)
            if uid not in self._asked:
                self._served.pop(uid, None)

    def unanswered(self, uid: int) -> int:
        """How many questions of this user are not answered in full."""
        return self._asked[uid]

    async def ask(self, uid: int, work: Callable[[Q], A], take: Callable[[], Q]) -> A:
        """Runs a query with one answer: `work` in a thread, on what `take` copies. Raises BadRequest, and their errors."""
        with self.question(uid):
            return await self.turn(uid, work, take)

    async def turn(self, uid: int, work: Callable[[Q], A], take: Callable[[], Q]) -> A:
        """Runs one part of an admitted query."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(uid, deque()).append(turn)
        self._start()
        try:
            await turn
            taken = take()
        except BaseException:
            if turn.done() and not turn.cancelled():  # a thread was assigned to it, and is not used
                self._give_back(uid)
            raise
        working = loop.run_in_executor(self._pool, work, taken)
        working.add_done_callback(lambda done: self._end(uid, done))
        return await asyncio.shield(working)

    def _start(self) -> None:
        """Assigns free threads to the next users."""
        while self._free:
            waiting = [uid for uid in self._queues if self._working[uid] < self._share]
            if not waiting:
                return
            uid = min(waiting, key=lambda uid: self._served.get(uid, 0))
            turn = self._queues[uid].popleft()
            if not self._queues[uid]:
                del self._queues[uid]
            if not turn.done():
                self._turns += 1
                self._served[uid] = self._turns
                turn.set_result(None)
                self._free -= 1
                self._working[uid] += 1

    def _end(self, uid: int, done: asyncio.Future[A]) -> None:
        done.exception()  # its caller gets it too, if it still waits
        self._give_back(uid)

    def _give_back(self, uid: int) -> None:
        self._free += 1
        _less(self._working, uid)
        self._start()


def _less(counts: Counter[int], uid: int) -> None:
    counts[uid] -= 1
    if not counts[uid]:
        del counts[uid]
