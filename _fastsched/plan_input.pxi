# Part of plan.pyx: from the input to a `Pass`: pointers, proof that all indices lead somewhere, first tables.

# In the order of `Columns`: for each column the axes and type that contract.py gives it.
_SPECS = [
    (axes, contract.np.dtype(kind).num, contract.np.dtype(kind).kind == "u", contract.np.dtype(kind).itemsize)
    for columns in contract._GROUPS.values()
    for kind, axes in columns.values()
]
_NAMES = [name for columns in contract._GROUPS.values() for name in columns]

cdef enum:
    COLUMNS = 73
    NODES_FIELDS = 11
    RUNNING_FIELDS = 11
    RESV_FIELDS = 16
    JOBS_FIELDS = 28

cdef struct Spec:
    char axes[2]
    int type_number
    int same_number  # C has two names for 64 bits

cdef Spec specs[COLUMNS]


def _load_specs():
    fields = [
        name for group in (contract.Nodes, contract.Running, contract.Reservations, contract.Jobs) for name in group._fields
    ]
    others = [name for name in contract.PlanInput._fields if name not in ("nodes", "running", "reservations", "jobs", "limits")]
    if _NAMES != fields + others or len(_NAMES) != COLUMNS:
        raise ImportError("_fastsched.plan: built for other columns than contract.py has; build again")
    for i, (axes, number, unsigned, size) in enumerate(_SPECS):
        specs[i].axes[0] = ord(axes[0])
        specs[i].axes[1] = ord(axes[1]) if len(axes) == 2 else 0
        specs[i].type_number = specs[i].same_number = number
        if size == 8:
            specs[i].same_number = cnp.NPY_ULONGLONG if unsigned else cnp.NPY_LONGLONG


_load_specs()

# The chunk that the last pass left; taken while a pass runs, so that two threads never share it.
cdef Chunk* spare = NULL


cdef Chunk* borrow() noexcept:
    global spare
    cdef Chunk* chunk = spare
    spare = NULL
    if chunk != NULL:
        chunk.used = 0
    return chunk


cdef void give_back(Pass* p) noexcept:
    """Free all but the newest chunk, which is the largest."""
    global spare
    cdef Chunk* older
    cdef Chunk* chunk = p.chunk
    if chunk != NULL and spare == NULL and chunk.size <= SPARE_BYTES:
        older = chunk.older
        chunk.older = NULL
        spare = chunk
        chunk = older
    while chunk != NULL:
        older = chunk.older
        free(chunk)
        chunk = older


cdef refuse(given):
    contract.check(given)
    raise ValueError("plan: a column is not aligned or not in the machine's byte order, or a limit makes no sense")


cdef bint column(Pass* p, int64_t* lengths, int32_t i, object array):
    """Take one column; False if it is not what it should be."""
    cdef cnp.ndarray column
    cdef int32_t axis, axes = 2 if specs[i].axes[1] else 1
    cdef char letter
    cdef int64_t* length
    if not cnp.PyArray_Check(array):
        return False
    column = <cnp.ndarray> array
    if (
        cnp.PyArray_NDIM(column) != axes
        or cnp.PyArray_TYPE(column) not in (specs[i].type_number, specs[i].same_number)
        or not cnp.PyArray_ISCARRAY_RO(column)
    ):
        return False
    for axis in range(axes):
        letter = specs[i].axes[axis]
        length = lengths + letter
        if length[0] < 0:
            length[0] = cnp.PyArray_DIM(column, axis)
        elif length[0] != cnp.PyArray_DIM(column, axis):
            return False
    (<void**> &p.c)[i] = cnp.PyArray_DATA(column)
    return True


cdef bint columns_of(Pass* p, object given) except -1:
    cdef int64_t lengths[128]
    cdef int32_t i, at = 0, group, fields
    cdef object table
    for i in range(128):
        lengths[i] = -1
    lengths[c'1'] = 1
    for group in range(4):
        if group == 0:
            table = given.nodes
            fields = NODES_FIELDS
        elif group == 1:
            table = given.running
            fields = RUNNING_FIELDS
        elif group == 2:
            table = given.reservations
            fields = RESV_FIELDS
        else:
            table = given.jobs
            fields = JOBS_FIELDS
        if not isinstance(table, tuple) or PyTuple_GET_SIZE(table) != fields:
            return False
        for i in range(fields):
            if not column(p, lengths, at, <object> PyTuple_GET_ITEM(table, i)):
                return False
            at += 1
    for array in (
        given.rows, given.masks, given.group_first, given.group_mask, given.group_count, given.free_licenses, given.stop
    ):
        if not column(p, lengths, at, array):
            return False
        at += 1
    p.J = lengths[c'J']
    p.Q = lengths[c'Q']
    p.P = lengths[c'P']
    p.B = lengths[c'B']
    p.F = lengths[c'F']
    p.D = lengths[c'D']
    if max(p.J, p.Q, p.P, p.B, p.F, p.D, lengths[c'N'], lengths[c'R'], lengths[c'M'], lengths[c'E']) >= INT32_MAX:
        return False
    p.N = <int32_t> lengths[c'N']
    p.G = <int32_t> lengths[c'G']
    p.S = <int32_t> lengths[c'S']
    p.R = <int32_t> lengths[c'R']
    p.L = <int32_t> lengths[c'L']
    p.V = <int32_t> lengths[c'V']
    p.M = <int32_t> lengths[c'M']
    p.E = <int32_t> lengths[c'E']
    p.words = <int32_t> lengths[c'W']
    return p.words == (p.N + 63) // 64


