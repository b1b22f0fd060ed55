"""Builds nodes, partitions and columns from a configuration; at start and at every reload.

A reload is all or nothing: `config_conflicts` checks first (a node with jobs may not be removed, nor an allocated GPU);
then the columns and masks are rebuilt, while nodes keep their state by name. A start completes the file instead, which
may have been changed meanwhile (kept.py). Reports of nodes about their GPUs can require a new layout too (`relearn`): types
that the file leaves open, features, kinds that the planner does not count yet. All of this is rare, so nothing here is
incremental.
"""

from collections.abc import Collection, Iterable

import numpy as np

from ctld.core.gpus import care as gpu_care
from ctld.core.gpus import inventory
from ctld.core.gpus import kinds as gpu_kinds
from ctld.core.gpus import types as gpu_types
from ctld.core.jobs.expected_end import expected_end_s
from ctld.core.jobs.sharing import units_in_use, units_per_cpu
from ctld.core.lifecycle import limit_changes
from ctld.core.nodes import history, kept, node_reason
from ctld.core.passes import mig_division, queue_recovery
from ctld.core.queue import preemption, priority, tres
from ctld.core.queue.gpu_sharing import mix_of
from ctld.core.queue.shapes import bits_of
from ctld.core.records.effects import AdmitNode, Done, Refused
from ctld.core.records.events import LoadConfig
from ctld.core.records.job import Job
from ctld.core.records.mig import gres_of
from ctld.core.records.node import Node, Partition, blank_node
from ctld.core.state import hres, shares
from ctld.core.state.columns import MaskTable, NodeColumns, RunningColumns
from ctld.core.state.devices import layout_of
from ctld.core.state.layout import cpus_kind
from ctld.core.state.leaves import LeafOwners
from ctld.core.state.pending import PendingColumns
from ctld.core.state.policy import backfill_policy
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from ctld.core.state.timers import Timer
from penstock.values.config import Config, NodeConfig
from penstock.values.cpusets import format_cpus
from penstock.values.gres import SHARED_NAMES
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, NodeFlag

#: Maximum number of jobs in a message about a node.
IDS_SHOWN_MAX = 5


def load_config(state: ClusterState, now_us: int, event: LoadConfig) -> None:
    """Applies a configuration. Raises Refused when jobs conflict with it."""
    problems = config_conflicts(state, event.config)
    if problems:
        raise Refused(Code.CONFIG_INVALID, "; ".join(problems))
    state.applying()
    listed = {node.name for node in event.config.nodes}
    for node in state.node_list:
        if node.link_id and node.name not in listed:  # its stream ends, so that it can register when it returns
            state.emit(AdmitNode(node.name, node.link_id, f"node {node.name} has left the configuration"))
    if not event.by_hand:
        state.layout.kept = {}
    take_config(state, event.config, now_us)
    kept.settle(state, now_us)
    state.amended.change(event.amendments, event.dropped)
    gpu_care.recover(state, now_us)
    state.reply(event.reply_to, Done())


def config_conflicts(state: ClusterState, config: Config) -> list[str]:
    """The conflicts of jobs that have not ended with a configuration."""
    new_nodes = {node.name: node for node in config.nodes}
    new_partitions = {p.name for p in config.partitions}
    problems = []
    for node in state.nodes.values():
        if not node.jobs:
            continue
        new = new_nodes.get(node.name)
        if new is None:
            ids = ", ".join(map(str, list(node.jobs)[:IDS_SHOWN_MAX]))
            problems.append(f"node {node.name} has jobs ({ids}) and is missing from the file: drain it first")
        else:
            jobs = [state.jobs[job_id] for job_id in node.jobs]
            bound = kept.cpus_bound(node, jobs)
            problems += _too_small(node, gpu_types.in_force(node, new), kept.cpus_needed(config, node, jobs), bound)
    return problems + _partitions_in_use(state, new_partitions)


def _partitions_in_use(state: ClusterState, new: Collection[str]) -> list[str]:
    """Returns a problem for each partition not in `new` that jobs wait for, run in, or would be requeued into."""
    counts: dict[str, dict[str, int]] = {}
    for job in state.jobs.records():
        if job.state not in END_STATES:
            how = "pending" if job.state is JobState.PENDING else "running"
            for name in dict.fromkeys((*job.request.partitions, job.partition)):
                if name and name not in new:
                    count = counts.setdefault(name, {})
                    count[how] = count.get(how, 0) + 1
    return [
        f"partition {name} has {' and '.join(f'{n} {how}' for how, n in count.items())} job(s) and is missing from the file"
        for name, count in counts.items()
    ]


