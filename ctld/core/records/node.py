"""Records of nodes and partitions: slotted classes without logic, and their committed images."""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from ctld.core.records.gpu import Gpu
from ctld.core.records.inside import Layout
from penstock.values.config import NodeConfig, PartitionConfig
from penstock.values.states import NodeFlag


class NodeFields:
    """The stored fields of a node."""

    # made by tools/records: attributes of node
    __slots__ = (
        "boot_id", "comment", "extra", "flags", "instance_id", "instance_type", "last_busy_at_us", "name", "reason",
        "reason_at_us", "reason_uid", "resume_after_us", "spool_id", "version",
    )  # fmt: skip

    name: str
    flags: NodeFlag
    reason: str
    reason_uid: int
    reason_at_us: int
    comment: str
    boot_id: str
    spool_id: str
    version: str
    last_busy_at_us: int
    extra: str
    resume_after_us: int  # of its automatic resumption; 0 = none
    instance_id: str  # of a machine in a cloud
    instance_type: str
    # end of what is made


class Node(NodeFields):
    """One node: its configuration, its own reports, and its allocations."""

    __slots__ = (
        "arch", "boot_at_us", "config", "connected", "cpus", "cpus_alloc", "cpus_used",
        "cuda_version", "exited", "features", "gpu_closed", "gpu_constraint", "gpu_driver", "gpu_shares",
        "gpu_single", "gpu_slots", "gpu_suspect", "gpu_why", "gpus", "gpus_at_us", "gres_used", "index", "inside",
        "jobs", "leftovers", "link_id", "lost_at_us", "lost_link_id", "low", "mem_alloc_mb", "nvml_version", "os",
        "pretended", "real_memory_mb", "started_at_us", "stream_port", "stream_tls", "usage_doubted", "weight",
    )  # fmt: skip

    index: int  # row in the columns
    config: NodeConfig
    inside: Layout
    features: tuple[str, ...]
    link_id: int  # 0 = no stream
    connected: bool
    os: str
    arch: str
    boot_at_us: int
    started_at_us: int
    pretended: bool
    stream_port: int  # where clients of steps connect; 0 = not possible
    stream_tls: bool
    weight: int
    cpus: int
    real_memory_mb: int
    cpus_alloc: int
    mem_alloc_mb: int
    cpus_used: int  # bit mask of cpu numbers
    gres_used: dict[tuple[str, str], int]  # (name, type) -> bit mask of held indices
    gpu_shares: dict[int, tuple[str, int]]  # GPUs that are shared -> (name, shares in use)
    gpus: dict[str, Gpu]  # by UUID: all that the node has ever reported
    gpu_slots: tuple[str, ...]  # UUIDs by place among the devices (gpus/inventory.py); "" = none, or unknown
    gpu_closed: int  # masks of places: never allocated;
    gpu_single: int  # only to a job with one GPU;
    gpu_suspect: int  # used last
    gpus_at_us: int  # the node's time of its last report on them
    gpu_driver: str
    cuda_version: str
    nvml_version: str
    gpu_constraint: str
    gpu_why: str
    low: tuple[str, ...]  # in what it was smaller than its configuration when it registered, as text
    jobs: dict[int, None]  # job ids that hold something here
    leftovers: dict[tuple[int, int, int], None]  # running steps here without a job
    exited: dict[tuple[int, int, int], None]  # steps that had ended when it registered: the reports follow
    lost_link_id: int  # the stream that was lost last
    lost_at_us: int  # its time; 0 = it has not registered with this controller
    usage_doubted: bool  # it has reported more usage than it can have had


class NodeRow(NamedTuple):
    """The part of a node that survives a restart of the controller. Primary key name."""

    # made by tools/records: row of node
    name: str
    flags: NodeFlag
    reason: str = ""
    reason_uid: int = 0
    reason_at_us: int = 0
    comment: str = ""
    boot_id: str = ""
    spool_id: str = ""
    version: str = ""
    last_busy_at_us: int = 0
    extra: str = ""
    resume_after_us: int = 0
    instance_id: str = ""
    instance_type: str = ""
    # end of what is made


_node_values: Callable[[Node], tuple[object, ...]] = attrgetter(*NodeRow._fields)


def node_row(node: Node) -> NodeRow:
    """Freezes a node."""
    return NodeRow._make(_node_values(node))


def blank_node() -> Node:
    """Returns a node with the defaults; fields without a default are the caller's to set."""
    node = Node()
    # made by tools/records: a new node
    node.reason = ""
    node.reason_uid = 0
    node.reason_at_us = 0
    node.comment = ""
    node.boot_id = ""
    node.spool_id = ""
    node.version = ""
    node.last_busy_at_us = 0
    node.extra = ""
    node.resume_after_us = 0
    node.instance_id = ""
    node.instance_type = ""
    # end of what is made
    return node


class Partition:
    """One partition. `state` may differ from the configuration until the next reload."""

    __slots__ = ("config", "name", "node_bits", "state")

    name: str
    config: PartitionConfig
    state: str
    node_bits: int  # bit map of node indices


class PartitionRow(NamedTuple):
    """A partition's state, when it was changed by hand. Primary key name."""

    # made by tools/records: row of partition_state
    name: str
    state: str
    # end of what is made


class NodeEvent(NamedTuple):
    """An interval in which a node was not up, or the cluster's size in it (nodes/history.py). Primary key (node,
    start_at_us).
    """

    # made by tools/records: row of node_event
    node: str  # "" = the cluster
    start_at_us: int
    end_at_us: int  # 0 = it continues
    state: str
    reason: str
    reason_uid: int
    tres: str
    # end of what is made
