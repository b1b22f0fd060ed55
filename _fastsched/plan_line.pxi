# Part of plan.pyx: the time of a node as segments: taking from it, searching in it.

cdef inline Seg* seg_at(const Line* line, int32_t i) noexcept nogil:
    return <Seg*> (line.data + <int64_t> i * line.stride)


cdef inline int32_t* gres_of(Seg* seg) noexcept nogil:
    return <int32_t*> (seg + 1)


cdef int new_line(Pass* p, Line* line, int32_t kinds, int32_t room) except -1 nogil:
    line.kinds = kinds
    line.stride = <int32_t> ((sizeof(Seg) + 4 * kinds + 7) & ~7)
    line.room = room
    line.count = 1
    line.data = <char*> room_for(p, <size_t> room * line.stride)
    return 0


cdef inline int32_t find_seg(const Line* line, int64_t at_s) noexcept nogil:
    """The segment in which a time (not before the first) lies."""
    cdef int32_t low = 0, high = line.count - 1, middle
    while low < high:
        middle = (low + high + 1) >> 1
        if seg_at(line, middle).from_s <= at_s:
            low = middle
        else:
            high = middle - 1
    return low


cdef int32_t split(Pass* p, Line* line, int64_t at_s) except -1 nogil:
    """The segment that begins at this time, made where there is none."""
    cdef int32_t i = find_seg(line, at_s)
    cdef char* data
    if seg_at(line, i).from_s >= at_s:
        return i
    if line.count == line.room:
        data = <char*> room_for(p, <size_t> 2 * line.room * line.stride)
        memcpy(data, line.data, <size_t> line.count * line.stride)
        line.data = data
        line.room *= 2
    memmove(seg_at(line, i + 1), seg_at(line, i), <size_t> (line.count - i) * line.stride)
    line.count += 1
    seg_at(line, i + 1).from_s = at_s
    return i + 1


cdef inline void move_in(Seg* seg, int32_t user, int32_t exclusive) noexcept nogil:
    """One more job on the node."""
    if seg.jobs == 0:
        seg.user = user
    elif seg.user != user:
        seg.user = CLOSED
    seg.jobs += 1
    if exclusive == 1 or (exclusive == 2 and seg.xuser != NOBODY and seg.xuser != user):
        seg.xuser = CLOSED
    elif exclusive == 2:
        seg.xuser = user


cdef int take_line(Pass* p, Line* line, const Need* need, int64_t from_s, int64_t to_s, int32_t jobs) except -1 nogil:
    """Rule 7: a job (jobs = 1), a block (0) or what comes back (negative amounts) for an interval."""
    cdef int32_t first, last, i, kind
    cdef Seg* seg
    cdef int32_t* gres
    if from_s < p.now_s:
        from_s = p.now_s
    if to_s <= from_s:
        return 0
    if p.saving:
        save(p, line)
    first = split(p, line, from_s)
    last = split(p, line, to_s) if to_s < NEVER else line.count
    for i in range(first, last):
        seg = seg_at(line, i)
        seg.cpus -= need.cpus
        seg.mem_mb -= need.mem_mb
        gres = gres_of(seg)
        for kind in range(line.kinds):
            gres[kind] -= need.gres[kind]
        if jobs:
            move_in(seg, need.user, need.exclusive)
    return 0


cdef int save(Pass* p, Line* line) except -1 nogil:
    cdef size_t size = <size_t> line.count * line.stride
    cdef Saved* saved = p.saved_before
    if saved == NULL:
        saved = <Saved*> room_for(p, sizeof(Saved))
        saved.room = 0
    else:
        p.saved_before = saved.next
    if saved.room < size:
        saved.room = 2 * size
        saved.copy = <char*> room_for(p, saved.room)
    memcpy(saved.copy, line.data, size)
    saved.line = line
    saved.count = line.count
    saved.next = p.saved
    p.saved = saved
    return 0


cdef void restore(Pass* p) noexcept nogil:
    """All lines as they were when `saving` began."""
    cdef Saved* saved
    while p.saved != NULL:
        saved = p.saved
        saved.line.count = saved.count
        memcpy(saved.line.data, saved.copy, <size_t> saved.count * saved.line.stride)
        p.saved = saved.next
        saved.next = p.saved_before
        p.saved_before = saved


cdef inline bint holds(const Seg* seg, const Need* need, int32_t kinds) noexcept nogil:
    """Does a segment leave what is needed? A need of nothing is INT32_MIN (memory: INT64_MIN)."""
    cdef const int32_t* gres = <const int32_t*> (seg + 1)
    cdef int32_t kind
    if seg.cpus < need.cpus or seg.mem_mb < need.mem_mb:
        return False
    for kind in range(kinds):
        if gres[kind] < need.gres[kind]:
            return False
    if seg.xuser != NOBODY and (seg.xuser == CLOSED or seg.xuser != need.user):
        return False
    if need.exclusive and seg.jobs:
        return need.exclusive == 2 and seg.user == need.user
    return True


cdef int64_t earliest(
    const Pass* p, const Line* line, const Need* need, int64_t from_s, int64_t length_s, int64_t limit_s,
    int64_t short_s, int64_t* bound
) noexcept nogil:
    """The first time from from_s on, by rule 0, from which the need is met for length_s; past limit_s it gives up and
    returns a time before which there is none. `bound` is the same for short_s <= length_s, perhaps lower."""
    cdef int32_t i = find_seg(line, from_s)
    cdef int64_t at_s = from_s, end_s = from_s + length_s
    cdef bint open = True
    cdef const Seg* seg
    bound[0] = from_s
    while i < line.count:
        seg = seg_at(line, i)
        if seg.from_s >= end_s:
            break
        if not holds(seg, need, line.kinds):
            if open and seg.from_s >= at_s + short_s:
                open = False
            if i + 1 == line.count:
                at_s = NEVER
            else:
                at_s = rounded(p, seg_at(line, i + 1).from_s)
                while i + 2 < line.count and seg_at(line, i + 2).from_s <= at_s:
                    i += 1
            if open:
                bound[0] = at_s
            if at_s > limit_s:
                return at_s
            end_s = at_s + length_s
        i += 1
    return at_s


cdef int64_t clear_until(const Line* line, const Need* need, int64_t from_s, int64_t to_s) noexcept nogil:
    """Rule 4: until when, up to to_s, nothing is in the way of what is taken."""
    cdef int32_t i
    cdef const Seg* seg
    if from_s >= to_s:
        return from_s
    i = find_seg(line, from_s)
    while i < line.count:
        seg = seg_at(line, i)
        if seg.from_s >= to_s:
            break
        if not holds(seg, need, line.kinds):
            return greater(seg.from_s, from_s)
        i += 1
    return to_s
