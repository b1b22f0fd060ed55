"""From a configuration to nodes, partitions and columns; at start and at every reload.

A reload is all or nothing: `misfits` looks first (a node with jobs may not vanish, a GPU that is allocated may not
either), and what is then built anew are the columns and masks, while nodes keep what is known of them by name. A start
asks the same of the file, which may have been changed meanwhile. What nodes say of their GPUs can call for a new layout
too (`relearn`): types that the file leaves open, features, kinds that the planner does not count yet. Rare, so nothing
here is incremental.
"""

from collections.abc import Iterable

import numpy as np

from ctld.core import (
    gpu_care,
    gpu_kinds,
    gpu_types,
    gpus,
    limit_changes,
    mig,
    node_events,
    preempt,
    priority,
    shares,
    tres,
)
from ctld.core.columns import MaskTable, NodeColumns, RunningColumns
from ctld.core.devices import layout_of
from ctld.core.effects import AdmitNode, Done, Refused
from ctld.core.events import LoadConfig
from ctld.core.expect import expected_end_s
from ctld.core.fractions import mix_of
from ctld.core.mig_model import gres_of
from ctld.core.model import Job, Node, Partition
from ctld.core.pending import PendingColumns
from ctld.core.policy import backfill_policy
from ctld.core.ready import refresh
from ctld.core.shapes import bits_of
from ctld.core.sharing import units_held, units_per_cpu
from ctld.core.state import CLOSED_FLAGS, ClusterState
from ctld.core.timers import Timer
from penstock.values.config import Config, NodeConfig
from penstock.values.gres import SHARED_NAMES
from penstock.values.refusals import Code
from penstock.values.states import JobState, NodeFlag

#: Jobs that a complaint about a node names; one is enough to look for, all would be too long to read.
IDS_SHOWN_MAX = 5


def load_config(state: ClusterState, now_us: int, event: LoadConfig) -> None:
    """Take a configuration into force. Raises Refused when jobs stand in the way."""
    problems = misfits(state, event.config)
    if problems:
        raise Refused(Code.CONFIG_INVALID, "; ".join(problems))
    # -- apply
    kept = {node.name for node in event.config.nodes}
    for node in state.node_list:
        if node.link_id and node.name not in kept:  # its stream ends, so that it can register when it comes back
            state.emit(AdmitNode(node.name, node.link_id, f"node {node.name} has left the configuration"))
    take_config(state, event.config, now_us)
    state.amended.change(event.amendments, event.dropped)
    gpu_care.recover(state, now_us)
    state.reply(event.reply_to, Done())


def misfits(state: ClusterState, config: Config) -> list[str]:
    """What running or pending jobs have against a configuration."""
    new_nodes = {node.name: node for node in config.nodes}
    new_partitions = {p.name for p in config.partitions}
    problems = []
    for node in state.nodes.values():
        if not node.jobs:
            continue
        new = new_nodes.get(node.name)
        if new is None:
            ids = ", ".join(map(str, list(node.jobs)[:IDS_SHOWN_MAX]))
            problems.append(f"node {node.name} has jobs ({ids}) and is gone from the file: drain it first")
        else:
            problems += _too_small(node, gpu_types.in_force(node, new), units_per_cpu(config))
    wanted: dict[str, int] = {}
    for job in state.jobs.values():
        if job.state is JobState.PENDING:
            for name in job.request.partitions:
                if name not in new_partitions:
                    wanted[name] = wanted.get(name, 0) + 1
    problems += [
        f"partition {name} has {number} pending job(s) and is gone from the file" for name, number in wanted.items()
    ]
    return problems


def _too_small(node: Node, new: NodeConfig, jobs_per_cpu: int) -> list[str]:
    problems = []
    if new.cpus * jobs_per_cpu < node.cpus_alloc:
        problems.append(f"node {node.name}: {node.cpus_alloc} CPUs are allocated, the file has {new.cpus}")
    if new.real_memory_mb < node.mem_alloc_mb:
        text = f"node {node.name}: {node.mem_alloc_mb} MB are allocated, the file has {new.real_memory_mb}"
        problems.append(text)
    held = {kind: mask for kind, mask in node.gres_used.items() if mask}
    masks = layout_of(new).masks
    for (name, type_), mask in held.items():
        if mask & ~masks.get((name, type_), 0):
            what = f"gres/{name}:{type_}" if type_ else f"gres/{name}"
            problems.append(f"node {node.name}: {what} that jobs hold is gone from the file")
    units = shares.units_of(new)
    for gpu, (name, used) in node.gpu_shares.items():
        if used > max((each[gpu] for (of, _), each in units.items() if of == name and gpu < len(each)), default=0):
            problems.append(
                f"node {node.name}: {used} of gres/{name} on GPU {gpu}, which jobs hold, are gone from the file"
            )
    return problems


