# Times before which no window of the profile is wide and long enough (included by replay_profile.pxi).
#
# `before_s[w][k]`: no window of at least spans[k] seconds with at least 2^w free processors begins before that time. What is
# wider or longer fits no earlier, so rows and columns ascend. A reservation leaves bounds valid; where processors are
# returned, they fall to the begin of the windows that are there now, in each row when it is read next. Bounds of 0 say nothing.
#
# A job reads the row and column below its own size, and raises those from its own size on. Spans are two for each power of
# two: 1, 2, 3, 4, 6, 8, 12, ... While few jobs wait, bounds cost more than they save, and are not kept (`is_on` False).

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long) nogil

cdef enum:
    WIDTHS = 31
    SPANS = 124


cdef struct ReplayBounds:
    int64_t before_s[WIDTHS][SPANS]
    int64_t opened_from_s[WIDTHS]  # by row: processors have been returned in this interval since it was read
    int64_t opened_until_s[WIDTHS]  # 0 = none
    int64_t spans[SPANS]
    int32_t widths_used
    int32_t spans_used
    bint is_on


cdef inline int32_t width_below(int64_t procs) noexcept nogil:
    """Returns the row of the largest power of two that is at most `procs`."""
    return 63 - leading_zeros(<unsigned long long> procs)


cdef inline int32_t span_below(const ReplayBounds* bounds, int64_t length) noexcept nogil:
    """Returns the column of the longest span in use that is at most `length`."""
    cdef int32_t k = 2 * width_below(length)
    if k > 0 and bounds.spans[min(k, SPANS - 1)] > length:
        k -= 1
    return min(k, bounds.spans_used - 1)


cdef void bounds_open(ReplayBounds* bounds, int32_t widest, int64_t longest_s) noexcept nogil:
    """Prepares rows up to the widest job, and columns up to the longest."""
    cdef int32_t k
    for k in range(SPANS):
        bounds.spans[k] = (<int64_t> 3 << (k // 2)) // 2 if k % 2 == 0 else <int64_t> 1 << (k // 2 + 1)
    bounds.widths_used = width_below(widest) + 1
    bounds.spans_used = SPANS
    bounds.spans_used = min(<int32_t> SPANS, span_below(bounds, longest_s) + 2)
    bounds.is_on = False


cdef inline void switch_bounds(ReplayBounds* bounds, bint is_on) noexcept nogil:
    """Begins or ceases to keep bounds."""
    if is_on and not bounds.is_on:
        memset(bounds.before_s, 0, <size_t> bounds.widths_used * sizeof(bounds.before_s[0]))
        memset(bounds.opened_until_s, 0, sizeof(bounds.opened_until_s))
    bounds.is_on = is_on


cdef inline void note_opened(ReplayBounds* bounds, int64_t from_s, int64_t until_s) noexcept nogil:
    """Notes an interval in which processors have been returned."""
    cdef int32_t w
    for w in range(bounds.widths_used):
        if bounds.opened_until_s[w] == 0 or from_s < bounds.opened_from_s[w]:
            bounds.opened_from_s[w] = from_s
        bounds.opened_until_s[w] = max(bounds.opened_until_s[w], until_s)


cdef inline int64_t bound_of(const ReplayBounds* bounds, int32_t procs, int64_t length) noexcept nogil:
    """Returns a time before which a job of that size cannot begin."""
    return bounds.before_s[width_below(procs)][span_below(bounds, length)]


cdef void raise_bounds(ReplayBounds* bounds, int32_t procs, int64_t length, int64_t before_s) noexcept nogil:
    """Notes that nothing of that size, wider or longer begins before that time."""
    cdef int32_t w = width_below(procs), first = span_below(bounds, length), k
    w += procs > <int64_t> 1 << w
    first += length > bounds.spans[first]
    if first >= bounds.spans_used:
        return
    while w < bounds.widths_used and bounds.before_s[w][first] < before_s:
        k = first
        while k < bounds.spans_used and bounds.before_s[w][k] < before_s:
            bounds.before_s[w][k] = before_s
            k += 1
        w += 1


cdef inline void lower_bounds(ReplayBounds* bounds, int32_t w, int64_t length, int64_t begin_s) noexcept nogil:
    """Notes a window of that length, in which 2^w processors are free."""
    cdef int32_t k = span_below(bounds, length)
    while k >= 0 and bounds.before_s[w][k] > begin_s:
        bounds.before_s[w][k] = begin_s
        k -= 1
