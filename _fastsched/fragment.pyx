"""Fractional placement, compiled. The rules are in fragment_reference.py; this page explains only what makes it fast.

- Everything runs in one `with nogil` block on C arrays; nothing is allocated inside and nothing is kept between calls.
- A placement changes one node. Each shape has its own array of scores and remembers how much of the log of changed nodes
  it has read: for a pod of that shape only nodes changed since then are scored again, each once.
- Nodes are kept in order of rank, so the first of the best scores is the answer and no ranks are compared.
- What did not fit once never fits later, because nothing ends during a run.
- The fragmentation of a node is a few table look-ups (fragment_tables.py), in integers.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

import numpy as np

from _fastsched import fragment_contract as contract
from _fastsched import fragment_tables as prices

from _fastsched.fragments.cluster cimport (
    BROKEN, FRACTION_BITS, GPU_MILLI, INFEASIBLE, LARGEST_CPU_MILLI, LARGEST_GPU_MILLI, SCALE, STRANDED,
    FragmentCluster, PodShape, Weights, fits, fullest, give_back, is_share, kind_of, take_gpus,
)
from _fastsched.fragments.published cimport best_fit, clustering, dot_product, packing
from _fastsched.fragments.worth cimport (
    cell_of, fragmentation, fragmentation_as_published, score_of_tie, steering, stepped,
)

if (
    (contract.GPU_MILLI, contract.LARGEST_CPU_MILLI, contract.LARGEST_GPU_MILLI)
    != (GPU_MILLI, LARGEST_CPU_MILLI, LARGEST_GPU_MILLI)
    or (prices.SCALE, prices.STRANDED, prices.BROKEN, prices.FRACTION_BITS) != (SCALE, STRANDED, BROKEN, FRACTION_BITS)
):
    raise ImportError("_fastsched.fragment: built for other numbers than fragment_contract.py has; build again")

cdef int32_t RANDOM = contract.RANDOM
cdef int32_t DOT_PRODUCT = contract.DOT_PRODUCT
cdef int32_t GPU_CLUSTERING = contract.GPU_CLUSTERING
cdef int32_t GPU_PACKING = contract.GPU_PACKING
cdef int32_t BEST_FIT = contract.BEST_FIT
cdef int32_t FGD = contract.FGD


cdef struct FragmentRun:
    int32_t policy
    FragmentCluster cluster
    Weights weights
    const PodShape* shape
    int64_t* score  # shapes x nodes
    int64_t* seen  # by shape: how much of the log
    int32_t* log  # changed nodes, in order
    int64_t* last  # by node: its last place in the log
    int64_t* part  # by node: its fragmentation
    int64_t* cost  # by node: the cost that the policy minimises
    int64_t logged


cdef inline int64_t fragmentation_of(FragmentRun* run, int32_t node) noexcept nogil:
    cdef const FragmentCluster* cluster = &run.cluster
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    return fragmentation(&run.weights, cluster.model[node], cluster.cpu[node], free, cluster.gpus[node])


cdef inline int64_t cost_with(FragmentRun* run, int32_t node, int64_t cpu) noexcept nogil:
    """Returns the cost that FGD or steering minimises, of this node with so many CPUs and its GPUs as they are now."""
    cdef const FragmentCluster* cluster = &run.cluster
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    if run.policy == FGD:
        return fragmentation(&run.weights, cluster.model[node], cpu, free, cluster.gpus[node])
    return steering(&run.weights, cluster.model[node], cpu, free, cluster.gpus[node])


cdef int64_t tie_of_fgd(FragmentRun* run, const PodShape* shape, int32_t node, uint32_t mask) noexcept nogil:
    """Returns the published score of a gain that is exactly 0, where it depends on the rounding of the sums of both states."""
    cdef const FragmentCluster* cluster = &run.cluster
    cdef const Weights* weights = &run.weights
    cdef int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int64_t cpu = cluster.cpu[node]
    cdef double before, after
    if mask == 0 and cell_of(weights, cluster.model[node], cpu) == cell_of(weights, cluster.model[node], cpu - shape.cpu):
        return 50
    after = fragmentation_as_published(weights, cluster.model[node], cpu - shape.cpu, free, cluster.gpus[node])
    give_back(cluster, shape, node, mask)
    before = fragmentation_as_published(weights, cluster.model[node], cpu, free, cluster.gpus[node])
    take_gpus(cluster, shape, node, mask)
    return score_of_tie(before, after)


cdef int64_t judged(FragmentRun* run, const PodShape* shape, int32_t node, uint32_t mask) noexcept nogil:
    """Returns the score of taking exactly these GPUs, for FGD or steering."""
    cdef int64_t gain
    take_gpus(&run.cluster, shape, node, mask)
    gain = run.cost[node] - cost_with(run, node, run.cluster.cpu[node] - shape.cpu)
    if run.policy == FGD:
        gain = tie_of_fgd(run, shape, node, mask) if gain == 0 else stepped(&run.weights, gain)
    give_back(&run.cluster, shape, node, mask)
    return gain


cdef int64_t best_choice(FragmentRun* run, const PodShape* shape, int32_t node, uint32_t* mask) noexcept nogil:
    """Returns the best score on this node for FGD or steering, and its GPUs, the lowest index first among equals."""
    cdef const int32_t* free = run.cluster.free + <int64_t> node * run.cluster.width
    cdef int64_t best = INFEASIBLE, score
    cdef int32_t gpu, earlier = -1
    if not is_share(shape):
        mask[0] = fullest(&run.cluster, shape, node)
        return judged(run, shape, node, mask[0])
    for gpu in range(run.cluster.gpus[node]):
        if free[gpu] < shape.share or free[gpu] == earlier:
            continue
        earlier = free[gpu]
        score = judged(run, shape, node, <uint32_t> 1 << gpu)
        if score > best:
            best = score
            mask[0] = <uint32_t> 1 << gpu
    return best


cdef int64_t score_of(FragmentRun* run, const PodShape* shape, int32_t node) noexcept nogil:
    cdef uint32_t mask
    if not fits(&run.cluster, shape, node):
        return INFEASIBLE
    if run.policy == BEST_FIT:
        return best_fit(&run.cluster, shape, node)
    if run.policy == DOT_PRODUCT:
        return dot_product(&run.cluster, shape, node)
    if run.policy == GPU_PACKING:
        return packing(&run.cluster, shape, node)
    if run.policy == GPU_CLUSTERING:
        return clustering(&run.cluster, shape, node)
    return best_choice(run, shape, node, &mask)


cdef void bring_up_to_date(FragmentRun* run, int32_t row) noexcept nogil:
    """Scores the nodes again, for this shape, that have changed since its last use."""
    cdef int64_t* score = run.score + <int64_t> row * run.cluster.nodes
    cdef int64_t at
    cdef int32_t node
    if run.seen[row] < 0:
        for node in range(run.cluster.nodes):
            score[node] = score_of(run, &run.shape[row], node)
    else:
        for at in range(run.seen[row], run.logged):
            node = run.log[at]
            if run.last[node] == at and score[node] != INFEASIBLE:
                score[node] = score_of(run, &run.shape[row], node)
    run.seen[row] = run.logged


cdef int32_t best_node(FragmentRun* run, int32_t row) noexcept nogil:
    """Returns the first of the nodes with the best score, or -1."""
    cdef const int64_t* score = run.score + <int64_t> row * run.cluster.nodes
    cdef int64_t best = INFEASIBLE
    cdef int32_t node, found = -1
    for node in range(run.cluster.nodes):
        if score[node] > best:
            best = score[node]
            found = node
    return found


cdef int32_t drawn_node(FragmentRun* run, const PodShape* shape, uint64_t draw) noexcept nogil:
    """Returns one of the nodes that fit, all with equal probability."""
    cdef int32_t node, feasible = 0
    cdef uint64_t wanted
    for node in range(run.cluster.nodes):
        feasible += fits(&run.cluster, shape, node)
    if feasible == 0:
        return -1
    wanted = <uint32_t> draw % <uint32_t> feasible
    for node in range(run.cluster.nodes):
        if fits(&run.cluster, shape, node):
            if wanted == 0:
                break
            wanted -= 1
    return node


cdef uint32_t drawn_gpu(const FragmentCluster* cluster, const PodShape* shape, int32_t node, uint64_t draw) noexcept nogil:
    """Returns one of the GPUs of this node that fit, all with equal probability."""
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int32_t gpu, feasible = 0
    cdef uint64_t wanted
    for gpu in range(cluster.gpus[node]):
        feasible += free[gpu] >= shape.share
    wanted = (draw >> 32) % <uint32_t> feasible
    for gpu in range(cluster.gpus[node]):
        if free[gpu] >= shape.share:
            if wanted == 0:
                break
            wanted -= 1
    return <uint32_t> 1 << gpu


cdef uint32_t gpus_on(FragmentRun* run, const PodShape* shape, int32_t node, uint64_t draw) noexcept nogil:
    """Returns the GPUs to take on the chosen node."""
    cdef uint32_t mask = 0
    if shape.count == 0:
        return 0
    if run.policy == RANDOM and is_share(shape):
        return drawn_gpu(&run.cluster, shape, node, draw)
    if run.policy < FGD:
        return fullest(&run.cluster, shape, node)
    best_choice(run, shape, node, &mask)
    return mask


cdef void assess(FragmentRun* run, int32_t node) noexcept nogil:
    run.part[node] = fragmentation_of(run, node)
    if run.policy >= FGD:
        run.cost[node] = cost_with(run, node, run.cluster.cpu[node])


cdef int64_t take(FragmentRun* run, const PodShape* shape, int32_t node, uint32_t mask) noexcept nogil:
    """Takes the node's resources; returns the change of its fragmentation."""
    cdef int64_t before = run.part[node]
    run.cluster.cpu[node] -= shape.cpu
    run.cluster.mem[node] -= shape.mem
    take_gpus(&run.cluster, shape, node, mask)
    if shape.count > 0:
        run.cluster.hosted[node] |= kind_of(shape)
    assess(run, node)
    run.last[node] = run.logged
    run.log[run.logged] = node
    run.logged += 1
    return run.part[node] - before


