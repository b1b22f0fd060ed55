"""What stored jobs need and the file no longer has: kept at a start, as far as they need it.

A reload that does not fit the jobs is refused (layout.config_conflicts). A start is not: slurm.conf may have been changed
while the controller was down, and the jobs are there. So the configuration is completed:

    partition   stays without nodes, INACTIVE: a job that waits for it alone has the reason PartitionInactive
    node        one that jobs hold stays, in no partition; one that is smaller now keeps what they hold. It is drained,
                with a reason that names what the file lacks

No job ends by this: only its nodes prove that it is over (lifecycle/lease.py), so they stay to report it. The next reload
or start takes the file as it is, once those jobs have ended; the node is no longer drained then.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ctld.core.demand import specialized
from ctld.core.gpus import types as gpu_types
from ctld.core.jobs.sharing import RELEASED, units_of_request, units_per_cpu
from ctld.core.nodes import node_reason
from ctld.core.records.effects import Warn
from ctld.core.records.job import Job
from ctld.core.records.mig import gres_of
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU, units_of
from ctld.core.state.state import ClusterState
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.cpusets import format_cpus
from penstock.values.gres import SHARED_NAMES, Gres
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState, NodeFlag, Suspend

#: Beginning of the reason of a node that is kept.
KEPT: Final = "slurm.conf lacks what jobs hold: "


def with_names(state: ClusterState, config: Config) -> Config:
    """Returns the configuration with each partition that an unfinished job names, and each node that one holds."""
    unfinished = [job for job in state.jobs.records() if job.state not in END_STATES]
    partitions = dict.fromkeys(name for job in unfinished for name in (*job.request.partitions, job.partition) if name)
    holding = (job for job in unfinished if job.state in ALLOCATED_STATES)
    nodes = dict.fromkeys(part.node for job in holding for part in job.alloc)
    for partition in config.partitions:
        partitions.pop(partition.name, None)
    for node in config.nodes:
        nodes.pop(node.name, None)
    for name in partitions:
        state.emit(Warn(f"partition {name} has jobs and is not in slurm.conf: it is INACTIVE and without nodes"))
    return replace(
        config,
        partitions=(*config.partitions, *(PartitionConfig(name, (), state="INACTIVE") for name in partitions)),
        nodes=(*config.nodes, *(NodeConfig(name, name, name, 0, real_memory_mb=0) for name in nodes)),
    )


def with_sizes(state: ClusterState, config: Config, named: Config) -> Config:
    """Returns `named` with each node at least as large as its jobs need. `config`: the file's."""
    listed = {entry.name for entry in config.nodes}
    entries = []
    for entry in named.nodes:
        node = state.nodes.get(entry.name)
        if node is not None and node.jobs:
            jobs = [state.jobs[job_id] for job_id in node.jobs]
            larger, lacks = _large_enough(node, entry, jobs, cpus_needed(named, node, jobs))
            if entry.name not in listed:
                lacks = ["the node"]
            if lacks:
                state.layout.kept[entry.name] = f"{KEPT}{', '.join(lacks)}"
                entry = larger
        entries.append(entry)
    return replace(named, nodes=tuple(entries))


