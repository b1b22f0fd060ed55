"""A step's life: launched (CONFIGURING), RUNNING by the node's word, an end state by the node's word.

Reports are facts about (job, attempt, step) and come at least once: one that is known already, or that speaks of an
attempt which is over, changes nothing but is acknowledged, so that the node can forget it.
"""

from ctld.core import job_life
from ctld.core.effects import ForgetStep, SignalStep
from ctld.core.events import LaunchRefused, StepExited, StepStarted
from ctld.core.expect import limit_at_us
from ctld.core.model import Job, Step
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.jobid import BATCH_STEP
from penstock.values.signals import parse_end_warning
from penstock.values.states import END_STATES, JobState, Reason

S = JobState

#: From each state of a step, where it may go.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    S.CONFIGURING: frozenset({S.RUNNING, *sorted(END_STATES)}),
    S.RUNNING: frozenset(END_STATES),
    **dict.fromkeys(sorted(END_STATES), frozenset()),
}

#: A step that could not be started has no exit code, and 0:0 would look like success. Slurm shows 0:53 then (its output
#: file or folder cannot be used), and users know to look that up.
NOT_LAUNCHED_SIGNAL = 53


def move(state: ClusterState, step: Step, to: JobState) -> None:
    """Change a step's state along the table."""
    if to not in TRANSITIONS[step.state]:
        raise job_life.IllegalMove(f"step {step.job_id}.{step.step_id}: {step.state.name} -> {to.name}")
    step.state = to
    state.touch_step(step)


def find(state: ClusterState, job_id: int, attempt: int, step_id: int) -> tuple[Job, Step] | None:
    """The step of the present attempt, None if it is not known or over."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt:
        return None
    step = job.steps.get(step_id)
    return None if step is None else (job, step)


def step_started(state: ClusterState, now_us: int, event: StepStarted) -> None:
    """A task runs on the node."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or found[1].node != event.node or found[1].state is not S.CONFIGURING:
        return
    job, step = found
    move(state, step, S.RUNNING)
    step.start_at_us = event.at_us
    if job.state is S.CONFIGURING:
        job_life.move(state, job, S.RUNNING)


def step_exited(state: ClusterState, now_us: int, event: StepExited) -> None:
    """A step has ended, or could not be started. The end decides the job's when it was its last step."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or found[1].node != event.node or found[1].state in END_STATES:
        state.emit(ForgetStep(event.node, event.job_id, event.attempt, event.step_id))
        return
    job, step = found
    if event.rebooted:
        step.start_at_us = step.start_at_us or event.start_at_us
        lost(state, job, step, now_us, event.failure)
        return
    end_state = S.COMPLETED
    if event.out_of_memory:
        end_state = S.OUT_OF_MEMORY
    elif event.exit_code or event.exit_signal or event.failure:
        end_state = S.FAILED
    if job.state is S.COMPLETING and (job.end_state is S.CANCELLED or job.reason is Reason.PREEMPTED):
        end_state = S.CANCELLED
    step.start_at_us = event.start_at_us or step.start_at_us
    step.end_at_us = max(event.end_at_us, step.start_at_us)
    step.exit_code, step.exit_signal = event.exit_code, event.exit_signal
    if end_state is S.FAILED and not event.exit_code and not event.exit_signal:
        step.exit_signal = NOT_LAUNCHED_SIGNAL
    step.user_cpu_us, step.system_cpu_us = event.user_cpu_us, event.system_cpu_us
    step.max_rss_kb, step.max_vmsize_kb = event.max_rss_kb, event.max_vmsize_kb
    step.disk_read_bytes, step.disk_write_bytes = event.disk_read_bytes, event.disk_write_bytes
    if event.lease_lapsed and job.state is not S.COMPLETING:
        job.failed_node, job.reason, job.end_state = step.node, Reason.NODE_DOWN, job_life.after_node_loss(job)
        job_life.move(state, job, S.COMPLETING)
    if event.failure:
        job.reason_detail = event.failure
        state.record(now_us, job, "step failure", event.failure)
    move(state, step, end_state)
    if event.untried and job.state is S.CONFIGURING:
        # To start it anew is no second run, so --no-requeue does not matter; MaxBatchRequeue bounds the tries.
        job.end_state = S.REQUEUED
        job_life.move(state, job, S.COMPLETING)
    job_life.step_done(state, job, step, now_us)


def launch_refused(state: ClusterState, now_us: int, event: LaunchRefused) -> None:
    """The node will not start the step: the job goes back to the queue, held, as Slurm does after a failed launch."""
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or found[1].node != event.node or found[1].state is not S.CONFIGURING:
        return
    job, step = found
    move(state, step, S.FAILED)
    step.end_at_us = now_us
    state.record(now_us, job, "launch refused", event.why)
    if job.state is S.COMPLETING and job.end_state is not S.REQUEUED:
        job_life.step_done(state, job, step, now_us)
    else:
        job_life.requeue(state, job, now_us, True, Reason.LAUNCH_FAILED_REQUEUED_HELD)


def lost(state: ClusterState, job: Job, step: Step, now_us: int, why: str) -> None:
    """The step is known to be dead without an exit of its own (node rebooted, supervisor and spool gone)."""
    job.failed_node = step.node
    step.end_at_us = max(now_us, step.start_at_us)
    move(state, step, S.NODE_FAIL)
    state.record(now_us, job, "step lost", why)
    if job.state is not S.COMPLETING:
        job.end_state = job_life.after_node_loss(job)
        job.reason = Reason.NODE_DOWN
        job_life.move(state, job, S.COMPLETING)
    job_life.step_done(state, job, step, now_us)


def time_limit(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """A time limit is due: end the job unless the limit was raised since."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or job.state not in (S.CONFIGURING, S.RUNNING) or job.time_limit_s < 0:
        return
    due_us = limit_at_us(state, job)
    node = state.nodes.get(job.batch_node)
    if due_us > now_us:
        state.timers.set(due_us, Timer.TIME_LIMIT, job_id, attempt)
    elif node is not None and node.connected and (job_id, attempt, BATCH_STEP) not in node.exited:
        # Else it cannot be told, and may have ended in time (node_life._settle), or it has and the report is on its way.
        job_life.terminate(state, job, S.TIMEOUT, Reason.TIME_LIMIT, now_us, "TIME LIMIT")


def end_warning(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """--signal: the time before the limit has come, unless the limit was raised since.

    With B: the script's own process gets the signal, else the job's steps, of which a batch script is none (as Slurm).
    """
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or job.state is not S.RUNNING or job.time_limit_s < 0:
        return
    warning = parse_end_warning(job.request.signal)
    due_us = limit_at_us(state, job) - warning.before_end_s * job_life.US
    if due_us > now_us:
        return  # the raised limit has a timer of its own
    for step in job.steps.values():
        if step.state is S.RUNNING and (step.step_id == BATCH_STEP) == warning.batch_shell:
            state.record(now_us, job, "signal", str(warning.signal_no))
            state.emit(
                SignalStep(step.node, job_id, attempt, step.step_id, warning.signal_no, warning.batch_shell, False)
            )
