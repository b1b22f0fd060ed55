"""Applies health reports and administrators' changes to a GPU, and to the jobs that have it.

Two states are kept separately: the node's, which follows its observations, and the administrator's, which only an
administrator clears. The worse one counts (records/gpu.py: Gpu.state).

A report may include its consequence for jobs; lifecycle/gpu_jobs.py has the rules. Reports are delivered at least once
and handled idempotently. One about an attempt that has ended only adds a line to the job's history.

A GPU that a node does not report any more is lost, and the jobs that have it fail; not so when NVML does not answer the
node at all: then the state is unknown, and running jobs continue.
"""

from collections.abc import Callable

from ctld.core.gpus import admin as gpu_admin
from ctld.core.gpus import care as gpu_care
from ctld.core.gpus import inventory
from ctld.core.gpus import work as gpu_work
from ctld.core.jobs import outcome
from ctld.core.lifecycle import gpu_jobs, job_life
from ctld.core.nodes import node_reason
from ctld.core.passes import mig_division
from ctld.core.records.events import GpuReported, GpuWorkDone
from ctld.core.records.gpu import Gpu, GpuAction, GpuFacts, GpuOpinion, WorkKind
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import END_STATES, JobState, NodeFlag

S = JobState
_RUNS = (S.CONFIGURING, S.RUNNING, S.SUSPENDED)


def registered(
    state: ClusterState, now_us: int, node: Node, found: tuple[GpuFacts, ...], opinions: tuple[GpuOpinion, ...]
) -> None:
    """Applies the GPU inventory of a node."""
    if not found and not node.gpus:
        return
    lost = [] if node.gpu_why else _lost(state, node, found)
    inventory.take_over(state, node, inventory.bind(node, found, opinions))
    gpu_admin.registered(state, node)
    gpu_work.registered(state, now_us, node)
    gpu_care.noted(state, node)
    inventory.settle(state, node)
    _end_with(state, now_us, node, lost)
    gpu_care.begin_due_work(state, now_us, node)


