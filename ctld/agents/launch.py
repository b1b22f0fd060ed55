"""Encodes launch effects as messages to a node. No decisions; the values of the SLURM_* variables are collected here.

Numbers that were not requested are sent as 0: the node omits their variables.
"""

import time
from collections.abc import Callable
from itertools import groupby

# Any: an effect of the kind by which its function is selected
from typing import Any, Final, Protocol

from ctld.agents.hetenv import het_variables
from ctld.agents.stepmessages import allocation_of, mask_bytes, part_allocation, step_plan, step_spec, stream_key
from ctld.core.lifecycle.gpu_jobs import GPU_ERROR
from ctld.core.records.effects import (
    ClearGpu,
    Effect,
    ForgetStep,
    GpuWork,
    LaunchStep,
    NotifyStep,
    RebootNode,
    ReturnGpus,
    SignalStep,
    SuspendStep,
    TerminateStep,
)
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.core.records.step import StepRow
from ctld.core.state.state import ClusterState
from penstock.v1 import common_pb2, node_pb2
from penstock.values.acctg import task_interval_s
from penstock.values.config import Config
from penstock.values.hostlist import compress
from penstock.values.jobenv import Environment, check_names
from penstock.values.jobid import EXTERN_STEP
from penstock.values.tracecontext import JobTrace, job_trace

#: The cause of a job's end, as the line in its error file names it. Other notes cause no line.
DUE_TO: Final = {
    "CANCELLED": "",
    "TIME LIMIT": " DUE TO TIME LIMIT",
    "REQUEUE": " DUE TO JOB REQUEUE",
    "PREEMPTION": " DUE TO PREEMPTION",
    "NODE FAILURE": " DUE TO NODE FAILURE",
    "SCRIPT END": "",
    "JOB END": "",
}

#: Below the range of ephemeral ports.
MASTER_PORTS: Final = range(10_000, 30_000)


class OfStep(Protocol):
    """An effect that refers to a step."""

    @property
    def job_id(self) -> int:
        """The step's job."""

    @property
    def attempt(self) -> int:
        """Its attempt."""

    @property
    def step_id(self) -> int:
        """The step's number."""


def key_of(effect: OfStep) -> node_pb2.StepKey:
    """Returns the key of the step that an effect refers to."""
    return node_pb2.StepKey(job_id=effect.job_id, attempt=effect.attempt, step_id=effect.step_id)


def launch_message(
    effect: LaunchStep,
    spec: common_pb2.JobSpec,
    cluster: str,
    secret: bytes = b"",
    into: node_pb2.LaunchStep | None = None,
) -> node_pb2.LaunchStep:
    """Builds the launch message of the step, with everything the node needs; in the empty message `into`, if given."""
    message = node_pb2.LaunchStep() if into is None else into
    _of_job(message, effect, spec, cluster)
    message.io_key = stream_key(secret, effect.job_id, effect.attempt, effect.step_id)
    if effect.step_id == EXTERN_STEP:
        _add_extern_step(message, effect)
    elif effect.step is not None:
        _of_step(message, effect, effect.step)
    return message


def _of_step(message: node_pb2.LaunchStep, effect: LaunchStep, row: StepRow) -> None:
    """Replaces values of the job by those of the step."""
    parts = row.parts or ()
    index = next(i for i, part in enumerate(parts) if part.node == effect.node)
    message.job_allocation.CopyFrom(message.allocation)
    message.allocation.CopyFrom(part_allocation(parts[index], effect.gpu_slots))
    message.node_index = index
    request = row.request
    if request is None:
        return
    message.step.spec.CopyFrom(step_spec(request))
    message.step.plan.CopyFrom(step_plan(row, effect.node))
    message.step.node_index = index
    message.work_dir = request.work_dir or message.work_dir
    message.std_out = request.std_out
    message.std_err = request.std_err
    message.std_in = request.std_in
    message.open_append = request.open_append
    if request.umask is not None:
        message.umask = request.umask
    if request.rlimits:
        message.rlimits.clear()
        message.rlimits.update(request.rlimits)


def _of_job(message: node_pb2.LaunchStep, effect: LaunchStep, spec: common_pb2.JobSpec, cluster: str) -> None:
    job = effect.job
    index = next(i for i, part in enumerate(job.alloc) if part.node == effect.node)
    message.CopyFrom(_kept.of(job.request))
    message.key.CopyFrom(key_of(effect))
    message.user_id = job.user_id
    message.group_id = job.group_id
    message.user_name = job.user_name
    message.group_name = job.group_name
    _add_facts(message.facts, effect, cluster)
    message.spec.CopyFrom(spec)
    message.allocation.CopyFrom(allocation_of(job.alloc[index], effect.gpu_slots))
    message.node_index = index
    message.lease_s = effect.lease_s
    message.lease_grace_s = effect.lease_grace_s


