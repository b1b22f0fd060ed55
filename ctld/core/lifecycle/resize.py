"""Shrinks running jobs: scontrol update JobId= NumNodes= or NodeList= releases nodes, and the job continues on the others.

The tasks on the released nodes are ended at once (SIGTERM, SIGKILL), then the extern step's part there. The nodes stay
allocated until the last of these parts has ended, so that no other job meets their processes; the request is answered
at that moment. Meanwhile no step starts on them. The other tasks of a step continue, as in Slurm.

The node of the batch script is never released. Accounting gets a record of the job's allocation until now
(jobs/spans.py); sacct shows it as RESIZING, and the job as one that was submitted and started at this time.

A resize in progress is not stored: after a restart the job has all its nodes and the request can be repeated.
Deliberately absent: jobs that grow, and components of heterogeneous jobs.
"""

from ctld.core.jobs import ports, prolog_state, spans
from ctld.core.jobs.expected_end import expected_end_s
from ctld.core.jobs.sharing import units_in_use
from ctld.core.lifecycle import job_life, step_orders
from ctld.core.limits import charging
from ctld.core.queue import preemption
from ctld.core.records.effects import JobResult, Refused, Results, TerminateStep
from ctld.core.records.job import Job
from ctld.core.records.step import Step, is_live_on
from ctld.core.state.resizes import Resize, ResizeCall
from ctld.core.state.state import ClusterState
from penstock.values.jobid import EXTERN_STEP
from penstock.values.refusals import Code
from penstock.values.states import JobState

S = JobState
#: The note of the order to end a part of a step.
NOTE = "RESIZE"


def nodes_to_keep(state: ClusterState, job: Job, count: int | None, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Returns the nodes that the job keeps when it shrinks to `count` nodes, or to those of `names`. Raises Refused."""
    if job.state is S.PENDING or job.state is S.CONFIGURING:
        raise Refused(Code.JOB_NOT_RUNNING, "the job has not started on its nodes")
    if job.state not in (S.RUNNING, S.SUSPENDED):
        raise Refused(Code.JOB_FINISHED)
    if job.job_id in state.resizes:
        raise Refused(Code.BUSY, "the job is being resized")
    held = tuple(part.node for part in job.alloc)
    if names is not None:
        kept = _named(job, held, names)
    else:
        if count is None or count <= 0:
            raise Refused(Code.INVALID_NODE_COUNT)
        if count > len(held):
            raise Refused(Code.NOT_SUPPORTED, "a job does not grow while it runs")
        first = job.batch_node if job.batch_node in held else held[0]
        chosen = frozenset((first, *[name for name in held if name != first][: count - 1]))
        kept = tuple(name for name in held if name in chosen)
    if kept != held:
        _check_may_shrink(state, job, kept)
    return kept


def _named(job: Job, held: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if job.request.distribution.startswith("arbitrary"):
        raise Refused(Code.NOT_SUPPORTED, "the job has --distribution=arbitrary")
    if not names or not set(names) <= set(held):
        raise Refused(Code.INVALID_NODE_NAME, "NodeList must name nodes of the job")
    if not job.request.kind and job.batch_node not in names:
        raise Refused(Code.INVALID_NODE_NAME, f"the batch script runs on {job.batch_node}, which the job must keep")
    return tuple(name for name in held if name in names)


def _check_may_shrink(state: ClusterState, job: Job, kept: tuple[str, ...]) -> None:
    if state.config.has_word("scheduler_parameters", "disable_job_shrink"):
        raise Refused(Code.NOT_SUPPORTED, "SchedulerParameters has disable_job_shrink")
    if job.request.het_job_id:
        raise Refused(Code.NOT_SUPPORTED, "components of a heterogeneous job keep their size")
    for step in step_orders.live_steps(state, job):
        for part in step.parts or ():
            if part.node not in kept and is_live_on(step, part.node) and not state.nodes[part.node].connected:
                raise Refused(Code.NODES_BUSY, f"{part.node} does not respond, and may still run tasks of the job")


def begin(state: ClusterState, job: Job, kept: tuple[str, ...], now_us: int, call: ResizeCall) -> None:
    """Starts to shrink a job to the nodes that `nodes_to_keep` returned. `call` is answered when it has shrunk."""
    call.jobs[job.job_id] = None
    state.resizes[job.job_id] = Resize(kept, call)
    for step in step_orders.live_steps(state, job):
        if step.step_id != EXTERN_STEP:
            _end_parts(state, job, step, _released(job, kept), 0, NOTE)
    advance(state, job, now_us)


def advance(state: ClusterState, job: Job, now_us: int) -> None:
    """Continues a resize after parts of steps, or the job, have ended."""
    resize = state.resizes.get(job.job_id)
    if resize is None:
        return
    if job.state not in (S.RUNNING, S.SUSPENDED):
        del state.resizes[job.job_id]
        refused = Refused(Code.JOB_FINISHED)
        _answer(state, job, resize.call, JobResult(str(job.job_id), int(refused.code), refused.text))
        return
    busy = False
    for node in _released(job, resize.kept):
        live = [step for step in step_orders.live_steps(state, job) if is_live_on(step, node)]
        busy = busy or bool(live)
        if live and prolog_state.are_alone(live) and node not in resize.terminated:
            resize.terminated[node] = None
            grace_ms = state.config.kill_wait_s * 1000
            _end_parts(state, job, live[0], (node,), grace_ms, prolog_state.ending_note(job))
    if not busy:
        del state.resizes[job.job_id]
        _shrink(state, job, resize.kept, now_us)
        _answer(state, job, resize.call)


def _released(job: Job, kept: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.node for part in job.alloc if part.node not in kept)


def _end_parts(state: ClusterState, job: Job, step: Step, nodes: tuple[str, ...], grace_ms: int, note: str) -> None:
    for node in nodes:
        if is_live_on(step, node):
            state.emit(TerminateStep(node, job.job_id, job.attempt, step.step_id, grace_ms, note))


def _shrink(state: ClusterState, job: Job, kept: tuple[str, ...], now_us: int) -> None:
    """Releases the other nodes: no process of the job runs there."""
    released = _released(job, kept)
    if not released:
        return
    charging.end(state, job, now_us)
    spans.resized(state, job, now_us)
    ports.leave(state, job, released)
    alloc = tuple(part for part in job.alloc if part.node in kept)
    state.shrink(job, alloc, now_us, units_in_use(state, job), expected_end_s(state, job))
    preemption.update_running_class(state, job)
    job.batch_node = job_life.batch_node_of(state, job) if job.request.kind else job.batch_node
    job.tres_alloc = job_life.tres_of(state, job)
    job.resized_at_us = now_us
    charging.begin(state, job, now_us)
    state.steps.serve_later(job.job_id)  # a step may have waited for a node that is gone
    state.record(now_us, job, "resize", ",".join(kept))
    state.touch(job)


def _answer(state: ClusterState, job: Job, call: ResizeCall, refusal: JobResult | None = None) -> None:
    """Answers the request when it waits for no other job."""
    call.jobs.pop(job.job_id, None)
    if refusal is not None:
        call.results = [refusal if not one.code else one for one in call.results]
    if not call.jobs and call.reply_to:
        state.reply(call.reply_to, Results(tuple(call.results)))
