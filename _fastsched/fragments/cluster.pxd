# Nodes, shapes and the tables of the distribution as C structs; taking and releasing GPUs.

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    #define FRAGMENT_INFEASIBLE INT64_MIN
    """
    const int64_t INFEASIBLE "FRAGMENT_INFEASIBLE"  # the score of a node where a shape does not fit

cdef enum:  # numbers of fragment_contract.py and fragment_tables.py; fragment.pyx verifies that they are equal
    GPU_MILLI = 1000
    LARGEST_CPU_MILLI = 128000
    LARGEST_GPU_MILLI = 8000
    SCALE = 20
    STRANDED = 5
    BROKEN = 1
    FRACTION_BITS = 20


cdef struct FragmentCluster:
    int32_t nodes
    int32_t width  # columns of free
    int64_t* cpu
    int64_t* mem
    const int32_t* gpus
    const int32_t* model
    int32_t* free
    uint64_t* hosted  # kinds of pods that were placed here: bit 0 shares, bit n whole GPUs, n of them


cdef struct PodShape:
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
    # the classes themselves, for the tie of FGD
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
    int32_t sizes
    const int64_t* node_cpu
    const int64_t* intact


cdef inline bint is_share(const PodShape* shape) noexcept nogil:
    return shape.count == 1 and shape.share < GPU_MILLI


cdef inline uint64_t kind_of(const PodShape* shape) noexcept nogil:
    """Returns the kind of a pod with GPUs: bit 0 for a share, bit n for n whole ones."""
    return <uint64_t> 1 << (0 if is_share(shape) else shape.count)


cdef inline void take_gpus(const FragmentCluster* cluster, const PodShape* shape, int32_t node, uint32_t mask) noexcept nogil:
    cdef int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int32_t gpu
    for gpu in range(cluster.gpus[node]):
        if (mask >> gpu) & 1:
            free[gpu] -= shape.share


cdef inline void give_back(const FragmentCluster* cluster, const PodShape* shape, int32_t node, uint32_t mask) noexcept nogil:
    cdef int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int32_t gpu
    for gpu in range(cluster.gpus[node]):
        if (mask >> gpu) & 1:
            free[gpu] += shape.share


cdef inline bint fits(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    if cluster.cpu[node] < shape.cpu or cluster.mem[node] < shape.mem:
        return False
    if shape.count == 0:
        return True
    if not (shape.models >> cluster.model[node]) & 1:
        return False
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int32_t gpu, found = 0
    for gpu in range(cluster.gpus[node]):
        found += free[gpu] >= shape.share
    return found >= shape.count


cdef inline uint32_t fullest(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    """Returns the `count` fullest GPUs that fit, the lowest index first among equals."""
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef uint32_t mask = 0
    cdef int32_t gpu, index, best
    for index in range(shape.count):
        best = -1
        for gpu in range(cluster.gpus[node]):
            if free[gpu] >= shape.share and not (mask >> gpu) & 1 and (best < 0 or free[gpu] < free[best]):
                best = gpu
        mask |= <uint32_t> 1 << best
    return mask


cdef inline int64_t idle(const FragmentCluster* cluster, int32_t node) noexcept nogil:
    cdef int64_t total = 0
    cdef int32_t gpu
    for gpu in range(cluster.gpus[node]):
        total += cluster.free[<int64_t> node * cluster.width + gpu]
    return total
