"""Effects as messages to a node. No decisions; what the SLURM_* variables are made of is gathered here.

Numbers that were not asked for are sent as 0: the node leaves their variables out.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from ctld.agents.hetenv import het_variables
from ctld.agents.stepmessages import allocation_of, part_allocation, step_plan, step_spec, stream_key
from ctld.core.effects import (
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
from ctld.core.gpu_jobs import GPU_ERROR
from ctld.core.model import JobRequest, JobRow
from ctld.core.state import ClusterState
from ctld.core.step_model import StepRow
from penstock.v1 import common_pb2, node_pb2
from penstock.values.acctg import task_interval_s
from penstock.values.hostlist import compress
from penstock.values.jobid import EXTERN_STEP

#: What ended a job, as the line in its error file says it. A note that is not here is no line's business.
DUE_TO: Final = {
    "CANCELLED": "",
    "TIME LIMIT": " DUE TO TIME LIMIT",
    "REQUEUE": " DUE TO JOB REQUEUE",
    "PREEMPTION": " DUE TO PREEMPTION",
    "NODE FAILURE": " DUE TO NODE FAILURE",
    "SCRIPT END": "",
    "JOB END": "",
}

#: Below those that the kernel gives to outgoing connections.
MASTER_PORTS: Final = range(10_000, 30_000)


def key_of(effect: Any) -> node_pb2.StepKey:
    """The step an effect speaks of."""
    return node_pb2.StepKey(job_id=effect.job_id, attempt=effect.attempt, step_id=effect.step_id)


def launch_message(
    effect: LaunchStep, spec: common_pb2.JobSpec, cluster: str, secret: bytes = b""
) -> node_pb2.LaunchStep:
    """Everything the node needs to start the step."""
    message = _of_job(effect, spec, cluster)
    message.io_key = stream_key(secret, effect.job_id, effect.attempt, effect.step_id)
    if effect.step_id == EXTERN_STEP:
        _of_holder(message, effect)
    elif effect.step is not None:
        _of_step(message, effect, effect.step)
    return message


def _of_step(message: node_pb2.LaunchStep, effect: LaunchStep, row: StepRow) -> None:
    """What is the step's own takes the place of what is the job's."""
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
    message.std_out, message.std_err, message.std_in = request.std_out, request.std_err, request.std_in
    message.open_append = request.open_append
    if request.umask is not None:
        message.umask = request.umask
    if request.rlimits:
        message.rlimits.clear()
        message.rlimits.update(request.rlimits)


def _of_job(effect: LaunchStep, spec: common_pb2.JobSpec, cluster: str) -> node_pb2.LaunchStep:
    job = effect.job
    request = job.request
    index = next(i for i, part in enumerate(job.alloc) if part.node == effect.node)
    message = node_pb2.LaunchStep(
        key=key_of(effect),
        user_id=job.user_id,
        group_id=job.group_id,
        user_name=job.user_name,
        group_name=job.group_name,
        facts=facts_of(effect, cluster),
        spec=spec,
        work_dir=request.work_dir,
        std_out=request.std_out,
        std_err=request.std_err,
        std_in=request.std_in,
        open_append=request.open_append,
        umask=request.umask,
        allocation=allocation_of(job.alloc[index], effect.gpu_slots),
        node_index=index,
        lease_s=effect.lease_s,
        lease_grace_s=effect.lease_grace_s,
    )
    if request.rlimits:
        message.rlimits.update(request.rlimits)
    message.login_environment = request.get_user_env and not request.kind
    if request.oom_kill_step is not None:
        message.oom_kill_step = request.oom_kill_step
    if request.acctg_freq and (interval_s := task_interval_s(request.acctg_freq)) is not None:
        message.acct_gather_frequency_s = interval_s
    return message


def _of_holder(message: node_pb2.LaunchStep, effect: LaunchStep) -> None:
    """What prolog and epilog are told that only the controller knows; what they are is in the node's settings."""
    job, request = effect.job, effect.job.request
    message.holder.run_prolog = message.holder.run_epilog = True
    message.holder.is_batch_node = effect.node == job.batch_node and not request.kind
    told = {
        "SLURM_JOB_CONSTRAINTS": request.features,
        "SLURM_JOB_EXTRA": request.extra,
        "SLURM_WCKEY": request.wckey,
    }
    message.holder.environment.update({name: value for name, value in told.items() if value})


def master_port(job_id: int) -> int:
    """Of a job that has no port of its own (ctld/core/ports.py): one that no job of a near number has."""
    return MASTER_PORTS[job_id % len(MASTER_PORTS)]


def master_host(state: ClusterState, job: JobRow) -> str:
    """The address of the node that the job's processes meet on."""
    node = state.nodes.get(job.alloc[0].node) if job.alloc else None
    return node.config.addr if node is not None else ""


