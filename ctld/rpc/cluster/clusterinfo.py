"""Encodes nodes and partitions: read from the core between two steps, as of the moment.

A node's base state is derived (DOWN, UNKNOWN, IDLE, MIXED, ALLOCATED); its flags are separate.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ctld.agents.clockwatch import describe
from ctld.agents.link import NodeLink
from ctld.agents.stepmessages import indices
from ctld.core.gpus.inventory import constraint
from ctld.core.lifecycle.restored import SEEN_MORE
from ctld.core.records.mig import shown_gres
from ctld.core.records.node import Node, Partition
from ctld.core.records.reservation import Reservation
from ctld.core.reservations.access import is_active
from ctld.core.state.state import ClusterState
from ctld.rpc.cluster.gpuinfo import NODE_FIELDS, with_indices
from ctld.rpc.gate.visibility import JobVisibility
from ctld.runtime.certificates import warning
from penstock.config.kinds import PREEMPT_MODE, TRES_WEIGHTS
from penstock.security.renew import WARN_DAYS, days_left
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.amendment import NODE
from penstock.values.cpusets import format_cpus
from penstock.values.hostlist import compress
from penstock.values.hres import kind_of
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState, NodeFlag
from penstock.values.tres import format_tres

#: Waiting rows whose nodes are shown as planned: Slurm's default of bf_max_job_test.
PLANNED_ROWS_MAX: Final = 500
_SHOWN_FLAGS: Final = (
    NodeFlag.DRAIN,
    NodeFlag.NO_RESPOND,
    NodeFlag.INVAL,
    NodeFlag.FAIL,
    NodeFlag.REBOOT_REQUESTED,
    NodeFlag.REBOOT_ISSUED,
)
_NODE_FIELDS: Final = (
    "name", "reason", "reason_at_us", "cpus_alloc", "mem_alloc_mb", "features", "weight",
    "version", "os", "arch", "boot_at_us", "last_busy_at_us", "pretended", "comment", "boot_id", "extra",
    "instance_id", "instance_type", *NODE_FIELDS,
)  # fmt: skip
_NODE_CONFIG_FIELDS: Final = (
    "hostname", "addr", "cpus", "boards", "sockets", "cores_per_socket", "threads_per_core", "real_memory_mb",
    "mem_spec_limit_mb", "tmp_disk_mb",
)  # fmt: skip
_PARTITION_FIELDS: Final = (
    "name", "is_default", "nodes", "max_time_s", "default_time_s", "min_nodes", "max_nodes", "priority_tier",
    "priority_job_factor", "over_subscribe", "root_only", "hidden", "def_mem_per_cpu_mb", "def_mem_per_node_mb",
    "max_mem_per_cpu_mb", "max_mem_per_node_mb", "allow_groups", "allow_accounts", "max_cpus_per_node",
    "max_cpus_per_socket",
    "disable_root_jobs", "exclusive_user", "exclusive_topo", "lln", "deny_accounts", "grace_time_s",
    "allow_qos", "deny_qos", "qos", "alloc_nodes", "alternate", "req_resv", "def_cpu_per_gpu", "def_mem_per_gpu_mb",
)  # fmt: skip


def partitions_of_nodes(state: ClusterState) -> dict[str, list[str]]:
    """Returns the partitions of each node."""
    found: dict[str, list[str]] = {}
    for partition in state.partition_list:
        for name in partition.config.nodes:
            found.setdefault(name, []).append(partition.name)
    return found


def base_state(node: Node) -> str:
    """Returns the node's base state, without the flags."""
    if node.flags & NodeFlag.FUTURE:
        return "FUTURE"
    if node.flags & NodeFlag.DOWN:
        return "DOWN"
    if node.flags & NodeFlag.UNKNOWN:
        return "UNKNOWN"
    if not node.cpus_alloc and not node.jobs:
        return "IDLE"
    return "ALLOCATED" if node.cpus_alloc >= node.cpus else "MIXED"


def flags_of(state: ClusterState, node: Node) -> list[str]:
    """Returns the flags of the node's state."""
    flags = [flag.name or "" for flag in _SHOWN_FLAGS if node.flags & flag]
    completing = any(state.jobs[job_id].state is JobState.COMPLETING for job_id in node.jobs)
    if completing or node.flags & NodeFlag.COMPLETING:
        flags.append("COMPLETING")
    if any(job_id not in node.jobs for job_id in state.leaf_owners.of_node.get(node.index, ())):
        flags.append("BLOCKED")  # a job has its leaf switch for itself alone, and nothing on the node
    if is_dynamic(state, node):
        flags.append("DYNAMIC_NORM")
    return flags


