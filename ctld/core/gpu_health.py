"""What becomes of a GPU that its node, or an administrator, says something of, and of the jobs that have it.

Two opinions are kept apart: the node's, which comes and goes with what it sees, and the administrator's, which only an
administrator takes back. What counts is the worse one (gpu_model.Gpu.state).

A report may say what it means for jobs; gpu_jobs.py has the rules. Reports come at least once: what has been done is not
done again. One of an attempt that is over, or that had its end already, is a line in the job's story.

A GPU that a node does not name any more is lost, and the jobs that have it with it; not so when NVML does not answer the
node at all: then nobody knows, and what runs is left alone.
"""

from collections.abc import Callable

from ctld.core import gpu_admin, gpu_care, gpu_jobs, gpu_work, gpus, job_life, mig
from ctld.core.events import GpuReported, GpuWorkDone
from ctld.core.gpu_model import Gpu, GpuAction, GpuFacts, GpuOpinion, WorkKind
from ctld.core.model import Job, Node
from ctld.core.state import ClusterState
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import END_STATES, JobState, NodeFlag

S = JobState
_RUNS = (S.CONFIGURING, S.RUNNING, S.SUSPENDED)


def registered(
    state: ClusterState, now_us: int, node: Node, found: tuple[GpuFacts, ...], opinions: tuple[GpuOpinion, ...]
) -> None:
    """The node has said which GPUs it has."""
    if not found and not node.gpus:
        return
    lost = [] if node.gpu_why else _lost(state, node, found)
    gpus.take_over(state, node, gpus.bind(node, found, opinions))
    gpu_admin.registered(state, node)
    gpu_work.registered(state, now_us, node)
    gpu_care.noted(state, node)
    gpus.settle(state, node)
    _end_with(state, now_us, node, lost)
    gpu_care.look(state, now_us, node)