def _of_request(request: JobRequest) -> node_pb2.LaunchStep:
    """Builds the part of a launch that follows from the job's request alone."""
    message = node_pb2.LaunchStep(
        facts=_facts_of_request(request),
        work_dir=request.work_dir,
        std_out=request.std_out,
        std_err=request.std_err,
        std_in=request.std_in,
        open_append=request.open_append,
        umask=request.umask,
        rlimits=dict(request.rlimits),
        login_environment=request.get_user_env and not request.kind,
    )
    if request.oom_kill_step is not None:
        message.oom_kill_step = request.oom_kill_step
    if request.acctg_freq and (interval_s := task_interval_s(request.acctg_freq)) is not None:
        message.acct_gather_frequency_s = interval_s
    message.no_profile = "none" in request.profile.lower().split(",")
    return message


class _Kept:
    """Caches the part of a launch that follows from the last request: the tasks of an array have the same request."""

    def __init__(self) -> None:
        self._request: JobRequest | None = None
        self._message = node_pb2.LaunchStep()

    def of(self, request: JobRequest) -> node_pb2.LaunchStep:
        """Returns the part of that request, which is not to be changed."""
        if request is not self._request:
            self._message = _of_request(request)
            self._request = request
        return self._message


_kept = _Kept()


def _add_extern_step(message: node_pb2.LaunchStep, effect: LaunchStep) -> None:
    """Sets the values for prolog and epilog that only the controller has; the programs are in the node's settings."""
    job, request = effect.job, effect.job.request
    message.holder.run_prolog = True
    message.holder.run_epilog = True
    message.holder.is_batch_node = effect.node == job.batch_node and not request.kind
    extra = {
        "SLURM_JOB_CONSTRAINTS": request.features,
        "SLURM_JOB_EXTRA": request.extra,
        "SLURM_WCKEY": request.wckey,
    }
    message.holder.environment.update({name: value for name, value in extra.items() if value})


def master_port(job_id: int) -> int:
    """Returns the master port of a job without a port of its own (ctld/core/jobs/ports.py): jobs with close ids have
    different ones."""
    return MASTER_PORTS[job_id % len(MASTER_PORTS)]


def master_host(state: ClusterState, job: JobRow) -> str:
    """Returns the address of the node on which the job's processes rendezvous."""
    node = state.nodes.get(job.alloc[0].node) if job.alloc else None
    return node.config.addr if node is not None else ""


def trace_parent(config: Config, job: JobRow) -> str:
    """Returns the trace context below the job's attempt, for its environment; "" where the job has no trace."""
    trace = _trace_of(config, job)
    return trace.traceparent(f"attempt {job.attempt}") if trace is not None else ""


def step_span(config: Config, job: JobRow, step_id: int) -> bytes:
    """Returns the trace id and the id of the step's span (ctld/delivery/spans.py); b"" where the job has no trace."""
    trace = _trace_of(config, job)
    return trace.trace_id + trace.span_id(f"step {job.attempt} {step_id}") if trace is not None else b""


def _trace_of(config: Config, job: JobRow) -> JobTrace | None:
    if not config.trace_url:
        return None
    return job_trace(config.cluster_name, job.job_id, job.submit_at_us, job.trace_one_in, job.request.trace_parent)


def facts_of(effect: LaunchStep, cluster: str) -> node_pb2.JobFacts:
    """Returns the facts of the job for its environment."""
    facts = _facts_of_request(effect.job.request)
    _add_facts(facts, effect, cluster)
    return facts


def _facts_of_request(request: JobRequest) -> node_pb2.JobFacts:
    facts = node_pb2.JobFacts(
        job_name=request.name,
        account=request.account,
        reservation=request.reservation_run or request.reservation,
        qos=request.qos,
        cpus_per_task=request.cpus_per_task if request.cpus_per_task_asked else 0,
        ntasks_per_node=0 if request.ntasks_per_gpu else request.ntasks_per_node,
        mem_per_node_mb=request.mem_per_node_mb if request.mem_per_gpu_mb is None else None,
        mem_per_cpu_mb=request.mem_per_cpu_mb,
        submit_dir=request.submit_dir,
        submit_host=request.submit_host,
        dependency=request.dependency,
        gpus_per_node=gpus_text(request),
        export_env=request.export_env,
        licenses=request.licenses,
        exclusive=request.exclusive_word(),
        oversubscribe=request.oversubscribe_word(),
        comment=request.comment,
        kind=request.kind.name.lower(),
        distribution=distribution_text(request.distribution),
        mem_per_gpu_mb=request.mem_per_gpu_mb,
        ntasks_per_gpu=request.ntasks_per_gpu,
        cpus_per_gpu=request.cpus_per_gpu,
        gpus=gpus_of(request.gres_per_job),
        gpus_per_task=gpus_of(request.gres_per_task),
        het_job_id=request.het_job_id,
        het_offset=request.het_offset if request.het_job_id else 0,
        het_size=request.het_size if request.het_job_id else 0,
    )
    extra = ((name, make(request)) for name, make in SENT.items())
    facts.more.extend(f"{name}={value}".encode() for name, value in extra if value)
    return facts


