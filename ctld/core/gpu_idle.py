"""GPUs that a job has and does not use: it is told, and after a time something follows. Off unless a site says otherwise.

    idle for PenstockGpuIdleWarn -> a line in the job's error output and AdminComment
    and for PenstockGpuIdleLimit more -> PenstockGpuIdleAction:
        warn     nothing
        cancel   the job is CANCELLED
        return   those GPUs leave the job and others get them; the job goes on and is charged for what it has left

Its node says when GPUs do nothing, and when they do something again. That is kept in the GPU's record, so that a limit
outlives the controller.

A GPU is only taken back when no process of the job has it open, none of its steps was given it, and the node keeps jobs
from GPUs that are not theirs by cgroup: else the job could use it beside the next one. Where that is not so, it stays a
warning, which says so. A suspended job, and one whose node is out of reach, are looked at again later.
"""

from ctld.core import assocs, gpu_jobs, gpus, job_life, spans
from ctld.core.effects import NotifyStep, ReturnGpus
from ctld.core.events import GpuIdle
from ctld.core.gpu_model import Gpu
from ctld.core.model import Job, Node
from ctld.core.shares import GPU
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, live_nodes
from ctld.core.timers import Timer
from penstock.values.duration import format_duration
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState, Reason

US = 1_000_000
#: Until a job is looked at again that could not be judged.
AGAIN_US = 60 * US
#: How the cause of a cancel begins.
GPU_IDLE = "GPU_IDLE: "


def reported(state: ClusterState, now_us: int, event: GpuIdle) -> None:
    """A node says that GPUs of a job do nothing, or something again."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node, job = state.nodes.get(event.node), state.jobs.get(event.job_id)
    if node is None or job is None or job.attempt != event.attempt or not state.config.gpu_idle_warn_s:
        return
    mine = [gpu for uuid in event.uuids if (gpu := node.gpus.get(uuid)) is not None and _has(state, job, node, gpu)]
    is_new = any(not _is_idle(gpu, job) for gpu in mine)
    for gpu in mine:
        new = _busy(gpu)
        if not event.over:
            new = gpu._replace(
                idle_job=job.job_id, idle_attempt=job.attempt, idle_since_us=event.since_us, idle_unused=event.unused
            )
        gpus.put(state, node, new)
    if mine and is_new and not event.over and job.state is JobState.RUNNING:
        _warn(state, now_us, node, job, mine, event.since_us)
        _set_timer(state, now_us, job, event.since_us)


def _has(state: ClusterState, job: Job, node: Node, gpu: Gpu) -> bool:
    return gpu.slot >= 0 and job in gpu_jobs.holders(state, node, gpu.slot)


def _is_idle(gpu: Gpu, job: Job) -> bool:
    """It is known to do nothing for this attempt of the job."""
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
    """A line in the error output of the job's script, or of its steps when it has none."""
    steps = job_life.working_steps(state, job)
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
    """The timer: the limit may be over."""
    config, job = state.config, state.jobs.get(job_id)
    if job is None or job.attempt != attempt or not config.gpu_idle_warn_s or not config.gpu_idle_limit_s:
        return
    if job.state is JobState.SUSPENDED:
        _start_anew(state, now_us, job)
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
    return sorted(
        (gpu for gpu in node.gpus.values() if _is_idle(gpu, job)), key=lambda gpu: (gpu.facts.index, gpu.uuid)
    )


def _start_anew(state: ClusterState, now_us: int, job: Job) -> None:
    """It is suspended: the limit runs from when it goes on."""
    for part in job.alloc:
        node = state.nodes[part.node]
        for gpu in _idle_of(node, job):
            gpus.put(state, node, gpu._replace(idle_since_us=now_us - state.config.gpu_idle_warn_s * US))
    state.timers.set(now_us + AGAIN_US, Timer.GPU_IDLE, job.job_id, job.attempt)


def _cancel(state: ClusterState, now_us: int, node: Node, job: Job, late: list[Gpu]) -> None:
    cause = f"{GPU_IDLE}{_names(node, late)} did nothing for {format_duration(_allowed_us(state) // US)}"
    gpu_jobs.comment(state, job, cause)
    say(state, job, f"{cause}: the job is cancelled")
    job.reason_detail = cause
    job_life.terminate(state, job, JobState.CANCELLED, Reason.NONE, now_us, "CANCELLED", 0)


def _take_back(state: ClusterState, now_us: int, node: Node, job: Job, late: list[Gpu]) -> None:
    if not node.connected:
        state.timers.set(now_us + AGAIN_US, Timer.GPU_IDLE, job.job_id, job.attempt)
        return
    busy = _held_by_steps(job, node)
    free = [gpu for gpu in late if gpu.idle_unused and not busy >> gpu.slot & 1 and _whole(job, node, gpu)]
    why = ""
    if job.request.exclusive:
        free, why = [], "the job has the whole node"
    elif not _keeps_apart(state, node):
        how = gpus.constraint(state.config, node)
        free, why = [], f"node {node.name} cannot keep it from using them later (GpuConstraint={how})"
    elif len(free) < len(late):
        why = "programs of the job have them open, or a step was given them"
    kept = [gpu for gpu in late if gpu not in free]
    if kept and gpu_jobs.comment(state, job, f"idle and not returned: {_names(node, kept)}"):
        say(state, job, f"idle: {_names(node, kept)}, not taken from the job: {why}")
    if free:
        _give_back(state, now_us, node, job, free)


def _keeps_apart(state: ClusterState, node: Node) -> bool:
    """Jobs there cannot open GPUs that are not theirs."""
    return gpus.constraint(state.config, node).startswith("cgroup")


def _held_by_steps(job: Job, node: Node) -> int:
    """Places of GPUs that live steps were given, as a mask."""
    found = 0
    for step in job.steps.values():
        for part in step.parts or () if isinstance(step, SpreadStep) else ():
            if part.node == node.name:
                found |= sum(mask for name, _, mask in part.gres if name == GPU)
    return found


def _whole(job: Job, node: Node, gpu: Gpu) -> bool:
    """The job has it as a whole, no share of it."""
    return any(
        name == GPU and mask >> gpu.slot & 1 for p in job.alloc if p.node == node.name for name, _, mask in p.gres
    )


def _give_back(state: ClusterState, now_us: int, node: Node, job: Job, free: list[Gpu]) -> None:
    """These leave the job."""
    names = _names(node, free)
    text = f"{names} did nothing and left the job"
    say(state, job, text)
    gpu_jobs.comment(state, job, text)
    state.record(now_us, job, "gpu returned", names)
    state.emit(ReturnGpus(node.name, job.job_id, job.attempt, BATCH_STEP, tuple(gpu.uuid for gpu in free)))
    assocs.end(state, job, now_us)
    spans.held(state, job, now_us)
    gpu_jobs.take(state, job, node, sum(1 << gpu.slot for gpu in free))
    job.tres_alloc = job_life.tres_of(state, job)
    assocs.begin(state, job, now_us)
    for gpu in free:
        gpus.put(state, node, _busy(gpu))
    gpus.settle(state, node)
    state.touch(job)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart: limits that run."""
    if not state.config.gpu_idle_limit_s or state.config.gpu_idle_action == "warn":
        return
    for node in state.node_list:
        for gpu in node.gpus.values():
            job = state.jobs.get(gpu.idle_job)
            if job is not None and _is_idle(gpu, job):
                _set_timer(state, now_us, job, gpu.idle_since_us)