cdef bint limits_of(Pass* p, object limits) except -1:
    """Numbers beyond all reason are cut to "no limit"."""
    cdef int64_t window_s = min(limits.window_s, FOREVER)
    p.now_s = limits.now_s
    p.resolution_s = min(limits.resolution_s, FOREVER)
    p.starts_max = min(limits.starts_max, FOREVER)
    p.rows_max = min(limits.rows_max, FOREVER)
    p.copies_max = min(limits.copies_max, FOREVER)
    p.reserve_max = min(limits.reserve_max, FOREVER)
    p.estimate = bool(limits.estimate)
    p.placements_max = contract.PLACEMENTS_MAX
    if not -FOREVER <= p.now_s <= FOREVER or p.resolution_s < 1:
        return False
    p.window_end_s = p.now_s + window_s
    p.last_s = greater(p.now_s, p.window_end_s - 1)
    return True


cdef inline bint in_range(const int32_t* index, int64_t count, int64_t low, int64_t high) noexcept nogil:
    cdef int64_t i
    cdef bint good = True
    for i in range(count):
        good = good and low <= index[i] < high
    return good


cdef bint indices_hold(Pass* p) noexcept nogil:
    """What contract.check proves, without the words. Fills rank_of."""
    cdef Columns* c = &p.c
    cdef int64_t i, row
    cdef bint good = True
    for i in range(p.N):
        p.rank_of[i] = -1
    for i in range(p.N):
        if not 0 <= c.order[i] < p.N or p.rank_of[c.order[i]] >= 0:
            return False
        p.rank_of[c.order[i]] = <int32_t> i
        p.identity = p.identity and c.order[i] == i
        good = good and c.total_cpus[i] >= 0 and c.total_mem_mb[i] >= 0 and c.cpu_quantum[i] >= 1
    for i in range(<int64_t> p.N * p.G):
        good = good and c.total_gres[i] >= 0
    if p.E < 1 or c.group_first[0] != 0 or c.group_first[p.E - 1] != p.D:
        return False
    for i in range(p.E - 1):
        good = good and c.group_first[i] <= c.group_first[i + 1]
    for i in range(p.Q):
        row = c.rows[i]
        if not 0 <= row < p.J:
            return False
        good = good and 0 <= c.mask[row] < p.M and -1 <= c.resv[row] < p.V and -1 <= c.group[row] < p.E - 1
        p.users_matter = p.users_matter or c.exclusive[row] == 2
        p.keep_takes = (
            p.keep_takes or c.group[row] >= 0 or c.switches_max[row] > 0 or c.segment[row] > 0 or c.het[row] > 0
            or c.preempts[row] != 0
        )
    for i in range(p.P):
        good = good and -1 <= c.part_run[i] < p.R and (c.part_run[i] < 0 or 0 <= c.part_node[i] < p.N)
    return (
        good
        and in_range(c.resv_mask, p.V, 0, p.M)
        and in_range(c.block_resv, p.B, 0, p.V)
        and in_range(c.block_node, p.B, 0, p.N)
        and in_range(c.licblock_resv, p.F, 0, p.V)
        and in_range(c.licblock_kind, p.F, 0, p.L)
        and in_range(c.group_mask, p.D, 0, p.M)
        and in_range(c.switches, <int64_t> p.S * p.N, 0, max(p.N, 1))
    )