def is_dynamic(state: ClusterState, node: Node) -> bool:
    """Whether scontrol created the node."""
    amendment = state.amended.by_key.get((NODE, node.name))
    return amendment is not None and amendment.made


def reservations_of_nodes(state: ClusterState, now_us: int) -> dict[str, list[Reservation]]:
    """Returns the active reservations of each node."""
    found: dict[str, list[Reservation]] = {}
    for reservation in state.reservations.values():
        if is_active(reservation, now_us):
            for part in reservation.parts:
                found.setdefault(part.node, []).append(reservation)
    return found


def planned_nodes(state: ClusterState) -> set[str]:
    """Returns the idle nodes that are kept for a waiting job (PLANNED).

    As in Slurm, of the first jobs by priority only: with a long queue all nodes are planned for some job.
    """
    forecast = state.scheduling.forecast
    if forecast is None:
        return set()
    jobs = state.jobs
    names = forecast.planned_nodes(
        lambda job_id: job_id in jobs and jobs[job_id].state is JobState.PENDING, PLANNED_ROWS_MAX
    )
    return {name for name in names if name in state.nodes and base_state(state.nodes[name]) == "IDLE"}


def reserved_flags(reservations: Iterable[Reservation]) -> list[str]:
    """Returns the state flags of a node that its reservations cause."""
    active = list(reservations)
    maintained = any(reservation.flags & ResvFlag.MAINT for reservation in active)
    return ["MAINTENANCE"] * maintained + ["RESERVED"] * bool(active)


def _mcs_label(state: ClusterState, node: Node, visibility: JobVisibility) -> str:
    """Returns the label of the jobs that keep others from the node, if the user may see them: it can be a user's name."""
    if state.config.mcs_plugin == "mcs/none":
        return ""
    jobs = (state.jobs[job_id] for job_id in node.jobs)
    return next((job.request.apart_label for job in jobs if job.request.apart_label and visibility.sees(job)), "")


def _warning(state: ClusterState, node: Node, link: NodeLink | None) -> tuple[str, int] | None:
    """Returns what an administrator should look at although the node works, and since when."""
    if node.reason:
        return None
    if node.name in state.gap.claims:
        return SEEN_MORE, state.gap.started_at_us
    if link and link.clock_limit_us:
        return f"Clock {describe(link.clock_off_us)} the controller's", link.clock_since_us
    end_us = link.certificate_end_us if link else 0
    if end_us and days_left(end_us, state.now_us) < WARN_DAYS:
        return warning("node", node.name, end_us), end_us - WARN_DAYS * 86_400_000_000
    return None


def node_info(
    state: ClusterState,
    node: Node,
    partitions: Iterable[str],
    link: NodeLink | None,
    reason_user: str,
    visibility: JobVisibility,
    reservations: Sequence[Reservation] = (),
    is_planned: bool = False,
    gpus: Sequence[controller_pb2.GpuInfo] = (),
) -> controller_pb2.NodeInfo:
    """Encodes one node."""
    fields = {name: getattr(node, name) for name in _NODE_FIELDS}
    fields["cpus_alloc"] = min(node.cpus, node.cpus_alloc)  # cpus that several jobs share count once
    fields |= {name: getattr(node.config, name) for name in _NODE_CONFIG_FIELDS}
    fields["effective_cpus"] = node.cpus
    fields["core_spec_count"] = node.config.core_spec_count()
    fields["cpu_spec_list"] = format_cpus(node.config.specialized_cpus)
    fields["gpu_constraint"] = constraint(state.config, node)
    fields["mcs_label"] = _mcs_label(state, node, visibility)
    if announced := _warning(state, node, link):  # shown as a reason without a user: the node works, and continues to
        fields["reason"], fields["reason_at_us"] = announced
        reason_user = state.config.slurm_user
    return controller_pb2.NodeInfo(
        **fields,
        base_state=base_state(node),
        flags=[*flags_of(state, node), *reserved_flags(reservations), *["PLANNED"] * is_planned],
        reservation=",".join(reservation.name for reservation in reservations),
        reason_user=reason_user,
        is_warning=bool(announced),
        gres=[common_pb2.GresCount(name=g.name, type=g.type, count=g.count) for g in shown_gres(node)],
        gres_used=[
            with_indices(common_pb2.GresIndices(name=name, type=type_, index=indices(mask)), node)
            for (name, type_), mask in node.gres_used.items()
            if mask
        ]
        + shares_used(node),
        partitions=partitions,
        noded_start_at_us=node.started_at_us,
        resume_after_us=node.resume_after_us,
        available_features=node.features,
        port=node.config.port if node.config.port != state.config.slurmd_port else 0,
        dynamic=is_dynamic(state, node),
        free_memory_mb=link.free_memory_mb if link else 0,
        cpu_load_centi=link.cpu_load_centi if link else 0,
        gpus=gpus,
    )


