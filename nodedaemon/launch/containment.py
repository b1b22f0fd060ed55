"""Computes the limits, cpus and devices of a launch order: from the launch, the site's settings and the node's
topology.

Rules (cgroup.conf(5), slurm.conf(5))
    - Memory: the allocated size times AllowedRAMSpace, not below MinRAMSpace, not above MaxRAMPercent of the node. Swap
      in addition: the allocated size times AllowedSwapSpace, not above MaxSwapPercent of the node.
    - Cores: the step's cpus, by a control group with ConstrainCores, by affinity with TaskPlugin=task/affinity or
      ConstrainCores. A node with pretended cpus binds no task: they do not exist.
    - Devices: access to the node's allocatable devices (GRES with File, GPUs) that were not allocated is denied.
      NVIDIA's by their numbers, so that a file that appears later is denied, too. A step with a MIG instance can open
      its GPU and the capabilities of this instance; no step can open those that repartition GPUs.
    - Sampling: with a JobAcctGatherType and an interval, the job's own (--acctg-freq) if it has one; in groups of their
      own with jobacct_gather/cgroup.
    - Profile: unless the site or the job wants none, at the interval of the sampling; where tasks are not sampled, at the
      job's own interval, or the site's.
    - Out of memory: a step dies as a whole, with --oom-kill-step=0 only the process that the kernel picks.

A plain batch job on a default configuration gets only its cpus from here. Deliberately absent: applying any of this to
a process (cgroups/cgroup.py, stepd/task.py).
"""

import os

from nodedaemon.base import orders
from nodedaemon.cgroups.devices import OPEN_TO_ALL, entry, mig_controls
from nodedaemon.core.gpumessages import Device
from nodedaemon.core.steps import ANY_CPUS, CpuSets
from nodedaemon.launch import binding
from nodedaemon.launch.pinning import GPU, devices_of
from nodedaemon.launch.site import Site
from penstock.v1 import common_pb2, node_pb2
from penstock.values.errors import BadValue

KIND_STEP = "step"
_WHOLE = 100.0


def contain(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site) -> None:
    """Fills in the limits of the order. Raises BadValue when a binding is not within the step's resources."""
    groups, settings = site.settings.cgroup, site.settings
    is_part = message.HasField("job_allocation")
    job = message.job_allocation if is_part else message.allocation
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
        order.job_denied_devices = denied_devices(job, site) if is_part else order.denied_devices
        order.fence_devices = any(part.name == GPU or part.units for part in job.gres)  # it may release some
    own = message.HasField("acct_gather_frequency_s")
    if settings.acct_gather_type not in ("", "jobacct_gather/none"):
        order.sample_every_s = message.acct_gather_frequency_s if own else settings.acct_gather_frequency_s
        order.count_by_group = settings.acct_gather_type == "jobacct_gather/cgroup"
    if settings.profile_every_s and not message.no_profile:
        other_s = message.acct_gather_frequency_s if own else settings.profile_every_s
        order.profile_every_s = order.sample_every_s or other_s
        order.hang_after_s = settings.hang_after_s
        order.hang_signal = settings.hang_signal
        order.hang_grace_s = settings.hang_grace_s
    _confine(order, message, job, site)


def _may_fence(site: Site) -> bool:
    """Returns False on a node that reported at registration that it denies no devices. Raises BadValue."""
    if site.cgroups.kind == "none" or site.can_fence_devices():
        return True
    if os.geteuid() == 0 and site.settings.cgroup.plugin != "disabled":
        raise BadValue(f"ConstrainDevices=yes, but devices cannot be closed by this node's cgroup {site.cgroups.kind}")
    return False


def memory_limit_mb(given_mb: int, groups: node_pb2.CgroupSettings, total_mb: int) -> int:
    """The limit of a job or step with this much allocated; 0 = none (memory is not allocated here)."""
    if given_mb <= 0:
        return 0
    limit = max(int(given_mb * (groups.allowed_ram_percent or _WHOLE) / _WHOLE), groups.min_ram_mb)
    most = int(total_mb * (groups.max_ram_percent or _WHOLE) / _WHOLE)
    return max(min(limit, most) if most else limit, 1)


def swap_limit_mb(given_mb: int, groups: node_pb2.CgroupSettings, total_mb: int) -> int:
    """The swap that it may use in addition."""
    limit = int(given_mb * groups.allowed_swap_percent / _WHOLE)
    most = int(total_mb * (groups.max_swap_percent or _WHOLE) / _WHOLE)
    return min(limit, most) if most else limit


def denied_devices(given: common_pb2.NodeAllocation, site: Site) -> list[str]:
    """The node's devices that were not allocated. Shares of a GPU need the GPU's files."""
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
    """The files that a step with the device must be able to open; for an instance also those of its GPU."""
    if gpu is None:
        return ()
    return (*gpu.files, f"/dev/nvidia{gpu.minor}") if gpu.parent else gpu.files


def _confine(
    order: orders.LaunchOrder, message: node_pb2.LaunchStep, job: common_pb2.NodeAllocation, site: Site
) -> None:
    """Sets the step's cpus, and each task's among them."""
    by_group, by_affinity = site.settings.cgroup.constrain_cores, "task/affinity" in site.settings.task_plugin
    if site.topology is None or not (by_group or by_affinity):
        return
    order.cpu_ids = site.topology.kernels(message.allocation.cpu_ids)
    if by_group:
        order.job_cpu_ids = site.topology.kernels(job.cpu_ids)
    if order.kind == KIND_STEP and order.tasks:
        _bind_tasks(order, message, site, by_affinity)


def cpus_moved_to(mask: bytes, job_mask: bytes, site: Site) -> CpuSets:
    """The CPUs on which a resumed step and its job continue, where steps are confined to theirs."""
    if site.topology is None:
        return ANY_CPUS
    found = [site.topology.kernels(each) for each in (mask, job_mask)]
    return CpuSets(*[f"{sum(1 << number for number in each):x}" for each in found]) if all(found) else ANY_CPUS


def _bind_tasks(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site, by_affinity: bool) -> None:
    assert site.topology is not None
    spec = message.step.spec
    wanted = binding.BindingRequest(
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
    for task, bound_task in zip(order.tasks, bound.tasks, strict=True):
        task.cpus = bound_task.cpus
        task.mem_nodes = bound_task.mem_nodes
        task.mem_mode = bound_task.mem_mode
        task.bind_notes = bound_task.notes
    if by_affinity:
        order.environment |= bound.environment
