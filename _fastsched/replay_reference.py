"""The replay as its oracle, written for reading: lists, sums and sorts, with everything recomputed each time.

Rules
1. Jobs are numbered in the order of their submission; that order breaks all ties.
2. A job that starts at t holds its processors until its end. The scheduler expects that end at t + estimate. At that time
   the job counts as gone, even if in the order of events its end comes a little later (same second).
3. An estimate that is outlived becomes the first prediction plus the next step of CORRECTIONS_S; at most the request, unless
   that is outlived too. This alone is no reason for a pass.
4. Mode EVENT, at equal times: outlived estimates, submissions in order, ends in start order; one pass after each submission
   and each end. Mode BATCH: ends in start order, outlived estimates, submissions, then one pass.
5. A pass starts heads as long as they fit. EASY then gives the first that does not fit a reservation at the earliest
   expected time and starts those that fit now and either end before the reservation or fit beside the head then.
6. CONSERVATIVE gives each job a reservation when it is submitted, at the earliest time at which it fits for its whole
   estimate. When a job ends, waiting jobs are placed again one by one, in order, each with its own reservation lifted.
7. Predictors see a user's jobs in the order in which they end.

The columns and numbers are in replay_contract.py; replay.pyx explains how the compiled form is fast.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _fastsched import replay_contract as words
from _fastsched.replay_contract import CORRECTIONS_S, ReplayPolicy


def replay(
    submit_s: NDArray[np.int64],
    run_s: NDArray[np.int64],
    estimate_s: NDArray[np.int64],
    procs: NDArray[np.int32],
    user: NDArray[np.int32],
    processors: int,
    policy: ReplayPolicy,
    mode: int,
) -> NDArray[np.int64]:
    """Returns when each job starts, in seconds as `submit_s`, which must not decrease.

    `estimate_s` is the request, or another estimate for the scheduler; `user` numbers the users from 0. Raises ValueError for
    input that no replay can run (words.refuse).
    """
    words.refuse(submit_s, run_s, estimate_s, procs, user, processors, policy, mode)
    kind = _Conservative if policy.backfill == words.CONSERVATIVE else _Queue
    columns = [column.tolist() for column in (submit_s, run_s, estimate_s, procs, user)]
    world = kind(columns, processors, policy)
    _LOOPS[mode](world)
    return np.array(world.start_s, dtype=np.int64)


class Ended(NamedTuple):
    """The history of an ended job."""

    request_s: int
    procs: int
    run_s: int


class _World:
    """Jobs, running jobs with their ends, and expected ends."""

    def __init__(self, columns: list[list[int]], processors: int, policy: ReplayPolicy) -> None:
        self.submit_s, self.run_s, self.request_s, self.procs, self.user = columns
        self.processors = processors
        self.policy = policy
        self.rank_s = list(self.request_s)  # the estimate at submission, by which jobs are ordered
        self.predicted_s = list(self.request_s)  # the estimate by which reservations are made
        self.estimate_s = list(self.request_s)  # the same, corrected
        self.start_s = [-1] * len(self.submit_s)
        self.waiting: list[int] = []
        self.expected: dict[int, int] = {}  # running job -> its expected end
        self.corrected = [0] * len(self.submit_s)  # how often its estimate grew
        self.ends: list[tuple[int, int, int]] = []  # (time, number of the start, job)
        self.outlived: list[tuple[int, int, int]] = []  # the same for estimates that the job will outlive
        self.starts = 0
        self.ended: dict[int, list[Ended]] = {}  # user -> those that have ended, latest last

    def used(self, at_s: int) -> int:
        """Returns the number of processors that are expected to be in use at a time."""
        return sum(self.procs[job] for job, end_s in self.expected.items() if end_s > at_s)

    def start(self, job: int, now: int) -> None:
        self.waiting.remove(job)
        self.start_s[job] = now
        self.starts += 1
        heapq.heappush(self.ends, (now + self.run_s[job], self.starts, job))
        self.expect(job, self.starts)

    def expect(self, job: int, number: int) -> None:
        """Starts the job, which is expected to end by its present estimate."""
        end_s = self.start_s[job] + self.estimate_s[job]
        self.expected[job] = end_s
        if self.estimate_s[job] < self.run_s[job]:
            heapq.heappush(self.outlived, (end_s, number, job))

    def correct(self) -> None:
        """Applies rule 3 to the first of the outlived estimates."""
        _, number, job = heapq.heappop(self.outlived)
        self.estimate_s[job] = _correct(
            self.estimate_s[job], self.predicted_s[job], self.request_s[job], self.corrected[job]
        )
        self.corrected[job] += 1
        self.expect(job, number)

    def end(self) -> int:
        """Handles the first end."""
        _, _, job = heapq.heappop(self.ends)
        del self.expected[job]
        ended = Ended(self.request_s[job], self.procs[job], self.run_s[job])
        self.ended.setdefault(self.user[job], []).append(ended)
        return job

    def submit(self, job: int) -> None:
        ended = self.ended.get(self.user[job], [])
        request_s = self.request_s[job]
        procs = self.procs[job]
        self.predicted_s[job] = _PREDICT[self.policy.predictor](ended, request_s, procs)
        self.rank_s[job] = _PREDICT[self.policy.ranker](ended, request_s, procs)
        self.estimate_s[job] = self.predicted_s[job]
        self.waiting.append(job)

    def run_pass(self, now: int, ended: bool) -> None:
        """Runs one pass; `ended`: a job has ended since the last one."""
        raise NotImplementedError

    def planned_s(self) -> list[int]:
        """Returns the times at which jobs start without another event."""
        return []

    def begin(self, now: int) -> None:
        """Starts the jobs whose planned time has come."""

    def fits(self, job: int, now: int) -> bool:
        return self.procs[job] <= self.processors - self.used(now)


class _Queue(_World):
    """Policies that decide again at each pass: rule 5."""

    def sorted(self, order: int, jobs: list[int]) -> list[int]:
        return sorted(jobs, key=lambda job: (self.key(order, job), job))

    def key(self, order: int, job: int) -> int:
        if order == words.AGED:
            handicap_s = min(self.policy.aged_max_s, self.policy.aged_factor * self.rank_s[job])
            return self.submit_s[job] + handicap_s
        return _KEY[order](self.rank_s[job], self.procs[job])

    def run_pass(self, now: int, ended: bool) -> None:
        queue = self.sorted(self.policy.order, self.waiting)
        while queue and self.fits(queue[0], now):
            self.start(queue.pop(0), now)
        if queue and self.policy.backfill == words.EASY:
            self.backfill(queue[0], queue[1:], now)

    def backfill(self, head: int, others: list[int], now: int) -> None:
        at_s = min(end_s for end_s in self.expected.values() if self.procs[head] <= self.processors - self.used(end_s))
        for job in self.sorted(self.policy.candidates, others):
            beside = self.processors - self.used(at_s) - self.procs[head]
            if self.fits(job, now) and (now + self.estimate_s[job] <= at_s or self.procs[job] <= beside):
                self.start(job, now)


class _Conservative(_World):
    """Rule 6. A running job's reservation is what it holds."""

    def __init__(self, columns: list[list[int]], processors: int, policy: ReplayPolicy) -> None:
        super().__init__(columns, processors, policy)
        self.planned: dict[int, int] = {}  # waiting job -> its reserved start

    def free(self, at_s: int) -> int:
        planned = sum(
            self.procs[job] for job, start_s in self.planned.items() if start_s <= at_s < start_s + self.estimate_s[job]
        )
        return self.processors - self.used(at_s) - planned

    def reserve(self, job: int, now: int) -> None:
        """Reserves the earliest time at which the job fits until its estimated end."""
        begins = list(self.planned.values())
        ends = [self.planned[other] + self.estimate_s[other] for other in self.planned] + list(self.expected.values())
        for at_s in sorted({now, *(end_s for end_s in ends if end_s > now)}):
            looked_at = [at_s, *(b for b in begins if at_s < b < at_s + self.estimate_s[job])]
            if all(self.free(moment) >= self.procs[job] for moment in looked_at):
                self.planned[job] = at_s
                return

    def run_pass(self, now: int, ended: bool) -> None:
        for job in self.waiting:
            if ended or job not in self.planned:
                self.planned.pop(job, None)
                self.reserve(job, now)
        self.begin(now)

    def planned_s(self) -> list[int]:
        return list(self.planned.values())

    def begin(self, now: int) -> None:
        for job in [job for job in self.waiting if self.planned[job] <= now]:
            del self.planned[job]
            self.start(job, now)


