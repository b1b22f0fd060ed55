"""The life cycle of a step: launched (CONFIGURING), RUNNING by the node's report, an end state by the node's report.

Reports are facts about (job, attempt, step), delivered at least once: a duplicate, or one about an attempt that has
ended, changes nothing but is acknowledged, so that the node can delete it.
"""

from ctld.core.jobs import outcome, ports, prolog_state
from ctld.core.jobs.expected_end import limit_at_us
from ctld.core.lifecycle import allocations, gpu_jobs, job_life, restored, step_orders
from ctld.core.records.effects import ForgetStep, StepSeen, Warn
from ctld.core.records.events import LaunchRefused, StepExited, StepStarted
from ctld.core.records.job import Job
from ctld.core.records.step import SpreadStep, Step, is_live_on, part_on, step_row
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from ctld.core.steps import parts as parts
from ctld.core.steps.reported import earliest_start, end_of, start_of, usage_of
from ctld.core.steps.usage import add_usage
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from penstock.values.signals import parse_end_warning
from penstock.values.states import END_STATES, JobState, Reason

S = JobState

#: The allowed transitions from each state of a step.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    S.CONFIGURING: frozenset({S.RUNNING, *sorted(END_STATES)}),
    S.RUNNING: frozenset(END_STATES),
    **dict.fromkeys(sorted(END_STATES), frozenset()),
}

#: The exit code of a step that could not be started, or that stopped itself without contact while its program ended with
#: 0: 0:0 would look like success. Slurm shows 0:53 for the former (its
#: output file or folder cannot be used), and users know to look that up.
NOT_LAUNCHED_SIGNAL = 53


def move(state: ClusterState, step: Step, to: JobState) -> None:
    """Changes a step's state along the table."""
    if to not in TRANSITIONS[step.state]:
        raise job_life.IllegalMove(f"step {step.job_id}.{step.step_id}: {step.state.name} -> {to.name}")
    step.state = to
    state.touch_step(step)


def find(state: ClusterState, job_id: int, attempt: int, step_id: int) -> tuple[Job, Step] | None:
    """Returns the step of the present attempt, None if it is unknown or has ended."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt:
        return None
    step = job.steps.get(step_id)
    return None if step is None else (job, step)


def step_started(state: ClusterState, now_us: int, event: StepStarted) -> None:
    """Handles the start of a task on the node."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or not is_live_on(found[1], event.node):
        return
    job, step = found
    start_us = start_of(event.at_us, earliest_start(job, step), now_us)
    if isinstance(step, SpreadStep):
        if parts.started(state, step, event.node, start_us):
            move(state, step, S.RUNNING)
            step.start_at_us = start_us
            parts.set_limit_timers(state, step)
    elif step.state is S.CONFIGURING:
        move(state, step, S.RUNNING)
        step.start_at_us = start_us
        if job.state is S.CONFIGURING:  # the node was not connected when the launch was ordered
            job_life.move(state, job, S.RUNNING)


def step_exited(state: ClusterState, now_us: int, event: StepExited) -> None:
    """Handles the end of a step, or its failed start. The end decides the job's when it was its last step."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    found = find(state, event.job_id, event.attempt, event.step_id)
    event = _within_bounds(state, event, _earliest(state, event, found), now_us)
    if found is None or not is_live_on(found[1], event.node):
        restored.take_end(state, event)
        state.emit(ForgetStep(event.node, event.job_id, event.attempt, event.step_id))
        return
    job, step = found
    if event.lease_lapsed:
        _stopped_by_lease(state, now_us, job, event.node)
    if isinstance(step, SpreadStep):
        _part_exited(state, now_us, job, step, event)
        return
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
    step.exit_code = event.exit_code
    step.exit_signal = event.exit_signal
    if end_state is S.FAILED and not event.exit_code and not event.exit_signal:
        step.exit_signal = NOT_LAUNCHED_SIGNAL
    step.user_cpu_us = event.user_cpu_us
    step.system_cpu_us = event.system_cpu_us
    step.max_rss_kb = event.max_rss_kb
    step.max_vmsize_kb = event.max_vmsize_kb
    step.disk_read_bytes = event.disk_read_bytes
    step.disk_write_bytes = event.disk_write_bytes
    if event.metrics:
        step.usage = add_usage("", event.node, event.metrics)
    if event.failure:
        is_said = gpu_jobs.is_hit(job) or gpu_jobs.blame(state, job, event.node, event.failure)
        if not is_said and (job.state is not S.COMPLETING or not job.reason_detail):  # the cause is known already
            outcome.explain(job, event.failure)
        state.record(now_us, job, "step failure", event.failure)
    move(state, step, end_state)
    if event.untried and job.state in (S.CONFIGURING, S.RUNNING):
        # Starting it again is no second run, so --no-requeue does not apply; MaxBatchRequeue bounds the attempts.
        outcome.count_failure(job)
        job_life.complete(state, job, S.REQUEUED, "REQUEUED")
    job_life.step_done(state, job, step, now_us)


def _within_bounds(state: ClusterState, event: StepExited, earliest_us: int, now_us: int) -> StepExited:
    """Returns the report as far as it can be true; the first usage of a node that cannot is logged."""
    event = end_of(event, earliest_us, now_us)
    node = state.nodes.get(event.node)
    if node is None:
        return event
    bounded = usage_of(event, node)
    if bounded is not event and not node.usage_doubted:
        node.usage_doubted = True
        which = f"{event.job_id}.{event.step_id}"
        state.emit(
            Warn(f"node {node.name} reports more usage of {which} than it can have had ({_more(event, bounded)}): cut")
        )
    return bounded


def _more(event: StepExited, bounded: StepExited) -> str:
    """What was reported and is not taken, for the log."""
    names = event.__struct_fields__
    return " ".join(
        f"{name}={getattr(event, name)}" for name in names if getattr(event, name) != getattr(bounded, name)
    )


def _earliest(state: ClusterState, event: StepExited, found: tuple[Job, Step] | None) -> int:
    """Returns a time before which the step has not started, by the controller's clock."""
    if found is not None:
        return earliest_start(*found)
    job = state.jobs.get(event.job_id)
    return job.submit_at_us if job is not None else 0


