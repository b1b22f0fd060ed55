"""The life cycle of a job as a table of transitions, and the operations that every policy uses.

    PENDING -> CONFIGURING -> RUNNING -> COMPLETING -> an end state
                              RUNNING <-> SUSPENDED

A job leaves PENDING when it gets an allocation. It is CONFIGURING while its nodes are prepared: prologs run, other
components of a heterogeneous job are not ready, or the node of its script is not connected. RUNNING begins with the order
to launch the script, in the same commit as the start if nothing is to be prepared (for a job without a script, when its
nodes are ready). COMPLETING begins when the job is terminated or its steps are ending, and an end state when all of its
steps have ended on all nodes. A requeued job returns to PENDING with the next attempt number; the attempt that ended
keeps a row of its own. So does an ended job that is requeued while it is still in memory (scontrol requeue). `move()` is
the only place where `job.state` is assigned.

A RUNNING job's batch step is CONFIGURING until the node's report: whether the script has begun is the step's state, and
rules about launches consult that.

A batch job ends with its script: steps of srun that still run then are ended, and it is COMPLETING until they have
ended.

Deliberately absent: who may request a transition (queue/rights.py), when a pending job may start (passes/schedule.py),
and the orders to nodes about a job's steps (step_orders.py). Start, end and requeue stay together: each is one side of
the same fields, and an end may be a requeue.
"""

from ctld.core.jobs import arrays, het, holds, mail, node_boots, outcome, ports, prolog_state, spans, waiters
from ctld.core.jobs.expected_end import expected_end_s, limit_at_us
from ctld.core.jobs.sharing import units_in_use, units_taken
from ctld.core.lifecycle import gpu_jobs, requeue_policy
from ctld.core.lifecycle.ready import refresh, refresh_throttle
from ctld.core.lifecycle.step_orders import emit_launch, emit_terminate, live_steps
from ctld.core.limits import charging
from ctld.core.queue import associations, hres, prediction, preemption, priority
from ctld.core.records.decay import RATE_ONE
from ctld.core.records.effects import ForgetStep, JobEnded
from ctld.core.records.job import NO_STEPS, Job
from ctld.core.records.periodic import next_start_us
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import Step, blank_step
from ctld.core.reservations.access import names_asked
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.features import parse_features
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from penstock.values.signals import parse_end_warning
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState, Reason, Suspend
from penstock.values.tres import format_tres

S = JobState
_ENDS = frozenset(END_STATES - {S.REQUEUED, S.RESIZING})

#: The allowed transitions from each state. `move` refuses any other one and changes nothing.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    # COMPLETED, OUT_OF_MEMORY: a node has run it, and its start is missing in the database (restored.py).
    S.PENDING: frozenset({S.CONFIGURING, S.CANCELLED, S.FAILED, S.DEADLINE, S.COMPLETED, S.OUT_OF_MEMORY}),
    S.CONFIGURING: frozenset({S.RUNNING, S.SUSPENDED, S.COMPLETING, S.PENDING}) | _ENDS,
    S.RUNNING: frozenset({S.SUSPENDED, S.COMPLETING, S.PENDING}) | _ENDS,
    S.SUSPENDED: frozenset({S.RUNNING, S.CONFIGURING, S.COMPLETING, S.PENDING}) | _ENDS,
    S.COMPLETING: frozenset({S.PENDING}) | _ENDS,
    **dict.fromkeys(sorted(_ENDS), frozenset({S.PENDING})),
    S.REQUEUED: frozenset(),
    S.RESIZING: frozenset(),
}

US = 1_000_000
#: Interval at which a preempted job checks whether its preemptor still waits for the released resources.
PREEMPTOR_PAUSE_US = 10 * US
#: Reasons of a requeue that MaxBatchRequeue counts; it also counts a GPU's failure, and launches that fail without a hold.
_FAILURES = frozenset({Reason.NODE_DOWN, Reason.LAUNCH_FAILED_REQUEUED_HELD})
#: Reasons of a requeue that the attempt and the queued job keep.
KEPT_BY_REQUEUE = frozenset({Reason.PREEMPTED, Reason.JOB_REQUEUED_HELD})


class IllegalMove(Exception):
    """A transition that the table does not list: a bug, never a user's fault."""


