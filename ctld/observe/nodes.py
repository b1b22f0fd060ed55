"""Slurm's families about nodes and partitions.

Nodes are read from the core between two of its steps, some at a time. Their states are those of sinfo: one base state,
and flags; each has its number. States that no node enters here have zeros.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ctld.agents.link import NodeLink
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from ctld.observe.jobfamilies import of_partitions
from ctld.observe.jobstats import MB, JobStats
from ctld.rpc.cluster.clusterinfo import base_state, flags_of, planned_nodes, reservations_of_nodes, reserved_flags
from penstock.exporter.exposition import MetricFamily, MetricType, gauge, labels
from penstock.exporter.pace import WorkPace

#: Numbers of nodes: the name of the cluster's, that of a partition's, and the nodes that count.
_COUNTS: Final = (
    ("alloc", "alloc", "whose CPUs are all allocated"), ("blocked", "blocked", "kept free for a topology"),
    ("cloud", "cloud", "of a cloud"), ("completing", "cg", "with jobs that are ending"), ("down", "down", "that are down"),
    ("drain", "drain", "that take no new jobs"), ("drained", "drained", "that take no new jobs and have none"),
    ("draining", "draining", "that take no new jobs and still have some"),
    ("dyn_future", "dyn_future", "dynamic and not there yet"), ("dyn_normal", "dyn_normal", "made at run time"),
    ("external", "external", "managed elsewhere"), ("fail", "fail", "that are failing"),
    ("future", "future", "defined for later"), ("idle", "idle", "without jobs"),
    ("invalid_reg", "invalid_reg", "that registered with less than is configured"),
    ("maint", "maint", "in a reservation for maintenance"), ("mixed", "mixed", "with some of their CPUs allocated"),
    ("noresp", "no_resp", "that do not respond"), ("planned", "planned", "planned for a job"),
    ("power_down", "power_down", "to be powered down"), ("power_up", "power_up", "to be powered up"),
    ("powered_down", "powered_down", "powered down"), ("", "powering_down", "powering down"),
    ("powering_up", "powering_up", "powering up"), ("reboot_issued", "reboot_issued", "that reboot"),
    ("reboot_req", "reboot_requested", "to be rebooted"), ("resv", "resv", "in an active reservation"),
    ("unknown", "unknown", "that have not registered yet"),
)  # fmt: skip
_WORDS: Final = {
    "ALLOCATED": "alloc", "COMPLETING": "completing", "DOWN": "down", "DRAIN": "drain", "DYNAMIC_NORM": "dyn_normal",
    "FAIL": "fail", "FUTURE": "future", "IDLE": "idle", "INVAL": "invalid_reg", "MAINTENANCE": "maint", "MIXED": "mixed",
    "NO_RESPOND": "noresp", "PLANNED": "planned", "REBOOT_ISSUED": "reboot_issued",
    "REBOOT_REQUESTED": "reboot_req", "RESERVED": "resv", "UNKNOWN": "unknown",
}  # fmt: skip


class NodeNumbers(NamedTuple):
    """The numbers of one node, and the words of its state as the names of _COUNTS."""

    words: tuple[str, ...]
    cpus: int
    cpus_effective: int
    cpus_alloc: int
    mem_mb: int
    mem_effective_mb: int
    mem_alloc_mb: int
    mem_free_mb: int
    gpus: int
    gpus_alloc: int


async def read_nodes(state: ClusterState, links: Mapping[str, NodeLink], pace: WorkPace) -> dict[str, NodeNumbers]:
    """Returns the numbers of all nodes, by name."""
    await pace.begin()
    reservations = reservations_of_nodes(state, state.now_us)
    planned = planned_nodes(state)
    facts = {}
    async for node in pace.over(list(state.node_list)):
        flags = [*reserved_flags(reservations.get(node.name, ())), *["PLANNED"] * (node.name in planned)]
        facts[node.name] = _facts(state, node, flags, links.get(node.name))
    return facts


def _facts(state: ClusterState, node: Node, flags: Iterable[str], link: NodeLink | None) -> NodeNumbers:
    words = [_WORDS[word] for word in (base_state(node), *flags_of(state, node), *flags) if word in _WORDS]
    if "drain" in words:
        words.append("draining" if node.jobs else "drained")
    gpus = sum(mask.bit_count() for (name, _), mask in node.gres_used.items() if name == GPU)
    return NodeNumbers(
        tuple(words), node.config.cpus, node.cpus, min(node.cpus, node.cpus_alloc), node.config.real_memory_mb,
        node.config.memory_for_jobs_mb(), node.mem_alloc_mb, link.free_memory_mb if link is not None else 0,
        node.config.gpu_count(), gpus,
    )  # fmt: skip


#: The numbers of each node.
_OF_NODE: Final[tuple[tuple[str, str, Callable[[NodeNumbers], int]], ...]] = (
    ("cpus", "CPUs of the node", lambda node: node.cpus),
    ("cpus_alloc", "CPUs allocated to jobs", lambda node: node.cpus_alloc),
    ("cpus_effective", "CPUs that jobs may have", lambda node: node.cpus_effective),
    ("cpus_idle", "CPUs that jobs may have and none has", lambda node: node.cpus_effective - node.cpus_alloc),
    ("gpus", "GPUs of the node", lambda node: node.gpus),
    ("gpus_alloc", "GPUs allocated whole to jobs", lambda node: node.gpus_alloc),
    ("memory_alloc_bytes", "Bytes of memory allocated to jobs", lambda node: node.mem_alloc_mb * MB),
    ("memory_bytes", "Bytes of memory of the node", lambda node: node.mem_mb * MB),
    ("memory_effective_bytes", "Bytes of memory that jobs may have", lambda node: node.mem_effective_mb * MB),
    ("memory_free_bytes", "Bytes of memory that are free for the kernel", lambda node: node.mem_free_mb * MB),
)


def node_families(facts: Mapping[str, NodeNumbers]) -> Iterator[MetricFamily]:
    """Yields the families of `/metrics/nodes`."""
    labelled = {labels({"node": name}): node for name, node in facts.items()}
    for name, text, value in _OF_NODE:
        yield MetricFamily(f"slurm_node_{name}", MetricType.GAUGE, text, _each(labelled, value))
    yield gauge("slurm_nodes", "Nodes", len(facts))
    counts = _counts(facts.values())
    for name, _, text in _COUNTS:
        if name:
            yield gauge(f"slurm_nodes_{name}", f"Nodes {text}", counts.get(name, 0))


def _each(labelled: Mapping[str, NodeNumbers], value: Callable[[NodeNumbers], int]) -> Iterator[tuple[str, int]]:
    return ((text, value(node)) for text, node in labelled.items())


def _counts(nodes: Iterable[NodeNumbers]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        for word in node.words:
            counts[word] = counts.get(word, 0) + 1
    return counts


class _PartitionSums:
    """The numbers of a partition's nodes."""

    __slots__ = ("counts", "of_nodes", "size")

    def __init__(self, nodes: list[NodeNumbers]) -> None:
        self.counts = _counts(nodes)
        self.size = len(nodes)
        self.of_nodes = {name: sum(value(node) for node in nodes) for name, _, value in _OF_PARTITION}