def take_config(state: ClusterState, config: Config, now_us: int) -> None:
    """Put `config` into force, keeping what is known."""
    lay_out(state, config, now_us)
    priority.configure(state, config, now_us)
    limit_changes.configure(state, now_us)
    refresh_all(state, now_us)


def refresh_all(state: ClusterState, now_us: int) -> None:
    """Give the pending jobs their rows in new columns."""
    for job in list(state.jobs.values()):
        if job.state is JobState.PENDING:
            refresh(state, job, now_us)


def lay_out(state: ClusterState, config: Config, now_us: int) -> None:
    """Build nodes, partitions and columns; no pending job has its rows until `refresh_all`."""
    known = state.nodes
    listed = {entry.name: None for entry in config.nodes}
    for name, node in known.items():
        if name not in listed:
            state.dirty_gpus.update(((name, uuid), None) for uuid in node.gpus)  # forgotten with it
    state.config = config
    state.next_job_id = max(state.next_job_id, config.first_job_id)
    state.node_list = [_node(known.get(c.name), c, index, now_us) for index, c in enumerate(config.nodes)]
    state.nodes = {node.name: node for node in state.node_list}
    for node in state.node_list:
        if node.gpus:
            gpus.take_over(state, node, gpus.rebind(node))
            gpus.place(node)
            node.features = gpu_types.features_of(node, config.nodes[node.index])
    state.gpus_due = {}
    state.gpu_sizes = gpu_kinds.sizes_of(state.node_list)
    state.gpu_pairs = gpu_kinds.pairs_of(state.node_list, state.gpu_sizes)
    state.gpu_extras = gpu_kinds.extras_of(state.node_list, state.gpu_sizes)
    state.node_names = tuple(node.name for node in state.node_list)
    state.gres_kinds = _gres_kinds(state.node_list, config, state.gpu_extras)
    state.policy = backfill_policy(config)
    state.full_pass_not_before_us = min(state.full_pass_not_before_us, now_us + state.policy.interval_us)
    state.license_totals = dict(config.licenses)
    state.license_totals |= {key: row.ours for key, row in state.registry.resources.items() if not row.deleted}
    state.license_kinds = {name: kind for kind, name in enumerate(state.license_totals)}
    state.free_licenses = np.array(list(state.license_totals.values()), np.int32)
    state.units_per_cpu = units_per_cpu(config)
    state.share_units = shares.most_units(node.inside for node in state.node_list)
    state.mix = mix_of(state)
    _build_partitions(state, config)
    tres.number(state)
    mig.forget(state)
    _build_columns(state)
    state.masks = MaskTable(len(state.node_list))
    state.feasible.clear()
    state.placements.clear()
    state.rules_changed()
    state.budgets.stale = True  # prices, the time zone
    state.lending.stale = True
    state.pending = PendingColumns(len(state.gres_kinds), len(state.license_kinds))
    state.forecast, state.telling = None, None
    state.layout_revision = state.revision + 1
    if state.reservations:
        state.timers.set(now_us, Timer.RESERVED_NODES)
    node_events.laid_out(state, now_us)
    state.changed()


def relearn(state: ClusterState, now_us: int) -> None:
    """Take into force what nodes have said of their GPUs; once for all of them, and not while a job keeps a node's types."""
    raw = state.config.nodes
    for name in list(state.gpus_due):
        node = state.nodes.get(name)
        if node is None or not gpus.is_due(state, node):
            del state.gpus_due[name]
    due = (state.nodes[name] for name in state.gpus_due)
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
            node.reason, node.reason_at_us = config.reason or f"{config.state} in slurm.conf", now_us
    node.config, node.index = gpu_types.in_force(node, config), index
    node.inside = layout_of(node.config)
    node.cpus, node.real_memory_mb = config.cpus, config.real_memory_mb
    node.features, node.weight = config.features, config.weight
    return node