def move(state: ClusterState, job: Job, to: JobState) -> None:
    """Changes a job's state along the table, and updates indexes and counters."""
    if to not in TRANSITIONS[job.state]:
        raise IllegalMove(f"job {job.job_id}: {job.state.name} -> {to.name}")
    was = job.state
    if was is S.PENDING:
        state.pending.remove(job.job_id)
        state.preemption.preempting.pop(job.job_id, None)
        job.preemptor_id = 0
    job.state = to
    if was is S.SUSPENDED:
        state.note_suspended(job)
    if to is S.COMPLETING:
        job.completing_at_us = max(state.now_us, job.start_at_us)
    request = job.request
    if request.kind or job.job_id in state.steps.by_job:
        state.steps.serve_later(job.job_id)
    if request.het_job_id:
        state.steps.serve_later(request.het_job_id)
        if to is not S.CONFIGURING and to is not S.RUNNING:
            state.hets_due[request.het_job_id] = None
    if job.array_job_id:
        arrays.count_move(state, job, was, to)
    if to in END_STATES:
        state.active_count -= arrays.weight(job)
        state.jobs_by_name.leave(job)
    elif was in END_STATES:
        state.active_count += arrays.weight(job)
        state.jobs_by_name.enter(job)
    state.touch(job)


def start(
    state: ClusterState, job: Job, partition: str, alloc: tuple[NodeAlloc, ...], now_us: int, launch: bool = True
) -> None:
    """Gives a pending job its allocation and sends its batch step to the first node (`launch` False: not yet).

    A job without a script has no batch step.
    """
    if state.priorities is not None:
        job.priority = priority.current(state, job)  # what it started with, for the record
    move(state, job, S.CONFIGURING)
    if state.dependencies.waiting_for:
        waiters.forget(state, job)
    job.partition = partition
    job.reason = Reason.NONE
    job.reason_detail = ""
    job.start_at_us = now_us
    job.end_at_us = 0
    if state.layout.hres:
        job.licenses_alloc = hres.take(state, job.request, alloc, state.free_licenses.copy()) or ""
    state.allocate(job, alloc, units_taken(state, job.request, partition), expected_end_s(state, job))
    if ports.wants_port(job):
        ports.give_job(state, job)
    job.batch_node = batch_node_of(state, job)
    job.tres_alloc = tres_of(state, job)
    charging.begin(state, job, now_us)
    if job.request.kind:
        job.steps = {}
    else:
        job.steps = {BATCH_STEP: _new_batch_step(state, job)}
        state.touch_step(job.steps[BATCH_STEP])
    if state.outputs.is_stored:
        state.record(now_us, job, "start", ",".join([part.node for part in alloc]))
    node_boots.order(state, job)
    if launch:
        begin(state, job)
    _set_limit_timers(state, job)
    if job.request.mail_types:
        mail.began(state, job)
    preemption.update_running_class(state, job)
    _dependents_due(state, job)
    if job.array_throttle:
        refresh_throttle(state, job)


def batch_node_of(state: ClusterState, job: Job) -> str:
    """Returns the node that runs the script: the first, or with --batch the first that has these features."""
    if job.request.batch_features:
        wanted = parse_features(job.request.batch_features)
        for part in job.alloc:
            if wanted.matches(frozenset(state.nodes[part.node].features)):
                return part.node
    return job.alloc[0].node


def _dependents_due(state: ClusterState, job: Job) -> None:
    """Queues the job's dependents for depends.py, which evaluates them after the event."""
    if state.dependencies.waiting_for:
        state.dependencies.due[job.job_id] = None


def begin(state: ClusterState, job: Job) -> None:
    """Begins a job that has its nodes: reboots and prologs first, then the job itself. Safe to repeat."""
    if not node_boots.are_awaited(state, job) and not prolog_state.prolog_comes_first(state, job):
        start_extern_step(state, job)


def begin_after_reboot(state: ClusterState, job: Job, now_us: int) -> None:
    """Begins a job whose nodes are back: its time counts from now."""
    if job.state is S.CONFIGURING:
        job.start_at_us = now_us
        state.touch(job)
        set_end_timers(state, job)
        begin(state, job)


def start_extern_step(state: ClusterState, job: Job) -> None:
    """Starts the job's extern step on its nodes, if it has one; the job begins when it is up."""
    step = prolog_state.extern_step_of(state, job)
    if step is None or prolog_state.is_up(step):
        launch(state, job)
    else:
        emit_launch(state, job, step)