def cpus_needed(config: Config, node: Node, jobs: Iterable[Job]) -> int:
    """Returns how many CPUs the node must have under that configuration: for each of its jobs, and for all that have
    theirs now, which may share them. A suspended job that waits for its CPUs is none of these."""
    units = units_per_cpu(config)
    partitions = {partition.name: partition for partition in config.partitions}
    most = sure = at_once = 0
    for job in jobs:
        cpus = sum(part.cpus for part in job.alloc if part.node == node.name)
        most = max(most, cpus)
        if job.suspended_by not in RELEASED and job.suspended_by is not Suspend.RESUMING:
            sure += cpus * units_of_request(units, partitions.get(job.partition), job.request)
        at_once += cpus if job.state in (JobState.CONFIGURING, JobState.RUNNING) else 0
    return max(most, -(-sure // units), at_once if "GANG" in config.preempt_mode else 0)


def cpus_bound(node: Node, jobs: Iterable[Job]) -> int:
    """Returns the CPUs of the node that its jobs have (a mask), and that are not to become specialized; a job with
    --core-spec has chosen those itself, and has its nodes alone."""
    return 0 if any(specialized.is_on(job.request) for job in jobs) else node.cpus_used


def _large_enough(node: Node, entry: NodeConfig, jobs: list[Job], cpus: int) -> tuple[NodeConfig, list[str]]:
    """Returns the node's entry with what its jobs hold, and what the file's lacks."""
    lacks = []
    larger = entry
    most = max(cpus, (node.cpus_used >> entry.cpus << entry.cpus).bit_length())
    taken = cpus_bound(node, jobs) & entry.specialized_cpus
    is_short = most > entry.cpus_for_jobs()
    if is_short or taken:
        lacks.append(f"{most} CPUs (it has {entry.cpus_for_jobs()})" if is_short else f"CPUs {format_cpus(taken)}")
        larger = replace(larger, cpus=max(entry.cpus, most), specialized_cpus=0)
    if node.mem_alloc_mb > entry.memory_for_jobs_mb():
        lacks.append(f"{node.mem_alloc_mb} MB (it has {entry.memory_for_jobs_mb()})")
        larger = replace(larger, real_memory_mb=max(entry.real_memory_mb, node.mem_alloc_mb), mem_spec_limit_mb=0)
    whole = gpu_types.in_force(node, entry)
    gres = _gres_needed(node, whole, jobs)
    if gres != gres_of(whole):
        lacks += dict.fromkeys(f"gres/{name}" for name in _names_changed(gres, gres_of(whole)))
        larger = replace(larger, gres=gres, mig=())
    return larger, lacks


def _names_changed(new: tuple[Gres, ...], old: tuple[Gres, ...]) -> list[str]:
    return [one.name for one in new if one not in old]


def _gres_needed(node: Node, entry: NodeConfig, jobs: list[Job]) -> tuple[Gres, ...]:
    """Returns the entry's GRES, with each device that jobs hold at its place, and the shares of GPUs that they hold."""
    shares = [share for job in jobs for part in job.alloc if part.node == node.name for share in part.shares]
    places: dict[str, list[str | None]] = {}  # the type of each device, by name
    for one in gres_of(entry):
        if one.name not in SHARED_NAMES:
            places.setdefault(one.name, []).extend([one.type] * one.count)
    held = {kind: mask for kind, mask in node.gres_used.items() if mask}
    changed: dict[str, None] = {}
    for (name, type_), mask in held.items():
        for place in range(mask.bit_length()):
            if mask >> place & 1 and _put(places.setdefault(name, []), place, type_):
                changed[name] = None
    for share in shares:
        known = places.setdefault(GPU, [])
        if share.gpu >= len(known):
            _put(known, share.gpu, share.type)
            changed[GPU] = None
    units = {kind: list(each) for kind, each in units_of(entry).items()}
    count = len(places.get(GPU, ()))
    for share in shares:
        each = units.setdefault((share.name, share.type), [])
        each += [0] * (count - len(each))
        if each[share.gpu] < share.of:
            each[share.gpu] = share.of
            changed[share.name] = None
    if not changed:
        return gres_of(entry)
    others = [Gres(name, type_, sum(each), tuple(each)) for (name, type_), each in units.items()]
    return (*(one for name, types in places.items() for one in _runs(name, types)), *others)


def _put(types: list[str | None], place: int, type_: str) -> bool:
    """Puts a device of that type at its place. Returns whether that changes the list."""
    types += [None] * (place + 1 - len(types))
    changes = types[place] != type_
    types[place] = type_
    return changes


def _runs(name: str, types: list[str | None]) -> list[Gres]:
    """Returns the devices in the order of their places; one that nothing describes is of the type of its neighbour."""
    found: list[Gres] = []
    known = next((type_ for type_ in types if type_ is not None), "")
    for type_ in types:
        known = known if type_ is None else type_
        if found and found[-1].type == known:
            found[-1] = replace(found[-1], count=found[-1].count + 1)
        else:
            found.append(Gres(name, known, 1))
    return found


def settle(state: ClusterState, now_us: int) -> None:
    """Drains the nodes that are kept, and no longer those that were, after the nodes have been laid out."""
    for node in state.node_list:
        reason = state.layout.kept.get(node.name, "")
        if node.reason.startswith(KEPT) and node.reason != reason:
            node.flags &= ~NodeFlag.DRAIN
            node_reason.reword(node, "")
            state.touch_node(node)
        if reason and not node.flags & NodeFlag.DRAIN:
            node.flags |= NodeFlag.DRAIN
            node_reason.explain(node, reason, 0, now_us)
            state.touch_node(node)
            state.emit(Warn(f"node {node.name} is drained: {reason}"))
