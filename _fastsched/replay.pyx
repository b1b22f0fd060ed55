"""The replay, compiled. The rules are in replay_reference.py; this page explains what makes it fast.

- Everything runs in one `with nogil` block on C arrays. The waiting jobs, the expected ends and the real ends are each a
  container of replay_blocks.pxi, so that no queue is scanned where a block can be skipped.
- A job that was refused does not fit later merely because time passes: the head's reservation only comes nearer. So while
  the set of running jobs has not changed (`clean`), a pass considers only a new job.
- Conservative: a waiting job can move only into a window that begins before its own reservation, and its own counts as
  free. So that window is computed first, and the profile is changed only for jobs that move. What a search has found is a
  bound for all that is wider or longer (replay_bounds.pxi).

A predictor, a correction or an order is one inline function with a branch for each number of replay_contract.py.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove, memset

import numpy as np

from _fastsched import replay_contract as words

cdef enum:
    BOUNDS_FROM = 32  # waiting jobs from which on bounds are kept

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF
cdef int32_t SHORTEST = words.SHORTEST
cdef int32_t SMALLEST = words.SMALLEST
cdef int32_t SMALLEST_AREA = words.SMALLEST_AREA
cdef int32_t AGED = words.AGED
cdef int32_t EASY = words.EASY
cdef int32_t CONSERVATIVE = words.CONSERVATIVE
cdef int32_t LAST_TWO = words.LAST_TWO
cdef int32_t SIMILAR = words.SIMILAR
cdef int32_t EVENT = words.EVENT
cdef int64_t[16] CORRECTION_S
cdef int32_t CORRECTIONS = len(words.CORRECTIONS_S)
for _k, _step_s in enumerate(words.CORRECTIONS_S):
    CORRECTION_S[_k] = _step_s

include "replay_blocks.pxi"
include "replay_profile.pxi"


cdef struct ReplayHistory:
    # The history of a user's ended jobs, or of those of them with equal requests.
    int64_t jobs
    int64_t last_s
    int64_t last_but_one_s


cdef struct ReplayJob:
    int64_t submit_s
    int64_t run_s
    int64_t request_s
    int64_t rank_s  # the estimate at submission, by which jobs are ordered
    int64_t aged_s  # submission and handicap: order AGED
    int64_t predicted_s  # the estimate by which reservations are made
    int64_t estimate_s  # predicted_s, corrected
    int64_t start_s
    int64_t planned_s  # conservative: the reserved start, NEVER before there is one
    int32_t procs
    int32_t user
    int32_t alike  # number of its user, estimate and processors
    int32_t corrected
    int32_t number  # of its start
    bint gone  # runs past its expected end: counts as ended


cdef struct ReplayWorld:
    ReplayJob* job
    ReplayHistory* history
    ReplayHistory* alike  # NULL if it is not used
    int32_t* started  # number of a start -> job
    int64_t jobs
    int32_t order, backfill, candidate_order, predictor, ranker, starts
    int64_t aged_factor, aged_max_s
    int64_t free  # processors that count as free now
    ReplayBlocks heads  # waiting jobs, in `order`
    ReplayBlocks candidates  # the same in `candidate_order`, if that is another order
    ReplayBlocks expected  # running jobs, by expected end
    ReplayBlocks ends  # running jobs, by true end and number of the start
    ReplayBlocks outlived  # running jobs that will outlive their estimate, by the estimated end and number
    bint two_orders
    bint clean  # a pass would start nothing
    int64_t shadow_s  # when the head fits, valid if clean
    int64_t beside  # how many are free beside the head then
    ReplayProfile profile  # conservative only, like the next two
    ReplayBlocks planned  # waiting jobs, by reserved start
    int32_t* line  # waiting jobs, in order of submission, and some that have started since; EASY: those picked in a pass
    int64_t line_end, line_planned  # its length; how many of these have a reservation
    bint freed  # conservative: processors have been returned to the profile since all were checked last


# -- the tables: a branch for each number of replay_contract.py

cdef inline int64_t predict(const ReplayWorld* world, int32_t predictor, const ReplayJob* job) noexcept nogil:
    """Returns the estimate of a job at its submission."""
    cdef const ReplayHistory* history = &world.history[job.user]
    if predictor == SIMILAR and world.alike[job.alike].jobs >= 2:
        history = &world.alike[job.alike]
    if (predictor == LAST_TWO or predictor == SIMILAR) and history.jobs >= 2:
        return max(<int64_t> 1, min(job.request_s, (history.last_s + history.last_but_one_s) // 2))
    return job.request_s


cdef inline void learn(ReplayHistory* history, int64_t run_s) noexcept nogil:
    """Adds an ended job to the history of its user."""
    history.last_but_one_s = history.last_s
    history.last_s = run_s
    history.jobs += 1


cdef inline int64_t corrected_s(const ReplayJob* job) noexcept nogil:
    """Returns the estimate of a job that has outlived the one before."""
    cdef int64_t grown_s
    if job.corrected < CORRECTIONS:
        grown_s = job.predicted_s + CORRECTION_S[job.corrected]
    else:
        grown_s = max(job.request_s, job.estimate_s + CORRECTION_S[CORRECTIONS - 1])
    return min(grown_s, job.request_s) if job.estimate_s < job.request_s else grown_s


cdef inline int64_t key_of(int32_t order, const ReplayJob* job) noexcept nogil:
    """Returns the sort key of a waiting job; ties go to the job submitted first."""
    if order == SHORTEST:
        return job.rank_s
    if order == SMALLEST:
        return job.procs
    if order == SMALLEST_AREA:
        return job.rank_s * job.procs
    if order == AGED:
        return job.aged_s
    return 0


cdef inline int64_t handicap_s(const ReplayWorld* world, int64_t rank_s) noexcept nogil:
    """Returns the sort key of order AGED."""
    if rank_s > world.aged_max_s and world.aged_factor > 0:  # the product may be too large for 64 bits
        return world.aged_max_s
    return min(world.aged_max_s, world.aged_factor * rank_s)


# -- events

cdef inline void expect(ReplayWorld* world, int32_t j) noexcept nogil:
    cdef ReplayJob* job = &world.job[j]
    cdef int64_t end_s = job.start_s + job.estimate_s
    if world.backfill == CONSERVATIVE:
        return  # the profile has it
    insert(&world.expected, end_s, j, job.procs, job.estimate_s)
    if job.estimate_s < job.run_s:
        insert(&world.outlived, end_s, job.number, job.procs, 0)


cdef void start(ReplayWorld* world, int32_t j, int64_t now) noexcept nogil:
    """Starts the job, which is in no queue any more."""
    cdef ReplayJob* job = &world.job[j]
    job.start_s = now
    job.number = world.starts
    world.started[world.starts] = j
    world.starts += 1
    world.free -= job.procs
    insert(&world.ends, now + job.run_s, job.number, job.procs, 0)
    expect(world, j)


cdef void dequeue(ReplayWorld* world, int32_t j) noexcept nogil:
    remove(&world.heads, key_of(world.order, &world.job[j]), j)
    if world.two_orders:
        remove(&world.candidates, key_of(world.candidate_order, &world.job[j]), j)


cdef void release(ReplayWorld* world, int64_t now) noexcept nogil:
    """Marks jobs that have reached their expected end as gone."""
    cdef ReplayEntry entry
    while first_key(&world.expected) <= now:
        entry = pop(&world.expected)
        world.job[entry.tie].gone = True
        world.free += entry.procs
        world.clean = False


cdef void correct(ReplayWorld* world) noexcept nogil:
    """Raises the first of the outlived estimates."""
    cdef int32_t j = world.started[pop(&world.outlived).tie]
    cdef ReplayJob* job = &world.job[j]
    job.estimate_s = corrected_s(job)
    job.corrected += 1
    job.gone = False
    world.free -= job.procs
    world.clean = False
    expect(world, j)


cdef void end(ReplayWorld* world, int64_t now) noexcept nogil:
    """Handles the first of the ends."""
    cdef int32_t j = world.started[pop(&world.ends).tie]
    cdef ReplayJob* job = &world.job[j]
    if world.backfill == CONSERVATIVE:
        give_back(&world.profile, now, job.start_s + job.estimate_s, job.procs)
        world.freed = world.freed or now < job.start_s + job.estimate_s
    elif not job.gone:
        remove(&world.expected, job.start_s + job.estimate_s, j)
        world.free += job.procs
    learn(&world.history[job.user], job.run_s)
    if world.alike != NULL:
        learn(&world.alike[job.alike], job.run_s)
    world.clean = False


cdef void submit(ReplayWorld* world, int32_t j) noexcept nogil:
    cdef ReplayJob* job = &world.job[j]
    job.predicted_s = predict(world, world.predictor, job)
    job.rank_s = predict(world, world.ranker, job)
    job.aged_s = job.submit_s + handicap_s(world, job.rank_s)
    job.estimate_s = job.predicted_s
    if world.backfill == CONSERVATIVE:
        world.line[world.line_end] = j
        world.line_end += 1
        return
    if world.heads.count == 0:
        world.clean = False
    insert(&world.heads, key_of(world.order, job), j, job.procs, job.predicted_s)
    if world.two_orders:
        insert(&world.candidates, key_of(world.candidate_order, job), j, job.procs, job.predicted_s)


# -- passes that decide again each time

cdef inline bint starts_now(
    int64_t unused, int64_t beside, int64_t window_s, int32_t procs, int64_t length
) noexcept nogil:
    """Whether a candidate fits now, and either ends before the head's reservation or fits beside it."""
    return procs <= unused and (length <= window_s or procs <= beside)