def launch(state: ClusterState, job: Job) -> None:
    """Launches the script of a job whose nodes are ready, or hands the nodes to its owner."""
    if job.request.kind:
        move(state, job, S.RUNNING)
        if job.request.het_job_id:
            _launch_leader(state, job)
    elif not job.request.het_job_id or het.others_are_up(state, job):
        if state.nodes[job.batch_node].connected:  # otherwise with the node's report: steps/life.py
            move(state, job, S.RUNNING)
        emit_launch(state, job, job.steps[BATCH_STEP])


def _launch_leader(state: ClusterState, job: Job) -> None:
    """Handles a component whose nodes are ready: after the last one the leader's script begins."""
    leader = het.members(state, job)[0]
    if leader.state is S.CONFIGURING and not leader.request.kind and prolog_state.is_done(state, leader):
        launch(state, leader)


def set_end_timers(state: ClusterState, job: Job) -> None:
    """Sets the timers of an allocated job's time limit, and of the warning before it. Earlier timers detect that they
    are outdated."""
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
    return blank_step(job.job_id, job.attempt, BATCH_STEP, "batch", job.batch_node, state.epoch, 1)


def tres_of(state: ClusterState, job: Job) -> str:
    """Computes the TRES that the job holds, and their billing."""
    tres = associations.allocated(job)
    tres["billing"] = associations.rate_of(state, job, tres) // RATE_ONE
    return format_tres(tres)


def complete(state: ClusterState, job: Job, end_state: JobState, note: str, reason: Reason | None = None) -> None:
    """Begins the end of a job of which a step has just ended: the others are terminated. None: the reason stays."""
    _begin_end(state, job, end_state, job.reason if reason is None else reason, state.now_us)
    for step in live_steps(state, job):
        if step.state not in END_STATES:
            emit_terminate(state, job, step, note)


def terminate(
    state: ClusterState, job: Job, end_state: JobState, reason: Reason, now_us: int, note: str = "", uid: int = -1
) -> None:
    """Begins the end of a job that has not ended: at once when it is pending, through its steps when it runs.

    `end_state` REQUEUED sends it back to the queue when its steps are gone. A job that is completing already keeps its
    first end state, but a cancel overrides a requeue.
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
    _begin_end(state, job, end_state, reason, now_us)
    state.record(now_us, job, "ending", note or end_state.name)
    live = live_steps(state, job)
    for step in live:
        emit_terminate(state, job, step, note)
    if not live:
        finish(state, job, end_state, reason, now_us)


def _begin_end(state: ClusterState, job: Job, end_state: JobState, reason: Reason, now_us: int) -> None:
    job.end_state = end_state
    job.reason = reason
    if job.state is S.SUSPENDED:
        spans.was_suspended(state, job)
        job.suspended_us += max(0, now_us - job.suspended_at_us)
        job.suspended_at_us = now_us
    move(state, job, S.COMPLETING)
    state.running.set_end(job.job_id, expected_end_s(state, job))
    preemption.update_running_class(state, job)


def was_on(job: Job, node: str) -> bool:
    """Whether its present attempt, or while it waits its last one, has that node. Other nodes' reports on it are
    ignored."""
    return any(part.node == node for part in job.alloc)


def after_node_loss(job: Job) -> JobState:
    """Requeues or ends a job whose node is lost."""
    return S.REQUEUED if job.request.requeue else S.NODE_FAIL


def step_done(state: ClusterState, job: Job, step: Step, now_us: int) -> None:
    """Handles the end of a step. The job ends with its script: its other steps are ended first."""
    if step.parts is None:
        state.emit(ForgetStep(step.node, job.job_id, job.attempt, step.step_id))
    table = state.steps.by_job.get(job.job_id)
    if table is not None:
        table.end(step, job.steps)
        state.steps.serve_later(job.job_id)
    batch = job.steps.get(BATCH_STEP)
    if step is batch:
        job.exit_code = batch.exit_code
        job.exit_signal = batch.exit_signal
    if job.state is S.COMPLETING and job.end_state is not None:
        live = live_steps(state, job)
        if not live:
            finish(state, job, job.end_state, job.reason, _last_end_us(job, step, batch) or now_us)
        elif prolog_state.are_to_go(live):
            emit_terminate(state, job, live[0])
    elif step is batch:
        _script_done(state, job, batch, now_us)


def _script_done(state: ClusterState, job: Job, batch: Step, now_us: int) -> None:
    if job.preempt_end_at_us and batch.state is not S.COMPLETED:
        end_state, reason = preemption.end_state_of(state, job), Reason.PREEMPTED
    else:
        end_state, reason = batch.state, Reason.NONE
        if batch.state is S.OUT_OF_MEMORY:
            reason = Reason.OUT_OF_MEMORY
        elif batch.state is S.FAILED and job.reason_detail:
            reason = Reason.JOB_LAUNCH_FAILURE
        elif batch.state is S.FAILED:
            reason = Reason.RAISED_SIGNAL if batch.exit_signal else Reason.NON_ZERO_EXIT_CODE
        if not batch.exit_signal and requeue_policy.should_requeue(state, job):
            end_state, reason = S.REQUEUED, Reason.NONE
    if live_steps(state, job):
        terminate(state, job, end_state, reason, now_us, "SCRIPT END")
    else:
        finish(state, job, end_state, reason, batch.end_at_us or now_us)


def _last_end_us(job: Job, step: Step, batch: Step | None) -> int:
    """Returns the job's end. An allocation continues after its last step of srun, whose end may be reported late."""
    if step.step_id == EXTERN_STEP and batch is not None:  # the time of an epilog does not count for the job
        return max((other.end_at_us for other in job.steps.values() if other is not step), default=step.end_at_us)
    return max(step.end_at_us, batch.end_at_us if batch is not None else job.completing_at_us)