def _too_small(node: Node, new: NodeConfig, cpus: int, bound: int) -> list[str]:
    """`cpus`: those that the jobs there need; `bound`: those that they have, as a mask."""
    problems = []
    most = max(cpus, (node.cpus_used >> new.cpus << new.cpus).bit_length())
    if most > new.cpus_for_jobs():
        problems.append(f"node {node.name}: {most} CPUs are allocated, the file has {new.cpus_for_jobs()}")
    elif taken := bound & new.specialized_cpus:
        text = f"node {node.name}: CPUs {format_cpus(taken)} are allocated, the file keeps them for the system"
        problems.append(text)
    if new.memory_for_jobs_mb() < node.mem_alloc_mb:
        text = f"node {node.name}: {node.mem_alloc_mb} MB are allocated, the file has {new.memory_for_jobs_mb()}"
        problems.append(text)
    held = {kind: mask for kind, mask in node.gres_used.items() if mask}
    masks = layout_of(new).masks
    for (name, type_), mask in held.items():
        if mask & ~masks.get((name, type_), 0):
            what = f"gres/{name}:{type_}" if type_ else f"gres/{name}"
            problems.append(f"node {node.name}: {what} that jobs hold is missing from the file")
    units = shares.units_of(new)
    for gpu, (name, used) in node.gpu_shares.items():
        if used > max((each[gpu] for (of, _), each in units.items() if of == name and gpu < len(each)), default=0):
            problems.append(
                f"node {node.name}: {used} of gres/{name} on GPU {gpu}, which jobs hold, are missing from the file"
            )
    return problems


def take_config(state: ClusterState, config: Config, now_us: int) -> None:
    """Puts `config` into force, keeping the state of nodes and jobs."""
    lay_out(state, config, now_us)
    priority.configure(state, config, now_us)
    limit_changes.configure(state, now_us)
    queue_recovery.begin(state, now_us)


def renew_queue(state: ClusterState, now_us: int) -> None:
    """Rebuilds the queue's columns and node sets, without the sets that no job asks for any more."""
    _empty_queue(state, now_us)
    queue_recovery.begin(state, now_us)


def lay_out(state: ClusterState, config: Config, now_us: int) -> None:
    """Builds nodes, partitions and columns; no pending job has its rows until `queue_recovery`."""
    known = state.nodes
    listed = {entry.name: None for entry in config.nodes}
    for name, node in known.items():
        if name not in listed:
            for uuid in node.gpus:  # removed with it
                state.touch_gpu(name, uuid)
    state.config = config
    state.shown.count_all()
    state.skip_job_ids(config.first_job_id)
    state.node_list = [_node(known.get(c.name), c, index, now_us) for index, c in enumerate(config.nodes)]
    state.nodes = {node.name: node for node in state.node_list}
    for node in state.node_list:
        if node.gpus:
            inventory.take_over(state, node, inventory.rebind(node))
            inventory.place(node)
            node.features = gpu_types.features_of(node, config.nodes[node.index])
    state.gpus.relearn_due = {}
    state.gpus.sizes = gpu_kinds.sizes_of(state.node_list)
    state.gpus.pairs = gpu_kinds.pairs_of(state.node_list, state.gpus.sizes)
    state.gpus.extras = gpu_kinds.extras_of(state.node_list, state.gpus.sizes)
    state.layout.node_names = tuple(node.name for node in state.node_list)
    state.layout.gres_kinds = _gres_kinds(state.node_list, config, state.gpus.extras)
    state.layout.partition_cpus = {
        entry.name: state.layout.gres_kinds[cpus_kind(entry.name)] for entry in config.partitions if entry.limits_cpus()
    }
    state.scheduling.policy = backfill_policy(config)
    state.scheduling.full_pass_not_before_us = min(
        state.scheduling.full_pass_not_before_us, now_us + state.scheduling.policy.interval_us
    )
    state.layout.licenses = dict(config.licenses)
    state.layout.licenses |= {key: row.ours for key, row in state.registry.resources.items() if not row.deleted}
    state.layout.license_totals = state.layout.licenses | hres.totals(config)
    state.layout.license_kinds = {name: kind for kind, name in enumerate(state.layout.license_totals)}
    state.layout.hres = hres.pools(config, state.layout.license_kinds)
    state.free_licenses = np.array(list(state.layout.license_totals.values()), np.int32)
    state.layout.units_per_cpu = units_per_cpu(config)
    state.gpus.share_units = shares.most_units(node.inside for node in state.node_list)
    state.gpus.mix = mix_of(state)
    _build_partitions(state, config)
    tres.number(state)
    mig_division.forget(state)
    _build_columns(state)
    _empty_queue(state, now_us)
    state.limits.budgets.stale = True  # prices, the time zone
    state.limits.lending.stale = True
    history.laid_out(state, now_us)
    state.changed()