cdef void reserve(ReplayWorld* world, int32_t procs) noexcept nogil:
    """Computes when the head is expected to fit, and what is free beside it then."""
    cdef int64_t sum = world.free
    cdef int32_t place = 0, k = 0
    cdef const ReplayBlock* block = &world.expected.pool[world.expected.order[0]]
    while sum + block.procs_sum < procs:
        sum += block.procs_sum
        place += 1
        block = &world.expected.pool[world.expected.order[place]]
    while sum < procs:
        sum += block.entry[k].procs
        k += 1
    world.shadow_s = block.entry[k - 1].key
    while True:  # all that end at that time
        if k == block.count:
            place += 1
            if place == world.expected.blocks:
                break
            block = &world.expected.pool[world.expected.order[place]]
            k = 0
        if block.entry[k].key > world.shadow_s:
            break
        sum += block.entry[k].procs
        k += 1
    world.beside = sum - procs


cdef inline void backfill_one(ReplayWorld* world, int32_t j, int64_t now) noexcept nogil:
    cdef ReplayJob* job = &world.job[j]
    if now + job.estimate_s > world.shadow_s:
        world.beside -= job.procs
    dequeue(world, j)
    start(world, j, now)


cdef void backfill(ReplayWorld* world, int32_t head, int64_t now) noexcept nogil:
    """Starts the candidates that fit, in their order. They are picked first, as a start removes them from the blocks."""
    cdef const ReplayBlocks* some = &world.candidates if world.two_orders else &world.heads
    cdef int64_t unpicked = world.free, beside = world.beside
    cdef int32_t place, k, picked = 0
    cdef const ReplayBlock* block
    cdef const ReplayEntry* entry
    for place in range(some.blocks):
        if unpicked <= 0:
            break
        block = &some.pool[some.order[place]]
        if not starts_now(unpicked, beside, world.shadow_s - now, block.procs_min, block.length_min):
            continue
        for k in range(block.count):
            entry = &block.entry[k]
            if starts_now(unpicked, beside, world.shadow_s - now, entry.procs, entry.length) and entry.tie != head:
                world.line[picked] = entry.tie
                picked += 1
                unpicked -= entry.procs
                if entry.length > world.shadow_s - now:
                    beside -= entry.procs
    for k in range(picked):
        backfill_one(world, world.line[k], now)


