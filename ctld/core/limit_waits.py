"""Jobs that wait for a limit, so that what is freed wakes those that may now fit, and no others.

A limit holds a job back while `used + lacks > 0`, where `lacks` is what the job wants less what is allowed. The jobs that
wait for one counter of one book stand in a `Queue`, in a heap for each `need`: there are few different ones, however many
jobs there are. When the counter falls, the best of the heaps whose need fits is taken, as long as there is one; so a job's
end costs what it wakes, not what waits.

A heap is in the order of priorities as they were when jobs came in; when priorities are calculated anew
(`Waits.stale`), a heap is put in order when it is next used. A job that leaves in another way stays in its heap until it
comes up, or until most of a heap is gone.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

#: What a queue is for: the measure (limits.Measure) and the TRES.
What = tuple[int, str]
#: A heap with fewer entries is not tidied.
TIDY_MIN = 64


class Need(NamedTuple):
    """What a job lacks (see above), and what it wants."""

    lacks: int
    wants: int


class Place(NamedTuple):
    """Where a job waits."""

    queue: "Queue"
    need: Need


class Heap:
    """Jobs of one need: (-rank, job id)."""

    __slots__ = ("entries", "generation", "jobs")

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.jobs: dict[int, int] = {}  # job id -> -rank of its entry that counts
        self.generation = 0


class Queue:
    """Jobs that wait for one counter."""

    __slots__ = ("due_us", "heaps", "what")

    def __init__(self, what: What) -> None:
        self.what = what
        self.heaps: dict[Need, Heap] = {}
        self.due_us = 0  # for when a timer was set

    def push(self, job_id: int, need: Need, rank: int) -> Place:
        """Let a job wait."""
        heap = self.heaps.get(need)
        if heap is None:
            heap = self.heaps[need] = Heap()
        heap.jobs[job_id] = -rank
        heapq.heappush(heap.entries, (-rank, job_id))
        return Place(self, need)

    def leave(self, job_id: int, need: Need) -> None:
        """A job does not wait here any more."""
        heap = self.heaps[need]
        heap.jobs.pop(job_id, None)
        if not heap.jobs:
            del self.heaps[need]
        elif len(heap.entries) > TIDY_MIN and len(heap.entries) > 2 * len(heap.jobs):
            heap.entries = [(rank, job_id) for job_id, rank in heap.jobs.items()]
            heapq.heapify(heap.entries)

    def best(self, used: int, generation: int, rank_of: Callable[[int], int]) -> tuple[int, Need] | None:
        """(job id, need) of the first in rank that fits when so much is used; None if none does."""
        found: tuple[tuple[int, int], Need] | None = None
        for need, heap in self.heaps.items():
            if used + need.lacks > 0:
                continue
            top = _top(heap, generation, rank_of)
            if found is None or top < found[0]:
                found = top, need
        return (found[0][1], found[1]) if found is not None else None

    def least(self) -> int | None:
        """What the one lacks that fits first."""
        return min((need.lacks for need in self.heaps), default=None)


def _top(heap: Heap, generation: int, rank_of: Callable[[int], int]) -> tuple[int, int]:
    """The first entry that counts. There is one, since a heap without jobs is dropped."""
    if heap.generation != generation:
        heap.generation = generation
        heap.jobs = {job_id: -rank_of(job_id) for job_id in heap.jobs}
        heap.entries = [(rank, job_id) for job_id, rank in heap.jobs.items()]
        heapq.heapify(heap.entries)
    entries = heap.entries
    while heap.jobs.get(entries[0][1]) != entries[0][0]:
        heapq.heappop(entries)
    return entries[0]


class Waits:
    """The queues of one book."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: dict[What, Queue] = {}

    def __bool__(self) -> bool:
        return bool(self.queues)

    def queue(self, what: What) -> Queue:
        """The queue for a counter."""
        found = self.queues.get(what)
        if found is None:
            found = self.queues[what] = Queue(what)
        return found
