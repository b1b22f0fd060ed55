"""Answers of long lists that many ask for: computed once for all who wait, and kept for a while.

A computation belongs to its callers: it is cancelled with the last of them, so nobody leaves work behind by asking and
going away. How many one user has at a time, and at which pace, is decided by gate/scans.py.

Answers are kept until something is committed; what was dear may be used again for a while after that (`reuse_factor`), so
that many tables of a long queue cost a bounded part of the loop.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from ctld.rpc.gate.scans import Scan, ScanPace, Scans

#: The longest time for which an answer is used again, whatever it took.
REUSE_MAX_S: Final = 2.0

T = TypeVar("T")
Compute = Callable[[ScanPace], Awaitable[T]]


class AnswerMoment(NamedTuple):
    """What tells apart the answers of two moments: the number of the last commit, the priorities, the plan."""

    revision: int
    priorities: object = None
    plan: object = None


class KeptAnswer(NamedTuple, Generic[T]):
    """An answer. `moment`: of what it is; times are of the loop's clock."""

    value: T
    size: int
    moment: AnswerMoment
    made_at_s: float
    reuse_s: float

    def serves(self, moment: AnswerMoment, now_s: float) -> bool:
        """Whether it may be used at this moment."""
        return self.moment == moment or now_s - self.made_at_s < self.reuse_s


class _Computation(NamedTuple, Generic[T]):
    """What is computed for all who wait for it."""

    scan: Scan
    task: asyncio.Task[KeptAnswer[T]]


class KeptAnswers(Generic[T]):
    """The answers to one kind of question. Belongs to one event loop.

    `count_max`, and `size_max` in the unit of `size_of`: of what is kept. `reuse_factor`: an answer is used again for this
    many times of what it took, and no longer than REUSE_MAX_S; 0 = at its own moment alone. `keeps_stale`: those that serve no
    more are kept as long as there is room, for who can renew them.
    """

    def __init__(
        self,
        scans: Scans,
        count_max: int,
        size_max: int = 0,
        size_of: Callable[[T], int] = lambda value: 0,
        reuse_factor: float = 0.0,
        clock_s: Callable[[], float] = time.monotonic,
        keeps_stale: bool = False,
    ) -> None:
        self._scans = scans
        self._count_max = count_max
        self._size_max = size_max
        self._size_of = size_of
        self._reuse_factor = reuse_factor
        self._clock_s = clock_s
        self._keeps_stale = keeps_stale
        self._size = 0
        self._kept: OrderedDict[Hashable, KeptAnswer[T]] = OrderedDict()  # the latest used is the last
        self._computed: dict[Hashable, _Computation[T]] = {}  # now, by question and moment

    @property
    def computed(self) -> int:
        """How many answers are computed now."""
        return len(self._computed)

    def latest(self, question: Hashable) -> KeptAnswer[T] | None:
        """Returns the kept answer, of whatever moment."""
        kept = self._kept.get(question)
        if kept is not None:
            self._kept.move_to_end(question)
        return kept

    def renew(self, question: Hashable, moment: AnswerMoment, value: T) -> KeptAnswer[T]:
        """Keeps an answer that was made from the kept one, which is of this moment now."""
        answer = KeptAnswer(value, self._size_of(value), moment, self._clock_s(), self._kept[question].reuse_s)
        self._keep(question, answer)
        return answer

    def serving(self, question: Hashable, moment: AnswerMoment) -> KeptAnswer[T] | None:
        """Returns the kept answer, if there is one that may be used at this moment."""
        kept = self._kept.get(question)
        return kept if kept is not None and kept.serves(moment, self._clock_s()) else None

    async def get(
        self,
        uid: int,
        question: Hashable,
        moment: AnswerMoment,
        compute: Compute[T],
        source: KeptAnswer[T] | None = None,
    ) -> KeptAnswer[T]:
        """Returns what `compute` does, or has. `question`: what tells answers apart. `source`: the answer that it is computed
        from, of whose moment it then is, and which it outlives by nothing."""
        kept = self.serving(question, moment)
        if kept is not None:
            self._kept.move_to_end(question)
            return kept
        key = question, None if self._reuse_factor else moment
        computation = self._computed.get(key)
        if computation is None:
            scan = Scan()
            task = asyncio.ensure_future(self._compute(scan, question, moment, compute, source))
            computation = self._computed[key] = _Computation(scan, task)
            task.add_done_callback(lambda done: self._end(key, computation))
        self._scans.join(computation.scan, uid)
        try:
            return await asyncio.shield(computation.task)
        finally:
            self._scans.leave(computation.scan, uid)
            if not computation.scan.users and not computation.task.done():
                self._drop(key, computation)  # nobody joins it any more
                computation.task.cancel()

    async def _compute(
        self,
        scan: Scan,
        question: Hashable,
        moment: AnswerMoment,
        compute: Compute[T],
        source: KeptAnswer[T] | None,
    ) -> KeptAnswer[T]:
        async with self._scans.slices(scan) as pace:
            begin_s = self._clock_s()
            value = await compute(pace)
        now_s = self._clock_s()
        size = self._size_of(value)
        if source is None:
            reuse_s = min(REUSE_MAX_S, (now_s - begin_s) * self._reuse_factor)
            answer = KeptAnswer(value, size, moment, now_s, reuse_s)
        else:
            answer = KeptAnswer(value, size, source.moment, source.made_at_s, source.reuse_s)
        self._keep(question, answer)
        return answer

    def _end(self, key: Hashable, computation: _Computation[T]) -> None:
        self._scans.close(computation.scan)
        self._drop(key, computation)
        if not computation.task.cancelled():
            computation.task.exception()  # its callers get it, too, if there are any left

    def _drop(self, key: Hashable, computation: _Computation[T]) -> None:
        if self._computed.get(key) is computation:
            del self._computed[key]

    def _keep(self, question: Hashable, answer: KeptAnswer[T]) -> None:
        """Keeps it instead of those that serve no more, and of those that were used longest ago."""
        stale = [
            other
            for other, one in self._kept.items()
            if other == question
            or (
                not self._keeps_stale
                and one.moment.revision != answer.moment.revision
                and answer.made_at_s - one.made_at_s >= one.reuse_s
            )
        ]
        for other in stale:
            self._size -= self._kept.pop(other).size
        if answer.size > self._size_max:
            return
        self._kept[question] = answer
        self._size += answer.size
        while len(self._kept) > self._count_max or self._size > self._size_max:
            _, gone = self._kept.popitem(last=False)
            self._size -= gone.size