cdef int prepare(Pass* p) except -1 nogil:
    """First tables; 0 if the input does not hold together."""
    cdef size_t n = <size_t> p.N + 1, kinds = <size_t> max(p.G, p.L) + 1
    cdef int32_t i
    cdef int64_t run
    p.identity = p.learn = p.all_up = True
    p.rank_of = <int32_t*> room_for(p, 4 * n)
    if not indices_hold(p):
        return 0
    p.gone = <uint8_t*> zeros(p, p.R + 1)
    for run in range(p.R):
        p.users_matter = p.users_matter or p.c.run_exclusive[run] == 2
        if 0 <= p.c.run_class[run] < 64:
            p.classes |= <uint64_t> 1 << p.c.run_class[run]
    p.rank_mask = <const uint64_t**> zeros(p, 8 * (<size_t> p.M + 1))
    p.waited = <uint64_t*> zeros(p, 8 * (<size_t> p.words + 1))
    p.up = <uint64_t*> zeros(p, 8 * (<size_t> p.words + 1))
    p.none_wanted = <int32_t*> room_for(p, 4 * kinds)
    for i in range(<int32_t> kinds):
        p.none_wanted[i] = INT32_MIN
    prepare_nodes(p)
    prepare_blocks(p)
    p.table = <Entry**> zeros(p, sizeof(Entry*) * (TABLE_MASK + 1))
    p.entries_max = <int32_t> greater(32, lesser(1024, <int64_t> (SPARE_BYTES >> 9) // max(p.words, 1)))
    p.entry = <Entry*> room_for(p, p.entries_max * sizeof(Entry))
    p.scratch.data = NULL
    p.least = <Seg*> room_for(p, sizeof(Seg) + 4 * kinds + 8)
    p.cand = <Cand*> room_for(p, n * sizeof(Cand))
    p.other = <Cand*> room_for(p, 2 * n * sizeof(Cand))
    p.heap = <Event*> room_for(p, n * sizeof(Event))
    p.caps = <int32_t*> room_for(p, 4 * n)
    p.members = <int32_t*> room_for(p, 4 * n)
    p.pick_rank = <int32_t*> room_for(p, 4 * n)
    p.pick_tasks = <int32_t*> room_for(p, 4 * n)
    p.kept_rank = <int32_t*> room_for(p, 4 * n)
    p.kept_tasks = <int32_t*> room_for(p, 4 * n)
    p.switch_count = <int32_t*> room_for(p, 4 * n)
    p.sorted = <int64_t*> room_for(p, 8 * n)
    p.seen_mask = 16
    while p.seen_mask < 2 * lesser(p.Q, p.rows_max):
        p.seen_mask *= 2
    p.seen = <int64_t*> zeros(p, 24 * p.seen_mask)
    p.seen_mask -= 1
    p.reason = <uint8_t*> zeros(p, p.Q + 1)
    p.plan_count = <int32_t*> zeros(p, 4 * (p.Q + 1))
    p.start_s = <int64_t*> room_for(p, 8 * (p.Q + 1))
    memset(p.start_s, 0xFF, 8 * p.Q)
    add_i32(p, &p.out_first, 0)
    return 1


cdef int prepare_nodes(Pass* p) except -1 nogil:
    """Nodes by rank, their running parts together, and the node of the licenses."""
    cdef Columns* c = &p.c
    cdef Node* node
    cdef int32_t rank, index
    cdef int64_t i, first = 0, count
    p.node = <Node*> zeros(p, (<size_t> p.N + 1) * sizeof(Node))
    p.part = <int64_t*> room_for(p, 8 * (p.P + p.R + 1))
    for i in range(p.P):
        if c.part_run[i] >= 0:
            p.node[p.rank_of[c.part_node[i]]].last_part += 1
    for rank in range(p.N):
        index = c.order[rank]
        node = p.node + rank
        node.index = index
        node.total_cpus = c.total_cpus[index]
        node.quantum = c.cpu_quantum[index]
        node.weight_class = c.weight_class[index]
        node.kinds = p.G
        node.up = c.up[index] != 0
        node.free_cpus = c.free_cpus[index]
        node.free_mem_mb = c.free_mem_mb[index]
        node.total_mem_mb = c.total_mem_mb[index]
        node.free_gres = c.free_gres + <int64_t> index * p.G
        node.total_gres = c.total_gres + <int64_t> index * p.G
        if node.up:
            put(p.up, rank)
        else:
            p.all_up = False
        count = node.last_part
        node.first_part = node.last_part = first
        first += count
    for i in range(p.P):
        if c.part_run[i] >= 0:
            node = p.node + p.rank_of[c.part_node[i]]
            p.part[node.last_part] = i
            node.last_part += 1
    node = p.node + p.N
    node.index = p.N
    node.kinds = p.L
    node.free_gres = c.free_licenses
    node.first_part = first
    node.last_part = first + p.R
    for i in range(p.R):
        p.part[first + i] = i
    return 0


cdef int prepare_blocks(Pass* p) except -1 nogil:
    cdef Columns* c = &p.c
    cdef Block* block
    cdef Node* node
    cdef int64_t i
    cdef int32_t* counts
    for i in range(p.B):
        block = <Block*> room_for(p, sizeof(Block))
        node = p.node + p.rank_of[c.block_node[i]]
        block[0] = Block(
            next=node.blocks, resv=c.block_resv[i], cpus=c.block_cpus[i], mem_mb=c.block_mem_mb[i],
            gres=c.block_gres + i * p.G, from_s=c.block_from_s[i], to_s=lesser(c.block_to_s[i], NEVER),
        )
        node.blocks = block
    for i in range(p.F):
        block = <Block*> room_for(p, sizeof(Block))
        counts = <int32_t*> zeros(p, 4 * (<size_t> p.L + 1))
        counts[c.licblock_kind[i]] = c.licblock_count[i]
        node = p.node + p.N
        block[0] = Block(
            next=node.blocks, resv=c.licblock_resv[i], cpus=0, mem_mb=0, gres=counts, from_s=c.licblock_from_s[i],
            to_s=lesser(c.licblock_to_s[i], NEVER),
        )
        node.blocks = block
    return 0