def _stopped_by_lease(state: ClusterState, now_us: int, job: Job, node: str) -> None:
    """Handles a step that has stopped itself as its node was unreachable: for the job that node was lost."""
    if job.state is not S.COMPLETING and (node == job.batch_node or not job.request.no_kill):
        outcome.failed_on(job, node)
        job_life.terminate(state, job, job_life.after_node_loss(job), Reason.NODE_DOWN, now_us, "NODE FAILURE")


def launch_refused(state: ClusterState, now_us: int, event: LaunchRefused) -> None:
    """Handles the node's refusal of the step: the job is requeued and held, as Slurm does after a failed launch.

    Not held when the node has lost a GPU of the job's allocation: it can run elsewhere.
    """
    found = find(state, event.job_id, event.attempt, event.step_id)
    if found is None or not is_live_on(found[1], event.node):
        return
    job, step = found
    if isinstance(step, SpreadStep):
        _part_refused(state, now_us, job, step, event)
        return
    if step.state is not S.CONFIGURING:
        return
    move(state, step, S.FAILED)
    step.end_at_us = now_us
    state.record(now_us, job, "launch refused", event.why)
    if event.never:
        give_up(state, now_us, job, event.why)
        if job.state is S.COMPLETING:
            job_life.step_done(state, job, step, now_us)
        return
    hold = not gpu_jobs.blame(state, job, event.node, event.why)
    reason = Reason.LAUNCH_FAILED_REQUEUED_HELD if hold else Reason.NONE
    if step_orders.live_steps(state, job) and job.state is not S.COMPLETING:
        job_life.terminate(state, job, S.REQUEUED, reason, now_us)
        job_life.step_done(state, job, step, now_us)
    elif job.state is S.COMPLETING and (job.end_state is not S.REQUEUED or step_orders.live_steps(state, job)):
        job_life.step_done(state, job, step, now_us)
    else:
        outcome.count_failure(job)
        job_life.requeue(state, job, now_us, hold, reason)


def give_up(state: ClusterState, now_us: int, job: Job, why: str) -> None:
    """Fails a job that would end the same way if it were launched again, with the reason."""
    if job.state not in (S.PENDING, S.COMPLETING):
        outcome.explain(job, why)
        job_life.terminate(state, job, S.FAILED, Reason.JOB_LAUNCH_FAILURE, now_us)


def lost(state: ClusterState, job: Job, step: Step, now_us: int, why: str, node: str = "") -> None:
    """Ends a step that is known to be dead without an exit of its own (node rebooted, supervisor and spool lost).

    Of a step on several nodes: its part on `node`. With --no-kill the job continues, unless it was its script.
    """
    outcome.failed_on(job, node or step.node)
    state.record(now_us, job, "step lost", why)
    if isinstance(step, SpreadStep):
        parts.lost(state, step, node, now_us, why)
    else:
        step.end_at_us = max(now_us, step.start_at_us)
        move(state, step, S.NODE_FAIL)
    goes_on = isinstance(step, SpreadStep) and job.request.no_kill
    if job.state is not S.COMPLETING and not goes_on:
        job_life.complete(state, job, job_life.after_node_loss(job), "NODE FAILURE", Reason.NODE_DOWN)
    if not isinstance(step, SpreadStep):
        job_life.step_done(state, job, step, now_us)
        return
    if step.request is not None and step.live and not step.note and not step.request.no_kill:
        step_orders.emit_terminate(state, job, step, "NODE FAILURE")
    part_done(state, job, step, now_us)
    is_needed = node == job.batch_node and not job.request.kind
    if step.step_id == EXTERN_STEP and job.state is S.CONFIGURING and goes_on and not is_needed:
        _begin_without(state, job)


