"""Carries out preemption of running jobs for pending ones (queue/preemption.py has the rules).

With a GraceTime, the steps get SIGCONT and SIGTERM first and the end is forced after it; a job that exits meanwhile
with an error counts as preempted, one that exits with 0 has completed. The victim's expected end is the end of its
grace, so that passes know when its resources become free. The preemptor gets no special treatment: it ranks first for
what becomes free.

A plan may be outdated when it arrives. `apply_victims` checks every pair again; when one of a job's victims may no
longer be preempted, none of them is, and the next pass plans again.
"""

from collections.abc import Iterable

from ctld.core.jobs.sharing import RELEASED
from ctld.core.lifecycle import job_life, step_orders, suspend
from ctld.core.queue import preemption
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.jobid import BATCH_STEP
from penstock.values.signals import SIGNALS, parse_end_warning
from penstock.values.states import ALLOCATED_STATES, JobState, Reason, Suspend

US = 1_000_000


def apply_victims(state: ClusterState, now_us: int, pairs: Iterable[tuple[int, int]]) -> int:
    """Preempts running jobs for pending ones: (pending job id, running job id) each. Returns how many began to end."""
    wanted: dict[int, dict[int, None]] = {}
    for pending_id, running_id in pairs:
        wanted.setdefault(pending_id, {})[abs(running_id)] = None
    done = 0
    for pending_id, victims in wanted.items():
        preemptor = state.jobs.get(pending_id)
        if preemptor is None or preemptor.state is not JobState.PENDING or not state.pending.is_ready(pending_id):
            continue
        if any(_is_leaving(state, v) for v in state.preemption.preempting.get(pending_id, ())):
            continue  # its victims are ending already
        if not all(_is_settled(state, v) or _may(state, preemptor, v) for v in victims):
            state.changed()
            continue
        state.preemption.preempting[pending_id] = tuple(victims)
        for victim_id in victims:
            if not _is_settled(state, victim_id):
                make_go(state, state.jobs[victim_id], preemptor, now_us)
                done += 1
    return done


def _is_settled(state: ClusterState, job_id: int) -> bool:
    """Whether it has ended, or is being ended."""
    job = state.jobs.get(job_id)
    if job is None or job.state not in ALLOCATED_STATES or job.state is JobState.COMPLETING:
        return True
    return bool(job.preempt_end_at_us) or job.suspended_by in RELEASED


def _is_leaving(state: ClusterState, job_id: int) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and (job.state is JobState.COMPLETING or bool(job.preempt_end_at_us))


def _may(state: ClusterState, preemptor: Job, victim_id: int) -> bool:
    victim = state.jobs[victim_id]
    number = preemption.class_of(state, victim)
    if number < 0:
        return False
    rows = state.pending.rows_of(preemptor.job_id)
    return any(int(state.pending.table.preempts[row]) >> number & 1 for row in rows)


def make_go(state: ClusterState, victim: Job, preemptor: Job, now_us: int) -> None:
    """Preempts one job for another, by its preemption mode."""
    mode = preemption.mode_of(state, victim)
    if mode == "REQUEUE" and not victim.request.requeue:
        mode = "CANCEL"
    victim.preempt_at_us = now_us
    victim.preemptor_id = preemptor.job_id
    # a suspended job could do nothing in its grace; its end gives it SIGCONT, SIGTERM and KillWait as any other
    grace_s = 0 if mode == "SUSPEND" or victim.state is JobState.SUSPENDED else _grace_s(state, victim)
    after = f", in {grace_s} seconds" if grace_s else ""
    state.record(now_us, victim, "preempted", f"for job {preemptor.job_id} ({mode}{after})")
    state.record(now_us, preemptor, "preempts", f"job {victim.job_id} ({mode}{after})")
    if mode == "SUSPEND":
        suspend.suspend(state, victim, Suspend.PREEMPTED, now_us, f"for job {preemptor.job_id}")
        return
    if not grace_s:
        _end(state, victim, now_us)
        return
    victim.preempt_end_at_us = now_us + grace_s * US
    state.touch(victim)
    state.timers.set(victim.preempt_end_at_us, Timer.PREEMPT_GRACE, victim.job_id, victim.attempt)
    job_life.set_end_timers(state, victim)
    preemption.update_running_class(state, victim)
    _warn(state, victim, now_us)
    state.changed()


def _grace_s(state: ClusterState, job: Job) -> int:
    if job.job_id in state.limits.lending.borrowed:
        return max(_grace_by_qos_s(state, job), _grace_by_partition_s(state, job))
    if state.config.preempt_type == preemption.BY_QOS:
        return _grace_by_qos_s(state, job)
    return _grace_by_partition_s(state, job)


def _grace_by_qos_s(state: ClusterState, job: Job) -> int:
    qos = state.qos.get(job.request.qos)
    return qos.grace_time_s if qos else 0


def _grace_by_partition_s(state: ClusterState, job: Job) -> int:
    partition = state.partitions.get(job.partition)
    return int(partition.config.grace_time_s) if partition else 0


def _warn(state: ClusterState, job: Job, now_us: int) -> None:
    """SIGCONT and SIGTERM to the steps; with send_user_signal the job's own --signal instead.

    As in Slurm, the script is excluded: a shell that does not handle SIGTERM would end at once, and with it the job
    while one of its steps saves its work. The script lives until the grace is over, unless its --signal has B:.
    """
    own = state.config.preempt_word("send_user_signal") and job.request.signal
    warning = parse_end_warning(job.request.signal) if own else None
    to_shell = warning is not None and warning.batch_shell
    signals = (SIGNALS["CONT"], SIGNALS["TERM"]) if warning is None else (warning.signal_no,)
    live = step_orders.live_steps(state, job)
    warned = [step for step in live if (step.step_id == BATCH_STEP if to_shell else step.step_id >= 0)]
    if warned:
        state.record(now_us, job, "signal", str(signals[-1]))
    for step in warned:
        for signal_no in signals:
            step_orders.emit_signal(state, job, step, signal_no, batch_only=to_shell)


def grace_ends(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Handles the end of a victim's GraceTime."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or not job.preempt_end_at_us or job.state not in ALLOCATED_STATES:
        return
    if job.state is not JobState.COMPLETING and job.preempt_end_at_us <= now_us:
        _end(state, job, now_us)


def _end(state: ClusterState, job: Job, now_us: int) -> None:
    job_life.terminate(state, job, preemption.end_state_of(state, job), Reason.PREEMPTED, now_us, "PREEMPTION")


# ---- suspended victims
# ------------------------------------------------------------------------------------------------


def before_pass(state: ClusterState, now_us: int) -> None:
    """Lets victims whose preemptor has ended or runs elsewhere claim their cpus, before any other job gets them."""
    for job_id in list(state.preemption.suspended):
        job = state.jobs[job_id]
        if job.suspended_by is Suspend.PREEMPTED and not _is_needed(state, job):
            suspend.claim(state, job, now_us)
            preemption.update_running_class(state, job)


def _is_needed(state: ClusterState, job: Job) -> bool:
    """Whether the preemptor runs on cpus of this job, or is about to."""
    other = state.jobs.get(job.preemptor_id)
    if other is None:
        return False
    if other.state is JobState.PENDING:
        return state.pending.is_ready(other.job_id)
    nodes = {part.node for part in other.alloc}
    return other.state in ALLOCATED_STATES and any(part.node in nodes for part in job.alloc)
