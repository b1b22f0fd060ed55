"""Time slices: jobs that share cpus take turns, whole jobs at a time (PreemptMode=GANG with OverSubscribe=FORCE:n).

Rules
    - A job of a FORCE:n partition holds its share of its cpus for as long as it has its allocation (sharing.py). Which of
      the jobs on a cpu runs is decided for each slot of SchedulerTimeSlice: a job runs on all of its nodes, or nowhere.
    - In a slot no cpu has two jobs. Jobs that do not share always run; who finds no room beside them stands still.
    - The order: higher PriorityTier first, then who ran longest ago, then the job id. Whoever fits beside those before it
      runs. So each job of a tier gets a slot before another of them gets its second.
    - A job that starts where there is no room begins suspended and is launched in its first slot.
    - When a job ends in the middle of a slot, those that fit into the room go on at once.

Deliberately absent: shares of a slot. Without PreemptMode=GANG jobs that share cpus run at the same time, as in Slurm.
"""

from collections.abc import Iterable

from ctld.core import suspend
from ctld.core.model import Job, NodeAlloc
from ctld.core.sharing import shares, units_held, units_taken
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import JobState, Suspend

US = 1_000_000
_TURNS = (JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED)


def is_on(state: ClusterState) -> bool:
    """True when jobs take turns."""
    return "GANG" in state.config.preempt_mode and state.units_per_cpu > 1


def takes_turns(state: ClusterState, job: Job) -> bool:
    """True for a job that runs in its slots only."""
    return job.state in _TURNS and job.suspended_by in (Suspend.NO, Suspend.GANG) and shares(state, job)


def has_room(state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...]) -> bool:
    """A pending job is about to get `alloc`: may it be launched in this slot?"""
    if not is_on(state) or units_taken(state, job.request, partition) == state.units_per_cpu:
        return True
    return all(part.cpus <= _room_on(state, part.node) for part in alloc)


def begin(state: ClusterState, job: Job, runs: bool, now_us: int) -> None:
    """A job has its allocation, and runs in this slot or not."""
    if not is_on(state):
        return
    if not shares(state, job):
        make_room(state, now_us)
        return
    state.turns.last[job.job_id] = state.turns.slot if runs else 0
    if not runs:
        suspend.suspend(state, job, Suspend.GANG, now_us, "waits for its turn", tell=False)
        _next_slot(state, now_us)


def next_slot(state: ClusterState, now_us: int) -> None:
    """SchedulerTimeSlice is over: the next ones run."""
    state.turns.due_us = 0
    if not is_on(state):
        return
    state.turns.slot += 1
    gang = _members(state)
    room = _room(state, _always(state, gang))
    chosen = [job for job in sorted(gang, key=lambda j: _order(state, j)) if _take(room, job)]
    runs = {job.job_id for job in chosen}
    for job in gang:
        if job.job_id not in runs and job.state is not JobState.SUSPENDED:
            suspend.suspend(state, job, Suspend.GANG, now_us, "its slot is over")
    for job in chosen:
        state.turns.last[job.job_id] = state.turns.slot
        if job.state is JobState.SUSPENDED:
            suspend.resume(state, job, now_us)
    if len(chosen) < len(gang):
        _next_slot(state, now_us)


def make_room(state: ClusterState, now_us: int) -> None:
    """A job that takes no turns runs from now on: those that find no room beside it any more stand still.

    Units do not tell that: half of two cpus is as many units as the whole of one.
    """
    gang = [job for job in _members(state) if job.state is not JobState.SUSPENDED]
    waiting = {job.job_id for job in gang}
    room = _room(state, (j for j in _holders(state) if j.job_id not in waiting and j.state is not JobState.SUSPENDED))
    for job in sorted(gang, key=lambda j: _order(state, j)):
        if not _take(room, job):
            suspend.suspend(state, job, Suspend.GANG, now_us, "its cpus are taken")
            _next_slot(state, now_us)


def fill(state: ClusterState, now_us: int) -> None:
    """Somebody has left in the middle of a slot: those who fit into the room go on, the longest waiting first."""
    waiting = [job for job_id in state.suspended if (job := state.jobs[job_id]).suspended_by is Suspend.GANG]
    if not waiting:
        return
    if not is_on(state):  # the configuration has changed: nobody takes turns any more
        for job in waiting:
            suspend.claim(state, job, now_us)
        return
    room = _room(state, (job for job in _holders(state) if job.state is not JobState.SUSPENDED))
    for job in sorted(waiting, key=lambda j: _order(state, j)):
        if _take(room, job):
            state.turns.last[job.job_id] = state.turns.slot
            suspend.resume(state, job, now_us)
    _next_slot(state, now_us)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart of the controller: who stood still is first in the next slot."""
    if not is_on(state):
        return
    state.turns.slot = 1
    gang = _members(state)
    state.turns.last = {job.job_id: int(job.state is not JobState.SUSPENDED) for job in gang}
    if any(job.state is JobState.SUSPENDED for job in gang):
        _next_slot(state, now_us)


def _next_slot(state: ClusterState, now_us: int) -> None:
    if not state.turns.due_us:
        state.turns.due_us = now_us + state.config.sched_time_slice_s * US
        state.timers.set(state.turns.due_us, Timer.TIME_SLICE)


def _order(state: ClusterState, job: Job) -> tuple[int, int, int]:
    partition = state.partitions.get(job.partition)
    tier = int(partition.config.priority_tier) if partition else 0
    return (-tier, state.turns.last.get(job.job_id, 0), job.job_id)


def _holders(state: ClusterState) -> list[Job]:
    """Jobs that hold something, each once."""
    ids = [job_id for job_id in state.running.row_of if job_id > 0]
    return [state.jobs[job_id] for job_id in sorted(ids)]


def _members(state: ClusterState) -> list[Job]:
    return [job for job in _holders(state) if takes_turns(state, job)]


def _always(state: ClusterState, gang: list[Job]) -> Iterable[Job]:
    """Those who run in every slot."""
    turns = {job.job_id for job in gang}
    return (job for job in _holders(state) if job.job_id not in turns)


def _room(state: ClusterState, running: Iterable[Job]) -> dict[str, int]:
    """Cpus by node that these leave."""
    room = {node.name: node.cpus for node in state.node_list}
    for job in running:
        if units_held(state, job):
            for part in job.alloc:
                room[part.node] -= part.cpus
    return room


def _room_on(state: ClusterState, name: str) -> int:
    """Cpus of one node that nobody runs on now."""
    node = state.nodes[name]
    room: int = node.cpus
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.state is not JobState.SUSPENDED and units_held(state, job):
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