def _begin_without(state: ClusterState, job: Job) -> None:
    """Begins a job with --no-kill that has lost a node during its prologs, if that was the last one which it awaited."""
    if not prolog_state.awaits_prolog(state, job):
        job_life.launch(state, job)


# ---- steps on several nodes -------------------------------------------------------------------------------------------


def _part_exited(state: ClusterState, now_us: int, job: Job, step: SpreadStep, event: StepExited) -> None:
    state.emit(ForgetStep(event.node, event.job_id, event.attempt, event.step_id))
    if event.rebooted:
        lost(state, job, step, now_us, event.failure, event.node)
        return
    part = parts.ended(state, step, event)
    if event.failure:
        state.record(now_us, job, "step failure", f"{step.step_id} on {event.node}: {event.failure}")
    failed = bool(part.exit_code or part.exit_signal or part.failure)
    if failed and step.live and not step.note:
        if not part.start_at_us:
            step_orders.emit_terminate(state, job, step, "LAUNCH FAILURE")
        elif step.request is not None and step.request.kill_on_bad_exit:
            step_orders.emit_terminate(state, job, step, "BAD EXIT")
    part_done(state, job, step, now_us)


def _part_refused(state: ClusterState, now_us: int, job: Job, step: SpreadStep, event: LaunchRefused) -> None:
    """Handles a node's refusal of its part: the step fails, its job continues."""
    if step.all_parts[part_on(step, event.node)].state is not S.CONFIGURING:
        return
    parts.refused(state, step, event.node, now_us, event.why)
    state.record(now_us, job, "launch refused", f"{step.step_id} on {event.node}: {event.why}")
    if step.live and not step.note:
        step_orders.emit_terminate(state, job, step, "LAUNCH FAILURE")
    part_done(state, job, step, now_us)


def part_done(state: ClusterState, job: Job, step: SpreadStep, now_us: int) -> None:
    """Handles the end of a part; the step ends with its last one."""
    state.steps.serve_later(job.job_id)
    if step.live:
        return
    end_state = parts.conclude(step, now_us)
    move(state, step, end_state)
    ports.step_ended(state, step)
    # As in Slurm, the highest wait status: any exit code is above any signal.
    if step.request is not None and (step.exit_code, step.exit_signal) > (job.derived_code, job.derived_signal):
        outcome.set_derived_exit(job, step.exit_code, step.exit_signal)
        state.touch(job)
    for reply_to in state.calls.take((job.job_id, job.attempt, step.step_id), now_us):
        state.reply(reply_to, StepSeen(step_row(step), job.state.name))
    job_life.step_done(state, job, step, now_us)
    allocations.step_gone(state, job, now_us)


def end_step(state: ClusterState, job: Job, step: SpreadStep, note: str, uid: int = -1) -> None:
    """Ends one step of a job that continues."""
    if uid >= 0:
        step.cancelled_by_uid = uid
    step_orders.emit_terminate(state, job, step, note)


def time_limit(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Handles the timer of a time limit: ends the job unless the limit was raised since."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or job.state not in (S.CONFIGURING, S.RUNNING) or job.time_limit_s < 0:
        return
    due_us = limit_at_us(state, job)
    node = state.nodes.get(job.batch_node)
    if due_us > now_us:
        state.timers.set(due_us, Timer.TIME_LIMIT, job_id, attempt)
    elif job.request.kind:
        job_life.terminate(state, job, S.TIMEOUT, Reason.TIME_LIMIT, now_us, "TIME LIMIT")
    elif node is not None and node.connected and (job_id, attempt, BATCH_STEP) not in node.exited:
        # Otherwise its state is unknown and it may have ended in time (node_life._settle), or its end is being
        # reported.
        job_life.terminate(state, job, S.TIMEOUT, Reason.TIME_LIMIT, now_us, "TIME LIMIT")


def end_warning(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Sends the --signal of a job at its time before the limit, unless the limit was raised since.

    With B: the script's own process gets the signal, else the job's steps, without the batch script (as in Slurm).
    """
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or job.state is not S.RUNNING or job.time_limit_s < 0:
        return
    warning = parse_end_warning(job.request.signal)
    due_us = limit_at_us(state, job) - warning.before_end_s * job_life.US
    if due_us > now_us:
        return  # the raised limit has a timer of its own
    for step in step_orders.live_steps(state, job):
        if step.step_id == EXTERN_STEP:
            continue
        if (step.step_id == BATCH_STEP) == warning.batch_shell:
            state.record(now_us, job, "signal", str(warning.signal_no))
            step_orders.emit_signal(state, job, step, warning.signal_no, batch_only=warning.batch_shell)
