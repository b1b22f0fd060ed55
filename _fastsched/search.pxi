# Part of plan.pyx: its records, and rules 1 and 2 of reference.py (what a node can hold, which nodes a job gets).

# What a search measures the nodes by: as they are now, or as if no job were on them.
cdef enum Measure:
    NOW
    EMPTY_UP
    EMPTY_ALL

cdef struct Nodes:
    int32_t count
    int32_t kinds  # of GRES
    int32_t words  # of a bit set
    const int32_t* order
    const int32_t* total_cpus
    const int64_t* total_mem_mb
    const int32_t* total_gres
    const int32_t* running_jobs  # before the pass; a start of this pass shows in free_cpus
    int32_t* free_cpus
    int64_t* free_mem_mb
    int32_t* free_gres
    uint64_t* up
    uint64_t* unheld
    uint64_t* usable

cdef struct Jobs:
    const int32_t* mask
    const int32_t* nodes_min
    const int32_t* nodes_max
    const int32_t* ntasks
    const int32_t* cpus_per_task
    const int32_t* ntasks_per_node
    const int64_t* mem_node_mb
    const int64_t* mem_cpu_mb
    const int32_t* gres
    const uint8_t* exclusive
    const int32_t* count

cdef struct Job:
    int32_t nodes_min
    int32_t nodes_max
    int32_t ntasks
    int32_t cpus_per_task
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    const int32_t* gres
    const uint64_t* mask
    bint exclusive
    int32_t least  # fewer tasks than this make a node useless to the job
    int32_t most  # more would leave nothing for the other nodes that the job must have

cdef struct Search:
    Measure measure
    int32_t at  # how much of node_order has been looked at
    int32_t first  # the candidates are the entries [first, last) of the next two, in node_order
    int32_t last
    int32_t* node
    int32_t* tasks
    uint64_t* within  # the nodes that may be candidates
    int32_t* picked  # the entries chosen for one start, in node_order
    uint64_t* keys  # scratch for sorting


cdef inline bint in_set(const uint64_t* words, int32_t bit) noexcept nogil:
    return (words[bit >> 6] >> (bit & 63)) & 1


cdef inline void put(uint64_t* words, int32_t bit, bint present) noexcept nogil:
    if present:
        words[bit >> 6] |= (<uint64_t> 1) << (bit & 63)
    else:
        words[bit >> 6] &= ~((<uint64_t> 1) << (bit & 63))


cdef bint load(Job* job, const Jobs* jobs, const Nodes* nodes, const uint64_t* masks, int64_t row) noexcept nogil:
    """Gather one row; False if its numbers make no sense."""
    cdef int32_t kind
    job.nodes_min = jobs.nodes_min[row]
    job.nodes_max = jobs.nodes_max[row]
    job.ntasks = jobs.ntasks[row]
    job.cpus_per_task = jobs.cpus_per_task[row]
    job.mem_node_mb = jobs.mem_node_mb[row]
    job.mem_cpu_mb = jobs.mem_cpu_mb[row]
    job.gres = jobs.gres + row * nodes.kinds
    job.mask = masks + <int64_t> jobs.mask[row] * nodes.words
    job.exclusive = jobs.exclusive[row] != 0
    if job.nodes_min < 1 or job.nodes_max < job.nodes_min or job.ntasks < job.nodes_min or job.cpus_per_task < 1:
        return False
    if jobs.ntasks_per_node[row] < 0:
        return False
    for kind in range(nodes.kinds):
        if job.gres[kind] < 0:
            return False
    job.most = job.ntasks - job.nodes_min + 1
    if 0 < jobs.ntasks_per_node[row] < job.most:
        job.most = jobs.ntasks_per_node[row]
    job.least = job.ntasks if job.nodes_max == 1 else 1
    return True


cdef bint same_shape(const Jobs* jobs, int32_t kinds, int64_t a, int64_t b) noexcept nogil:
    cdef int32_t kind
    if (
        jobs.mask[a] != jobs.mask[b]
        or jobs.nodes_min[a] != jobs.nodes_min[b]
        or jobs.nodes_max[a] != jobs.nodes_max[b]
        or jobs.ntasks[a] != jobs.ntasks[b]
        or jobs.cpus_per_task[a] != jobs.cpus_per_task[b]
        or jobs.ntasks_per_node[a] != jobs.ntasks_per_node[b]
        or jobs.mem_node_mb[a] != jobs.mem_node_mb[b]
        or jobs.mem_cpu_mb[a] != jobs.mem_cpu_mb[b]
        or jobs.exclusive[a] != jobs.exclusive[b]
    ):
        return False
    for kind in range(kinds):
        if jobs.gres[a * kinds + kind] != jobs.gres[b * kinds + kind]:
            return False
    return True


