# Scores of the study's policies that depend on one node and one shape alone, to the last bit. Higher is better.
#
# Two of them were published in double precision. They use single additions, multiplications and divisions of IEEE 754 in the
# published order, so they are the same on every machine (setup.py forbids the compiler to fuse two of them into one).

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from _fastsched.fragments.cluster cimport (
    GPU_MILLI, LARGEST_CPU_MILLI, LARGEST_GPU_MILLI, FragmentCluster, PodShape, fullest, idle, kind_of,
)


cdef inline int64_t best_fit(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    cdef double score = 0
    score += <double> (cluster.cpu[node] - shape.cpu) / <double> LARGEST_CPU_MILLI * 0.5
    score += <double> (idle(cluster, node) - shape.count * shape.share) / <double> LARGEST_GPU_MILLI * 0.5
    return <int64_t> ((1.0 - score) * 100.0)


cdef inline int64_t dot_product(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    cdef double score = 0
    score += (cluster.cpu[node] / <double> LARGEST_CPU_MILLI) * (shape.cpu / <double> LARGEST_CPU_MILLI)
    score += (idle(cluster, node) / <double> LARGEST_GPU_MILLI) * ((<int64_t> shape.count * shape.share) / <double> LARGEST_GPU_MILLI)
    return <int64_t> (100.0 * (1.0 - score / 2.0))


cdef inline int64_t packing(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    cdef const int32_t* free = cluster.free + <int64_t> node * cluster.width
    cdef int32_t gpu, whole = 0, taken = 0
    cdef int64_t left = 0
    cdef uint32_t mask
    if shape.count == 0:
        return 0
    for gpu in range(cluster.gpus[node]):
        whole += free[gpu] == GPU_MILLI
    if whole == cluster.gpus[node]:
        return max(33 - whole, whole)
    mask = fullest(cluster, shape, node)
    for gpu in range(cluster.gpus[node]):
        if (mask >> gpu) & 1:
            taken += free[gpu] == GPU_MILLI
            left += free[gpu] // 10
    if taken > 0:
        return max(50 - taken, 33)
    return max(100 - left // 10, 50)


cdef inline int64_t clustering(const FragmentCluster* cluster, const PodShape* shape, int32_t node) noexcept nogil:
    cdef uint64_t own
    cdef int64_t used
    if shape.count == 0:
        return 0
    own = kind_of(shape)
    used = 25 * (LARGEST_GPU_MILLI - idle(cluster, node)) // LARGEST_GPU_MILLI
    if cluster.hosted[node] & own:
        return used + (75 if cluster.hosted[node] == own else 50)
    return used + (25 if cluster.hosted[node] == 0 else 0)