def _add_facts(facts: node_pb2.JobFacts, effect: LaunchStep, cluster: str) -> None:
    """Adds what does not follow from the request."""
    job = effect.job
    facts.cluster_name = cluster
    facts.partition = job.partition
    facts.node_list = compress(part.node for part in job.alloc)
    facts.node_runs.extend(node_runs(job, effect.cpus_used))
    facts.ntasks = ntasks_total(job)
    facts.start_at_us = job.start_at_us
    facts.end_at_us = end_of(job)
    facts.restart_count = job.attempt
    facts.master_port = effect.master_port or master_port(job.job_id)
    if job.request.het_job_id:
        facts.more.extend(het_variables(effect.components))
    if job.array_task_id is not None:
        facts.array_job_id = job.array_job_id
        facts.array_task_id = job.array_task_id
        facts.array_task_count = effect.array_count
        facts.array_task_min = effect.array_min
        facts.array_task_max = effect.array_max
        facts.array_task_step = effect.array_step


def ntasks_total(job: JobRow) -> int:
    """Returns the total number of tasks, where it is not determined by that of each node; 0 = not specified.

    With --ntasks-per-node alone only requested nodes are counted, not those that follow from GPUs or --spread-job.
    """
    request = job.request
    if request.ntasks_over or request.ntasks_asked or request.ntasks_per_gpu:
        return request.ntasks_over or request.ntasks
    asked = max(1, len(request.nodes_required))
    return 0 if request.nodes_asked or len(job.alloc) <= asked else request.ntasks_per_node * asked


def node_runs(job: JobRow, cpus_used: tuple[int, ...] = ()) -> list[node_pb2.NodeRun]:
    """Returns CPUs and tasks of the job's nodes, in order, run-length encoded: most jobs have one such run, however
    many nodes."""
    cpus = cpus_used or tuple(part.cpus for part in job.alloc)
    runs = groupby(zip(cpus, (part.tasks for part in job.alloc), strict=True))
    return [node_pb2.NodeRun(cpus=cpus, tasks=tasks, count=len(list(run))) for (cpus, tasks), run in runs]


def topology_address(kind: str, above: tuple[str, ...], node: str) -> tuple[str, str]:
    """Returns SLURM_TOPOLOGY_ADDR and its pattern: the highest switch first, the node last; for blocks only the base
    block."""
    if not above:
        return node, "node"
    if kind == "block":
        return f"{above[0]}.{node}", "block.node"
    chain = list(dict.fromkeys(above))[::-1]  # a level without a switch uses the one below
    return ".".join([*chain, node]), ".".join(["switch"] * len(chain) + ["node"])


def end_of(job: JobRow) -> int:
    """Returns the end of the job's time limit; 0 = never."""
    return job.start_at_us + job.time_limit_s * 1_000_000 if job.time_limit_s >= 0 else 0


def gpus_text(request: JobRequest) -> str:
    """Returns the value of --gpus-per-node: `a100:4`, `4`; "" = nothing."""
    return gpus_of(request.gres_per_node) if request.gpus_per_node_asked else ""


def distribution_text(said: str) -> str:
    """Returns --distribution as Slurm shows it to jobs: a plane without its size, and the default's name for `*`."""
    first, *more = said.split(",")
    nodes, *inside = first.split(":")
    if nodes.lower().startswith("plane="):
        nodes = "plane"
    return ",".join((":".join(("block" if nodes == "*" else nodes, *inside)), *more))


def plane_size(said: str) -> str:
    """Returns the size in --distribution=plane=SIZE; "" = not a plane."""
    kind, _, size = said.partition("=")
    return size if kind.lower() == "plane" else ""


def gpus_of(gres: tuple[tuple[str, str, int], ...]) -> str:
    """Returns the GPUs of a request in the form of an option."""
    return ",".join(f"{type_}:{count}" if type_ else str(count) for name, type_, count in gres if name == "gpu")


def tres_per_task(request: JobRequest) -> str:
    """Returns the resources of each task in the form of --tres-per-task: `cpu=2,gres/gpu:a100=1`."""
    cpus = [f"cpu={request.cpus_per_task}"] if request.cpus_per_task_asked else []
    gres = (f"gres/{name}:{type_}={n}" if type_ else f"gres/{name}={n}" for name, type_, n in request.gres_per_task)
    return ",".join((*cpus, *gres))