def _empty_queue(state: ClusterState, now_us: int) -> None:
    """Forgets the rows of pending jobs, their node sets and all plans."""
    state.layout.masks = MaskTable(len(state.node_list))
    state.layout.hres_sets.clear()
    state.layout.feasible.clear()
    state.layout.placements.clear()
    state.rules_changed()  # known shapes name rows of the table
    state.pending = PendingColumns(len(state.layout.gres_kinds), len(state.layout.license_kinds))
    state.scheduling.forecast = None
    state.scheduling.reason_backlog = None
    state.scheduling.layout_revision = state.scheduling.revision + 1
    if state.reservations:
        state.timers.set(now_us, Timer.RESERVED_NODES)


def relearn(state: ClusterState, now_us: int) -> None:
    """Applies the nodes' reports of their GPUs; once for all of them, and not while a job keeps a node's types, or the
    place of a GPU that came after it began."""
    raw = state.config.nodes
    for name in list(state.gpus.relearn_due):
        node = state.nodes.get(name)
        if node is not None and inventory.lacks_place(node, shares.allocated_slots(node)):
            inventory.take_over(state, node, inventory.rebind(node))
            inventory.settle(state, node)
        if node is None or not inventory.is_due(state, node):
            del state.gpus.relearn_due[name]
    due = (state.nodes[name] for name in state.gpus.relearn_due)
    if any(
        gpu_types.in_force(node, raw[node.index]).gres != node.config.gres
        or gpu_types.features_of(node, raw[node.index]) != node.features
        or gpu_kinds.is_missing(state, node)
        for node in due
    ):
        take_config(state, state.config, now_us)


def _node(node: Node | None, config: NodeConfig, index: int, now_us: int) -> Node:
    if node is None:
        node = new_node(config)
        if config.state in ("DOWN", "DRAIN", "FAIL"):
            node.flags |= NodeFlag[config.state]
            node_reason.explain(node, config.reason or f"{config.state} in slurm.conf", node.reason_uid, now_us)
    node.config = gpu_types.in_force(node, config)
    node.index = index
    node.inside = layout_of(node.config)
    node.cpus = config.cpus_for_jobs()
    node.real_memory_mb = config.memory_for_jobs_mb()
    node.features = config.features
    node.weight = config.weight
    return node


def new_node(config: NodeConfig) -> Node:
    """Returns a node that has never registered."""
    node = blank_node()
    node.name = config.name
    node.config = config
    node.index = 0
    node.inside = layout_of(config)
    node.flags = NodeFlag.UNKNOWN | (NodeFlag.FUTURE if config.state == "FUTURE" else NodeFlag.NONE)
    node.os = ""
    node.arch = ""
    node.link_id = 0
    node.boot_at_us = 0
    node.started_at_us = 0
    node.cpus_alloc = 0
    node.cpus_used = 0
    node.mem_alloc_mb = 0
    node.connected = False
    node.pretended = False
    node.stream_tls = False
    node.stream_port = 0
    node.gres_used = {}
    node.jobs = {}
    node.leftovers = {}
    node.lost_link_id = 0
    node.lost_at_us = 0
    node.gpu_shares = {}
    node.gpus = {}
    node.gpu_slots = ()
    node.gpu_closed = 0
    node.gpu_single = 0
    node.gpu_suspect = 0
    node.gpus_at_us = 0
    node.low = ()
    node.usage_doubted = False
    node.gpu_driver = ""
    node.cuda_version = ""
    node.nvml_version = ""
    node.gpu_constraint = ""
    node.gpu_why = ""
    node.exited = {}
    return node


