"""Handles GPUs that a job has and does not use: the job is notified, and after a time an action follows. Off unless a
site configures it.

    idle for PenstockGpuIdleWarn -> a line in the job's error output and AdminComment
    and for PenstockGpuIdleLimit more -> PenstockGpuIdleAction:
        warn     nothing
        cancel   the job is CANCELLED
        return   those GPUs are released for other jobs; the job continues and is charged for the rest

Nodes report when GPUs become idle, and when they are used again. That is kept in the GPU's record, so that a limit
survives a restart of the controller.

A GPU is only released when no process of the job has it open, none of its steps has it, and the node confines jobs to
their own GPUs by cgroup: otherwise the job could use it beside the next one. If these conditions fail, the job gets
only a warning, which tells so. A suspended job, and one whose node is unreachable, are checked again later.
"""

from ctld.core.gpus import inventory
from ctld.core.jobs import outcome, spans
from ctld.core.lifecycle import gpu_jobs, job_life, step_orders
from ctld.core.limits import charging
from ctld.core.records.effects import NotifyStep, ReturnGpus
from ctld.core.records.events import GpuIdle
from ctld.core.records.gpu import Gpu
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.step import SpreadStep, live_nodes
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.duration import format_duration
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState, Reason

US = 1_000_000
#: Delay of another check of a job that could not be judged.
AGAIN_US = 60 * US
#: Beginning of the cause of a cancel.
GPU_IDLE = "GPU_IDLE: "


def reported(state: ClusterState, now_us: int, event: GpuIdle) -> None:
    """Handles a node's report that GPUs of a job are idle, or in use again."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node, job = state.nodes.get(event.node), state.jobs.get(event.job_id)
    if node is None or job is None or job.attempt != event.attempt or not state.config.gpu_idle_warn_s:
        return
    mine = [gpu for uuid in event.uuids if (gpu := node.gpus.get(uuid)) is not None and _has(state, job, node, gpu)]
    is_new = any(not is_idle(gpu, job) for gpu in mine)
    for gpu in mine:
        new = _busy(gpu)
        if not event.over:
            new = gpu._replace(
                idle_job=job.job_id, idle_attempt=job.attempt, idle_since_us=event.since_us, idle_unused=event.unused
            )
        inventory.put(state, node, new)
    if mine and is_new and not event.over and job.state is JobState.RUNNING:
        _warn(state, now_us, node, job, mine, event.since_us)
        _set_timer(state, now_us, job, event.since_us)


def _has(state: ClusterState, job: Job, node: Node, gpu: Gpu) -> bool:
    return gpu.slot >= 0 and job in gpu_jobs.jobs_with_gpu(state, node, gpu.slot)


def is_idle(gpu: Gpu, job: Job) -> bool:
    """Whether this attempt of the job, which has it, is known to leave it idle."""
    return gpu.idle_since_us != 0 and (gpu.idle_job, gpu.idle_attempt) == (job.job_id, job.attempt)


def _busy(gpu: Gpu) -> Gpu:
    return gpu._replace(idle_job=0, idle_attempt=0, idle_since_us=0, idle_unused=False)


def _names(node: Node, mine: list[Gpu]) -> str:
    numbers = ",".join(str(gpu.facts.index) for gpu in mine)
    return f"GPU{'s' if len(mine) > 1 else ''} {numbers} of {node.name}"


def _warn(state: ClusterState, now_us: int, node: Node, job: Job, mine: list[Gpu], since_us: int) -> None:
    config, names = state.config, _names(node, mine)
    gpu_jobs.comment(state, job, f"idle: {names}")
    ahead = {"cancel": "the job is cancelled", "return": "what is not used leaves the job"}.get(
        config.gpu_idle_action, ""
    )
    if config.gpu_idle_action == "return" and not _keeps_apart(state, node):
        ahead = ""
    more = (
        f"; after {format_duration(config.gpu_idle_limit_s)} more {ahead}" if ahead and config.gpu_idle_limit_s else ""
    )
    idle_s = max(0, now_us - since_us) // US
    verb = "have" if len(mine) > 1 else "has"
    say(state, job, f"{names} {verb} done nothing for {format_duration(idle_s)}{more}")
    state.record(now_us, job, "gpu idle", names)


def say(state: ClusterState, job: Job, text: str) -> None:
    """Writes a line to the error output of the job's script, or of its steps when it has none."""
    steps = step_orders.working_steps(state, job)
    batch = [step for step in steps if step.step_id == BATCH_STEP]
    for step in batch or steps:
        state.emit(NotifyStep(live_nodes(step)[0], job.job_id, job.attempt, step.step_id, text))


def _set_timer(state: ClusterState, now_us: int, job: Job, since_us: int) -> None:
    config = state.config
    if config.gpu_idle_limit_s and config.gpu_idle_action != "warn":
        due_us = since_us + _allowed_us(state)
        state.timers.set(max(due_us, now_us), Timer.GPU_IDLE, job.job_id, job.attempt)


def _allowed_us(state: ClusterState) -> int:
    return (state.config.gpu_idle_warn_s + state.config.gpu_idle_limit_s) * US


