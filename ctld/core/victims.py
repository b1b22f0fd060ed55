"""Preemption, done: running jobs are made to go for pending ones (who for whom: preempt.py).

With a GraceTime, SIGCONT and SIGTERM come first and the end is forced after it; what exits meanwhile with an error counts
as preempted, what exits with 0 has completed. The victim's expected end is the end of its grace, so that passes know when
it frees what. The preemptor needs no favour: it ranks first for what becomes free.

A plan may be old when it comes back. `apply_victims` looks at every pair again; when one of a job's victims may no longer
go, none of them goes, and the next pass plans anew.
"""

from collections.abc import Iterable

from ctld.core import job_life, preempt, suspend
from ctld.core.effects import SignalStep
from ctld.core.model import Job
from ctld.core.sharing import RELEASED
from ctld.core.state import ClusterState
from ctld.core.step_model import live_nodes
from ctld.core.timers import Timer
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from penstock.values.signals import SIGNALS, parse_end_warning
from penstock.values.states import HOLDING_STATES, JobState, Reason, Suspend

US = 1_000_000


def apply_victims(state: ClusterState, now_us: int, pairs: Iterable[tuple[int, int]]) -> int:
    """Make running jobs go for pending ones: (pending job id, running job id) each. Returns how many began to go."""
    wanted: dict[int, dict[int, None]] = {}
    for pending_id, running_id in pairs:
        wanted.setdefault(pending_id, {})[abs(running_id)] = None
    done = 0
    for pending_id, victims in wanted.items():
        preemptor = state.jobs.get(pending_id)
        if preemptor is None or preemptor.state is not JobState.PENDING or not state.pending.is_ready(pending_id):
            continue
        if any(_is_leaving(state, v) for v in state.preempting.get(pending_id, ())):
            continue  # it has its victims; they take their time
        if not all(_is_settled(state, v) or _may(state, preemptor, v) for v in victims):
            state.changed()
            continue
        state.preempting[pending_id] = tuple(victims)
        for victim_id in victims:
            if not _is_settled(state, victim_id):
                make_go(state, state.jobs[victim_id], preemptor, now_us)
                done += 1
    return done


def _is_settled(state: ClusterState, job_id: int) -> bool:
    """It has gone, or is on its way out."""
    job = state.jobs.get(job_id)
    if job is None or job.state not in HOLDING_STATES or job.state is JobState.COMPLETING:
        return True
    return bool(job.preempt_end_at_us) or job.suspended_by in RELEASED


def _is_leaving(state: ClusterState, job_id: int) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and (job.state is JobState.COMPLETING or bool(job.preempt_end_at_us))


def _may(state: ClusterState, preemptor: Job, victim_id: int) -> bool:
    victim = state.jobs[victim_id]
    number = preempt.class_of(state, victim)
    if number < 0:
        return False
    rows = state.pending.rows_of(preemptor.job_id)
    return any(int(state.pending.table.preempts[row]) >> number & 1 for row in rows)


def make_go(state: ClusterState, victim: Job, preemptor: Job, now_us: int) -> None:
    """Make one job go for another, in the way that its mode says."""
    mode = preempt.mode_of(state, victim)
    if mode == "REQUEUE" and not victim.request.requeue:
        mode = "CANCEL"
    victim.preempt_at_us, victim.preemptor_id = now_us, preemptor.job_id
    # one that stands still could do nothing in its grace; its end gives it SIGCONT, SIGTERM and KillWait as any other
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
    preempt.tell_running(state, victim)
    _warn(state, victim, now_us)
    state.changed()


def _grace_s(state: ClusterState, job: Job) -> int:
    if job.job_id in state.lending.borrowed:
        return max(_grace_by_qos_s(state, job), _grace_by_partition_s(state, job))
    if state.config.preempt_type == preempt.BY_QOS:
        return _grace_by_qos_s(state, job)
    return _grace_by_partition_s(state, job)


def _grace_by_qos_s(state: ClusterState, job: Job) -> int:
    qos = state.qos.get(job.request.qos)
    return qos.grace_time_s if qos else 0


def _grace_by_partition_s(state: ClusterState, job: Job) -> int:
    partition = state.partitions.get(job.partition)
    return int(partition.config.grace_time_s) if partition else 0


def _warn(state: ClusterState, job: Job, now_us: int) -> None:
    """SIGCONT and SIGTERM; with send_user_signal the job's own --signal instead."""
    own = state.config.preempt_word("send_user_signal") and job.request.signal
    warning = parse_end_warning(job.request.signal) if own else None
    state.record(now_us, job, "signal", str(warning.signal_no if warning else SIGNALS["TERM"]))
    for step in job_life.live_steps(state, job):
        if step.state is not JobState.RUNNING or step.step_id == EXTERN_STEP:
            continue
        for node in live_nodes(step):
            place = (node, job.job_id, job.attempt, step.step_id)
            if warning is not None:
                shell = step.step_id == BATCH_STEP and warning.batch_shell
                state.emit(SignalStep(*place, warning.signal_no, shell, False))
                continue
            for name in ("CONT", "TERM"):
                state.emit(SignalStep(*place, SIGNALS[name], False, True))


def grace_ends(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """The GraceTime of a victim is over."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or not job.preempt_end_at_us or job.state not in HOLDING_STATES:
        return
    if job.state is not JobState.COMPLETING and job.preempt_end_at_us <= now_us:
        _end(state, job, now_us)


def _end(state: ClusterState, job: Job, now_us: int) -> None:
    job_life.terminate(state, job, preempt.end_state_of(state, job), Reason.PREEMPTED, now_us, "PREEMPTION")


# ---- jobs that were suspended for others ------------------------------------------------------------------------------


def before_pass(state: ClusterState, now_us: int) -> None:
    """Those whose preemptor has ended or went elsewhere claim their cpus, before anybody else is given them."""
    for job_id in list(state.suspended):
        job = state.jobs[job_id]
        if job.suspended_by is Suspend.PREEMPTED and not _is_needed(state, job):
            suspend.claim(state, job, now_us)
            preempt.tell_running(state, job)


def _is_needed(state: ClusterState, job: Job) -> bool:
    """The preemptor runs on cpus of this job, or is about to."""
    other = state.jobs.get(job.preemptor_id)
    if other is None:
        return False
    if other.state is JobState.PENDING:
        return state.pending.is_ready(other.job_id)
    nodes = {part.node for part in other.alloc}
    return other.state in HOLDING_STATES and any(part.node in nodes for part in job.alloc)
