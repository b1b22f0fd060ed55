# Part of plan.pyx: the time of a node from what runs there, its reservations, and what this pass took.

cdef inline int64_t part_end(const Pass* p, const Node* node, int64_t part) noexcept nogil:
    cdef int64_t run = part if node.index == p.N else p.c.part_run[part]
    return p.now_s + 1 if p.gone[run] else lesser(greater(p.c.run_end_s[run], p.now_s + 1), NEVER)


cdef inline bint removed(const Pass* p, const Node* node, int64_t part, Without without) noexcept nogil:
    """Is this part left out? (Licenses of victims come back when these end, not before.)"""
    cdef int64_t run
    if without == NOTHING or node.index == p.N:
        return False
    run = p.c.part_run[part]
    return p.gone[run] or (without == PREEMPTABLE and preemptable(p, run, p.victim_bits))


cdef inline bint preemptable(const Pass* p, int64_t run, uint64_t bits) noexcept nogil:
    cdef int32_t of = p.c.run_class[run]
    return 0 <= of < 64 and (bits >> of) & 1 and not p.gone[run]


cdef int order_parts(Pass* p, Node* node) except -1 nogil:
    """Sort a node's parts by end, the latest first (insertion: they are few or nearly sorted; heap sort for many)."""
    cdef int64_t i, j, part, end_s, count = node.last_part - node.first_part
    cdef Cand* keys
    if count > 32:
        keys = <Cand*> room_for(p, <size_t> count * sizeof(Cand))
        for i in range(count):
            part = p.part[node.first_part + i]
            keys[i].key1 = -part_end(p, node, part)
            keys[i].key2 = part
            keys[i].key3 = keys[i].key4 = 0
        qsort(keys, count, sizeof(Cand), &by_keys)
        for i in range(count):
            p.part[node.first_part + i] = keys[i].key2
        return 0
    for i in range(node.first_part + 1, node.last_part):
        part = p.part[i]
        end_s = part_end(p, node, part)
        j = i
        while j > node.first_part and part_end(p, node, p.part[j - 1]) < end_s:
            p.part[j] = p.part[j - 1]
            j -= 1
        p.part[j] = part
    return 0


cdef int by_keys(const void* a, const void* b) noexcept nogil:
    cdef const Cand* x = <const Cand*> a
    cdef const Cand* y = <const Cand*> b
    if x.key1 != y.key1:
        return -1 if x.key1 < y.key1 else 1
    if x.key2 != y.key2:
        return -1 if x.key2 < y.key2 else 1
    if x.key3 != y.key3:
        return -1 if x.key3 < y.key3 else 1
    if x.key4 != y.key4:
        return -1 if x.key4 < y.key4 else 1
    return (x.rank > y.rank) - (x.rank < y.rank)


cdef inline void part_need(const Pass* p, const Node* node, int64_t part, Need* need) noexcept nogil:
    cdef int64_t run
    if node.index == p.N:
        need[0] = Need(mem_mb=0, cpus=0, user=0, exclusive=0, gres=p.c.run_licenses + part * p.L)
        return
    run = p.c.part_run[part]
    need.cpus = p.c.part_cpus[part]
    need.mem_mb = p.c.part_mem_mb[part]
    need.gres = p.c.part_gres + part * p.G
    need.user = p.c.run_user[run]
    need.exclusive = p.c.run_exclusive[run]


cdef int make_running(Pass* p, Node* node, Without without, Line* line) except -1 nogil:
    """The line of what runs there; written from its end, where all has come back, to now."""
    cdef int64_t i, parts = node.last_part - node.first_part
    cdef int32_t kind, at = line.room, kinds = line.kinds
    cdef Need need
    cdef Seg* seg
    cdef Seg* later
    at -= 1
    seg = seg_at(line, at)
    seg.cpus = node.free_cpus
    seg.mem_mb = node.free_mem_mb
    seg.jobs = 0
    seg.user = seg.xuser = NOBODY
    seg.from_s = p.now_s
    for kind in range(kinds):
        gres_of(seg)[kind] = node.free_gres[kind]
    for i in range(node.first_part, node.last_part):
        part_need(p, node, p.part[i], &need)
        seg.cpus += need.cpus
        seg.mem_mb += need.mem_mb
        for kind in range(kinds):
            gres_of(seg)[kind] += need.gres[kind]
    for i in range(node.first_part, node.last_part):
        if removed(p, node, p.part[i], without):
            continue
        seg.from_s = part_end(p, node, p.part[i])
        later = seg
        if at + 1 < line.room and seg_at(line, at + 1).from_s == seg.from_s:
            # Ends together with the one after it: the same segment.
            pass
        else:
            at -= 1
            seg = seg_at(line, at)
            memcpy(seg, later, line.stride)
            seg.from_s = p.now_s
        part_need(p, node, p.part[i], &need)
        seg.from_s = p.now_s
        seg.cpus -= need.cpus
        seg.mem_mb -= need.mem_mb
        for kind in range(kinds):
            gres_of(seg)[kind] -= need.gres[kind]
        move_in(seg, need.user, need.exclusive)
    if at:
        memmove(line.data, seg_at(line, at), <size_t> (line.room - at) * line.stride)
    line.count = line.room - at
    return 0