cdef void walk(FragmentRun* run, const int32_t* pod_shape, const uint64_t* draws, int64_t pods, int32_t* chosen, uint32_t* masks,
               int64_t* fragmentation) noexcept nogil:
    cdef int64_t pod, total = 0
    cdef int32_t node
    cdef const PodShape* shape
    for node in range(run.cluster.nodes):
        assess(run, node)
        total += run.part[node]
    for pod in range(pods):
        shape = &run.shape[pod_shape[pod]]
        if run.policy == RANDOM:
            node = drawn_node(run, shape, draws[pod])
        else:
            bring_up_to_date(run, pod_shape[pod])
            node = best_node(run, pod_shape[pod])
        chosen[pod] = node
        masks[pod] = 0
        if node >= 0:
            masks[pod] = gpus_on(run, shape, node, draws[pod])
            total += take(run, shape, node, masks[pod])
        fragmentation[pod] = total


#: The layout of the struct PodShape.
ROW = np.dtype([("cpu", "i8"), ("mem", "i8"), ("count", "i4"), ("share", "i4"), ("models", "u8")], align=True)


cdef class _Columns:
    """Keeps the arrays alive to which a FragmentRun points."""

    cdef object kept
    cdef FragmentRun run

    def __init__(self):
        self.kept = []

    cdef void* keep(self, array, kind) except? NULL:
        cdef size_t address
        array = np.ascontiguousarray(array, dtype=kind)
        self.kept.append(array)
        address = array.ctypes.data
        return <void*> address