_OF_PARTITION: Final[tuple[tuple[str, str, Callable[[NodeNumbers], int]], ...]] = (
    ("cpus", "CPUs of the nodes", lambda node: node.cpus),
    ("gpus", "GPUs of the nodes", lambda node: node.gpus),
    ("nodes_cpus_alloc", "CPUs allocated to jobs, of any partition", lambda node: node.cpus_alloc),
    ("nodes_cpus_efctv", "CPUs that jobs may have", lambda node: node.cpus_effective),
    ("nodes_cpus_idle", "CPUs that no job has", lambda node: node.cpus_effective - node.cpus_alloc),
    ("nodes_mem_alloc", "Bytes of memory allocated to jobs, of any partition", lambda node: node.mem_alloc_mb * MB),
    ("nodes_mem_avail", "Bytes of memory that jobs may have", lambda node: node.mem_effective_mb * MB),
    ("nodes_mem_free", "Bytes of memory that are free for the kernel", lambda node: node.mem_free_mb * MB),
    ("nodes_mem_tot", "Bytes of memory", lambda node: node.mem_mb * MB),
)


async def partition_families(
    state: ClusterState, facts: Mapping[str, NodeNumbers], jobs: Mapping[str, JobStats], pace: WorkPace
) -> list[MetricFamily]:
    """Returns the families of `/metrics/partitions`. Partitions that are gone have no numbers, though jobs name them."""
    sums: dict[str, _PartitionSums] = {}
    await pace.begin()
    for partition in list(state.partition_list):
        nodes = [facts[name] for name in partition.config.nodes if name in facts]
        sums[labels({"partition": partition.name})] = _PartitionSums(nodes)
        await pace.pause()
    names = [partition.name for partition in state.partition_list]
    families = list(of_partitions({name: jobs.get(name) or JobStats() for name in names}))
    for name, text, _ in _OF_PARTITION:
        values = [(labelled, one.of_nodes[name]) for labelled, one in sums.items()]
        families.append(MetricFamily(f"slurm_partition_{name}", MetricType.GAUGE, text, values))
    sizes = [(labelled, one.size) for labelled, one in sums.items()]
    families.append(MetricFamily("slurm_partition_nodes", MetricType.GAUGE, "Nodes", sizes))
    for word, name, text in _COUNTS:
        values = [(labelled, one.counts.get(word, 0)) for labelled, one in sums.items()]
        families.append(MetricFamily(f"slurm_partition_nodes_{name}", MetricType.GAUGE, f"Nodes {text}", values))
    families.append(gauge("slurm_partitions", "Partitions", len(names)))
    return families