cdef int make_line(Pass* p, Node* node, int32_t view, Without without, Line* line) except -1 nogil:
    """A node's time at the beginning of the pass, for a view."""
    cdef Need need
    cdef Block* block
    cdef int32_t i
    cdef int64_t room = node.last_part - node.first_part + 1
    new_line(p, line, node.kinds, <int32_t> (room + 6))
    make_running(p, node, without, line)
    block = node.blocks
    while block != NULL:
        if view == ALL_BLOCKS or (view >= 0 and block.resv != view):
            block_need(p, node, block, &need)
            if block.cpus >= 0 or node.index == p.N:
                take_line(p, line, &need, block.from_s, block.to_s, 0)
            else:
                close_line(p, line, block.from_s, block.to_s)
        block = block.next
    return 0


cdef inline void block_need(Pass* p, const Node* node, const Block* block, Need* need) noexcept nogil:
    need.cpus = block.cpus
    need.mem_mb = block.mem_mb
    need.gres = block.gres
    need.user = need.exclusive = 0


cdef int close_line(Pass* p, Line* line, int64_t from_s, int64_t to_s) except -1 nogil:
    cdef int32_t first, last, i
    from_s = greater(from_s, p.now_s)
    if to_s <= from_s:
        return 0
    first = split(p, line, from_s)
    last = split(p, line, to_s)
    for i in range(first, last):
        seg_at(line, i).xuser = CLOSED
    return 0


cdef int make_own(Pass* p, Node* node, View* view) except -1 nogil:
    """The rest of a reservation's blocks on a node, as amounts by time."""
    cdef Need need
    cdef Block* block = node.blocks
    cdef int32_t kind
    cdef int32_t* back = <int32_t*> room_for(p, 4 * (node.kinds + 1))
    new_line(p, &view.own, node.kinds, 6)
    memset(view.own.data, 0, view.own.stride)
    seg_at(&view.own, 0).from_s = p.now_s
    while block != NULL:
        if block.resv == view.resv and (block.cpus >= 0 or node.index == p.N):
            for kind in range(node.kinds):
                back[kind] = -block.gres[kind]
            need = Need(mem_mb=-block.mem_mb, cpus=-block.cpus, user=0, exclusive=0, gres=back)
            take_line(p, &view.own, &need, block.from_s, block.to_s, 0)
        block = block.next
    return 0


cdef int build(Pass* p, Node* node, Without without) except -1 nogil:
    """All views of a node, and once more what this pass has taken there."""
    cdef Block* block = node.blocks
    cdef View* view
    cdef Take* take
    cdef Take* back = NULL
    cdef bint saving = p.saving
    p.saving = False
    node.built = True
    order_parts(p, node)
    make_line(p, node, ALL_BLOCKS, without, &node.line)
    node.views = NULL
    while block != NULL:
        if view_of(node, block.resv) == NULL:
            view = <View*> room_for(p, sizeof(View))
            view.resv = block.resv
            make_line(p, node, view.resv, without, &view.line)
            make_own(p, node, view)
            view.next = node.views
            node.views = view
        block = block.next
    if node.blocks != NULL:
        view = <View*> room_for(p, sizeof(View))
        view.resv = NO_BLOCKS
        make_line(p, node, NO_BLOCKS, without, &view.line)
        new_line(p, &view.own, node.kinds, 1)
        view.next = node.views
        node.views = view
    take = turned(node.takes)
    back = take
    while take != NULL:
        apply_take(p, node, &take.need, take.from_s, take.to_s, take.resv)
        take = take.next
    node.takes = turned(back)
    p.saving = saving
    return 0


