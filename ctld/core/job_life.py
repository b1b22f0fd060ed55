"""A job's life as a table, and the moves that every policy uses.

    PENDING -> CONFIGURING -> RUNNING -> COMPLETING -> an end state
                              RUNNING <-> SUSPENDED

A job leaves PENDING when it is given an allocation (CONFIGURING: the launch is on its way), RUNNING begins with the
node's word that a task runs (of a job without a script with its allocation), COMPLETING when it is told to end or its
steps are ending, and an end state when no step of it is left anywhere. A requeued job goes back to PENDING with the next
attempt number; the attempt that ended keeps a row of its own. So does a job that had ended already and is queued again
while it is still known (scontrol requeue). `move()` is the only place where `job.state` is assigned.

A batch job ends with its script: steps of srun that still run then are ended, and it is COMPLETING until they are gone.

Deliberately absent: who may ask for a move (rights.py), and when a pending job may start (schedule.py).
"""

from ctld.core import (
    again,
    arrays,
    assocs,
    depends,
    gpu_jobs,
    het,
    lease,
    mail,
    ports,
    predict,
    preempt,
    priority,
    spans,
    surround,
)
from ctld.core.decay import RATE_ONE
from ctld.core.effects import Ended, ForgetStep, LaunchStep, TerminateStep
from ctld.core.expect import expected_end_s, limit_at_us
from ctld.core.model import NO_STEPS, Job, NodeAlloc, job_row
from ctld.core.periodic import next_start_us
from ctld.core.ready import refresh
from ctld.core.sharing import units_held, units_taken
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, Step, live_nodes, step_row
from ctld.core.timers import Timer
from penstock.values.features import parse_features
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from penstock.values.signals import parse_end_warning
from penstock.values.states import END_STATES, HOLDING_STATES, Hold, JobState, Reason, Suspend
from penstock.values.tres import format_tres

S = JobState
_ENDS = frozenset(END_STATES - {S.REQUEUED})

#: From each state, where a job may go. A move that is not listed raises and changes nothing.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    S.PENDING: frozenset({S.CONFIGURING, S.CANCELLED, S.FAILED, S.DEADLINE}),
    S.CONFIGURING: frozenset({S.RUNNING, S.SUSPENDED, S.COMPLETING, S.PENDING}) | _ENDS,
    S.RUNNING: frozenset({S.SUSPENDED, S.COMPLETING, S.PENDING}) | _ENDS,
    S.SUSPENDED: frozenset({S.RUNNING, S.CONFIGURING, S.COMPLETING, S.PENDING}) | _ENDS,
    S.COMPLETING: frozenset({S.PENDING}) | _ENDS,
    **dict.fromkeys(sorted(_ENDS), frozenset({S.PENDING})),
    S.REQUEUED: frozenset(),
}

US = 1_000_000
#: A preempted job looks so often whether its preemptor still waits for what it left.
PREEMPTOR_PAUSE_US = 10 * US


class IllegalMove(Exception):
    """A move that the table does not list: a bug, never a user's fault."""


def move(state: ClusterState, job: Job, to: JobState) -> None:
    """Change a job's state along the table, and what follows for indexes and counters."""
    if to not in TRANSITIONS[job.state]:
        raise IllegalMove(f"job {job.job_id}: {job.state.name} -> {to.name}")
    was = job.state
    if was is S.PENDING:
        state.pending.remove(job.job_id)
        state.preempting.pop(job.job_id, None)
        job.preemptor_id = 0
    job.state = to
    if job.request.kind or job.job_id in state.desks:
        state.steps_due[job.job_id] = None
    if job.request.het_job_id:
        state.steps_due[job.request.het_job_id] = None
        if to is not S.CONFIGURING and to is not S.RUNNING:
            state.hets_due[job.request.het_job_id] = None
    arrays.count_move(state, job, was, to)
    if to in END_STATES:
        state.active_count -= arrays.weight(job)
        state.namesakes.leave(job)
    elif was in END_STATES:
        state.active_count += arrays.weight(job)
        state.namesakes.enter(job)
    state.touch(job)


