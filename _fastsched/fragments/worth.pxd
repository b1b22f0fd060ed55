# The worth of a node for the expected pods: FGD's fragmentation, and steering. A few look-ups in tables
# (fragment_tables.py), in integers.
#
# FGD's fragmentation is computed once more as it was published, in double precision with single operations of IEEE 754 in
# the published order. It decides ties alone.

from libc.stdint cimport int32_t, int64_t

from _fastsched.fragments.cluster cimport BROKEN, FRACTION_BITS, GPU_MILLI, SCALE, STRANDED, Weights


cdef inline int64_t cell_of(const Weights* weights, int32_t model, int64_t cpu) noexcept nogil:
    cdef int64_t fit = 0
    while fit < weights.cpus and weights.cpu[fit] <= cpu:
        fit += 1
    return <int64_t> model * (weights.cpus + 1) + fit


cdef inline int32_t count_up_to(const int64_t* ascending, int32_t length, int64_t value) noexcept nogil:
    """Returns how many elements of a sorted array are at most `value`."""
    cdef int32_t low = 0, high = length, middle
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int64_t stepped(const Weights* weights, int64_t gain) noexcept nogil:
    """Returns FGD's published integer score of a gain: the number of steps that it reaches."""
    return count_up_to(weights.step, 100, gain)


cdef inline int64_t score_of_tie(double before, double after) noexcept nogil:
    """fragment_tables.score_of_tie."""
    return <int64_t> (1.0 / (1.0 + (1.0 + (after - before) / <double> GPU_MILLI)) * 100.0)


cdef inline int64_t fragmentation(
    const Weights* weights, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus
) noexcept nogil:
    """Returns the fragmentation of a node: GPU milli times weight."""
    cdef int64_t cell = cell_of(weights, model, cpu), result = 0, total = 0, large
    cdef const int64_t* small = weights.too_small + cell * weights.buckets
    cdef int32_t gpu, index, wide
    for gpu in range(gpus):
        result += free[gpu] * small[weights.bucket[free[gpu]]]
        total += free[gpu]
    result += total * weights.blocked[cell]
    for index in range(weights.groups):
        if weights.group_weight[cell * weights.groups_row + index] == 0:
            continue
        wide = 0
        large = 0
        for gpu in range(gpus):
            if free[gpu] >= weights.group_share[index]:
                wide += 1
                large += free[gpu]
        if wide < weights.group_count[index]:
            result += large * weights.group_weight[cell * weights.groups_row + index]
    return result


cdef inline double fragmentation_as_published(
    const Weights* weights, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus
) noexcept nogil:
    """Returns the same in GPU milli and in floating point, summed in the order of the published code."""
    cdef double part[6]  # lacks both, lacks GPUs, lacks CPUs, no GPU requested and CPUs suffice, or not, other model
    cdef double weighted, result = 0
    cdef int64_t total = 0, small
    cdef int32_t index, gpu, wide
    for index in range(6):
        part[index] = 0
    for gpu in range(gpus):
        total += free[gpu]
    for index in range(weights.classes):
        weighted = weights.class_probability[index] * <double> total
        if weights.class_count[index] == 0:
            part[3 if cpu >= weights.class_cpu[index] else 4] += weighted
            continue
        if not (weights.class_models[index] >> model) & 1:
            part[5] += weighted
            continue
        wide = 0
        small = 0
        for gpu in range(gpus):
            if free[gpu] >= weights.class_share[index]:
                wide += 1
            else:
                small += free[gpu]
        if wide < weights.class_count[index]:
            part[1 if cpu >= weights.class_cpu[index] else 0] += weighted
        elif cpu < weights.class_cpu[index]:
            part[2] += weighted
        else:
            part[1] += weights.class_probability[index] * <double> small
    for index in range(6):
        result += part[index]
    return result


cdef inline int64_t intact_worth(const Weights* weights, int64_t cpu, int32_t gpus) noexcept nogil:
    """Returns the worth of a node with so many GPUs, all whole, and so many free CPUs."""
    cdef int32_t size = count_up_to(weights.node_cpu, weights.sizes, cpu)
    return weights.intact[<int64_t> gpus * (weights.sizes + 1) + size]


cdef inline int64_t steering(const Weights* weights, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus) noexcept nogil:
    """Returns the cost of a node in this state; the more a placement lowers it, the better."""
    cdef int64_t holes = 0, total = 0, need, served, stranded = 0, result
    cdef int32_t gpu, whole = 0
    for gpu in range(gpus):
        holes += weights.hole[free[gpu]]
        total += free[gpu]
        whole += free[gpu] == GPU_MILLI
    need = total - holes
    for gpu in range(weights.levels):
        served = (cpu * weights.support[gpu]) >> FRACTION_BITS
        if need > served:
            stranded += need - served
    result = weights.total * (SCALE * holes + STRANDED * stranded)
    if whole < gpus:
        result += weights.total * BROKEN * GPU_MILLI * gpus
    else:
        result -= intact_worth(weights, cpu, gpus)
    return SCALE * fragmentation(weights, model, cpu, free, gpus) + result - weights.price[model] * total