def shares_used(node: Node) -> list[common_pb2.GresIndices]:
    """Returns the shares of GPUs in use, of every GPU that has such shares; none for an unused kind."""
    found = []
    for (name, type_), units in node.inside.shares.items():
        gpus = [gpu for gpu in range(len(units)) if units[gpu]]
        held = [node.gpu_shares.get(gpu, ("", 0)) for gpu in gpus]
        used = [count if holder == name else 0 for holder, count in held]
        if any(used):
            of = [units[gpu] for gpu in gpus]
            found.append(common_pb2.GresIndices(name=name, type=type_, index=gpus, units=used, of=of))
    return found


def partition_info(state: ClusterState, partition: Partition) -> controller_pb2.PartitionInfo:
    """Encodes one partition."""
    fields = {name: getattr(partition.config, name) for name in _PARTITION_FIELDS}
    if partition.config.over_subscribe in ("FORCE", "YES"):
        fields["over_subscribe"] += f":{partition.config.jobs_per_cpu()}"
    nodes = [state.nodes[name] for name in partition.config.nodes]
    cpus = sum(node.cpus for node in nodes)
    tres = {"cpu": cpus, "mem": sum(node.config.real_memory_mb for node in nodes), "node": len(nodes), "billing": cpus}
    for node in nodes:
        for gres in shown_gres(node):
            key = f"gres/{gres.name}"
            tres[key] = tres.get(key, 0) + gres.count
    modes = partition.config.preempt_mode or state.config.preempt_mode
    return controller_pb2.PartitionInfo(
        **fields,
        preempt_mode=PREEMPT_MODE.shown(modes),
        state=partition.state,
        total_cpus=sum(node.config.cpus for node in nodes),
        total_nodes=len(nodes),
        tres=format_tres(tres),
        configured_nodes=partition.config.nodes,
        over_time_limit_s=max(0, partition.config.over_time_limit_s),
        tres_billing_weights=TRES_WEIGHTS.write(partition.config.tres_billing_weights),
    )


def licenses(state: ClusterState, now_us: int) -> list[controller_pb2.LicenseInfo]:
    """Returns the total number of each kind of license, and its holders; and each layer of hierarchical resources."""
    return [*_plain_licenses(state, now_us), *_layers(state)]


def _layers(state: ClusterState) -> list[controller_pb2.LicenseInfo]:
    """Returns the layers. One without a limit does not say how much jobs hold: that is not counted."""
    kinds, free = state.layout.license_kinds, state.free_licenses
    return [
        controller_pb2.LicenseInfo(
            name=one.name,
            total=max(0, layer.count),
            used=max(0, layer.count - int(free[kinds[kind_of(one.name, layer.name)]])) if layer.count >= 0 else 0,
            layer_name=layer.name,
            nodes=compress(layer.nodes),
            mode=one.mode,
            count_configured=layer.configured,
            base=[f"{name}:{value}" for name, value in layer.base],
        )
        for one in state.config.hres
        for layer in one.layers
    ]


def _plain_licenses(state: ClusterState, now_us: int) -> list[controller_pb2.LicenseInfo]:
    active = [r for r in state.reservations.values() if is_active(r, now_us)]
    return [
        controller_pb2.LicenseInfo(
            name=name,
            total=total,
            used=max(0, total - int(state.free_licenses[state.layout.license_kinds[name]])),
            reserved=sum(dict(reservation.licenses).get(name, 0) for reservation in active),
            remote=name in state.registry.resources and name not in dict(state.config.licenses),
        )
        for name, total in state.layout.licenses.items()
    ]


def topology(state: ClusterState) -> controller_pb2.ShowTopologyReply:
    """Encodes the topology of topology.conf."""
    found = state.config.topology
    switches = [
        controller_pb2.SwitchInfo(
            name=switch.name,
            level=switch.level,
            nodes=compress(switch.nodes),
            node_count=len(switch.nodes),
            children=compress(switch.children),
        )
        for switch in found.switches
    ]
    return controller_pb2.ShowTopologyReply(kind=found.kind, switches=switches, block_sizes=found.block_sizes)
