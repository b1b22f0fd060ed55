"""Suspension: a job keeps its allocation and does not run, and others may use its cpus meanwhile.

    RUNNING -> SUSPENDED -> RUNNING      all its processes get SIGSTOP, then SIGCONT

The cause of a suspension (`Job.suspended_by`) determines what the job keeps:
    ADMIN       scontrol suspend: its cpus are free for others until an operator resumes it
    PREEMPTED   for `Job.preemptor_id`: its cpus are free until that job has ended, or runs elsewhere
    GANG        another job has the time slice: it keeps its share of the cpus (passes/gang.py)
    RESUMING    it may continue and its cpus are booked for it, so that no other job gets them; it continues when the
                jobs that use them have ended
Memory, GRES and licenses stay with the job in every case, since its processes still hold them. The time limit
does not count meanwhile: `suspended_us` is that time.

A job that continues may have other CPU numbers than before, where others have the old ones. Its steps move with it: each
gets the CPUs among the new ones that correspond to its old ones, and the nodes move its processes before they continue.

A step whose launch has not arrived, or was never sent because the job began outside of its time slice, is launched when
the job continues: a node starts a step once, however often it gets the launch.
"""

from collections.abc import Iterable

from ctld.core.demand import specialized
from ctld.core.jobs import prolog_state, spans
from ctld.core.jobs.expected_end import expected_end_s
from ctld.core.jobs.sharing import RELEASED, shares, units_taken
from ctld.core.lifecycle import job_life, step_orders
from ctld.core.records.effects import SuspendStep
from ctld.core.records.job import Job
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import SpreadStep, Step, StepPart, live_nodes
from ctld.core.state.devices import bits_of, choose_cpus, pick_cpus
from ctld.core.state.state import ClusterState
from penstock.values.config import SUSPEND_GRACE_S
from penstock.values.runtime import ran_us
from penstock.values.states import END_STATES, JobState, Suspend

S = JobState
#: Parts of steps by node: each step with the place of its part.
_BoundParts = dict[str, list[tuple[SpreadStep, int]]]


def suspend(state: ClusterState, job: Job, why: Suspend, now_us: int, note: str, tell: bool = True) -> None:
    """Suspends a running job, or changes the reason of a suspension.

    `tell` False: it has not been launched, so there is nothing to stop.
    """
    was = job.suspended_by
    if job.state is not S.SUSPENDED:
        job_life.move(state, job, S.SUSPENDED)
        job.suspended_at_us = now_us
        state.record(now_us, job, "suspend", note)
        if tell:
            emit_suspended(state, job)
    elif was is not why:
        state.record(now_us, job, "resuming" if why is Suspend.RESUMING else "suspend", note)
    if why in RELEASED and was not in RELEASED:
        state.give_up_cpus(job, units_taken(state, job.request, job.partition))
        state.changed()
    elif was in RELEASED and why not in RELEASED:
        state.take_cpus(job, units_taken(state, job.request, job.partition), expected_end_s(state, job))
        state.changed()
    job.suspended_by = why
    state.touch(job)
    state.note_suspended(job)
    state.running.set_end(job.job_id, expected_end_s(state, job))


def claim(state: ClusterState, job: Job, now_us: int) -> None:
    """Makes a suspended job wait for its cpus: as they become free, they are booked for it."""
    suspend(state, job, Suspend.RESUMING, now_us, "waits for its cpus")


def resume(state: ClusterState, job: Job, now_us: int) -> None:
    """Resumes the job; the caller knows that its cpus are free."""
    spans.was_suspended(state, job)
    stop_clock(job, now_us)
    if job.suspended_by is Suspend.RESUMING and not shares(state, job):
        bound = _bound_parts(state, job)
        state.number_cpus(job, [_numbers(state, job, part, _union(bound.get(part.node, []))) for part in job.alloc])
        _move_steps(state, job, bound)
    job.suspended_by = Suspend.NO
    job.preemptor_id = 0
    live = step_orders.live_steps(state, job)
    own = step_orders.working_steps(state, job)
    begun = prolog_state.is_done(state, job) if job.request.kind else any(step.state is S.RUNNING for step in own)
    job_life.move(state, job, S.RUNNING if begun else S.CONFIGURING)
    state.record(now_us, job, "resume")
    if not begun:
        job_life.begin(state, job)
    for step in live if begun else ():
        if _awaits_launch(step):
            step_orders.emit_launch(state, job, step)
    emit_suspended(state, job)
    job_life.set_end_timers(state, job)


def _awaits_launch(step: Step) -> bool:
    """Whether a node of the step has not answered the launch: it may have been lost, and was not repeated meanwhile."""
    if isinstance(step, SpreadStep):
        return not step.note and any(part.state is S.CONFIGURING for part in step.all_parts)
    return step.state is S.CONFIGURING


def _numbers(state: ClusterState, job: Job, part: NodeAlloc, bound: int) -> int:
    """Returns its cpu numbers on a node: those that its live steps are bound to there (`bound`) if they are free, so that
    nothing has to move."""
    if specialized.is_on(job.request):
        return specialized.left_mask(state.config, state.nodes[part.node].config, job.request)
    node = state.nodes[part.node]
    if not bound or bound & node.cpus_used or bound.bit_count() > part.cpus:
        return pick_cpus(node, part.cpus, part.gres)
    rest = node.inside.usable & ~node.cpus_used & ~bound
    more = choose_cpus(node.inside, rest, part.cpus - bound.bit_count(), part.gres)
    return bound | more if (bound | more).bit_count() == part.cpus else 0