def facts_of(effect: LaunchStep, cluster: str) -> node_pb2.JobFacts:
    """What the job's environment says of the job."""
    job = effect.job
    request = job.request
    facts = node_pb2.JobFacts(
        cluster_name=cluster,
        job_name=request.name,
        partition=job.partition,
        account=request.account,
        reservation=request.reservation_run or request.reservation,
        qos=request.qos,
        node_list=compress(part.node for part in job.alloc),
        nodes=[allocation_of(part) for part in job.alloc],
        ntasks=request.ntasks_over or (request.ntasks if request.ntasks_asked else 0),
        cpus_per_task=request.cpus_per_task if request.cpus_per_task_asked else 0,
        ntasks_per_node=request.ntasks_per_node,
        mem_per_node_mb=request.mem_per_node_mb if request.mem_per_gpu_mb is None else None,
        mem_per_cpu_mb=request.mem_per_cpu_mb,
        start_at_us=job.start_at_us,
        end_at_us=end_of(job),
        restart_count=job.attempt,
        submit_dir=request.submit_dir,
        submit_host=request.submit_host,
        dependency=request.dependency,
        gpus_per_node=gpus_text(job),
        export_env=request.export_env,
        licenses=request.licenses,
        comment=request.comment,
        kind=request.kind.name.lower(),
        distribution=request.distribution,
        mem_per_gpu_mb=request.mem_per_gpu_mb,
        ntasks_per_gpu=request.ntasks_per_gpu,
        cpus_per_gpu=request.cpus_per_gpu,
        gpus=gpus_of(request.gres_per_job),
        gpus_per_task=gpus_of(request.gres_per_task),
        master_port=effect.master_port or master_port(job.job_id),
    )
    facts.more.extend(
        f"{name}={value}".encode()
        for name, value in (
            ("SLURM_GPUS_PER_SOCKET", gpus_of(request.gres_per_socket)),
            ("SLURM_GPU_BIND", request.gpu_bind),
            ("SLURM_GPU_FREQ", request.gpu_freq),
            ("SLURM_JOB_SEGMENT_SIZE", request.segment),
            ("SLURM_THREADS_PER_CORE", request.threads_per_core),
            ("SLURM_NTASKS_PER_CORE", request.ntasks_per_core),
            ("SLURM_NTASKS_PER_SOCKET", request.ntasks_per_socket),
            ("SLURM_OVERCOMMIT", int(request.overcommit)),
            ("SLURM_CONTAINER", request.container),
            ("SLURM_TRES_PER_TASK", tres_per_task(request)),
            ("SLURM_SPREAD_JOB", int(request.spread_job)),
        )
        if value
    )
    if request.het_job_id:
        facts.het_job_id, facts.het_offset, facts.het_size = request.het_job_id, request.het_offset, request.het_size
        facts.more.extend(het_variables(effect.components))
    if job.array_task_id is not None:
        facts.array_job_id, facts.array_task_id = job.array_job_id, job.array_task_id
        facts.array_task_count, facts.array_task_min = effect.array_count, effect.array_min
        facts.array_task_max, facts.array_task_step = effect.array_max, effect.array_step
    return facts


def topology_address(kind: str, above: tuple[str, ...], node: str) -> tuple[str, str]:
    """SLURM_TOPOLOGY_ADDR and its pattern: the highest switch first, the node last; of blocks the base block alone."""
    if not above:
        return node, "node"
    if kind == "block":
        return f"{above[0]}.{node}", "block.node"
    chain = list(dict.fromkeys(above))[::-1]  # where a level has no switch, the one below stands in for it
    return ".".join([*chain, node]), ".".join(["switch"] * len(chain) + ["node"])


def end_of(job: JobRow) -> int:
    """When the job's time limit ends it; 0 = never."""
    return job.start_at_us + job.time_limit_s * 1_000_000 if job.time_limit_s >= 0 else 0


def gpus_text(job: JobRow) -> str:
    """GPUs per node as asked for: `a100:4`, `4`, "" = none, or the numbers come from --gpus or --gpus-per-task."""
    derived = job.request.gres_per_job or job.request.gres_per_task
    return "" if derived else gpus_of(job.request.gres_per_node)


def gpus_of(gres: tuple[tuple[str, str, int], ...]) -> str:
    """The GPUs of a request as an option has them."""
    return ",".join(f"{type_}:{count}" if type_ else str(count) for name, type_, count in gres if name == "gpu")


def tres_per_task(request: JobRequest) -> str:
    """What each task has, as --tres-per-task has it: `cpu=2,gres/gpu:a100=1`."""
    cpus = [f"cpu={request.cpus_per_task}"] if request.cpus_per_task_asked else []
    gres = (f"gres/{name}:{type_}={n}" if type_ else f"gres/{name}={n}" for name, type_, n in request.gres_per_task)
    return ",".join((*cpus, *gres))


def note_text(effect: TerminateStep, now_us: int) -> str:
    """The line for the job's error file; "" = none."""
    if effect.step_id == EXTERN_STEP:  # for its epilog (surround.ending_note)
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
    command.suspend.CopyFrom(
        node_pb2.SuspendStep(key=key_of(effect), suspended=effect.suspended, grace_ms=effect.grace_ms)
    )


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


#: Commands that need nothing but their effect.
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
