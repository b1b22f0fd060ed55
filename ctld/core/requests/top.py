"""scontrol top: moves jobs before the others of their user in the same partition, account and QOS (scontrol(1)).

A job's nice value is lowered until it ranks first, and the others' are raised by the same total, so that the user as
a whole gains nothing against other users. Several jobs are moved to the front from the last to the first, so that they
end in the order in which they were named. Operators may do this, and owners where SchedulerParameters has
enable_user_top.

The queue is read once for all jobs of a request, and the others pay at the end for all of them, PAYERS_MAX at most,
those that rank last: so a request's work grows with its jobs and not with the square of the queue. It is done in slices.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from ctld.core.lifecycle.ready import refresh
from ctld.core.queue import priority
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, Role
from ctld.core.records.job import Job
from ctld.core.requests.submit import NICE_MAX
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState

#: Other jobs whose nice value one request raises.
PAYERS_MAX: Final = 500
#: Jobs that are examined, and changed, in one turn of the loop: some 5 ms.
LOOKS_A_SLICE: Final = 5_000
CHANGES_A_SLICE: Final = 50

#: What jobs have in common that are moved before each other: user, partitions, account, QOS.
_Key = tuple[int, tuple[str, ...], str, str]
#: A place in the queue, higher first: the priority, and the negative job id.
_Rank = tuple[int, int]


class _Kind:
    """The pending jobs of one kind."""

    __slots__ = ("first", "moved", "others", "owed")

    def __init__(self) -> None:
        self.others: dict[int, _Rank] = {}  # by job id; those that have not been moved
        self.moved: dict[int, Job] = {}  # the one that ranks last first
        self.first: _Rank = (0, 0)
        self.owed = 0  # by how much nice values were lowered

    def needed(self, state: ClusterState, job: Job) -> int:
        """Returns by how much the job's priority must rise to be the first."""
        rank = _rank(state, job)
        if rank >= self.first:
            return 0
        number, negative_id = self.first
        return number - rank[0] + (rank[1] < negative_id)


class Moves:
    """The moves of one request."""

    def __init__(self) -> None:
        self._kinds: dict[_Key, _Kind] = {}

    def look(self, state: ClusterState) -> Iterator[None]:
        """Reads the queue, in slices."""
        for number, job in enumerate(list(state.jobs.records()), 1):
            if job.state is JobState.PENDING and not job.hold:
                kind = self._kinds.setdefault(_key(job), _Kind())
                rank = _rank(state, job)
                kind.others[job.job_id] = rank
                kind.first = max(kind.first, rank)
            if number % LOOKS_A_SLICE == 0:
                yield

    def check(self, state: ClusterState, actor: Actor, job: Job) -> None:
        """Checks whether the job may be moved. Raises Refused."""
        if actor.role < Role.OPERATOR and not state.config.has_word("scheduler_parameters", "enable_user_top"):
            raise Refused(Code.DISABLED_STATE, "SchedulerParameters has no enable_user_top")
        if job.state in END_STATES:
            raise Refused(Code.ALREADY_DONE)
        if job.state is not JobState.PENDING:
            raise Refused(Code.DISABLED_STATE, "the job is not pending")
        if job.hold:
            raise Refused(Code.JOB_HELD)
        if len(job.request.partitions) > 1:
            raise Refused(Code.DISABLED_STATE, "the job was submitted to several partitions")
        if job.request.nice - self._kinds[_key(job)].needed(state, job) <= -NICE_MAX:
            raise Refused(Code.INVALID_VALUE, "nice would be out of its range")

    def move(self, state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
        """Moves a job that was checked, or a part of it that was split off since."""
        kind = self._kinds[_key(job)]
        kind.others.pop(job.job_id, None)
        kind.moved[job.job_id] = job
        needed = kind.needed(state, job)
        if needed:
            _renice(state, job, job.request.nice - needed, now_us)
            kind.owed += needed
            kind.first = max(kind.first, _rank(state, job))
            state.record(now_us, job, "top", f"uid {actor.uid}")

    def pay(self, state: ClusterState, now_us: int) -> Iterator[None]:
        """Raises the nice values of others, in slices. They keep their order; if all were moved, these pay."""
        for kind in self._kinds.values():
            if not kind.owed:
                continue
            last = heapq.nsmallest(PAYERS_MAX, kind.others.values())
            payers = [state.jobs[-negative_id] for _, negative_id in last] or list(kind.moved.values())
            share, rest = divmod(kind.owed, len(payers))
            for position, job in enumerate(payers[: len(payers) if share else rest]):
                _renice(state, job, min(NICE_MAX, job.request.nice + share + (position < rest)), now_us)
                if position % CHANGES_A_SLICE == CHANGES_A_SLICE - 1:
                    yield


def _key(job: Job) -> _Key:
    request = job.request
    return job.user_id, request.partitions, request.account, request.qos


def _rank(state: ClusterState, job: Job) -> _Rank:
    return priority.current(state, job), -job.job_id


def _renice(state: ClusterState, job: Job, nice: int, now_us: int) -> None:
    state.replace_request(job, with_changes(job.request, nice=nice))
    priority.renew(state, job)
    state.touch(job)
    state.pending.remove(job.job_id)
    refresh(state, job, now_us)