cdef void look(ReplayWorld* world, int64_t now) noexcept nogil:
    """Runs one pass over all waiting jobs."""
    cdef ReplayEntry* first
    cdef int32_t j
    while world.heads.count > 0:
        first = first_of(&world.heads)
        j = first.tie
        if first.procs > world.free:
            if world.backfill == EASY:
                reserve(world, first.procs)
                if world.heads.count > 1:
                    backfill(world, j, now)
            world.clean = True
            return
        dequeue(world, j)
        start(world, j, now)


cdef void look_at(ReplayWorld* world, int32_t j, int64_t now) noexcept nogil:
    """Runs a pass after the submission of one job."""
    cdef ReplayJob* job = &world.job[j]
    if not world.clean or first_of(&world.heads).tie == j:
        look(world, now)
    elif world.backfill == EASY and starts_now(
        world.free, world.beside, world.shadow_s - now, job.procs, job.estimate_s
    ):
        backfill_one(world, j, now)


# -- conservative

cdef void begin(ReplayWorld* world, int64_t now) noexcept nogil:
    """Starts the jobs whose reserved time has come."""
    while first_key(&world.planned) <= now:
        start(world, pop(&world.planned).tie, now)


cdef void plan(ReplayWorld* world, int64_t now, bint ended) noexcept nogil:
    """Reserves for jobs without a reservation; after an end, checks for each job whether it can start earlier.

    Where nothing was returned to the profile since all were checked, no job can: a job that ends when expected returns
    nothing.
    """
    cdef int64_t k, found, kept = 0
    cdef int32_t j
    cdef ReplayJob* job
    cdef ReplayProfile* profile = &world.profile
    forget(profile, now)
    switch_bounds(&profile.bounds, world.line_end >= BOUNDS_FROM)
    if ended and world.freed:
        world.freed = False
    else:
        kept = world.line_planned
    for k in range(kept, world.line_end):
        j = world.line[k]
        job = &world.job[j]
        if job.number >= 0:  # started
            continue
        world.line[kept] = j
        kept += 1
        found = earliest(profile, job.procs, job.estimate_s, job.planned_s)
        if found == job.planned_s:
            continue
        if job.planned_s == NEVER:
            add(profile, found, found + job.estimate_s, -job.procs)
        else:
            move(profile, job.planned_s, found, job.estimate_s, job.procs)
            world.freed = True
            remove(&world.planned, job.planned_s, j)
        insert(&world.planned, found, j, job.procs, job.estimate_s)
        job.planned_s = found
    world.line_end = kept
    world.line_planned = kept
    begin(world, now)


