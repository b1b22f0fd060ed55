"""Jobs that wait for a limit, indexed so that freed amounts wake the jobs that may now fit, and no others.

A limit blocks a job while `used + lacks > 0`, where `lacks` is the job's demand less what is allowed. The jobs that
wait for one counter of one book are in a `LimitQueue`, in a heap for each `need`: there are few different ones, however
many jobs there are. When the counter falls, the best of the heaps whose need fits is taken, as long as there is one; so
a job's end costs what it wakes, not what waits.

A heap has the order of priorities when jobs were added; when priorities are calculated again (`Waits.stale`), a heap is
sorted when it is next used. A job that leaves in another way stays in its heap until it reaches the top, or until most
of the heap is stale.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

#: The counter of a queue: the measure (rules.Measure) and the TRES.
What = tuple[int, str]
#: A heap with fewer entries is not compacted.
TIDY_MIN = 64


class LimitDemand(NamedTuple):
    """The amount that a job lacks (see above), and its demand."""

    lacks: int
    wants: int


class WaitEntry(NamedTuple):
    """The position of a waiting job."""

    queue: "LimitQueue"
    need: LimitDemand


class Heap:
    """Jobs of one need: (-rank, job id)."""

    __slots__ = ("entries", "generation", "jobs")

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.jobs: dict[int, int] = {}  # job id -> -rank of its valid entry
        self.generation = 0


class LimitQueue:
    """Jobs that wait for one counter."""

    __slots__ = ("due_us", "heaps", "what")

    def __init__(self, what: What) -> None:
        self.what = what
        self.heaps: dict[LimitDemand, Heap] = {}
        self.due_us = 0  # the time of its timer

    def push(self, job_id: int, need: LimitDemand, rank: int) -> WaitEntry:
        """Adds a waiting job."""
        heap = self.heaps.get(need)
        if heap is None:
            heap = self.heaps[need] = Heap()
        heap.jobs[job_id] = -rank
        heapq.heappush(heap.entries, (-rank, job_id))
        return WaitEntry(self, need)

    def leave(self, job_id: int, need: LimitDemand) -> None:
        """Removes a job that does not wait here any more."""
        heap = self.heaps[need]
        heap.jobs.pop(job_id, None)
        if not heap.jobs:
            del self.heaps[need]
        elif len(heap.entries) > TIDY_MIN and len(heap.entries) > 2 * len(heap.jobs):
            heap.entries = [(rank, job_id) for job_id, rank in heap.jobs.items()]
            heapq.heapify(heap.entries)

    def best(self, used: int, generation: int, rank_of: Callable[[int], int]) -> tuple[int, LimitDemand] | None:
        """Returns the (job id, need) of the first in rank that fits with that usage; None if none does."""
        found: tuple[tuple[int, int], LimitDemand] | None = None
        for need, heap in self.heaps.items():
            if used + need.lacks > 0:
                continue
            top = _top(heap, generation, rank_of)
            if found is None or top < found[0]:
                found = top, need
        return (found[0][1], found[1]) if found is not None else None

    def least(self) -> int | None:
        """Returns the smallest amount lacking in the queue."""
        return min((need.lacks for need in self.heaps), default=None)


def _top(heap: Heap, generation: int, rank_of: Callable[[int], int]) -> tuple[int, int]:
    """Returns the first valid entry. There is one, since a heap without jobs is dropped."""
    if heap.generation != generation:
        heap.generation = generation
        heap.jobs = {job_id: -rank_of(job_id) for job_id in heap.jobs}
        heap.entries = [(rank, job_id) for job_id, rank in heap.jobs.items()]
        heapq.heapify(heap.entries)
    entries = heap.entries
    while heap.jobs.get(entries[0][1]) != entries[0][0]:
        heapq.heappop(entries)
    return entries[0]


class LimitQueues:
    """The queues of one book."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: dict[What, LimitQueue] = {}

    def __bool__(self) -> bool:
        return bool(self.queues)

    def queue(self, what: What) -> LimitQueue:
        """Returns the queue for a counter."""
        found = self.queues.get(what)
        if found is None:
            found = self.queues[what] = LimitQueue(what)
        return found