def start(
    state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], now_us: int, launch: bool = True
) -> None:
    """Give a pending job its allocation and send its batch step to the first node (`launch` False: not yet).

    A job without a script has no batch step: it runs from now on.
    """
    job.priority = priority.current(state, job)  # what it started with, for the record
    move(state, job, S.CONFIGURING)
    depends.forget(state, job)
    job.partition = partition
    job.reason, job.reason_detail = Reason.NONE, ""
    job.start_at_us, job.end_at_us = now_us, 0
    state.allocate(job, alloc, units_taken(state, job.request, partition), expected_end_s(state, job))
    ports.give_job(state, job)
    job.batch_node = batch_node_of(state, job)
    job.tres_alloc = tres_of(state, job)
    assocs.begin(state, job, now_us)
    if job.request.kind:
        job.steps = {}
    else:
        job.steps = {BATCH_STEP: _new_batch_step(state, job)}
        state.touch_step(job.steps[BATCH_STEP])
    state.record(now_us, job, "start", ",".join([part.node for part in alloc]))
    if launch:
        begin(state, job)
    _set_limit_timers(state, job)
    if job.request.mail_types:
        mail.began(state, job)
    preempt.tell_running(state, job)
    depends.on_change(state, job, now_us)
    arrays.refresh_throttle(state, job)


def batch_node_of(state: ClusterState, job: Job) -> str:
    """The node that runs the script: the first, or with --batch the first that has these features."""
    if job.request.batch_features:
        wanted = parse_features(job.request.batch_features)
        for part in job.alloc:
            if wanted.matches(frozenset(state.nodes[part.node].features)):
                return part.node
    return job.alloc[0].node


def begin(state: ClusterState, job: Job) -> None:
    """The job's nodes are its own: what surrounds it, then the job itself. Safe to repeat."""
    if not surround.prolog_comes_first(state, job):
        hold(state, job)


def hold(state: ClusterState, job: Job) -> None:
    """Put holders on the job's nodes, where there are any; the job begins when they are up."""
    holder = surround.holder_of(state, job)
    if holder is None or surround.is_up(holder):
        launch(state, job)
    else:
        emit_launch(state, job, holder)


def launch(state: ClusterState, job: Job) -> None:
    """The job's nodes are ready for it: launch its script, or let its owner use them."""
    if job.request.kind:
        move(state, job, S.RUNNING)
        if job.request.het_job_id:
            _launch_leader(state, job)
    elif not job.request.het_job_id or het.others_are_up(state, job):
        emit_launch(state, job, job.steps[BATCH_STEP])


def _launch_leader(state: ClusterState, job: Job) -> None:
    """A component is up: with the last of them the leader's script begins."""
    leader = het.members(state, job)[0]
    if leader.state is S.CONFIGURING and not leader.request.kind and surround.is_done(state, leader):
        launch(state, leader)


def set_end_timers(state: ClusterState, job: Job) -> None:
    """Keep the time limit of a job that has its allocation, and the warning before it. Earlier timers find this out."""
    state.running.set_end(job.job_id, expected_end_s(state, job))
    _set_limit_timers(state, job)


def _set_limit_timers(state: ClusterState, job: Job) -> None:
    if job.time_limit_s < 0:
        return
    limit_us = limit_at_us(state, job)
    state.timers.set(limit_us, Timer.TIME_LIMIT, job.job_id, job.attempt)
    if job.request.mail_types:
        mail.set_timers(state, job)
    if job.request.signal:
        before_us = parse_end_warning(job.request.signal).before_end_s * US
        state.timers.set(max(job.start_at_us, limit_us - before_us), Timer.END_WARNING, job.job_id, job.attempt)


def _new_batch_step(state: ClusterState, job: Job) -> Step:
    step = Step()
    step.job_id, step.attempt, step.step_id = job.job_id, job.attempt, BATCH_STEP
    step.name, step.state, step.node, step.epoch, step.tasks = "batch", S.CONFIGURING, job.batch_node, state.epoch, 1
    step.dead_after_s = 0
    step.start_at_us = step.end_at_us = step.exit_code = step.exit_signal = 0
    step.user_cpu_us = step.system_cpu_us = step.max_rss_kb = step.max_vmsize_kb = 0
    step.disk_read_bytes = step.disk_write_bytes = 0
    step.usage = ""
    return step