cdef void fill(_Columns held, nodes, shapes, tables, int64_t pods):
    """Sets the run's pointers to copies of the columns, with nodes in order of rank."""
    cdef FragmentRun* run = &held.run
    order = np.argsort(nodes.rank, kind="stable")
    rows = np.empty(len(shapes.gpus), dtype=ROW)
    for name, column in zip(ROW.names, shapes, strict=True):
        rows[name] = column
    run.cluster.nodes = len(order)
    run.cluster.width = nodes.free_milli.shape[1]
    run.cluster.cpu = <int64_t*> held.keep(nodes.cpu_milli[order], np.int64)
    run.cluster.mem = <int64_t*> held.keep(nodes.mem_mb[order], np.int64)
    run.cluster.gpus = <int32_t*> held.keep(nodes.gpus[order], np.int32)
    run.cluster.model = <int32_t*> held.keep(nodes.model[order], np.int32)
    run.cluster.free = <int32_t*> held.keep(nodes.free_milli[order], np.int32)
    run.cluster.hosted = <uint64_t*> held.keep(np.zeros(len(order)), np.uint64)
    run.shape = <PodShape*> held.keep(rows, ROW)
    run.score = <int64_t*> held.keep(np.empty(len(order) * len(rows), np.int64), np.int64)
    run.seen = <int64_t*> held.keep(np.full(len(rows), -1), np.int64)
    run.log = <int32_t*> held.keep(np.empty(pods, np.int32), np.int32)
    run.last = <int64_t*> held.keep(np.full(len(order), -1), np.int64)
    run.part = <int64_t*> held.keep(np.zeros(len(order)), np.int64)
    run.cost = <int64_t*> held.keep(np.zeros(len(order)), np.int64)
    run.logged = 0
    weigh(held, tables)


