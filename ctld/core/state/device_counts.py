"""Counts of a node's devices for the planner: how many are free, and how many a running job's part releases.

By kind (devices.Layout.kinds), as counts of places. A closed GPU is not free, and not released when its job ends. Nodes
whose GPUs are shared are counted by shares.py instead.
"""

from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.state.shares import GPU, GPU_KINDS, MANY

DeviceCounts = list[tuple[tuple[str, str], int]]


def free(node: Node, names: tuple[str, ...]) -> DeviceCounts:
    """Returns the free devices of the kinds of these names."""
    used = dict.fromkeys(names, 0)
    for (name, _), mask in node.gres_used.items():
        if mask and name in used:
            used[name] |= mask
    if GPU in used:
        used[GPU] |= node.gpu_closed
        used[MANY] = used[GPU]
    kinds = node.inside.kinds.items()
    return [(kind, (mask & ~used[name]).bit_count()) for kind, mask in kinds if (name := kind[0]) in used]


def given_back(node: Node, part: NodeAlloc) -> DeviceCounts:
    """Returns the resources that become free for others when the job ends."""
    held: dict[str, int] = {}
    for name, _, mask in part.gres:
        held[name] = held.get(name, 0) | mask
    if GPU in held:
        held[GPU] &= ~node.gpu_closed
        held[MANY] = held[GPU]
    return [(kind, (mask & held[kind[0]]).bit_count()) for kind, mask in node.inside.kinds.items() if kind[0] in held]


def gpus_given_back(node: Node, part: NodeAlloc) -> DeviceCounts:
    """Returns the same for GPUs, also when it has none."""
    found = dict.fromkeys((kind for kind in node.inside.kinds if kind[0] in GPU_KINDS), 0)
    found |= {kind: count for kind, count in given_back(node, part) if kind in found}
    return list(found.items())
