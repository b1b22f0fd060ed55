"""Orders of lists of jobs, kept: the ids of all rows that a window is a part of.

An order of 100,000 rows takes some 100 ms in slices. It is made from a kept one where that is less: from itself, when some
jobs have changed since, which are taken out and put in again at their places; or from a wider one, of which it has the rows
with more words: what was typed before the last keys, or the same table reversed. So neither an event nor a key
costs a look at all rows.
"""

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ctld.rpc.gate.scans import ScanPace, Scans
from ctld.rpc.jobs.jobwindows import JobOrder, is_of_the_time
from ctld.rpc.jobs.keptanswers import AnswerMoment, KeptAnswer, KeptAnswers
from ctld.rpc.jobs.listing import JobSelection
from ctld.runtime.loop import Runtime
from penstock.v1 import controller_pb2

#: Kept orders, each 4 bytes a row.
ORDERS_MAX: Final = 32
ORDER_BYTES_MAX: Final = 32 * 1024 * 1024
#: An order is used again for this many times of what it took.
REUSE_FACTOR: Final = 10.0
#: Changed jobs that are put to their places one by one: some 10 ms.
CHANGES_MAX: Final = 1_000
#: Keys of a word that are typed while an answer is on its way.
KEYS_MAX: Final = 8


class OrderKey(NamedTuple):
    """What tells orders apart. `question`: that of the list."""

    question: object
    order: str
    words: tuple[str, ...]

    def depends_on(self, moment: AnswerMoment) -> AnswerMoment:
        """Returns the part of a moment that the order is of: most have nothing to do with priorities and the plan."""
        name = self.order.removeprefix("-")
        return moment._replace(
            priorities=moment.priorities if name == "priority" else None,
            plan=moment.plan if name == "planned_start_at_us" else None,
        )

    def wider(self) -> Iterator[tuple["OrderKey", bool]]:
        """Yields orders of whose rows those of this one are a part, and whether it is their reverse. The smallest come first."""
        words = self.words
        last = words[-1] if words else ""
        for end in range(len(last) - 1, max(0, len(last) - KEYS_MAX - 1), -1):
            yield self._replace(words=(*words[:-1], last[:end])), False
        name = self.order.removeprefix("-")
        other = name if self.order.startswith("-") else f"-{name}"
        if name:
            yield self._replace(order=other), True
        for end in range(len(words) - 1, -1, -1):
            yield self._replace(words=words[:end]), False
            if name:
                yield self._replace(order=other, words=words[:end]), True


class JobOrders:
    """The orders of one controller."""

    def __init__(self, runtime: Runtime, scans: Scans) -> None:
        self._runtime = runtime
        self._kept: KeptAnswers[array[int]] = KeptAnswers(
            scans, ORDERS_MAX, ORDER_BYTES_MAX, lambda ids: ids.itemsize * len(ids), REUSE_FACTOR, keeps_stale=True
        )

    async def get(
        self,
        uid: int,
        question: object,
        selection: JobSelection,
        window: controller_pb2.JobWindow,
        moment: AnswerMoment,
    ) -> "tuple[array[int], bool]":
        """Returns the ids of the rows of a window's list, in order, and whether they are of this moment. Raises BadRequest."""
        key = OrderKey(question, window.order, tuple(word.lower() for word in window.words if word))
        moment = key.depends_on(moment)
        kept = self._find(key, selection, moment) or await self._made(uid, key, selection, moment)
        return kept.value, kept.moment == moment

    async def _made(
        self, uid: int, key: OrderKey, selection: JobSelection, moment: AnswerMoment
    ) -> "KeptAnswer[array[int]]":
        order = self._order(key)
        source, is_reversed = self._source(key, selection, moment)
        jobs = self._runtime.snapshot.jobs

        async def ordered(pace: ScanPace) -> "array[int]":
            if source is None:
                return await order.sorted(await selection.rows(self._runtime.snapshot, pace), pace)
            return await order.narrowed(source.value[::-1] if is_reversed else source.value, jobs, pace)

        return await self._kept.get(uid, key, moment, ordered, source)

    def _order(self, key: OrderKey) -> JobOrder:
        window = controller_pb2.JobWindow(order=key.order, words=key.words)
        return JobOrder(window, self._runtime.core.state, self._runtime.snapshot.forecast, self._runtime.clock_us())

    def _source(
        self, key: OrderKey, selection: JobSelection, moment: AnswerMoment
    ) -> "tuple[KeptAnswer[array[int]] | None, bool]":
        for wider, is_reversed in key.wider():
            found = self._find(wider, selection, moment)
            if found is not None:
                return found, is_reversed
        return None, False

    def _find(self, key: OrderKey, selection: JobSelection, moment: AnswerMoment) -> "KeptAnswer[array[int]] | None":
        """Returns a kept order that serves at this moment; if it can be, with what has changed since."""
        kept = self._kept.latest(key)
        if kept is None or kept.moment == moment:
            return kept
        if moment._replace(revision=kept.moment.revision) == kept.moment and not (
            selection.which.ids or is_of_the_time(controller_pb2.JobWindow(order=key.order))
        ):
            changed = self._runtime.snapshot.changed_since(kept.moment.revision)
            if changed is not None and len(changed) <= CHANGES_MAX:
                return self._kept.renew(key, moment, self._patched(self._order(key), kept.value, changed, selection))
        return self._kept.serving(key, moment)

    def _patched(self, order: JobOrder, ids: "array[int]", changed: set[int], selection: JobSelection) -> "array[int]":
        """Returns the ids with each changed job at its place, or nowhere."""
        if not changed:
            return ids
        jobs = self._runtime.snapshot.jobs
        known = np.frombuffer(ids, np.uint32)
        rest = known[~np.isin(known, np.fromiter(changed, np.uint32, len(changed)))]
        rows = order.having(selection.passing([jobs[job_id] for job_id in changed if job_id in jobs]))
        places = order.places(rest, rows, jobs)
        made = np.insert(rest, [place for place, _ in places], [job_id for _, job_id in places])
        return array("I", made.astype(np.uint32).tobytes())