def reported(state: ClusterState, now_us: int, event: GpuReported) -> None:
    """The node thinks otherwise of some of its GPUs, or something has happened to jobs there."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    is_new = event.at_us >= node.gpus_at_us  # else it was spooled before the node registered, which told all
    lost = _lost(state, node, event.gpus) if event.gpus and is_new else []
    if event.gpus is not None and is_new:
        gpus.take_over(state, node, gpus.bind(node, event.gpus, event.opinions))
        _found(state, node, event)
    for opinion in event.opinions if is_new else ():
        gpu = node.gpus.get(opinion.uuid)
        if gpu is not None and gpu.opinion != opinion:
            gpus.put(state, node, gpu._replace(opinion=opinion))
    gpu_care.noted(state, node)
    gpus.settle(state, node)
    for job_id, attempt in event.jobs if event.action is not GpuAction.NONE else ():
        job = state.jobs.get(job_id)
        if job is not None:
            _happened(state, now_us, node, job, attempt, event)
    if event.action is GpuAction.END:
        _tell_others(state, now_us, node, event)
    _end_with(state, now_us, node, lost)
    gpu_care.look(state, now_us, node)


def _found(state: ClusterState, node: Node, event: GpuReported) -> None:
    """NVML answers, or does not any more, since the node registered. One that was too small without its GPUs comes back."""
    node.gpu_driver, node.cuda_version, node.nvml_version = event.versions
    node.gpu_why = event.why
    if node.flags & NodeFlag.INVAL and not gpus.shortage(node, event.gpus or (), (), event.why):
        node.low = tuple(text for text in node.low if not text.startswith(gpus.SHORT))
        if not node.low:
            node.flags &= ~NodeFlag.INVAL
            if node.reason.startswith(gpus.SHORT):  # else it is drained for something else too
                node.flags &= ~NodeFlag.DRAIN
                node.reason = ""
    state.touch_node(node)


def _tell_others(state: ClusterState, now_us: int, node: Node, event: GpuReported) -> None:
    """Jobs that have such a GPU and run nothing on the node, so that it does not name them: they may go on without."""
    named = dict.fromkeys(job_id for job_id, _ in event.jobs)
    bad = (node.gpus[opinion.uuid] for opinion in event.opinions if opinion.uuid in node.gpus)
    slots = [gpu.slot for gpu in bad if gpu.is_closed() and gpu.slot >= 0]
    for job in [job for slot in slots for job in gpu_jobs.holders(state, node, slot) if job.job_id not in named]:
        if job.state in _RUNS and gpu_jobs.comment(state, job, event.cause):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")


def _lost(state: ClusterState, node: Node, found: tuple[GpuFacts, ...]) -> list[tuple[str, Job]]:
    """GPUs that were there and are not named, with the jobs that have them; asked before places are given anew."""
    there = {facts.uuid for facts in found}
    gone = [gpu for gpu in node.gpus.values() if gpu.is_there and gpu.uuid not in there and gpu.slot >= 0]
    return [(gpu.uuid, job) for gpu in gone for job in gpu_jobs.holders(state, node, gpu.slot)]


def _end_with(state: ClusterState, now_us: int, node: Node, lost: list[tuple[str, Job]]) -> None:
    for uuid, job in lost:
        _end(state, now_us, node, job, f"{gpu_jobs.GPU_ERROR}GPU lost: {uuid}")


def _happened(state: ClusterState, now_us: int, node: Node, job: Job, attempt: int, event: GpuReported) -> None:
    """One job that the report names."""
    text = gpu_jobs.GPU_ERROR + event.cause
    if job.attempt != attempt or job.state is S.PENDING:
        state.record(now_us, job, "gpu", f"{node.name}: {event.cause}", attempt)
    elif event.action is GpuAction.NOTE:
        if gpu_jobs.comment(state, job, event.cause):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")
    elif job.state in END_STATES:
        if gpu_jobs.comment(state, job, text):
            state.record(now_us, job, "gpu", f"{node.name}: {event.cause}")
            job.reason_detail = job.reason_detail or (text if job.state is S.FAILED else "")
    elif job.state is S.COMPLETING:
        _while_ending(state, now_us, node, job, text, event.at_us)
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
    """A job that is on its way out: what it will be may change, if it had not done its work before."""
    if not gpu_jobs.comment(state, job, text):
        return
    state.record(now_us, job, "gpu", f"{node.name}: {text.removeprefix(gpu_jobs.GPU_ERROR)}")
    batch = job.steps.get(BATCH_STEP)
    is_done = batch is not None and batch.state in END_STATES and batch.end_at_us <= at_us
    if job.end_state in (S.REQUEUED, *gpu_jobs.OWN_ENDS) and not is_done and not gpu_jobs.is_hit(job):
        gpu_jobs.hit(state, job, node.name, text)


def work_done(state: ClusterState, now_us: int, event: GpuWorkDone) -> None:
    """Something was done to a GPU, or could not be. What there is now is taken in any case, the answer once."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    lost = _lost(state, node, event.gpus) if event.gpus else []
    if event.gpus is not None:
        gpus.take_over(state, node, gpus.bind(node, event.gpus))
    gpu = node.gpus.get(event.uuid)
    if gpu is not None and gpu.work_id and gpu.work_id == event.work_id:
        kind, gpu = WorkKind(gpu.work_kind), gpu_work.end(gpu)
        if not event.untried:
            gpu = FOLLOWS[kind](state, now_us, gpu, kind, event.ok, event.text)
        elif kind is WorkKind.DIVIDE:
            gpu = mig.untried(gpu, now_us)
        gpus.put(state, node, gpu)
    gpu_care.noted(state, node)
    gpus.settle(state, node)
    _end_with(state, now_us, node, lost)
    if event.untried:  # not again at once
        gpu_care.look_later(state, now_us)
    else:
        gpu_care.look(state, now_us, node)


#: What follows from the end of a work for the GPU's record.
FOLLOWS: dict[WorkKind, Callable[[ClusterState, int, Gpu, WorkKind, bool, str], Gpu]] = {
    WorkKind.CHECK: gpu_care.done,
    WorkKind.RESET: gpu_care.done,
    WorkKind.DIVIDE: mig.divided,
}