def emit_launch(state: ClusterState, job: Job, step: Step, only: str = "") -> None:
    """(Re-)send the launch of a step to its nodes, or to the node `only`; each starts it at most once."""
    count, first, last, by = arrays.facts(job, state)
    lease_s, grace_s = lease.terms(state, job)
    # An earlier launch of it that counts after all may have had longer terms.
    step.dead_after_s = max(step.dead_after_s, lease.dead_after_s(lease_s, grace_s)) if lease_s else 0
    head = (
        job.job_id, job.attempt, step.step_id, state.epoch, job_row(job), count, first, last, by, lease_s, grace_s,
    )  # fmt: skip
    port = state.master_ports.get(job.job_id, 0)
    rows = tuple(job_row(one) for one in het.members(state, job)) if job.request.het_job_id else ()
    if step.parts is None:
        state.emit(LaunchStep(step.node, *head, None, port, rows, state.nodes[step.node].gpu_slots))
        return
    row = step_row(step)
    for part in step.parts:
        if part.state is S.CONFIGURING and only in ("", part.node):
            state.emit(LaunchStep(part.node, *head, row, port, rows, state.nodes[part.node].gpu_slots))


def tres_of(state: ClusterState, job: Job) -> str:
    """What the job holds, and what it is billed for it."""
    tres = assocs.allocated(job)
    tres["billing"] = assocs.rate_of(state, job, tres) // RATE_ONE
    return format_tres(tres)


def terminate(
    state: ClusterState, job: Job, end_state: JobState, reason: Reason, now_us: int, note: str = "", uid: int = -1
) -> None:
    """Begin the end of a job that has not ended: at once when it is pending, through its steps when it runs.

    `end_state` REQUEUED sends it back to the queue when its steps are gone. A job that is completing already keeps the
    end state that came first, but a cancel takes back a requeue.
    """
    if uid >= 0:
        job.cancelled_by_uid = uid
    if job.state is S.PENDING:
        finish(state, job, end_state, reason, now_us)
        return
    if job.state is S.COMPLETING:
        if job.end_state is S.REQUEUED and end_state is S.CANCELLED:
            job.end_state = end_state
            state.touch(job)
        return
    job.end_state, job.reason = end_state, reason
    if job.state is S.SUSPENDED:
        spans.was_suspended(state, job)
        job.suspended_us += max(0, now_us - job.suspended_at_us)
        job.suspended_at_us = now_us
    move(state, job, S.COMPLETING)
    state.note_suspended(job)
    state.running.set_end(job.job_id, expected_end_s(state, job))
    preempt.tell_running(state, job)
    state.record(now_us, job, "ending", note or end_state.name)
    live = live_steps(state, job)
    for step in live:
        emit_terminate(state, job, step, note)
    if not live:
        finish(state, job, end_state, reason, now_us)


def live_steps(state: ClusterState, job: Job) -> list[Step]:
    """The job's steps that have not ended."""
    desk = state.desks.get(job.job_id)
    if desk is not None:
        return list(desk.live.values())
    return [step for step in job.steps.values() if step.state not in END_STATES]


def working_steps(state: ClusterState, job: Job) -> list[Step]:
    """Those of them that are the job's own, and no holders."""
    return [step for step in live_steps(state, job) if step.step_id != EXTERN_STEP]


def after_node_loss(job: Job) -> JobState:
    """What becomes of a job whose node is gone."""
    return S.REQUEUED if job.request.requeue else S.NODE_FAIL


def emit_terminate(state: ClusterState, job: Job, step: Step, note: str = "", only: str = "") -> None:
    """(Re-)send the order to end a step to its nodes, or to the node `only`. The first note of a step stays."""
    grace_ms = state.config.kill_wait_s * 1000
    if step.step_id == EXTERN_STEP:
        if not surround.are_alone(live_steps(state, job)):
            return  # it goes last, and hears of it then
        note = surround.ending_note(job)
    if isinstance(step, SpreadStep) and not step.note:
        step.note = surround.HOLDER_END if step.step_id == EXTERN_STEP else note or "JOB END"
        state.touch_step(step)
    for node in live_nodes(step):
        if only in ("", node):
            state.emit(TerminateStep(node, job.job_id, job.attempt, step.step_id, grace_ms, note))