cdef inline int64_t mem_taken(const Job* job, int64_t total_mem_mb, int64_t tasks) noexcept nogil:
    if job.mem_node_mb >= 0:
        return job.mem_node_mb if job.mem_node_mb else total_mem_mb
    if job.mem_cpu_mb >= 0:
        return job.mem_cpu_mb * (tasks * job.cpus_per_task)
    return total_mem_mb if job.exclusive else 0


cdef int32_t tasks_on(const Job* job, const Nodes* nodes, Measure measure, int32_t node) noexcept nogil:
    """Rule 1: how many of the job's tasks the node can hold; 0 when it is no candidate."""
    cdef int64_t cpus = nodes.free_cpus[node] if measure == NOW else nodes.total_cpus[node]
    cdef int64_t mem_mb = nodes.free_mem_mb[node] if measure == NOW else nodes.total_mem_mb[node]
    cdef const int32_t* gres = nodes.total_gres + <int64_t> node * nodes.kinds
    cdef int64_t tasks, need
    cdef int32_t kind
    if measure == NOW:
        gres = nodes.free_gres + <int64_t> node * nodes.kinds
    if cpus < job.cpus_per_task:
        return 0
    if job.exclusive and measure == NOW and (nodes.running_jobs[node] > 0 or cpus < nodes.total_cpus[node]):
        return 0
    for kind in range(nodes.kinds):
        if job.gres[kind] > 0 and job.gres[kind] > gres[kind]:
            return 0
    tasks = min(cpus // job.cpus_per_task, <int64_t> job.most)
    if job.mem_node_mb < 0 and job.mem_cpu_mb > 0:
        tasks = min(tasks, max(mem_mb, <int64_t> 0) // job.mem_cpu_mb // job.cpus_per_task)
    else:
        need = mem_taken(job, nodes.total_mem_mb[node], tasks)
        if need != 0 and need > mem_mb:
            return 0
    return <int32_t> tasks if tasks >= job.least else 0


cdef bint begin(Search* search, const Job* job, const Nodes* nodes, Measure measure) noexcept nogil:
    """Start a search over; False if the job's mask meets no node of that kind."""
    cdef int32_t word
    cdef uint64_t some = 0
    search.measure = measure
    search.at = search.first = search.last = 0
    for word in range(nodes.words):
        search.within[word] = job.mask[word]
        if measure == NOW:
            search.within[word] &= nodes.usable[word]
        elif measure == EMPTY_UP:
            search.within[word] &= nodes.up[word]
        some |= search.within[word]
    return some != 0


cdef bint find_one(Search* search, const Job* job, const Nodes* nodes) noexcept nogil:
    """Append the next candidate in node_order; False if there is none."""
    cdef int32_t node, tasks
    while search.at < nodes.count:
        node = nodes.order[search.at]
        search.at += 1
        if in_set(search.within, node):
            tasks = tasks_on(job, nodes, search.measure, node)
            if tasks:
                search.node[search.last] = node
                search.tasks[search.last] = tasks
                search.last += 1
                return True
    return False


cdef int descending(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*> a)[0]
    cdef uint64_t y = (<const uint64_t*> b)[0]
    return (x < y) - (x > y)


cdef int32_t pick_largest(Search* search, const Job* job) noexcept nogil:
    """Rule 2, second half: all candidates are known; take those with most room. Returns how many were picked."""
    cdef int64_t room = 0
    cdef int32_t entry, candidates = search.last - search.first, used = 0
    for entry in range(search.first, search.last):
        room += search.tasks[entry]
        # Sorted descending: most tasks first, then the lower entry.
        search.keys[entry - search.first] = (<uint64_t> search.tasks[entry]) << 32 | <uint64_t> (INT32_MAX - entry)
    if room < job.ntasks or candidates < job.nodes_min:
        return 0
    qsort(search.keys, candidates, sizeof(uint64_t), &descending)
    room = 0
    while used < candidates and used < job.nodes_max and (used < job.nodes_min or room < job.ntasks):
        room += <int64_t> (search.keys[used] >> 32)
        used += 1
    if used < job.nodes_min or room < job.ntasks:
        return 0
    # Back into node_order: the complement of the entry, descending, is the entry ascending.
    for entry in range(used):
        search.keys[entry] &= <uint64_t> 0xFFFFFFFF
    qsort(search.keys, used, sizeof(uint64_t), &descending)
    for entry in range(used):
        search.picked[entry] = INT32_MAX - <int32_t> search.keys[entry]
    return used


cdef int32_t choose(Search* search, const Job* job, const Nodes* nodes) noexcept nogil:
    """Rule 2: fill `picked`; 0 when the job does not fit, else how many nodes it gets."""
    cdef int64_t room = 0
    cdef int32_t used = 0
    while used < job.nodes_min or room < job.ntasks:
        if used == job.nodes_max:
            while find_one(search, job, nodes):
                pass
            return pick_largest(search, job)
        if search.first + used == search.last and not find_one(search, job, nodes):
            return 0
        search.picked[used] = search.first + used
        room += search.tasks[search.first + used]
        used += 1
    return used
