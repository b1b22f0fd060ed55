"""What the planner is told of a node's devices: how many are free, and how many a running job's part gives back.

By kind (devices.Layout.kinds), as counts of places. A closed GPU is not free, and nobody gets it when its job ends.
Nodes whose GPUs are shared are counted by shares.py instead.
"""

from ctld.core.model import Node, NodeAlloc
from ctld.core.shares import GPU, GPU_KINDS, MANY

Counts = list[tuple[tuple[str, str], int]]


def free(node: Node, names: tuple[str, ...]) -> Counts:
    """Of the kinds of these names."""
    used = dict.fromkeys(names, 0)
    for key, mask in node.gres_used.items():
        if mask and key[0] in used:
            used[key[0]] |= mask
    if GPU in used:
        used[GPU] |= node.gpu_closed
        used[MANY] = used[GPU]
    return [(kind, (mask & ~used[kind[0]]).bit_count()) for kind, mask in node.inside.kinds.items() if kind[0] in used]


def given_back(node: Node, part: NodeAlloc) -> Counts:
    """What others can have when the job ends."""
    held: dict[str, int] = {}
    for name, _, mask in part.gres:
        held[name] = held.get(name, 0) | mask
    if GPU in held:
        held[GPU] &= ~node.gpu_closed
        held[MANY] = held[GPU]
    return [(kind, (mask & held[kind[0]]).bit_count()) for kind, mask in node.inside.kinds.items() if kind[0] in held]


def gpus_given_back(node: Node, part: NodeAlloc) -> Counts:
    """The same of GPUs, also when it has none."""
    found = dict.fromkeys((kind for kind in node.inside.kinds if kind[0] in GPU_KINDS), 0)
    found |= {kind: count for kind, count in given_back(node, part) if kind in found}
    return list(found.items())
