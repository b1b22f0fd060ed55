# What a node is worth to a shape, by policy. Included by fragment.pyx. Higher is better; INFEASIBLE when it does not fit.

cdef struct Cluster:
    int32_t nodes
    int32_t width  # columns of free
    int64_t* cpu
    int64_t* mem
    const int32_t* gpus
    const int32_t* model
    int32_t* free
    uint64_t* hosted  # kinds of pods that were placed here: bit 0 shares, bit n whole GPUs, n of them


cdef struct Shape:
    int64_t cpu
    int64_t mem
    int32_t count
    int32_t share
    uint64_t models


cdef struct Weights:
    int32_t cpus
    int32_t buckets
    int32_t groups
    int32_t groups_row
    const int64_t* cpu
    const int32_t* bucket
    const int64_t* blocked
    const int64_t* too_small
    const int32_t* group_share
    const int32_t* group_count
    const int64_t* group_weight
    const int64_t* step
    # the classes as they are, for the tie of FGD
    int32_t classes
    const int64_t* class_cpu
    const int32_t* class_count
    const int32_t* class_share
    const uint64_t* class_models
    const double* class_probability
    # steering
    int64_t total
    int32_t levels
    const int64_t* hole
    const int64_t* support
    const int64_t* price


cdef inline bint is_share(const Shape* shape) noexcept nogil:
    return shape.count == 1 and shape.share < GPU


cdef inline uint64_t kind_of(const Shape* shape) noexcept nogil:
    """The kind of a pod with GPUs: bit 0 for a share, bit n for n whole ones."""
    return <uint64_t> 1 << (0 if is_share(shape) else shape.count)


cdef inline void take_gpus(const Cluster* c, const Shape* shape, int32_t node, uint32_t mask) noexcept nogil:
    cdef int32_t* free = c.free + <int64_t> node * c.width
    cdef int32_t g
    for g in range(c.gpus[node]):
        if (mask >> g) & 1:
            free[g] -= shape.share


cdef inline void give_back(const Cluster* c, const Shape* shape, int32_t node, uint32_t mask) noexcept nogil:
    cdef int32_t* free = c.free + <int64_t> node * c.width
    cdef int32_t g
    for g in range(c.gpus[node]):
        if (mask >> g) & 1:
            free[g] += shape.share


cdef inline bint fits(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    if c.cpu[node] < shape.cpu or c.mem[node] < shape.mem:
        return False
    if shape.count == 0:
        return True
    if not (shape.models >> c.model[node]) & 1:
        return False
    cdef const int32_t* free = c.free + <int64_t> node * c.width
    cdef int32_t g, found = 0
    for g in range(c.gpus[node]):
        found += free[g] >= shape.share
    return found >= shape.count


cdef uint32_t fullest(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    """The `count` GPUs that are fullest among those which fit, the lowest index first among equals."""
    cdef const int32_t* free = c.free + <int64_t> node * c.width
    cdef uint32_t mask = 0
    cdef int32_t g, k, best
    for k in range(shape.count):
        best = -1
        for g in range(c.gpus[node]):
            if free[g] >= shape.share and not (mask >> g) & 1 and (best < 0 or free[g] < free[best]):
                best = g
        mask |= <uint32_t> 1 << best
    return mask


cdef inline int64_t idle(const Cluster* c, int32_t node) noexcept nogil:
    cdef int64_t total = 0
    cdef int32_t g
    for g in range(c.gpus[node]):
        total += c.free[<int64_t> node * c.width + g]
    return total


cdef int64_t best_fit(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    cdef double score = 0
    score += <double> (c.cpu[node] - shape.cpu) / LARGEST_CPU * 0.5
    score += <double> (idle(c, node) - shape.count * shape.share) / LARGEST_GPUS * 0.5
    return <int64_t> ((1.0 - score) * 100.0)


cdef int64_t dot_product(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    cdef double score = 0
    score += (c.cpu[node] / LARGEST_CPU) * (shape.cpu / LARGEST_CPU)
    score += (idle(c, node) / LARGEST_GPUS) * ((<int64_t> shape.count * shape.share) / LARGEST_GPUS)
    return <int64_t> (100.0 * (1.0 - score / 2.0))


cdef int64_t packing(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    cdef const int32_t* free = c.free + <int64_t> node * c.width
    cdef int32_t g, whole = 0, taken = 0
    cdef int64_t left = 0
    cdef uint32_t mask
    if shape.count == 0:
        return 0
    for g in range(c.gpus[node]):
        whole += free[g] == GPU
    if whole == c.gpus[node]:
        return max(33 - whole, whole)
    mask = fullest(c, shape, node)
    for g in range(c.gpus[node]):
        if (mask >> g) & 1:
            taken += free[g] == GPU
            left += free[g] // 10
    if taken > 0:
        return max(50 - taken, 33)
    return max(100 - left // 10, 50)


cdef int64_t clustering(const Cluster* c, const Shape* shape, int32_t node) noexcept nogil:
    cdef uint64_t own
    cdef int64_t used
    if shape.count == 0:
        return 0
    own = kind_of(shape)
    used = 25 * (8000 - idle(c, node)) // 8000
    if c.hosted[node] & own:
        return used + (75 if c.hosted[node] == own else 50)
    return used + (25 if c.hosted[node] == 0 else 0)


cdef inline int64_t stepped(const Weights* w, int64_t gain) noexcept nogil:
    """FGD: the published integer score of a gain, which is how many steps it reaches."""
    cdef int32_t low = 0, high = 100, middle
    while low < high:
        middle = (low + high) // 2
        if w.step[middle] <= gain:
            low = middle + 1
        else:
            high = middle
    return low