# -- the two orders of events

cdef void submitted(ReplayWorld* world, int32_t j, int64_t now, bint must_fit) noexcept nogil:
    """Handles a submission and its pass (mode EVENT)."""
    submit(world, j)
    if world.backfill == CONSERVATIVE:
        plan(world, now, False)
    elif world.job[j].procs <= world.free or not must_fit:
        look_at(world, j, now)


cdef void ended(ReplayWorld* world, int64_t now) noexcept nogil:
    """Handles an end and its pass (mode EVENT)."""
    end(world, now)
    if world.backfill == CONSERVATIVE:
        plan(world, now, True)
    else:
        look(world, now)


cdef int32_t together(ReplayWorld* world, int32_t next_job, int64_t now) noexcept nogil:
    """Handles all events of one time, and one pass (mode BATCH). Returns the next job to be submitted."""
    cdef int32_t first = next_job
    cdef bint has_ended = first_key(&world.ends) == now
    while first_key(&world.ends) == now:
        end(world, now)
    while first_key(&world.outlived) == now:
        correct(world)
    while next_job < world.jobs and world.job[next_job].submit_s == now:
        submit(world, next_job)
        next_job += 1
    if world.backfill == CONSERVATIVE:
        plan(world, now, has_ended)
    elif next_job == first + 1 and not has_ended:
        look_at(world, first, now)
    elif next_job > first or has_ended:
        if next_job > first:
            world.clean = False
        look(world, now)
    return next_job


cdef void run(ReplayWorld* world, int32_t mode, bint must_fit) noexcept nogil:
    cdef int32_t next_job = 0
    cdef int64_t now, submit_s
    while True:
        submit_s = world.job[next_job].submit_s if next_job < world.jobs else NEVER
        now = min(min(first_key(&world.outlived), submit_s), min(first_key(&world.ends), first_key(&world.planned)))
        if now == NEVER:
            return
        release(world, now)
        begin(world, now)
        if mode != EVENT:
            next_job = together(world, next_job, now)
        elif first_key(&world.outlived) == now:
            correct(world)
        elif submit_s == now:
            submitted(world, next_job, now, must_fit)
            next_job += 1
        elif first_key(&world.ends) == now:
            ended(world, now)


