"""Where to place pods that request a part of a GPU, written for reading: the rules of fractional placement and their oracle.

`place(nodes, shapes, pod_shape, tables, policy, draws)` takes pods in order of arrival. Each gets the node with the best
score among those where it fits, the lowest rank among equals, or none; nothing ever ends. A pod fits where the node has
its CPUs and memory, is of an allowed model, and `count` of its GPUs have `share_milli` free.

GPUs of the chosen node: the fullest that fit, lowest index first among equals. (Whole GPUs are all alike.) FGD and steer
score each GPU for a share and take the best; random draws one.

Policies 0 to 5 are those of the study "Beware of Fragmentation" (FGD, USENIX ATC'23), to the last bit; scores are
integers 0 to 100, rounded down:

- random: any node that fits, by `draws` (one number a pod: its low half chooses the node, its high half the GPU).
- dotprod: 1 - (cpu free * cpu wanted + gpu free * gpu wanted) / 2, in units of the largest node. Full nodes first.
- clustering: nodes that host only pods of the same number of GPUs, then those that host some, then empty ones, then the
  rest; within each the fullest.
- packing: shared GPUs already in use, then whole ones on a node in use, then an idle node.
- bestfit: 1 - (cpu left + gpu left) / 2, in units of the largest node.
- fgd: sigmoid(by how much the node's fragmentation falls, in GPUs). F = sum over classes m of p(m) * the idle GPU milli
  that a pod of m cannot use: all of the node's if it does not fit there, else those of the GPUs that are too small. F of
  a class without GPUs is all of the idle milli. A pod without GPUs is scored by F as well.

Policy 6, `steer`, is ours. A placement is the better, the more it lowers a cost; the cost of a node, in GPU milli, is
    F
  + the part of each of its GPUs that will stay idle when expected shares are packed as well as possible (fragment_holes.py)
  + GPU milli stranded without CPUs: what is left of its GPUs beyond what its CPUs can serve, if each GPU milli needs
    1, 1.25, 1.5 or 2 times the CPUs that it needs on average: the mean of the four shortages
  + 1/20 of its GPUs as soon as not all are whole: an untouched node can take a pod that requests all of it
  - as long as all are whole, up to 1/5 of its GPUs: times the part of the nodes with as many GPUs that have fewer CPUs than
    are free on it, and times the load of these nodes with jobs that want all GPUs of one (fragment_tables.py)
  - 2 * load of its model * its idle milli, where the load is the demand for this model over its supply, with the demand
    of a class spread over all models that it allows: so jobs that can use a common model leave the scarce one alone.
docs/scheduling.md has the effect of each part.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import (
    BEST_FIT,
    DOT_PRODUCT,
    FGD,
    GPU_CLUSTERING,
    GPU_MILLI,
    GPU_PACKING,
    LARGEST_CPU_MILLI,
    LARGEST_GPU_MILLI,
    RANDOM,
    FragmentNodes,
    Placements,
    Shapes,
    problem,
)
from _fastsched.fragment_tables import BROKEN, FRACTION_BITS, SCALE, STRANDED, Tables, score_of_tie


class FragmentNode:
    """The free resources of one node, modified by placements."""

    def __init__(self, nodes: FragmentNodes, row: int) -> None:
        self.rank = int(nodes.rank[row])
        self.cpu = int(nodes.cpu_milli[row])
        self.mem = int(nodes.mem_mb[row])
        self.model = int(nodes.model[row])
        self.free = [int(f) for f in nodes.free_milli[row, : nodes.gpus[row]]]
        self.hosted: set[int] = set()


class FragmentShape:
    """One kind of pod."""

    def __init__(self, shapes: Shapes, row: int) -> None:
        self.cpu = int(shapes.cpu_milli[row])
        self.mem = int(shapes.mem_mb[row])
        self.models = int(shapes.models[row])
        self.count = int(shapes.gpus[row])
        self.share = int(shapes.share_milli[row])

    @property
    def is_share(self) -> bool:
        return self.count == 1 and self.share < GPU_MILLI

    @property
    def kind(self) -> int:
        return 0 if self.is_share else self.count

    def usable(self, node: FragmentNode) -> list[int]:
        """Returns the GPUs with enough free, the fullest first."""
        return sorted((g for g, f in enumerate(node.free) if f >= self.share), key=lambda g: (node.free[g], g))

    def fits(self, node: FragmentNode) -> bool:
        if node.cpu < self.cpu or node.mem < self.mem:
            return False
        return self.count == 0 or (bool(self.models >> node.model & 1) and len(self.usable(node)) >= self.count)


def place(
    nodes: FragmentNodes,
    shapes: Shapes,
    pod_shape: NDArray[np.int32],
    tables: Tables,
    policy: int,
    draws: NDArray[np.uint64] | None = None,
) -> Placements:
    """Places the pods. Raises ValueError for invalid columns."""
    if wrong := problem(nodes, shapes, pod_shape, len(tables.price)):
        raise ValueError(wrong)
    cluster = [FragmentNode(nodes, row) for row in range(len(nodes.rank))]
    kinds = [FragmentShape(shapes, row) for row in range(len(shapes.gpus))]
    pods = len(pod_shape)
    chosen = np.full(pods, -1, np.int32)
    masks = np.zeros(pods, np.uint32)
    after = np.zeros(pods, np.int64)
    total = sum(fragmentation(tables, node) for node in cluster)
    for pod in range(pods):
        shape, draw = kinds[pod_shape[pod]], 0 if draws is None else int(draws[pod])
        fitting = [
            row for row in sorted(range(len(cluster)), key=lambda r: cluster[r].rank) if shape.fits(cluster[row])
        ]
        if fitting:
            if policy == RANDOM:
                row = fitting[(draw & 0xFFFF_FFFF) % len(fitting)]
            else:
                row = max(fitting, key=lambda r: score(tables, policy, shape, cluster[r]))
            node = cluster[row]
            gpus = choose_gpus(tables, policy, shape, node, draw)
            total -= fragmentation(tables, node)
            node.cpu = node.cpu - shape.cpu
            node.mem = node.mem - shape.mem
            node.free = without(node.free, gpus, shape.share)
            node.hosted |= {shape.kind} if shape.count else set()
            total += fragmentation(tables, node)
            chosen[pod], masks[pod] = row, sum(1 << g for g in gpus)
        after[pod] = total
    return Placements(chosen, masks, after)


def choose_gpus(tables: Tables, policy: int, shape: FragmentShape, node: FragmentNode, draw: int) -> list[int]:
    usable = shape.usable(node)
    if shape.is_share and policy == RANDOM:
        return [sorted(usable)[(draw >> 32) % len(usable)]]
    if shape.is_share and policy >= FGD:
        return [max(sorted(usable), key=lambda g: judged(tables, policy, shape, node, [g]))]
    return usable[: shape.count]


def score(tables: Tables, policy: int, shape: FragmentShape, node: FragmentNode) -> int:
    """Returns the score of this node for the shape, which fits; comparable within one policy."""
    idle, wanted = sum(node.free), shape.count * shape.share
    if policy == BEST_FIT:
        left = (node.cpu - shape.cpu) / LARGEST_CPU_MILLI * 0.5 + (idle - wanted) / LARGEST_GPU_MILLI * 0.5
        return int((1.0 - left) * 100.0)
    if policy == DOT_PRODUCT:
        cpus = node.cpu / LARGEST_CPU_MILLI * (shape.cpu / LARGEST_CPU_MILLI)
        return int(100.0 * (1.0 - (cpus + idle / LARGEST_GPU_MILLI * (wanted / LARGEST_GPU_MILLI)) / 2.0))
    if policy == GPU_PACKING:
        return packing(shape, node)
    if policy == GPU_CLUSTERING:
        return clustering(shape, node)
    if shape.is_share:
        return max(judged(tables, policy, shape, node, [g]) for g in shape.usable(node))
    return judged(tables, policy, shape, node, shape.usable(node)[: shape.count])


def packing(shape: FragmentShape, node: FragmentNode) -> int:
    if shape.count == 0:
        return 0
    whole = node.free.count(GPU_MILLI)
    if whole == len(node.free):
        return max(33 - whole, whole)
    taken = [node.free[g] for g in shape.usable(node)[: shape.count]]
    if GPU_MILLI in taken:
        return max(50 - taken.count(GPU_MILLI), 33)
    return max(100 - sum(free // 10 for free in taken) // 10, 50)


def clustering(shape: FragmentShape, node: FragmentNode) -> int:
    if shape.count == 0:
        return 0
    used = 25 * (LARGEST_GPU_MILLI - sum(node.free)) // LARGEST_GPU_MILLI
    if shape.kind in node.hosted:
        return used + (75 if len(node.hosted) == 1 else 50)
    return used + (0 if node.hosted else 25)


def judged(tables: Tables, policy: int, shape: FragmentShape, node: FragmentNode, gpus: list[int]) -> int:
    """Returns the score of taking these GPUs, for FGD or steer."""
    cpu, free = node.cpu - shape.cpu, without(node.free, gpus, shape.share)
    if policy != FGD:
        return cost(tables, node.model, node.cpu, node.free) - cost(tables, node.model, cpu, free)
    gain = measure(tables, node.model, node.cpu, node.free) - measure(tables, node.model, cpu, free)
    if gain:
        return bisect_right(tables.step, gain)
    before = as_published(tables, node.model, node.cpu, node.free)
    return score_of_tie(before, as_published(tables, node.model, cpu, free))


def without(free: list[int], gpus: list[int], share: int) -> list[int]:
    return [f - share if g in gpus else f for g, f in enumerate(free)]


def fragmentation(tables: Tables, node: FragmentNode) -> int:
    return measure(tables, node.model, node.cpu, node.free)


def measure(tables: Tables, model: int, cpu: int, free: list[int]) -> int:
    """Returns F times the sum of the weights."""
    rows = range(len(tables.classes.gpus))
    return sum(int(tables.classes.weight[row]) * unusable(tables, row, model, cpu, free)[1] for row in rows)


def as_published(tables: Tables, model: int, cpu: int, free: list[int]) -> float:
    """Returns F in floating point, added up by reason as in the study's code, for its rounding."""
    parts = [0.0] * 6
    for row in range(len(tables.classes.gpus)):
        why, milli = unusable(tables, row, model, cpu, free)
        parts[why] += float(tables.classes.probability[row]) * milli
    return sum(parts)