def finish(state: ClusterState, job: Job, end_state: JobState, reason: Reason, end_at_us: int) -> None:
    """Ends a job or one attempt. `end_at_us` is clamped so that no job has a negative duration."""
    if job.reason_detail:
        end_state, reason = gpu_jobs.own_end(job, end_state, reason)
    if end_state is S.REQUEUED:
        hold = reason is Reason.LAUNCH_FAILED_REQUEUED_HELD
        if reason in _FAILURES or gpu_jobs.is_hit(job):
            outcome.count_failure(job)
        if reason is Reason.NODE_DOWN and job.request.expedite:
            requeue_policy.expedite(state, job)
        requeue(state, job, end_at_us, hold, reason if hold or reason in KEPT_BY_REQUEUE else Reason.NONE)
        return
    if job.state is S.SUSPENDED:  # its steps ended by themselves
        spans.was_suspended(state, job)
        job.suspended_us += max(0, end_at_us - job.suspended_at_us)
    held = job.state in ALLOCATED_STATES
    if held and job.request.cron:
        run_again(state, job, end_state, reason, end_at_us)
        return
    if not held:
        waiters.forget(state, job)
    move(state, job, end_state)
    if held:
        state.release(job, end_at_us, units_in_use(state, job))
        ports.take_back(state, job)
        charging.end(state, job, end_at_us)
        job.suspended_by = Suspend.NO
    if job.reason is Reason.NODE_DOWN and reason is not Reason.NODE_DOWN and not gpu_jobs.is_hit(job):
        job.reason_detail = ""  # it continued unobserved, and this is its real end
    job.end_state = None
    job.reason = reason
    if held:
        prolog_state.attempt_ended(state, job)
    job.end_at_us = max(end_at_us, job.start_at_us, job.submit_at_us)
    if held and state.scheduling.policy.predict:
        prediction.learn(state, job)
    if state.outputs.is_stored:
        state.record(job.end_at_us, job, "end", f"{end_state.name} {job.exit_code}:{job.exit_signal}")
    state.timers.set(job.end_at_us + state.config.min_job_age_s * US, Timer.PURGE, job.job_id, job.attempt)
    if job.array_job_id:
        arrays.count_end(state, job)
    if job.request.mail_types:
        mail.ended(state, job)
    if job.array_throttle:
        refresh_throttle(state, job)
    _dependents_due(state, job)
    if state.awaiting:
        answer_waiting(state, job)


