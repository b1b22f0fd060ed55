# The number of free processors at each future time: the plan of conservative backfill (included by replay.pyx).
#
# Step k of the profile holds from at_s[k] until at_s[k + 1], the last one forever. The steps are two plain arrays from `first`
# on; the past is dropped by moving `first`.

include "replay_bounds.pxi"


cdef struct ReplayProfile:
    int64_t* at_s
    int32_t* free
    int64_t first
    int64_t end  # one behind the last step
    ReplayBounds bounds


cdef enum:
    PAST_MAX = 4096  # steps of the past that are kept before the arrays are moved back
    MEASURED_STEPS = 64  # of a window, by which bounds fall; a longer one counts as one that never ends


cdef bint profile_open(
    ReplayProfile* profile, int64_t jobs, int32_t processors, int32_t widest, int64_t longest_s
) noexcept nogil:
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
    bounds_open(&profile.bounds, widest, longest_s)
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


cdef inline int64_t step_of(const ReplayProfile* profile, int64_t at_s) noexcept nogil:
    """Returns the step that holds at a time, the first one for a time that is past."""
    cdef const int64_t* base = &profile.at_s[profile.first]
    cdef int64_t steps = profile.end - profile.first, half
    while steps > 1:  # without a branch that depends on the data
        half = steps // 2
        base += half if base[half] <= at_s else 0
        steps -= half
    return base - profile.at_s


cdef inline int64_t window_begin(const ReplayProfile* profile, int64_t step, int32_t procs) noexcept nogil:
    """Returns the first step of the window with so many free processors that holds this step."""
    while step > profile.first and profile.free[step - 1] >= procs:
        step -= 1
    return step


cdef int64_t step_at(ReplayProfile* profile, int64_t at_s) noexcept nogil:
    """Returns the step that begins at a time, created if there is none. The time must not be past."""
    cdef int64_t step = step_of(profile, at_s)
    if profile.at_s[step] == at_s:
        return step
    step += 1
    memmove(&profile.at_s[step + 1], &profile.at_s[step], (profile.end - step) * sizeof(int64_t))
    memmove(&profile.free[step + 1], &profile.free[step], (profile.end - step) * sizeof(int32_t))
    profile.at_s[step] = at_s
    profile.free[step] = profile.free[step - 1]
    profile.end += 1
    return step


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


cdef inline bint open_window(ReplayProfile* profile, int32_t w, int64_t* step, int64_t until_s) noexcept nogil:
    """Lowers a row of bounds to the first window from a step on that begins before `until_s`, and moves the step behind it;
    False if there is none."""
    cdef ReplayBounds* bounds = &profile.bounds
    cdef int64_t last = profile.end - 1, at = step[0], begin_s
    cdef int32_t procs = <int32_t> 1 << w
    while profile.free[at] < procs and profile.at_s[at] < until_s:
        at += 1
    begin_s = profile.at_s[at]
    if begin_s >= until_s:
        return False
    last = min(last, at + MEASURED_STEPS)
    while at < last and profile.free[at] >= procs:
        at += 1
    lower_bounds(bounds, w, NEVER if profile.free[at] >= procs else profile.at_s[at] - begin_s, begin_s)
    step[0] = at
    return profile.free[at] < procs  # else all of the row is as low as this window


cdef void settle_row(ReplayProfile* profile, int32_t w) noexcept nogil:
    """Lowers a row of bounds to the windows that lie in part where processors have been returned."""
    cdef ReplayBounds* bounds = &profile.bounds
    cdef int64_t step = step_of(profile, bounds.opened_from_s[w])
    cdef int64_t until_s = min(bounds.opened_until_s[w], bounds.before_s[w][bounds.spans_used - 1])
    bounds.opened_until_s[w] = 0
    if profile.free[step] >= <int64_t> 1 << w:
        step = window_begin(profile, step, <int32_t> 1 << w)
    while open_window(profile, w, &step, until_s):
        pass


cdef void give_back(ReplayProfile* profile, int64_t from_s, int64_t until_s, int32_t procs) noexcept nogil:
    """Returns a reservation, or the rest of one."""
    if from_s < until_s:
        add(profile, from_s, until_s, procs)
        if profile.bounds.is_on:
            note_opened(&profile.bounds, from_s, until_s)


cdef void move(ReplayProfile* profile, int64_t planned_s, int64_t found_s, int64_t length, int32_t procs) noexcept nogil:
    """Moves a reservation to an earlier time."""
    add(profile, found_s, min(planned_s, found_s + length), -procs)
    give_back(profile, max(planned_s, found_s + length), planned_s + length, procs)


cdef int64_t earliest(ReplayProfile* profile, int32_t procs, int64_t length, int64_t planned_s) noexcept nogil:
    """Returns the earliest time at which so many are free for so long, or `planned_s`, NEVER or where the job has its own
    reservation, if there is none before that. Its own processors count as free to it."""
    if profile.bounds.is_on:
        return earliest_by_bounds(profile, procs, length, planned_s)
    return earliest_by_steps(profile, procs, length, planned_s)


cdef int64_t earliest_by_steps(
    const ReplayProfile* profile, int32_t procs, int64_t length, int64_t planned_s
) noexcept nogil:
    """Looks at each step from now on."""
    cdef int64_t step = profile.first, found, last = profile.end - 1
    while True:
        while step < last and profile.free[step] < procs:
            step += 1
        # The last step is free: all reservations end.
        found = profile.at_s[step]
        if found >= planned_s:
            return planned_s
        while step < last and profile.free[step] >= procs:
            step += 1
            if profile.at_s[step] - found >= length or profile.at_s[step] >= planned_s:
                return found
        if step == last and profile.free[step] >= procs:
            return found


cdef int64_t earliest_by_bounds(
    ReplayProfile* profile, int32_t procs, int64_t length, int64_t planned_s
) noexcept nogil:
    """Looks at the window that ends at `planned_s`, which may be shorter than the job, and from the job's bound on at those
    before it."""
    cdef int64_t step, found, last = profile.end - 1, beside_s = planned_s
    cdef int32_t w = width_below(procs)
    if planned_s != NEVER:
        step = step_of(profile, planned_s - 1)
        if profile.free[step] >= procs:
            beside_s = profile.at_s[window_begin(profile, step, procs)]
    if profile.bounds.opened_until_s[w]:
        settle_row(profile, w)
    found = bound_of(&profile.bounds, procs, length)
    if found >= beside_s:
        return beside_s
    step = step_of(profile, found)
    while True:
        while profile.free[step] < procs:
            step += 1
        found = profile.at_s[step]
        if found >= beside_s:
            found = beside_s
            break
        while step < last and profile.free[step] >= procs and profile.at_s[step] - found < length:
            step += 1
        if profile.free[step] >= procs or profile.at_s[step] - found >= length:
            break
    raise_bounds(&profile.bounds, procs, length, found)
    return found