cdef bint open_world(
    ReplayWorld* world, int64_t users, int64_t kinds, int32_t widest, int64_t longest_s
) noexcept nogil:
    """Allocates all memory of the run; False when there is not enough."""
    cdef int64_t n = world.jobs, queued = 0, planned = 0
    if world.backfill == CONSERVATIVE:
        planned = n
    else:
        queued = n
    world.job = <ReplayJob*> calloc(n + 1, sizeof(ReplayJob))
    world.history = <ReplayHistory*> calloc(users + 1, sizeof(ReplayHistory))
    if kinds > 0:
        world.alike = <ReplayHistory*> calloc(kinds, sizeof(ReplayHistory))
    world.started = <int32_t*> malloc((n + 1) * sizeof(int32_t))
    world.line = <int32_t*> malloc((n + 1) * sizeof(int32_t))
    return (
        world.job != NULL and world.history != NULL and world.started != NULL and world.line != NULL
        and (kinds == 0 or world.alike != NULL) and blocks_open(&world.heads, queued) and blocks_open(&world.candidates, queued if world.two_orders else 0)
        and blocks_open(&world.expected, queued) and blocks_open(&world.ends, n)
        and blocks_open(&world.outlived, queued) and blocks_open(&world.planned, planned)
        and profile_open(&world.profile, planned, <int32_t> world.free, widest, longest_s)
    )


cdef void close_world(ReplayWorld* world) noexcept nogil:
    free(world.job)
    free(world.history)
    free(world.alike)
    free(world.started)
    free(world.line)
    profile_close(&world.profile)
    blocks_close(&world.heads)
    blocks_close(&world.candidates)
    blocks_close(&world.expected)
    blocks_close(&world.ends)
    blocks_close(&world.outlived)
    blocks_close(&world.planned)


def kinds_of(policy, user, estimate_s, procs):
    """Numbers each user, estimate and processors; does nothing if no predictor uses that."""
    if words.SIMILAR not in (policy.predictor, policy.ranker) or not len(user):
        return np.empty(0, dtype=np.int32)
    number = np.zeros(len(user), dtype=np.int64)
    for column in (user, estimate_s, procs):
        _, value = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (value.max() + 1) + value, return_inverse=True)
    return number.astype(np.int32)


def replay(submit_s, run_s, estimate_s, procs, user, processors, policy, mode):
    """replay_reference.replay, compiled. Raises MemoryError when there is not enough memory."""
    words.refuse(submit_s, run_s, estimate_s, procs, user, processors, policy, mode)
    cdef int64_t n = len(submit_s), j
    cdef const int64_t[::1] submits = np.ascontiguousarray(submit_s, dtype=np.int64)
    cdef const int64_t[::1] runs = np.ascontiguousarray(run_s, dtype=np.int64)
    cdef const int64_t[::1] estimates = np.ascontiguousarray(estimate_s, dtype=np.int64)
    cdef const int32_t[::1] widths = np.ascontiguousarray(procs, dtype=np.int32)
    cdef const int32_t[::1] users = np.ascontiguousarray(user, dtype=np.int32)
    cdef int64_t users_n = int(np.max(user, initial=-1)) + 1
    cdef const int32_t[::1] kinds = kinds_of(policy, user, estimate_s, procs)
    cdef int64_t kinds_n = int(np.max(kinds, initial=-1)) + 1
    cdef int64_t longest_s = int(np.max(estimate_s, initial=1))
    cdef int32_t widest = int(np.max(procs, initial=1))
    cdef int32_t mode_number = mode
    cdef bint must_fit = policy.submit_must_fit
    start_s = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] starts = start_s
    cdef ReplayWorld world
    memset(&world, 0, sizeof(ReplayWorld))
    world.jobs = n
    world.free = processors
    world.order, world.backfill, world.candidate_order, world.predictor, world.ranker = policy[:5]
    world.aged_factor, world.aged_max_s = policy.aged_factor, policy.aged_max_s
    world.two_orders = world.backfill == EASY and world.order != world.candidate_order
    try:
        if not open_world(&world, users_n, kinds_n, widest, longest_s):
            raise MemoryError(f"no memory to replay {n} jobs")
        with nogil:
            for j in range(n):
                world.job[j].submit_s = submits[j]
                world.job[j].run_s = runs[j]
                world.job[j].request_s = estimates[j]
                world.job[j].procs = widths[j]
                world.job[j].user = users[j]
                world.job[j].alike = kinds[j] if kinds_n > 0 else 0
                world.job[j].planned_s = NEVER
                world.job[j].number = -1
            run(&world, mode_number, must_fit)
            for j in range(n):
                starts[j] = world.job[j].start_s
    finally:
        close_world(&world)
    return start_s