def _gres_kinds(nodes: list[Node], config: Config, extras: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    kinds: dict[tuple[str, str], int] = {}
    for node in nodes:
        for gres in gres_of(node.config):
            for key in ((gres.name, ""), (gres.name, gres.type)):
                kinds.setdefault(key, len(kinds))
    for name in config.gres_types:
        kinds.setdefault((name, ""), len(kinds))
    if any(gres.name in SHARED_NAMES for node in config.nodes for gres in node.gres):
        kinds.setdefault((shares.GPU, ""), len(kinds))
        kinds[shares.MILLI] = len(kinds)
    for key in extras:
        kinds.setdefault(key, len(kinds))
    for entry in config.partitions:
        if entry.limits_cpus():
            kinds[cpus_kind(entry.name)] = len(kinds)
    return kinds


def _build_columns(state: ClusterState) -> None:
    columns = NodeColumns(len(state.node_list), len(state.layout.gres_kinds), state.config.topology.levels())
    _lay_switches(state, columns)
    state.layout.cpus_largest = max((node.cpus for node in state.node_list), default=0)
    for node in state.node_list:
        i = node.index
        columns.total_cpus[i] = node.cpus * state.layout.units_per_cpu
        columns.total_mem_mb[i] = node.real_memory_mb
        columns.cpu_quantum[i] = state.config.cpu_quantum(node.config)
        columns.free_mem_mb[i] = node.real_memory_mb - node.mem_alloc_mb
        for kind, count in gpu_kinds.totals(state, node).items():
            columns.total_gres[i, state.layout.gres_kinds[kind]] = count
        allocated: list[Job] = [state.jobs[job_id] for job_id in node.jobs]
        for partition, column in state.layout.partition_cpus.items():
            columns.total_gres[i, column] = state.partitions[partition].config.cpus_within(node.config)
            columns.free_gres[i, column] = columns.total_gres[i, column] - _cpus_of_partition(
                state, node, allocated, partition
            )
        taken = (
            part.cpus * units_in_use(state, job) for job in allocated for part in job.alloc if part.node == node.name
        )
        columns.free_cpus[i] = columns.total_cpus[i] - sum(taken)
        columns.used_exclusively[i] = any(job.request.exclusive for job in allocated if units_in_use(state, job))
        columns.up[i] = 0 if node.flags & CLOSED_FLAGS else 1
    state.node_columns = columns
    preemption.lay_out(state)
    _build_running(state)
    for node in state.node_list:
        state.count_devices(node, node.inside.names)
        if node.inside.gpu_types or node.gpus:
            inventory.settle(state, node)  # after the running ones, which it corrects
    state.order_nodes()


def _cpus_of_partition(state: ClusterState, node: Node, allocated: list[Job], partition: str) -> int:
    """Returns the CPUs of a node that count towards the partition's MaxCPUsPerNode and MaxCPUsPerSocket."""
    counted = (
        job
        for job in allocated
        if job.partition == partition and units_in_use(state, job) and not job.request.exclusive
    )
    return sum(part.cpus for job in counted for part in job.alloc if part.node == node.name)


def _lay_switches(state: ClusterState, columns: NodeColumns) -> None:
    """Numbers the switch above each node at each level. A node that topology.conf does not name has one of its own."""
    above = state.layout.switches_above = state.config.topology.above()
    for level in range(len(columns.switches)):
        numbers: dict[tuple[str, str], int] = {}
        for node in state.node_list:
            chain = above.get(node.name)
            key = ("switch", chain[level]) if chain else ("node", node.name)
            columns.switches[level, node.index] = numbers.setdefault(key, len(numbers))


def _build_running(state: ClusterState) -> None:
    state.running = RunningColumns(len(state.layout.gres_kinds), len(state.layout.license_kinds))
    state.exclusive_users = 0
    state.leaf_owners = LeafOwners()
    if shares.MILLI in state.layout.gres_kinds:  # whole GPUs are counted in thousandths even if none is shared
        state.running.tracked = {node.index: None for node in state.node_list if node.inside.gpu_types}
        state.running.touched = dict(state.running.tracked)
    for job_id in dict.fromkeys(job_id for node in state.node_list for job_id in node.jobs):
        job = state.jobs[job_id]
        state.add_running(job, units_in_use(state, job), expected_end_s(state, job))
        preemption.update_running_class(state, job)


def _build_partitions(state: ClusterState, config: Config) -> None:
    known = state.partitions
    state.partition_list = []
    for entry in config.partitions:
        partition = Partition()
        partition.name = entry.name
        partition.config = entry
        old = known.get(entry.name)
        keeps = old is not None and (
            old.config.state == entry.state or config.has_word("reconfig_flags", "keeppartstate")
        )
        partition.state = old.state if old is not None and keeps else entry.state
        partition.node_bits = bits_of(state.nodes[name] for name in entry.nodes)
        state.partition_list.append(partition)
    state.partitions = {p.name: p for p in state.partition_list}