def _next_s(world: _World, submitted: int) -> int | None:
    """Returns the time of the next event."""
    times = [queue[0][0] for queue in (world.ends, world.outlived) if queue]
    return min([*times, *world.submit_s[submitted : submitted + 1], *world.planned_s()], default=None)


def _by_event(world: _World) -> None:
    """Handles the events of rule 4, mode EVENT."""
    submitted = 0
    while (now := _next_s(world, submitted)) is not None:
        world.begin(now)
        if world.outlived and world.outlived[0][0] == now:
            world.correct()
        elif world.submit_s[submitted : submitted + 1] == [now]:
            world.submit(submitted)
            if world.fits(submitted, now) or not world.policy.submit_must_fit:
                world.run_pass(now, ended=False)
            submitted += 1
        elif world.ends and world.ends[0][0] == now:
            world.end()
            world.run_pass(now, ended=True)


def _by_batch(world: _World) -> None:
    """Handles the events of rule 4, mode BATCH."""
    submitted = 0
    while (now := _next_s(world, submitted)) is not None:
        world.begin(now)
        ended = bool(world.ends) and world.ends[0][0] == now
        while world.ends and world.ends[0][0] == now:
            world.end()
        while world.outlived and world.outlived[0][0] == now:
            world.correct()
        first = submitted
        while world.submit_s[submitted : submitted + 1] == [now]:
            world.submit(submitted)
            submitted += 1
        if ended or submitted > first:
            world.run_pass(now, ended)