def reported(state: ClusterState, now_us: int, event: GpuReported) -> None:
    """Applies a node's report on the health of its GPUs, or on what has happened to jobs there."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    is_new = event.at_us >= node.gpus_at_us  # else it was spooled before the node registered, which reported everything
    lost = _lost(state, node, event.gpus) if event.gpus and is_new else []
    if event.gpus is not None and is_new:
        inventory.take_over(state, node, inventory.bind(node, event.gpus, event.opinions))
        _found(state, node, event)
    for opinion in event.opinions if is_new else ():
        gpu = node.gpus.get(opinion.uuid)
        if gpu is not None and gpu.opinion != opinion:
            inventory.put(state, node, gpu._replace(opinion=opinion))
    gpu_care.noted(state, node)
    inventory.settle(state, node)
    for job_id, attempt in event.jobs if event.action is not GpuAction.NONE else ():
        job = state.jobs.get(job_id)
        if job is not None and job_life.was_on(job, node.name):
            _happened(state, now_us, node, job, attempt, event)
    if event.action is GpuAction.END:
        _notify_others(state, now_us, node, event)
    _end_with(state, now_us, node, lost)
    gpu_care.begin_due_work(state, now_us, node)


def _found(state: ClusterState, node: Node, event: GpuReported) -> None:
    """Handles a change of whether NVML answers since the node registered. A node that was too small without its GPUs
    returns to service."""
    node.gpu_driver, node.cuda_version, node.nvml_version = event.versions
    node.gpu_why = event.why
    if node.flags & NodeFlag.INVAL and not inventory.shortage(node, event.gpus or (), (), event.why):
        node.low = tuple(text for text in node.low if not text.startswith(inventory.SHORT))
        if not node.low:
            node.flags &= ~NodeFlag.INVAL
            if node.reason.startswith(inventory.SHORT):  # else it is drained for another reason too
                node.flags &= ~NodeFlag.DRAIN
                node_reason.reword(node, "")
    state.touch_node(node)


def _notify_others(state: ClusterState, now_us: int, node: Node, event: GpuReported) -> None:
    """Notifies jobs that have such a GPU and run nothing on the node, so that it does not name them; they may continue
    without."""
    named = dict.fromkeys(job_id for job_id, _ in event.jobs)
    bad = (node.gpus[opinion.uuid] for opinion in event.opinions if opinion.uuid in node.gpus)
    slots = [gpu.slot for gpu in bad if gpu.is_closed() and gpu.slot >= 0]
    for job in [job for slot in slots for job in gpu_jobs.jobs_with_gpu(state, node, slot) if job.job_id not in named]:
        if job.state in _RUNS and gpu_jobs.comment(state, job, event.cause):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")


def _lost(state: ClusterState, node: Node, found: tuple[GpuFacts, ...]) -> list[tuple[str, Job]]:
    """Finds GPUs that were present and are not reported, with the jobs that have them; called before places are
    assigned again."""
    there = {facts.uuid for facts in found}
    gone = [gpu for gpu in node.gpus.values() if gpu.is_there and gpu.uuid not in there and gpu.slot >= 0]
    return [(gpu.uuid, job) for gpu in gone for job in gpu_jobs.jobs_with_gpu(state, node, gpu.slot)]


def _end_with(state: ClusterState, now_us: int, node: Node, lost: list[tuple[str, Job]]) -> None:
    for uuid, job in lost:
        _end(state, now_us, node, job, f"{gpu_jobs.GPU_ERROR}GPU lost: {uuid}")


def _happened(state: ClusterState, now_us: int, node: Node, job: Job, attempt: int, event: GpuReported) -> None:
    """Handles one job that the report names."""
    text = gpu_jobs.GPU_ERROR + event.cause
    if job.attempt != attempt or job.state is S.PENDING:
        state.record(now_us, job, "gpu", f"{node.name}: {event.cause}", attempt)
    elif event.action is GpuAction.NOTE:
        if gpu_jobs.comment(state, job, event.cause):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")
    elif job.state in END_STATES:
        if gpu_jobs.comment(state, job, text):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")
            outcome.explain(job, job.reason_detail or (text if job.state is S.FAILED else ""))
    elif job.state is S.COMPLETING:
        _while_ending(state, now_us, node, job, text, event.by_our_clock_us or event.at_us)
    elif event.action is GpuAction.END:
        _end(state, now_us, node, job, text)
    elif job.reason_detail != text:
        gpu_jobs.hit(state, job, node.name, text)
        state.record(now_us, job, "gpu", f"{node.name}: {event.cause}; its result is not to be trusted")


def _end(state: ClusterState, now_us: int, node: Node, job: Job, text: str) -> None:
    if job.state in _RUNS:
        gpu_jobs.hit(state, job, node.name, text)
        end_state, reason = gpu_jobs.end_of(job)
        job_life.terminate(state, job, end_state, reason, now_us, text)
    elif job.state is S.COMPLETING:
        _while_ending(state, now_us, node, job, text, 0)


def _while_ending(state: ClusterState, now_us: int, node: Node, job: Job, text: str, at_us: int) -> None:
    """Handles a job that is ending: its end state may change, unless it had completed its work before."""
    if not gpu_jobs.comment(state, job, text):
        return
    state.record(now_us, job, "gpu", f"{node.name}: {text.removeprefix(gpu_jobs.GPU_ERROR)}")
    batch = job.steps.get(BATCH_STEP)
    is_done = batch is not None and batch.state in END_STATES and batch.end_at_us <= at_us
    if job.end_state in (S.REQUEUED, *gpu_jobs.OWN_ENDS) and not is_done and not gpu_jobs.is_hit(job):
        gpu_jobs.hit(state, job, node.name, text)


def work_done(state: ClusterState, now_us: int, event: GpuWorkDone) -> None:
    """Applies the result of work on a GPU. The GPU's present condition is always applied, the answer once."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    lost = _lost(state, node, event.gpus) if event.gpus else []
    if event.gpus is not None:
        inventory.take_over(state, node, inventory.bind(node, event.gpus))
    gpu = node.gpus.get(event.uuid)
    if gpu is not None and gpu.work_id and gpu.work_id == event.work_id:
        kind, gpu = WorkKind(gpu.work_kind), gpu_work.end(gpu)
        if not event.untried:
            gpu = FOLLOWS[kind](state, now_us, gpu, kind, event.ok, event.text)
        elif kind is WorkKind.DIVIDE:
            gpu = mig_division.untried(gpu, now_us)
        inventory.put(state, node, gpu)
    gpu_care.noted(state, node)
    inventory.settle(state, node)
    _end_with(state, now_us, node, lost)
    if event.untried:  # not immediately again
        gpu_care.check_later(state, now_us)
    else:
        gpu_care.begin_due_work(state, now_us, node)


#: Effects of the end of a work on the GPU's record.
FOLLOWS: dict[WorkKind, Callable[[ClusterState, int, Gpu, WorkKind, bool, str], Gpu]] = {
    WorkKind.CHECK: gpu_care.done,
    WorkKind.RESET: gpu_care.done,
    WorkKind.DIVIDE: mig_division.divided,
}