def step_done(state: ClusterState, job: Job, step: Step, now_us: int) -> None:
    """A step of the job has ended. The job ends with its script: what else runs then is ended first."""
    if step.parts is None:
        state.emit(ForgetStep(step.node, job.job_id, job.attempt, step.step_id))
    desk = state.desks.get(job.job_id)
    if desk is not None:
        desk.end(step, job.steps)
        state.steps_due[job.job_id] = None
    batch = job.steps.get(BATCH_STEP)
    if step is batch:
        job.exit_code, job.exit_signal = batch.exit_code, batch.exit_signal
    if job.state is S.COMPLETING and job.end_state is not None:
        live = live_steps(state, job)
        if not live:
            finish(state, job, job.end_state, job.reason, _last_end_us(job, step, batch) or now_us)
        elif surround.are_to_go(live):
            emit_terminate(state, job, live[0])
    elif step is batch:
        _script_done(state, job, batch, now_us)


def _script_done(state: ClusterState, job: Job, batch: Step, now_us: int) -> None:
    if job.preempt_end_at_us and batch.state is not S.COMPLETED:
        end_state, reason = preempt.end_state_of(state, job), Reason.PREEMPTED
    else:
        end_state, reason = batch.state, Reason.NONE
        if batch.state is S.OUT_OF_MEMORY:
            reason = Reason.OUT_OF_MEMORY
        elif batch.state is S.FAILED and job.reason_detail:
            reason = Reason.JOB_LAUNCH_FAILURE
        elif batch.state is S.FAILED:
            reason = Reason.RAISED_SIGNAL if batch.exit_signal else Reason.NON_ZERO_EXIT_CODE
        if not batch.exit_signal and again.wants_another(state, job):
            end_state, reason = S.REQUEUED, Reason.NONE
    if live_steps(state, job):
        terminate(state, job, end_state, reason, now_us, "SCRIPT END")
    else:
        finish(state, job, end_state, reason, batch.end_at_us or now_us)


def _last_end_us(job: Job, step: Step, batch: Step | None) -> int:
    """When the job has ended. One without a script may have gone on long after its last step of srun."""
    if step.step_id == EXTERN_STEP and batch is not None:  # the time that an epilog takes is not the job's
        return max((other.end_at_us for other in job.steps.values() if other is not step), default=step.end_at_us)
    return max(step.end_at_us, batch.end_at_us) if batch is not None else step.end_at_us


def finish(state: ClusterState, job: Job, end_state: JobState, reason: Reason, end_at_us: int) -> None:
    """The end of a job or of one attempt. `end_at_us` is clamped so that no job has a negative duration."""
    end_state, reason = gpu_jobs.own_end(job, end_state, reason)
    if end_state is S.REQUEUED:
        hold = reason is Reason.LAUNCH_FAILED_REQUEUED_HELD
        if reason is Reason.NODE_DOWN and job.request.expedite:
            again.go_first(state, job)
        requeue(state, job, end_at_us, hold, reason if hold or reason is Reason.PREEMPTED else Reason.NONE)
        return
    if job.state is S.SUSPENDED:  # its steps ended by themselves
        spans.was_suspended(state, job)
        job.suspended_us += max(0, end_at_us - job.suspended_at_us)
    held = job.state in HOLDING_STATES
    if held and job.request.cron:
        run_again(state, job, end_state, reason, end_at_us)
        return
    if not held:
        depends.forget(state, job)
    move(state, job, end_state)
    if held:
        state.release(job, end_at_us, units_held(state, job))
        ports.take_back(state, job)
        assocs.end(state, job, end_at_us)
        job.suspended_by = Suspend.NO
        state.note_suspended(job)
    if job.reason is Reason.NODE_DOWN and reason is not Reason.NODE_DOWN and not gpu_jobs.is_hit(job):
        job.reason_detail = ""  # it went on unseen, and this is what became of it
    job.end_state, job.reason = None, reason
    if held:
        surround.attempt_ended(state, job)
    job.end_at_us = max(end_at_us, job.start_at_us, job.submit_at_us)
    if held:
        predict.learn(state, job)
    state.record(job.end_at_us, job, "end", f"{end_state.name} {job.exit_code}:{job.exit_signal}")
    state.timers.set(job.end_at_us + state.config.min_job_age_s * US, Timer.PURGE, job.job_id, job.attempt)
    arrays.count_end(state, job)
    if job.request.mail_types:
        mail.ended(state, job)
    arrays.refresh_throttle(state, job)
    depends.on_change(state, job, state.now_us)
    answer_waiting(state, job)


def run_again(state: ClusterState, job: Job, end_state: JobState, reason: Reason, end_at_us: int) -> None:
    """A run of a crontab's job has ended: the attempt keeps how, and the job waits for its next time."""
    job.end_at_us = max(end_at_us, job.start_at_us)
    state.record(job.end_at_us, job, "end", f"{end_state.name} {job.exit_code}:{job.exit_signal}")
    requeue(state, job, job.end_at_us, reason=reason, ended_as=end_state)


