"""What a launch order says of limits, cpus and devices: from the launch, the site's settings and the node's inside.

Rules (cgroup.conf(5), slurm.conf(5))
    - Memory: what was given, times AllowedRAMSpace, not below MinRAMSpace, not above MaxRAMPercent of the node. Swap
      beside it: what was given, times AllowedSwapSpace, not above MaxSwapPercent of the node.
    - Cores: the step's cpus, by a control group with ConstrainCores, by affinity with TaskPlugin=task/affinity or
      ConstrainCores. A node that pretends its cpus binds nobody: they are not there.
    - Devices: of the node's devices that can be given (GRES with File, GPUs), those that were not are closed. NVIDIA's
      by their numbers, so that a file that appears later is closed, too. Who has a MIG instance can open the GPU that it
      lies on and the capabilities of this instance; nobody can open those that divide GPUs anew.
    - Sampling: with a JobAcctGatherType and an interval, the job's own (--acctg-freq) if it has one; in groups of their
      own with jobacct_gather/cgroup.
    - Out of memory: a step dies as a whole, with --oom-kill-step=0 only the process that the kernel picks.

A plain batch job on a default configuration gets nothing but its cpus from here. Deliberately absent: how any of this
is done to a process (cgroup.py, task.py).
"""

import os

from nodedaemon import binding, orders
from nodedaemon.core.gpuwords import Device
from nodedaemon.devices import OPEN_TO_ALL, entry, mig_controls
from nodedaemon.pinning import GPU, devices_of
from nodedaemon.site import Site
from penstock.v1 import common_pb2, node_pb2
from penstock.values.errors import BadValue

KIND_STEP = "step"
_WHOLE = 100.0


def contain(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site) -> None:
    """Fill in what the order is held to. Raises BadValue when a binding asks for what is not the step's."""
    groups, settings = site.settings.cgroup, site.settings
    job = message.job_allocation if message.HasField("job_allocation") else message.allocation
    if groups.plugin == "disabled":
        order.no_groups = True
    if groups.constrain_ram or site.always_limits_memory:
        order.memory_limit_mb = memory_limit_mb(message.allocation.mem_mb, groups, site.total_memory_mb)
        order.job_memory_limit_mb = memory_limit_mb(job.mem_mb, groups, site.total_memory_mb)
        if groups.constrain_swap and order.job_memory_limit_mb:
            order.swap_limit_mb = swap_limit_mb(job.mem_mb, groups, site.total_memory_mb)
    if message.HasField("oom_kill_step"):
        order.oom_group = message.oom_kill_step
    if groups.pids_max:
        order.pids_max = groups.pids_max
    if (groups.constrain_devices and _may_fence(site)) or (groups.fence_where_able and site.fences_devices()):
        order.denied_devices = denied_devices(message.allocation, site)
        order.job_denied_devices = denied_devices(job, site)
        order.fence_devices = any(part.name == GPU or part.units for part in job.gres)  # it may give some back
    if settings.acct_gather_type not in ("", "jobacct_gather/none"):
        own = message.HasField("acct_gather_frequency_s")
        order.sample_every_s = message.acct_gather_frequency_s if own else settings.acct_gather_frequency_s
        order.count_by_group = settings.acct_gather_type == "jobacct_gather/cgroup"
    _confine(order, message, job, site)


def _may_fence(site: Site) -> bool:
    """False on a node of which it is known, and told at registration, that it fences nobody. Raises BadValue."""
    if site.cgroups.kind == "none" or site.can_fence_devices():
        return True
    if os.geteuid() == 0 and site.settings.cgroup.plugin != "disabled":
        raise BadValue(f"ConstrainDevices=yes, but devices cannot be closed by this node's cgroup {site.cgroups.kind}")
    return False


def memory_limit_mb(given_mb: int, groups: node_pb2.CgroupSettings, total_mb: int) -> int:
    """The limit of a job or step that was given so much; 0 = none (memory is not handed out here)."""
    if given_mb <= 0:
        return 0
    limit = max(int(given_mb * (groups.allowed_ram_percent or _WHOLE) / _WHOLE), groups.min_ram_mb)
    most = int(total_mb * (groups.max_ram_percent or _WHOLE) / _WHOLE)
    return max(min(limit, most) if most else limit, 1)


def swap_limit_mb(given_mb: int, groups: node_pb2.CgroupSettings, total_mb: int) -> int:
    """How much of it may be swapped out beside that."""
    limit = int(given_mb * groups.allowed_swap_percent / _WHOLE)
    most = int(total_mb * (groups.max_swap_percent or _WHOLE) / _WHOLE)
    return min(limit, most) if most else limit


def denied_devices(given: common_pb2.NodeAllocation, site: Site) -> list[str]:
    """The node's devices that are not among what was given. Shares of a GPU are the GPU's files."""
    held: set[str] = set()
    for part in given.gres:
        name = GPU if part.units else part.name
        gpus = devices_of(part, site) if name == GPU else (None,) * len(part.index)
        for index, gpu in zip(part.index, gpus, strict=True):
            held.update(map(entry, files_of(gpu) or site.devices.get((name, index), ())))
    there = [file for files in site.devices.values() for file in files]
    there += [file for gpu in site.inventory() for file in files_of(gpu)]
    return sorted({*map(entry, there), *mig_controls()} - held - OPEN_TO_ALL)


def files_of(gpu: Device | None) -> tuple[str, ...]:
    """What whoever has it must be able to open; an instance lies on its GPU's file."""
    if gpu is None:
        return ()
    return (*gpu.files, f"/dev/nvidia{gpu.minor}") if gpu.parent else gpu.files


def _confine(
    order: orders.LaunchOrder, message: node_pb2.LaunchStep, job: common_pb2.NodeAllocation, site: Site
) -> None:
    """The step's cpus, and each task's among them."""
    by_group, by_affinity = site.settings.cgroup.constrain_cores, "task/affinity" in site.settings.task_plugin
    if site.topology is None or not (by_group or by_affinity):
        return
    order.cpu_ids = site.topology.kernels(message.allocation.cpu_ids)
    if by_group:
        order.job_cpu_ids = site.topology.kernels(job.cpu_ids)
    if order.kind == KIND_STEP and order.tasks:
        _bind_tasks(order, message, site, by_affinity)


def _bind_tasks(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site, by_affinity: bool) -> None:
    assert site.topology is not None
    spec = message.step.spec
    wanted = binding.Wanted(
        ranks=tuple(task.rank for task in order.tasks),
        allowed=tuple(order.cpu_ids),
        cpus_per_task=message.step.plan.cpus_per_task or spec.cpus_per_task or 1,
        cpu_bind=spec.cpu_bind if by_affinity else "none",
        mem_bind=spec.mem_bind,
        hint=spec.hint,
        distribution=spec.distribution,
        threads_per_core=spec.threads_per_core,
        node_name=order.node_name,
    )
    bound = binding.bind(wanted, site.topology)
    for task, place in zip(order.tasks, bound.places, strict=True):
        task.cpus, task.mem_nodes, task.mem_mode, task.bind_notes = (
            place.cpus,
            place.mem_nodes,
            place.mem_mode,
            place.notes,
        )
    if by_affinity:
        order.environment |= bound.environment