def run_again(state: ClusterState, job: Job, end_state: JobState, reason: Reason, end_at_us: int) -> None:
    """Requeues a crontab's job after a run: the attempt keeps its end, and the job waits for its next time."""
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
    """Closes this attempt and queues the job again with the next attempt number."""
    if job.request.mail_types:
        mail.requeued(state, job, ended_as)
    if job.state is S.SUSPENDED:
        spans.was_suspended(state, job)
    state.end_attempt(job, max(now_us, job.start_at_us), reason, ended_as)
    prolog_state.attempt_ended(state, job)
    state.release(job, now_us, units_in_use(state, job))
    ports.take_back(state, job)
    charging.end(state, job, now_us)
    _begin_again(state, job, now_us, hold, reason)


def requeue_ended(state: ClusterState, job: Job, now_us: int, reason: Reason = Reason.NONE) -> None:
    """Requeues a job that has ended. For accounting the attempt ended as requeued, as in Slurm; its resources are free."""
    state.end_attempt(job, job.end_at_us, Reason.NONE)
    arrays.uncount_end(state, job)
    job.dependency = ""
    _begin_again(state, job, now_us, False, reason)


def _begin_again(state: ClusterState, job: Job, now_us: int, hold: bool, reason: Reason) -> None:
    move(state, job, S.PENDING)
    state.record(now_us, job, "requeue", reason.value if reason is not Reason.NONE else "")
    if gpu_jobs.is_hit(job):
        gpu_jobs.exclude(state, job, job.failed_node)
    _forget_attempt(job)
    job.attempt += 1
    job.reason_detail = reason.value if reason is Reason.JOB_REQUEUED_HELD else ""
    if reason is Reason.PREEMPTED:
        state.timers.set(now_us + PREEMPTOR_PAUSE_US, Timer.BEGIN_TIME, job.job_id)
    else:
        job.preemptor_id = 0
    job.cancelled_by_uid = -1
    job.partition = job.request.partitions[0]
    if job.failed_attempts > state.config.max_batch_requeue and not job.request.cron:
        hold, reason = True, Reason.JOB_HOLD_MAX_REQUEUE
    if hold:
        holds.hold_for(job, reason.value if reason is not Reason.NONE else "")
    elif reason is not Reason.PREEMPTED:  # a preempted job keeps its age and may start at once
        # `now_us` of a caller may be a node's, whose clock may be ahead
        job.eligible_at_us = state.now_us + requeue_policy.delay_us(state, job)
    if job.request.cron:
        job.eligible_at_us = next_start_us(state.config.utc_offsets, job.request.cron, state.now_us)
    if job.request.reservation:
        gone = (name for name in names_asked(job) if name not in state.reservations)
        requeue_policy.leave_reservations(state, job, gone, now_us)
    refresh(state, job, state.now_us)
    refresh_throttle(state, job)


def _forget_attempt(job: Job) -> None:
    """Nothing of the attempt that has ended stays at a job that waits again."""
    job.end_state = None
    job.reason = Reason.NONE
    job.borrowed = 0
    job.alloc = ()
    job.batch_node = ""
    job.tres_alloc = ""
    job.licenses_alloc = ""
    job.steps = NO_STEPS
    job.exit_code = 0
    job.exit_signal = 0
    job.derived_code = 0
    job.derived_signal = 0
    job.start_at_us = 0
    job.end_at_us = 0
    job.completing_at_us = 0
    job.resized_at_us = 0
    job.stopped = 0
    # the attempt may have had less
    job.time_limit_s = -1 if job.request.time_limit_s is None else job.request.time_limit_s
    job.suspended_by = Suspend.NO
    job.suspended_us = 0
    job.suspended_at_us = 0
    job.preempt_at_us = 0
    job.preempt_end_at_us = 0


def ended(job: Job) -> JobEnded:
    """Builds the answer for the clients that wait for the job."""
    cause = job.reason_detail if job.state is S.FAILED else ""
    return JobEnded(job.state.name, job.exit_code, job.exit_signal, cause)


def answer_waiting(state: ClusterState, job: Job) -> None:
    """Answers the clients that wait for this job, or for its array when this was its last task."""
    if job.array_job_id != job.job_id:
        body = ended(job)
        for reply_to in state.awaiting.take(job.job_id):
            state.reply(reply_to, body)
    if job.array_job_id:
        record = state.arrays[job.array_job_id]
        if arrays.is_over(record):
            how = S.FAILED if record.failed else S.COMPLETED
            for reply_to in state.awaiting.take(job.array_job_id):
                state.reply(reply_to, JobEnded(how.name, record.exit_code, record.exit_signal))