def unusable(tables: Tables, row: int, model: int, cpu: int, free: list[int]) -> tuple[int, int]:
    """Returns why a pod of this class cannot use GPU milli of a node in this state, and how many."""
    classes = tables.classes
    served = cpu >= classes.cpu_milli[row]
    if classes.gpus[row] == 0:
        return (3 if served else 4), sum(free)
    if not int(classes.models[row]) >> model & 1:
        return 5, sum(free)
    small = [f for f in free if f < classes.share_milli[row]]
    if len(free) - len(small) < classes.gpus[row]:
        return (1 if served else 0), sum(free)
    return (1, sum(small)) if served else (2, sum(free))


def cost(tables: Tables, model: int, cpu: int, free: list[int]) -> int:
    """Returns the cost of steer, in GPU milli times the sum of the weights times SCALE."""
    holes = sum(int(tables.hole_milli[f]) for f in free)
    need = sum(free) - holes
    stranded = sum(max(0, need - (cpu * int(support) >> FRACTION_BITS)) for support in tables.support)
    is_open = any(f < GPU_MILLI for f in free)
    own = SCALE * holes + STRANDED * stranded + (BROKEN * GPU_MILLI * len(free) if is_open else 0)
    intact = 0 if is_open else int(tables.intact[len(free), bisect_right(tables.node_cpu_milli, cpu)])
    unused = int(tables.price[model]) * sum(free)
    return SCALE * measure(tables, model, cpu, free) + tables.total_weight * own - intact - unused