def due(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Handles the timer of the limit."""
    config, job = state.config, state.jobs.get(job_id)
    if job is None or job.attempt != attempt or not config.gpu_idle_warn_s or not config.gpu_idle_limit_s:
        return
    if job.state is JobState.SUSPENDED:
        _restart_period(state, now_us, job)
    if job.state is not JobState.RUNNING:
        return
    for part in job.alloc:
        node = state.nodes[part.node]
        idle = [gpu for gpu in _idle_of(node, job) if _has(state, job, node, gpu)]
        late = [gpu for gpu in idle if gpu.idle_since_us + _allowed_us(state) <= now_us]
        for gpu in idle:
            if gpu not in late:
                _set_timer(state, now_us, job, gpu.idle_since_us)
        if not late:
            continue
        if config.gpu_idle_action == "cancel":
            _cancel(state, now_us, node, job, late)
            return
        if config.gpu_idle_action == "return":
            _take_back(state, now_us, node, job, late)


def _idle_of(node: Node, job: Job) -> list[Gpu]:
    return sorted((gpu for gpu in node.gpus.values() if is_idle(gpu, job)), key=lambda gpu: (gpu.facts.index, gpu.uuid))


def _restart_period(state: ClusterState, now_us: int, job: Job) -> None:
    """Restarts the limit of a suspended job, to count from its resumption."""
    for part in job.alloc:
        node = state.nodes[part.node]
        for gpu in _idle_of(node, job):
            inventory.put(state, node, gpu._replace(idle_since_us=now_us - state.config.gpu_idle_warn_s * US))
    state.timers.set(now_us + AGAIN_US, Timer.GPU_IDLE, job.job_id, job.attempt)


def _cancel(state: ClusterState, now_us: int, node: Node, job: Job, late: list[Gpu]) -> None:
    cause = f"{GPU_IDLE}{_names(node, late)} did nothing for {format_duration(_allowed_us(state) // US)}"
    gpu_jobs.comment(state, job, cause)
    say(state, job, f"{cause}: the job is cancelled")
    outcome.explain(job, cause)
    job_life.terminate(state, job, JobState.CANCELLED, Reason.NONE, now_us, "CANCELLED", 0)


def _take_back(state: ClusterState, now_us: int, node: Node, job: Job, late: list[Gpu]) -> None:
    if not node.connected:
        state.timers.set(now_us + AGAIN_US, Timer.GPU_IDLE, job.job_id, job.attempt)
        return
    busy = _gpus_of_steps(job, node)
    free = [gpu for gpu in late if gpu.idle_unused and not busy >> gpu.slot & 1 and _whole(job, node, gpu)]
    why = ""
    if job.request.exclusive:
        free, why = [], "the job has the whole node"
    elif not _keeps_apart(state, node):
        how = inventory.constraint(state.config, node)
        free, why = [], f"node {node.name} cannot keep it from using them later (GpuConstraint={how})"
    elif len(free) < len(late):
        why = "programs of the job have them open, or a step was given them"
    kept = [gpu for gpu in late if gpu not in free]
    if kept and gpu_jobs.comment(state, job, f"idle and not returned: {_names(node, kept)}"):
        say(state, job, f"idle: {_names(node, kept)}, not taken from the job: {why}")
    if free:
        _give_back(state, now_us, node, job, free)


def _keeps_apart(state: ClusterState, node: Node) -> bool:
    """Whether jobs there can open only their own GPUs."""
    return inventory.constraint(state.config, node).startswith("cgroup")


def _gpus_of_steps(job: Job, node: Node) -> int:
    """Returns the places of the GPUs of live steps, as a mask."""
    found = 0
    for step in job.steps.values():
        for part in step.parts or () if isinstance(step, SpreadStep) else ():
            if part.node == node.name:
                found |= sum(mask for name, _, mask in part.gres if name == GPU)
    return found


def _whole(job: Job, node: Node, gpu: Gpu) -> bool:
    """Whether the job has the whole GPU, not a share of it."""
    return any(
        name == GPU and mask >> gpu.slot & 1 for p in job.alloc if p.node == node.name for name, _, mask in p.gres
    )


def _give_back(state: ClusterState, now_us: int, node: Node, job: Job, free: list[Gpu]) -> None:
    """Releases these GPUs of the job."""
    names = _names(node, free)
    text = f"{names} did nothing and left the job"
    say(state, job, text)
    gpu_jobs.comment(state, job, text)
    state.record(now_us, job, "gpu returned", names)
    state.emit(ReturnGpus(node.name, job.job_id, job.attempt, BATCH_STEP, tuple(gpu.uuid for gpu in free)))
    charging.end(state, job, now_us)
    spans.allocation_changed(state, job, now_us)
    gpu_jobs.take(state, job, node, sum(1 << gpu.slot for gpu in free))
    job.tres_alloc = job_life.tres_of(state, job)
    charging.begin(state, job, now_us)
    for gpu in free:
        inventory.put(state, node, _busy(gpu))
    inventory.settle(state, node)
    state.touch(job)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart: sets the timers of limits in progress."""
    if not state.config.gpu_idle_limit_s or state.config.gpu_idle_action == "warn":
        return
    for node in state.node_list:
        for gpu in node.gpus.values():
            job = state.jobs.get(gpu.idle_job)
            if job is not None and is_idle(gpu, job):
                _set_timer(state, now_us, job, gpu.idle_since_us)