cdef void weigh(_Columns held, tables):
    """Sets the run's pointers to the tables of the distribution."""
    cdef Weights* weights = &held.run.weights
    weights.cpus = len(tables.cpu_milli)
    weights.buckets = tables.too_small.shape[2]
    weights.groups = len(tables.group_count)
    weights.groups_row = tables.group_weight.shape[2]
    weights.cpu = <int64_t*> held.keep(tables.cpu_milli, np.int64)
    weights.bucket = <int32_t*> held.keep(tables.bucket, np.int32)
    weights.blocked = <int64_t*> held.keep(tables.blocked, np.int64)
    weights.too_small = <int64_t*> held.keep(tables.too_small, np.int64)
    weights.group_share = <int32_t*> held.keep(tables.group_share_milli, np.int32)
    weights.group_count = <int32_t*> held.keep(tables.group_count, np.int32)
    weights.group_weight = <int64_t*> held.keep(tables.group_weight, np.int64)
    weights.step = <int64_t*> held.keep(tables.step, np.int64)
    weights.classes = len(tables.classes.gpus)
    weights.class_cpu = <int64_t*> held.keep(tables.classes.cpu_milli, np.int64)
    weights.class_count = <int32_t*> held.keep(tables.classes.gpus, np.int32)
    weights.class_share = <int32_t*> held.keep(tables.classes.share_milli, np.int32)
    weights.class_models = <uint64_t*> held.keep(tables.classes.models, np.uint64)
    weights.class_probability = <double*> held.keep(tables.classes.probability, np.float64)
    weights.total = tables.total_weight
    weights.levels = len(tables.support)
    weights.hole = <int64_t*> held.keep(tables.hole_milli, np.int64)
    weights.support = <int64_t*> held.keep(tables.support, np.int64)
    weights.price = <int64_t*> held.keep(tables.price, np.int64)
    weights.sizes = len(tables.node_cpu_milli)
    weights.node_cpu = <int64_t*> held.keep(tables.node_cpu_milli, np.int64)
    weights.intact = <int64_t*> held.keep(tables.intact, np.int64)


def place(nodes, shapes, pod_shape, tables, int policy, draws=None):
    """Places pods one after the other; see fragment_reference.place."""
    if wrong := contract.problem(nodes, shapes, pod_shape, len(tables.price)):
        raise ValueError(wrong)
    cdef _Columns held = _Columns()
    cdef int64_t pods = len(pod_shape)
    fill(held, nodes, shapes, tables, pods)
    held.run.policy = policy
    node, gpus, fragmentation = np.empty(pods, np.int32), np.empty(pods, np.uint32), np.empty(pods, np.int64)
    cdef const int32_t* wanted = <int32_t*> held.keep(pod_shape, np.int32)
    cdef const uint64_t* drawn = <uint64_t*> held.keep(np.zeros(pods) if draws is None else draws, np.uint64)
    cdef int32_t* chosen = <int32_t*> held.keep(node, np.int32)
    cdef uint32_t* masks = <uint32_t*> held.keep(gpus, np.uint32)
    cdef int64_t* after = <int64_t*> held.keep(fragmentation, np.int64)
    with nogil:
        walk(&held.run, wanted, drawn, pods, chosen, masks, after)
    row_of = np.append(np.argsort(nodes.rank, kind="stable"), -1).astype(np.int32)
    return contract.Placements(row_of[node], gpus, fragmentation)