def new_node(config: NodeConfig) -> Node:
    """A node that has never registered."""
    node = Node()
    node.name, node.config, node.index, node.inside = config.name, config, 0, layout_of(config)
    node.flags = NodeFlag.UNKNOWN | (NodeFlag.FUTURE if config.state == "FUTURE" else NodeFlag.NONE)
    node.resume_after_us = 0
    node.reason = node.comment = node.extra = node.boot_id = node.spool_id = node.version = node.os = node.arch = ""
    node.reason_uid = node.reason_at_us = node.link_id = node.boot_at_us = node.started_at_us = 0
    node.last_busy_at_us = node.cpus_alloc = node.cpus_used = node.mem_alloc_mb = 0
    node.connected = node.pretended = node.stream_tls = False
    node.stream_port = 0
    node.gres_used, node.jobs, node.leftovers, node.lost_link_id = {}, {}, {}, 0
    node.lost_at_us = 0
    node.gpu_shares, node.gpus, node.gpu_slots = {}, {}, ()
    node.gpu_closed = node.gpu_single = node.gpu_suspect = node.gpus_at_us = 0
    node.low = ()
    node.gpu_driver = node.cuda_version = node.nvml_version = node.gpu_constraint = node.gpu_why = ""
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
    return kinds


def _build_columns(state: ClusterState) -> None:
    columns = NodeColumns(len(state.node_list), len(state.gres_kinds), state.config.topology.levels())
    _lay_switches(state, columns)
    for node in state.node_list:
        i = node.index
        columns.total_cpus[i], columns.total_mem_mb[i] = node.cpus * state.units_per_cpu, node.real_memory_mb
        columns.cpu_quantum[i] = _cpu_quantum(state, node)
        columns.free_mem_mb[i] = node.real_memory_mb - node.mem_alloc_mb
        for kind, count in gpu_kinds.totals(state, node).items():
            columns.total_gres[i, state.gres_kinds[kind]] = count
        holders: list[Job] = [state.jobs[job_id] for job_id in node.jobs]
        taken = (part.cpus * units_held(state, job) for job in holders for part in job.alloc if part.node == node.name)
        columns.free_cpus[i] = columns.total_cpus[i] - sum(taken)
        columns.held_exclusive[i] = any(job.request.exclusive for job in holders if units_held(state, job))
        columns.up[i] = 0 if node.flags & CLOSED_FLAGS else 1
    state.node_columns = columns
    preempt.lay_out(state)
    _build_running(state)
    for node in state.node_list:
        state.count_devices(node, node.inside.names)
        if node.inside.gpu_types or node.gpus:
            gpus.settle(state, node)  # after the running ones, which it corrects
    state.order_nodes()


def _lay_switches(state: ClusterState, columns: NodeColumns) -> None:
    """The switch above each node at each level, by number. A node that topology.conf does not name has one of its own."""
    above = state.switches_above = state.config.topology.above()
    for level in range(len(columns.switches)):
        numbers: dict[tuple[str, str], int] = {}
        for node in state.node_list:
            chain = above.get(node.name)
            key = ("switch", chain[level]) if chain else ("node", node.name)
            columns.switches[level, node.index] = numbers.setdefault(key, len(numbers))


def _cpu_quantum(state: ClusterState, node: Node) -> int:
    """Cpus are given by whole cores or sockets as SelectTypeParameters says (slurm.conf(5)).

    Where CPUs counts cores, a core has one.
    """
    c = node.config
    if c.cpus != c.sockets * c.cores_per_socket * c.threads_per_core:
        return 1
    words = " ".join(state.config.select_type_parameters).upper()
    if "CR_SOCKET" in words:
        return int(c.cores_per_socket * c.threads_per_core)
    return 1 if "CR_CPU" in words else int(c.threads_per_core)


def _build_running(state: ClusterState) -> None:
    state.running = RunningColumns(len(state.gres_kinds), len(state.license_kinds))
    state.exclusive_users = 0
    if shares.MILLI in state.gres_kinds:  # whole GPUs are counted in thousandths too, also where none is shared
        state.running.watched = {node.index: None for node in state.node_list if node.inside.gpu_types}
        state.running.touched = dict(state.running.watched)
    for job_id in dict.fromkeys(job_id for node in state.node_list for job_id in node.jobs):
        job = state.jobs[job_id]
        state.hold(job, units_held(state, job), expected_end_s(state, job))
        preempt.tell_running(state, job)


def _build_partitions(state: ClusterState, config: Config) -> None:
    known = state.partitions
    state.partition_list = []
    for entry in config.partitions:
        partition = Partition()
        partition.name, partition.config = entry.name, entry
        old = known.get(entry.name)
        keeps = old is not None and (
            old.config.state == entry.state or config.has_word("reconfig_flags", "keeppartstate")
        )
        partition.state = old.state if old is not None and keeps else entry.state
        partition.node_bits = bits_of(state.nodes[name] for name in entry.nodes)
        state.partition_list.append(partition)
    state.partitions = {p.name: p for p in state.partition_list}