cdef Take* turned(Take* take) noexcept nogil:
    """The same list, the other way round."""
    cdef Take* done = NULL
    cdef Take* next
    while take != NULL:
        next = take.next
        take.next = done
        done = take
        take = next
    return done


cdef inline View* view_of(const Node* node, int32_t resv) noexcept nogil:
    cdef View* view = node.views
    while view != NULL:
        if view.resv == resv:
            return view
        view = view.next
    return NULL


cdef inline Line* line_of(Pass* p, int32_t rank, int32_t resv) except NULL nogil:
    """The time of a node as a row of that reservation sees it."""
    cdef Node* node = p.node + rank
    if not node.built:
        build(p, node, NOTHING)
    return view_line(node, resv)


cdef inline Line* view_line(Node* node, int32_t resv) noexcept nogil:
    cdef View* view
    if node.views == NULL or resv == ALL_BLOCKS:
        return &node.line
    view = view_of(node, resv)
    return &node.line if view == NULL else &view.line


cdef int apply_take(
    Pass* p, Node* node, const Need* need, int64_t from_s, int64_t to_s, int32_t resv
) except -1 nogil:
    """Take from all views; a member's share comes out of its blocks, and others lose only what goes beyond these."""
    cdef View* view
    cdef View* mine = NULL
    take_line(p, &node.line, need, from_s, to_s, 1)
    if node.views == NULL:
        return 0
    view = node.views
    while view != NULL:
        take_line(p, &view.line, need, from_s, to_s, 1)
        if view.resv == resv and resv >= 0:
            mine = view
        view = view.next
    if mine != NULL:
        give_blocks(p, node, mine, need, greater(from_s, p.now_s), to_s)
    return 0


cdef int give_blocks(Pass* p, Node* node, View* mine, const Need* need, int64_t from_s, int64_t to_s) except -1 nogil:
    cdef int32_t i, kind, first, last
    cdef Seg* own
    cdef View* view
    cdef Need back
    cdef Need less
    cdef int64_t until_s
    cdef int32_t* gres
    cdef int32_t* amounts
    if to_s <= from_s:
        return 0
    gres = <int32_t*> room_for(p, 8 * (node.kinds + 1))
    amounts = gres + node.kinds + 1
    if p.saving:
        save(p, &mine.own)
    first = split(p, &mine.own, from_s)
    last = split(p, &mine.own, to_s) if to_s < NEVER else mine.own.count
    for i in range(first, last):
        own = seg_at(&mine.own, i)
        until_s = seg_at(&mine.own, i + 1).from_s if i + 1 < mine.own.count else NEVER
        less = Need(
            mem_mb=greater(0, lesser(need.mem_mb, own.mem_mb)), cpus=<int32_t> greater(0, lesser(need.cpus, own.cpus)),
            user=0, exclusive=0, gres=gres,
        )
        for kind in range(node.kinds):
            amounts[kind] = <int32_t> greater(0, lesser(need.gres[kind], gres_of(own)[kind]))
            gres_of(own)[kind] -= amounts[kind]
            gres[kind] = -amounts[kind]
        own.mem_mb -= less.mem_mb
        own.cpus -= less.cpus
        back = Need(mem_mb=-less.mem_mb, cpus=-less.cpus, user=0, exclusive=0, gres=gres)
        take_line(p, &node.line, &back, own.from_s, until_s, 0)
        view = node.views
        while view != NULL:
            if view != mine and view.resv != NO_BLOCKS:
                take_line(p, &view.line, &back, own.from_s, until_s, 0)
            view = view.next
    return 0


cdef int take_node(Pass* p, int32_t rank, const Need* need, int64_t from_s, int64_t to_s, int32_t resv) except -1 nogil:
    """What a row of this pass takes on a node."""
    cdef Node* node = p.node + rank
    cdef Take* take
    if not node.built:
        build(p, node, NOTHING)
    if p.keep_takes and not p.saving:
        take = <Take*> room_for(p, sizeof(Take))
        take[0] = Take(next=node.takes, need=need[0], resv=resv, from_s=from_s, to_s=to_s)
        node.takes = take
    return apply_take(p, node, need, from_s, to_s, resv)