def _bound_parts(state: ClusterState, job: Job) -> _BoundParts:
    """Returns the parts of live steps that are bound to CPUs, by node."""
    found: _BoundParts = {}
    for step in step_orders.live_steps(state, job):
        if not isinstance(step, SpreadStep):
            continue
        for at, part in enumerate(step.all_parts):
            if part.cpu_ids and part.state not in END_STATES:
                found.setdefault(part.node, []).append((step, at))
    return found


def _union(bound: list[tuple[SpreadStep, int]]) -> int:
    cpu_ids = 0
    for step, at in bound:
        cpu_ids |= step.all_parts[at].cpu_ids
    return cpu_ids


def _move_steps(state: ClusterState, job: Job, bound: _BoundParts) -> None:
    """Binds the job's steps to its new CPUs. Steps that shared a CPU share one, and others do not."""
    moved: dict[int, tuple[SpreadStep, list[StepPart]]] = {}
    for part in job.alloc:
        old, new = _union(bound.get(part.node, [])), part.cpu_ids
        if not new or not old & ~new:
            continue
        to = dict(zip(bits_of(old & ~new), bits_of(new & ~old), strict=False))
        for step, at in bound[part.node]:
            _, parts = moved.setdefault(step.step_id, (step, list(step.all_parts)))
            cpu_ids = sum(1 << to.get(cpu, cpu) for cpu in bits_of(parts[at].cpu_ids)) & new
            parts[at] = parts[at]._replace(cpu_ids=cpu_ids)
    for step, parts in moved.values():
        _replace_parts(state, step, tuple(parts))
    if moved:
        state.steps.by_job[job.job_id].recount()


def _replace_parts(state: ClusterState, step: SpreadStep, parts: tuple[StepPart, ...]) -> None:
    step.all_parts = parts
    state.touch_step(step)


def stop_clock(job: Job, now_us: int) -> None:
    """Ends the suspended time, which does not count for the time limit."""
    job.suspended_us += max(0, now_us - job.suspended_at_us)
    job.suspended_at_us = now_us


def emit_suspended(state: ClusterState, job: Job) -> None:
    """Sends the nodes whether the job's steps are suspended."""
    for step in step_orders.live_steps(state, job):
        _emit(state, job, step, live_nodes(step))


def emit_again(state: ClusterState, job: Job, step: Step, node: str) -> None:
    """Sends a node that was unreachable whether this step is suspended, and where it runs if it is not."""
    _emit(state, job, step, [node])


def _emit(state: ClusterState, job: Job, step: Step, nodes: Iterable[str]) -> None:
    stands = job.state is S.SUSPENDED
    numbers = {} if stands or specialized.is_on(job.request) else {part.node: part.cpu_ids for part in job.alloc}
    own = {part.node: part.cpu_ids for part in step.parts or ()} if numbers else {}
    grace_s = state.config.preempt_number("suspend_grace_time", SUSPEND_GRACE_S)
    for node in nodes:
        of_job = numbers.get(node, 0)
        of_step = of_job and (own.get(node) or of_job)
        key = (node, job.job_id, job.attempt, step.step_id)
        state.emit(SuspendStep(*key, stands, grace_s * 1000, of_step, of_job))


def run_us(job: Job, now_us: int) -> int:
    """Returns the job's run time without suspensions."""
    return ran_us(now_us, job.start_at_us, job.suspended_us, job.suspended_at_us if job.state is S.SUSPENDED else 0)


def resume_suspended(state: ClusterState, now_us: int) -> int:
    """Resumes the jobs that wait for their cpus and find them free: higher rank first, ties by job id. Returns how
    many.
    """
    waiting = [
        state.jobs[job_id]
        for job_id in state.preemption.suspended
        if state.jobs[job_id].suspended_by is Suspend.RESUMING
    ]
    if not waiting:
        return 0
    done = 0
    free: dict[int, int] = {}  # by node, as if none of them had its cpus
    for job in waiting:
        units = units_taken(state, job.request, job.partition)
        for part in job.alloc:
            i = state.nodes[part.node].index
            free[i] = free.get(i, int(state.node_columns.free_cpus[i])) + part.cpus * units
    for job in sorted(waiting, key=lambda j: (-_tier(state, j), -j.priority, j.job_id)):
        units = units_taken(state, job.request, job.partition)
        parts = [(state.nodes[part.node].index, part.cpus * units) for part in job.alloc]
        if all(free[i] >= wanted for i, wanted in parts):
            for i, wanted in parts:
                free[i] -= wanted
            if shares(state, job) and "GANG" in state.config.preempt_mode:
                suspend(state, job, Suspend.GANG, now_us, "waits for its turn")
            else:
                resume(state, job, now_us)
                done += 1
    return done


def _tier(state: ClusterState, job: Job) -> int:
    partition = state.partitions.get(job.partition)
    return partition.config.priority_tier if partition else 0