def requeue(
    state: ClusterState,
    job: Job,
    now_us: int,
    hold: bool = False,
    reason: Reason = Reason.NONE,
    ended_as: JobState = S.REQUEUED,
) -> None:
    """Close this attempt and queue the job again with the next attempt number."""
    if job.request.mail_types:
        mail.requeued(state, job, ended_as)
    if job.state is S.SUSPENDED:
        spans.was_suspended(state, job)
    state.end_attempt(job, max(now_us, job.start_at_us), reason, ended_as)
    surround.attempt_ended(state, job)
    state.release(job, now_us, units_held(state, job))
    ports.take_back(state, job)
    assocs.end(state, job, now_us)
    _begin_again(state, job, now_us, hold, reason)


def requeue_ended(state: ClusterState, job: Job, now_us: int) -> None:
    """Queue a job again that has ended. For accounting that attempt was requeued, as in Slurm; what it held is free."""
    state.end_attempt(job, job.end_at_us, Reason.NONE)
    arrays.uncount_end(state, job)
    job.dependency = ""  # its end has been waited for, or it was given up
    _begin_again(state, job, now_us, False, Reason.NONE)


def _begin_again(state: ClusterState, job: Job, now_us: int, hold: bool, reason: Reason) -> None:
    move(state, job, S.PENDING)
    state.record(now_us, job, "requeue", reason.value if reason is not Reason.NONE else "")
    if gpu_jobs.is_hit(job):
        gpu_jobs.exclude(state, job, job.failed_node)
    job.end_state, job.reason, job.reason_detail = None, Reason.NONE, ""
    job.borrowed = 0
    job.attempt += 1
    job.alloc, job.batch_node, job.tres_alloc, job.steps = (), "", "", NO_STEPS
    job.exit_code = job.exit_signal = job.derived_code = job.derived_signal = 0
    job.start_at_us = job.end_at_us = 0
    job.time_limit_s = -1 if job.request.time_limit_s is None else job.request.time_limit_s  # it may have got less
    job.suspended_by = Suspend.NO
    job.suspended_us = job.suspended_at_us = job.preempt_at_us = job.preempt_end_at_us = 0
    if reason is Reason.PREEMPTED:
        state.timers.set(now_us + PREEMPTOR_PAUSE_US, Timer.BEGIN_TIME, job.job_id)
    else:
        job.preemptor_id = 0
    state.note_suspended(job)
    job.cancelled_by_uid = -1
    job.partition = job.request.partitions[0]
    if job.attempt > state.config.max_batch_requeue and not job.request.cron:
        hold, reason = True, Reason.JOB_HOLD_MAX_REQUEUE
    if hold:
        job.hold = Hold.ADMIN
        job.reason_detail = reason.value if reason is not Reason.NONE else ""
    elif reason is not Reason.PREEMPTED:  # a preempted job keeps its age and may start at once
        # `now_us` of a caller may be a node's, whose clock may be ahead
        job.eligible_at_us = state.now_us + again.delay_us(state, job)
    if job.request.cron:
        job.eligible_at_us = next_start_us(state, job.request.cron, state.now_us)
    refresh(state, job, state.now_us)
    arrays.refresh_throttle(state, job)


def ended(job: Job) -> Ended:
    """The answer to who awaits the job."""
    cause = job.reason_detail if job.state is S.FAILED else ""
    return Ended(job.state.name, job.exit_code, job.exit_signal, cause)


def answer_waiting(state: ClusterState, job: Job) -> None:
    """Answer those who await this job, or its array when that was the last task."""
    callers = state.awaiting.pop(job.job_id, None)
    if callers and job.array_job_id != job.job_id:
        body = ended(job)
        for reply_to in callers:
            state.reply(reply_to, body)
        callers = None
    if job.array_job_id:
        record = state.arrays[job.array_job_id]
        if callers:
            state.awaiting.setdefault(job.array_job_id, {}).update(callers)
        if arrays.is_over(record):
            for reply_to in state.awaiting.pop(job.array_job_id, {}):
                state.reply(
                    reply_to,
                    Ended(S.FAILED.name if record.failed else S.COMPLETED.name, record.exit_code, record.exit_signal),
                )