def note_text(effect: TerminateStep, now_us: int) -> str:
    """Returns the line for the job's error file; "" = none."""
    if effect.step_id == EXTERN_STEP:  # for its epilog (prolog_state.ending_note)
        return effect.note
    due_to = f" DUE TO {effect.note}" if effect.note.startswith(GPU_ERROR) else DUE_TO.get(effect.note)
    if due_to is None:
        return ""
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now_us // 1_000_000))
    if effect.step_id >= 0:
        return f"*** STEP {effect.job_id}.{effect.step_id} ON {effect.node} CANCELLED AT {at}{due_to} ***"
    return f"*** JOB {effect.job_id} ON {effect.node} CANCELLED AT {at}{due_to} ***"


def _signal(command: node_pb2.Command, effect: SignalStep, now_us: int) -> None:
    command.signal.CopyFrom(
        node_pb2.SignalStep(key=key_of(effect), signal=effect.signal_no, batch_only=effect.batch_only, full=effect.full)
    )


def _terminate(command: node_pb2.Command, effect: TerminateStep, now_us: int) -> None:
    command.terminate.CopyFrom(
        node_pb2.TerminateStep(key=key_of(effect), grace_ms=effect.grace_ms, note=note_text(effect, now_us))
    )


def _suspend(command: node_pb2.Command, effect: SuspendStep, now_us: int) -> None:
    message = node_pb2.SuspendStep(key=key_of(effect), suspended=effect.suspended, grace_ms=effect.grace_ms)
    message.cpu_ids = mask_bytes(effect.cpu_ids)
    message.job_cpu_ids = mask_bytes(effect.job_cpu_ids)
    command.suspend.CopyFrom(message)


def _notify(command: node_pb2.Command, effect: NotifyStep, now_us: int) -> None:
    command.notify.CopyFrom(node_pb2.NotifyStep(key=key_of(effect), text=effect.text))


def _forget(command: node_pb2.Command, effect: ForgetStep, now_us: int) -> None:
    command.forget.CopyFrom(node_pb2.ForgetStep(key=key_of(effect)))


def _reboot(command: node_pb2.Command, effect: RebootNode, now_us: int) -> None:
    command.reboot.CopyFrom(node_pb2.RebootNode(reason=effect.reason))


def _gpu_work(command: node_pb2.Command, effect: GpuWork, now_us: int) -> None:
    kind: Any = effect.kind
    work = node_pb2.GpuWork(work_id=effect.work_id, kind=kind, uuid=effect.uuid, timeout_s=effect.timeout_s)
    work.layout.profiles.extend(effect.layout)
    command.gpu_work.CopyFrom(work)


def _clear_gpu(command: node_pb2.Command, effect: ClearGpu, now_us: int) -> None:
    command.clear_gpu.CopyFrom(node_pb2.ClearGpu(uuid=effect.uuid))


def _return_gpus(command: node_pb2.Command, effect: ReturnGpus, now_us: int) -> None:
    command.return_gpus.CopyFrom(node_pb2.ReturnGpus(key=key_of(effect), uuid=effect.uuids))


#: Commands that are built from their effect alone.
FILL: Final[dict[type[Effect], Callable[[node_pb2.Command, Any, int], None]]] = {
    SignalStep: _signal,
    TerminateStep: _terminate,
    ForgetStep: _forget,
    NotifyStep: _notify,
    SuspendStep: _suspend,
    RebootNode: _reboot,
    GpuWork: _gpu_work,
    ClearGpu: _clear_gpu,
    ReturnGpus: _return_gpus,
}

#: Variables of the job that repeat its request: the node passes them on unchanged. Empty or 0: not set.
SENT: Final[dict[str, Callable[[JobRequest], str | int | None]]] = {
    "SLURM_GPUS_PER_SOCKET": lambda request: gpus_of(request.gres_per_socket),
    "SLURM_GPU_BIND": lambda request: request.gpu_bind,
    "SLURM_DIST_PLANESIZE": lambda request: plane_size(request.distribution),
    "SLURM_GPU_FREQ": lambda request: request.gpu_freq,
    "SLURM_JOB_SEGMENT_SIZE": lambda request: request.segment,
    "SLURM_THREADS_PER_CORE": lambda request: request.threads_per_core,
    "SLURM_NTASKS_PER_CORE": lambda request: request.ntasks_per_core,
    "SLURM_NTASKS_PER_SOCKET": lambda request: request.ntasks_per_socket,
    "SLURM_OVERCOMMIT": lambda request: int(request.overcommit),
    "SLURM_CONTAINER": lambda request: request.container,
    "SLURM_TRES_PER_TASK": lambda request: tres_per_task(request),
    "SLURM_SPREAD_JOB": lambda request: int(request.spread_job),
}
check_names(Environment.SENT, SENT)
