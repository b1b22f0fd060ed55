# What a node is worth by the distribution of what arrives: FGD's fragmentation, and steering. Included by fragment.pyx.

cdef inline int64_t cell_of(const Weights* w, int32_t model, int64_t cpu) noexcept nogil:
    cdef int64_t fit = 0
    while fit < w.cpus and w.cpu[fit] <= cpu:
        fit += 1
    return <int64_t> model * (w.cpus + 1) + fit


cdef int64_t measure(const Weights* w, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus) noexcept nogil:
    """Fragmentation of a node: GPU milli times weight."""
    cdef int64_t cell = cell_of(w, model, cpu), result = 0, total = 0, large
    cdef const int64_t* small = w.too_small + cell * w.buckets
    cdef int32_t g, k, wide
    for g in range(gpus):
        result += free[g] * small[w.bucket[free[g]]]
        total += free[g]
    result += total * w.blocked[cell]
    for k in range(w.groups):
        if w.group_weight[cell * w.groups_row + k] == 0:
            continue
        wide = 0
        large = 0
        for g in range(gpus):
            if free[g] >= w.group_share[k]:
                wide += 1
                large += free[g]
        if wide < w.group_count[k]:
            result += large * w.group_weight[cell * w.groups_row + k]
    return result


cdef double measure_as_published(const Weights* w, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus) noexcept nogil:
    """The same in GPU milli and in floating point, summed in the order of the published code."""
    cdef double part[6]  # lacks both, lacks GPUs, lacks CPUs, no GPU wanted and CPUs there, or not there, other model
    cdef double weighted, result = 0
    cdef int64_t total = 0, small
    cdef int32_t k, g, wide
    for k in range(6):
        part[k] = 0
    for g in range(gpus):
        total += free[g]
    for k in range(w.classes):
        weighted = w.class_probability[k] * <double> total
        if w.class_count[k] == 0:
            part[3 if cpu >= w.class_cpu[k] else 4] += weighted
            continue
        if not (w.class_models[k] >> model) & 1:
            part[5] += weighted
            continue
        wide = 0
        small = 0
        for g in range(gpus):
            if free[g] >= w.class_share[k]:
                wide += 1
            else:
                small += free[g]
        if wide < w.class_count[k]:
            part[1 if cpu >= w.class_cpu[k] else 0] += weighted
        elif cpu < w.class_cpu[k]:
            part[2] += weighted
        else:
            part[1] += w.class_probability[k] * <double> small
    for k in range(6):
        result += part[k]
    return result


cdef int64_t steering(const Weights* w, int32_t model, int64_t cpu, const int32_t* free, int32_t gpus) noexcept nogil:
    """The cost of a node in this state; a placement is as good as it makes the cost fall."""
    cdef int64_t holes = 0, total = 0, need, served, stranded = 0, result
    cdef int32_t g, whole = 0
    for g in range(gpus):
        holes += w.hole[free[g]]
        total += free[g]
        whole += free[g] == GPU
    need = total - holes
    for g in range(w.levels):
        served = (cpu * w.support[g]) >> FRACTION_BITS
        if need > served:
            stranded += need - served
    result = SCALE * holes + STRANDED * stranded
    if whole < gpus:
        result += BROKEN * GPU * <int64_t> gpus
    return SCALE * measure(w, model, cpu, free, gpus) + w.total * result - w.price[model] * total