def _last_two(ended: list[Ended], request_s: int, procs: int) -> int:
    """Tsafrir, Etsion, Feitelson 2007, with two jobs of memory. At least 1 s, the unit of time."""
    if len(ended) < 2:
        return request_s
    return max(1, min(request_s, (ended[-1].run_s + ended[-2].run_s) // 2))


def _similar(ended: list[Ended], request_s: int, procs: int) -> int:
    """The same from jobs with equal requests, else from all of the user's."""
    alike = [job for job in ended if (job.request_s, job.procs) == (request_s, procs)]
    return _last_two(alike if len(alike) > 1 else ended, request_s, procs)


def _correct(estimate_s: int, predicted_s: int, request_s: int, corrected: int) -> int:
    """Applies rule 3. Past the end of the table it is the request, and then the last step repeatedly."""
    if corrected < len(CORRECTIONS_S):
        grown_s = predicted_s + CORRECTIONS_S[corrected]
    else:
        grown_s = max(request_s, estimate_s + CORRECTIONS_S[-1])
    return min(grown_s, request_s) if estimate_s < request_s else grown_s


_LOOPS = {words.EVENT: _by_event, words.BATCH: _by_batch}
_PREDICT: dict[int, Callable[[list[Ended], int, int], int]] = {
    words.GIVEN: lambda ended, request_s, procs: request_s,
    words.LAST_TWO: _last_two,
    words.SIMILAR: _similar,
}
_KEY: dict[int, Callable[[int, int], int]] = {
    words.ARRIVAL: lambda estimate_s, procs: 0,
    words.SHORTEST: lambda estimate_s, procs: estimate_s,
    words.SMALLEST: lambda estimate_s, procs: procs,
    words.SMALLEST_AREA: lambda estimate_s, procs: estimate_s * procs,
}
