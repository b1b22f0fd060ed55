# The number of free processors at each future time: the plan of conservative backfill (included by replay.pyx).
#
# Step k of the profile holds from at_s[k] until at_s[k + 1], the last one forever. The steps are two plain arrays from `first`
# on; the past is dropped by moving `first`.


cdef struct ReplayProfile:
    int64_t* at_s
    int32_t* free
    int64_t first
    int64_t end  # one behind the last step


cdef enum:
    PAST_MAX = 4096  # steps of the past that are kept before the arrays are moved back


cdef bint profile_open(ReplayProfile* profile, int64_t jobs, int32_t processors) noexcept nogil:
    """Every job adds two steps at most; False when there is no memory."""
    cdef int64_t room = 2 * jobs + PAST_MAX + 4
    profile.at_s = <int64_t*> malloc(room * sizeof(int64_t))
    profile.free = <int32_t*> malloc(room * sizeof(int32_t))
    if profile.at_s == NULL or profile.free == NULL:
        return False
    profile.first = 0
    profile.end = 1
    profile.at_s[0] = 0  # `forget` sets the present time
    profile.free[0] = processors
    return True


cdef void profile_close(ReplayProfile* profile) noexcept nogil:
    free(profile.at_s)
    free(profile.free)


cdef void forget(ReplayProfile* profile, int64_t now) noexcept nogil:
    """Drops the past: the first step begins now."""
    cdef int64_t steps
    while profile.first + 1 < profile.end and profile.at_s[profile.first + 1] <= now:
        profile.first += 1
    profile.at_s[profile.first] = now
    if profile.first >= PAST_MAX:
        steps = profile.end - profile.first
        memmove(profile.at_s, &profile.at_s[profile.first], steps * sizeof(int64_t))
        memmove(profile.free, &profile.free[profile.first], steps * sizeof(int32_t))
        profile.first = 0
        profile.end = steps


cdef int64_t step_at(ReplayProfile* profile, int64_t at_s) noexcept nogil:
    """Returns the step that begins at a time, created if there is none. The time must not be past."""
    cdef int64_t low = profile.first, high = profile.end, middle
    while low < high:
        middle = (low + high) // 2
        if profile.at_s[middle] < at_s:
            low = middle + 1
        else:
            high = middle
    if low == profile.end or profile.at_s[low] != at_s:
        memmove(&profile.at_s[low + 1], &profile.at_s[low], (profile.end - low) * sizeof(int64_t))
        memmove(&profile.free[low + 1], &profile.free[low], (profile.end - low) * sizeof(int32_t))
        profile.at_s[low] = at_s
        profile.free[low] = profile.free[low - 1]
        profile.end += 1
    return low


cdef void drop_step(ReplayProfile* profile, int64_t step) noexcept nogil:
    """Joins a step with the one before it if both have the same number free."""
    if step > profile.first and step < profile.end and profile.free[step - 1] == profile.free[step]:
        profile.end -= 1
        memmove(&profile.at_s[step], &profile.at_s[step + 1], (profile.end - step) * sizeof(int64_t))
        memmove(&profile.free[step], &profile.free[step + 1], (profile.end - step) * sizeof(int32_t))


cdef void add(ReplayProfile* profile, int64_t from_s, int64_t until_s, int32_t procs) noexcept nogil:
    """Adds so many free processors in [from_s, until_s); subtracts if `procs` is negative."""
    cdef int64_t begin, end, step
    if from_s >= until_s:
        return
    begin = step_at(profile, from_s)
    end = step_at(profile, until_s)
    for step in range(begin, end):
        profile.free[step] += procs
    drop_step(profile, end)
    drop_step(profile, begin)


cdef int64_t earliest(const ReplayProfile* profile, int32_t procs, int64_t length, int64_t before_s) noexcept nogil:
    """Returns the earliest time at which so many are free for so long, or `before_s` if there is none before that.

    From `before_s` on they count as free: the job has its own reservation there.
    """
    cdef int64_t step = profile.first, found = profile.at_s[profile.first], last = profile.end - 1
    while True:
        while step < last and profile.free[step] < procs:
            step += 1
        # The last step is free: all reservations end.
        found = profile.at_s[step]
        if found >= before_s:
            return before_s
        while step < last and profile.free[step] >= procs:
            step += 1
            if profile.at_s[step] - found >= length or profile.at_s[step] >= before_s:
                return found
        if step == last and profile.free[step] >= procs:
            return found
