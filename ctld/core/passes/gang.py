"""Gang scheduling: time slicing of jobs that share cpus, whole jobs at a time (PreemptMode=GANG with
OverSubscribe=FORCE:n).

Rules
    - A job of a FORCE:n partition holds its share of its cpus for as long as it has its allocation (jobs/sharing.py). Which of
      the jobs on a cpu runs is decided for each slot of SchedulerTimeSlice: a job runs on all of its nodes, or nowhere.
    - In a slot no cpu has two jobs. Jobs that do not share always run; a job that does not fit beside them is suspended.
    - The order: higher PriorityTier first, then the longest time since it ran, then the job id. A job that fits beside those
      before it runs. So each job of a tier gets a slot before another of them gets its second.
    - A job that starts where there is no room begins suspended and is launched in its first slot.
    - When a job ends in the middle of a slot, those that fit into the room are resumed at once.

Deliberately absent: fractions of a slot. Without PreemptMode=GANG jobs that share cpus run at the same time, as in
Slurm.
"""

from collections.abc import Iterable

from ctld.core.jobs.sharing import shares, units_in_use, units_taken
from ctld.core.lifecycle import suspend
from ctld.core.records.job import Job
from ctld.core.records.request import NodeAlloc
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import JobState, Suspend

US = 1_000_000
_TURNS = (JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED)


def is_on(state: ClusterState) -> bool:
    """Whether time slicing is configured."""
    return "GANG" in state.config.preempt_mode and state.layout.units_per_cpu > 1


def takes_turns(state: ClusterState, job: Job) -> bool:
    """Whether the job runs only in its slots."""
    return job.state in _TURNS and job.suspended_by in (Suspend.NO, Suspend.GANG) and shares(state, job)


def has_room(state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...]) -> bool:
    """Whether a pending job that is about to get `alloc` may run in this slot."""
    if not is_on(state) or units_taken(state, job.request, partition) == state.layout.units_per_cpu:
        return True
    return all(part.cpus <= _room_on(state, part.node) for part in alloc)


def begin(state: ClusterState, job: Job, runs: bool, now_us: int) -> None:
    """Adds a job that has got its allocation, and runs in this slot or not."""
    if not is_on(state):
        return
    if not shares(state, job):
        make_room(state, now_us)
        return
    state.preemption.turns.last[job.job_id] = state.preemption.turns.slot if runs else 0
    if not runs:
        suspend.suspend(state, job, Suspend.GANG, now_us, "waits for its turn", tell=False)
        _next_slot(state, now_us)


def next_slot(state: ClusterState, now_us: int) -> None:
    """Starts the next slot after SchedulerTimeSlice."""
    state.preemption.turns.due_us = 0
    if not is_on(state):
        return
    state.preemption.turns.slot += 1
    gang = _members(state)
    room = _room(state, _always(state, gang))
    chosen = [job for job in sorted(gang, key=lambda j: _order(state, j)) if _take(room, job)]
    runs = {job.job_id for job in chosen}
    for job in gang:
        if job.job_id not in runs and job.state is not JobState.SUSPENDED:
            suspend.suspend(state, job, Suspend.GANG, now_us, "its slot is over")
    for job in chosen:
        state.preemption.turns.last[job.job_id] = state.preemption.turns.slot
        if job.state is JobState.SUSPENDED:
            suspend.resume(state, job, now_us)
    if len(chosen) < len(gang):
        _next_slot(state, now_us)


def make_room(state: ClusterState, now_us: int) -> None:
    """Suspends jobs that do not fit any more beside a job without time slicing that runs from now on.

    Counting units does not suffice: half of two cpus is as many units as the whole of one.
    """
    gang = [job for job in _members(state) if job.state is not JobState.SUSPENDED]
    waiting = {job.job_id for job in gang}
    room = _room(
        state, (j for j in _allocated_jobs(state) if j.job_id not in waiting and j.state is not JobState.SUSPENDED)
    )
    for job in sorted(gang, key=lambda j: _order(state, j)):
        if not _take(room, job):
            suspend.suspend(state, job, Suspend.GANG, now_us, "its cpus are taken")
            _next_slot(state, now_us)


def fill(state: ClusterState, now_us: int) -> None:
    """Resumes jobs that fit into the room of one that has ended in the middle of a slot, the longest waiting first."""
    waiting = [job for job_id in state.preemption.suspended if (job := state.jobs[job_id]).suspended_by is Suspend.GANG]
    if not waiting:
        return
    if not is_on(state):  # the configuration has changed: time slicing is off
        for job in waiting:
            suspend.claim(state, job, now_us)
        return
    room = _room(state, (job for job in _allocated_jobs(state) if job.state is not JobState.SUSPENDED))
    for job in sorted(waiting, key=lambda j: _order(state, j)):
        if _take(room, job):
            state.preemption.turns.last[job.job_id] = state.preemption.turns.slot
            suspend.resume(state, job, now_us)
    _next_slot(state, now_us)


def recover(state: ClusterState, now_us: int) -> None:
    """Puts suspended jobs first in the next slot, after a restart of the controller."""
    if not is_on(state):
        return
    state.preemption.turns.slot = 1
    gang = _members(state)
    state.preemption.turns.last = {job.job_id: int(job.state is not JobState.SUSPENDED) for job in gang}
    if any(job.state is JobState.SUSPENDED for job in gang):
        _next_slot(state, now_us)


def _next_slot(state: ClusterState, now_us: int) -> None:
    if not state.preemption.turns.due_us:
        state.preemption.turns.due_us = now_us + state.config.sched_time_slice_s * US
        state.timers.set(state.preemption.turns.due_us, Timer.TIME_SLICE)


def _order(state: ClusterState, job: Job) -> tuple[int, int, int]:
    partition = state.partitions.get(job.partition)
    tier = int(partition.config.priority_tier) if partition else 0
    return (-tier, state.preemption.turns.last.get(job.job_id, 0), job.job_id)


def _allocated_jobs(state: ClusterState) -> list[Job]:
    """Returns the jobs with an allocation, each once."""
    ids = [job_id for job_id in state.running.row_of if job_id > 0]
    return [state.jobs[job_id] for job_id in sorted(ids)]


def _members(state: ClusterState) -> list[Job]:
    return [job for job in _allocated_jobs(state) if takes_turns(state, job)]


def _always(state: ClusterState, gang: list[Job]) -> Iterable[Job]:
    """Returns the jobs that run in every slot."""
    turns = {job.job_id for job in gang}
    return (job for job in _allocated_jobs(state) if job.job_id not in turns)


def _room(state: ClusterState, running: Iterable[Job]) -> dict[str, int]:
    """Returns the cpus by node that these leave free."""
    room = {node.name: node.cpus for node in state.node_list}
    for job in running:
        if units_in_use(state, job):
            for part in job.alloc:
                room[part.node] -= part.cpus
    return room


def _room_on(state: ClusterState, name: str) -> int:
    """Returns the cpus of one node on which no job runs now."""
    node = state.nodes[name]
    room: int = node.cpus
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.state is not JobState.SUSPENDED and units_in_use(state, job):
            room -= sum(part.cpus for part in job.alloc if part.node == name)
    return room


def _fits(room: dict[str, int], alloc: tuple[NodeAlloc, ...]) -> bool:
    return all(room[part.node] >= part.cpus for part in alloc)


def _take(room: dict[str, int], job: Job) -> bool:
    if not _fits(room, job.alloc):
        return False
    for part in job.alloc:
        room[part.node] -= part.cpus
    return True
