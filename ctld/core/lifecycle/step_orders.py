"""Orders to nodes about the steps of a job: launch, signal, terminate. Each may be sent again, and has an effect once.

Deliberately absent: when a step is to start or end (job_life.py, steps/), and what a node does with an order.
"""

from ctld.core.demand.node_kinds import cpus_used
from ctld.core.jobs import arrays, het, prolog_state
from ctld.core.lifecycle import lease
from ctld.core.records.effects import LaunchStep, SignalStep, TerminateStep
from ctld.core.records.job import Job, job_row
from ctld.core.records.step import SpreadStep, Step, live_nodes, step_row
from ctld.core.state.state import ClusterState
from penstock.values.jobid import EXTERN_STEP
from penstock.values.states import END_STATES, JobState


def live_steps(state: ClusterState, job: Job) -> list[Step]:
    """Returns the job's steps that have not ended."""
    table = state.steps.by_job.get(job.job_id)
    if table is not None:
        return list(table.live.values())
    return [step for step in job.steps.values() if step.state not in END_STATES]


def working_steps(state: ClusterState, job: Job) -> list[Step]:
    """Returns the live steps that are the job's own, without its extern step."""
    return [step for step in live_steps(state, job) if step.step_id != EXTERN_STEP]


def emit_launch(state: ClusterState, job: Job, step: Step, only: str = "") -> None:
    """Sends the launch of a step, first or again, to its nodes, or to the node `only`; each starts it at most once."""
    count, first, last, by = arrays.facts(job, state) if job.array_job_id else (0, 0, 0, 0)
    lease_s, grace_s = lease.terms(state, job) if state.config.lease_time_s else (0, 0)
    # An earlier launch may yet take effect, with longer lease terms.
    step.dead_after_s = max(step.dead_after_s, lease.dead_after_s(lease_s, grace_s)) if lease_s else 0
    head = (
        job.job_id, job.attempt, step.step_id, state.epoch, job_row(job), count, first, last, by, lease_s, grace_s,
    )  # fmt: skip
    port = state.steps.master_ports.get(job.job_id, 0)
    rows = tuple(job_row(one) for one in het.members(state, job)) if job.request.het_job_id else ()
    used = cpus_used(state.nodes, job.request, job.alloc)
    if step.parts is None:
        state.emit(LaunchStep(step.node, *head, None, port, rows, state.nodes[step.node].gpu_slots, used))
        return
    row = step_row(step)
    for part in step.parts:
        if part.state is JobState.CONFIGURING and only in ("", part.node):
            state.emit(LaunchStep(part.node, *head, row, port, rows, state.nodes[part.node].gpu_slots, used))


def emit_signal(
    state: ClusterState, job: Job, step: Step, signal_no: int, *, batch_only: bool = False, full: bool = False
) -> None:
    """Sends a signal to a step on its nodes; to one that is being started there, when it runs."""
    for node in live_nodes(step):
        state.emit(SignalStep(node, job.job_id, job.attempt, step.step_id, signal_no, batch_only, full))


def emit_terminate(state: ClusterState, job: Job, step: Step, note: str = "", only: str = "") -> None:
    """Sends the order to end a step, first or again, to its nodes, or to the node `only`. The first note of a step is
    kept."""
    grace_ms = state.config.kill_wait_s * 1000
    if step.step_id == EXTERN_STEP:
        if not prolog_state.are_alone(live_steps(state, job)):
            return  # it ends last, and gets its order then
        note = prolog_state.ending_note(job)
    if isinstance(step, SpreadStep) and not step.note:
        step.note = prolog_state.EXTERN_END if step.step_id == EXTERN_STEP else note or "JOB END"
        state.touch_step(step)
    for node in live_nodes(step):
        if only in ("", node):
            state.emit(TerminateStep(node, job.job_id, job.attempt, step.step_id, grace_ms, note))
