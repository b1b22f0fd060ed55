"""Prepares a row of the queue for planning: the numbers of contract.Jobs, and what follows from them."""

from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t
from libc.string cimport memset

from _fastsched.planner.basics cimport FOREVER, NEVER, greater, lesser, set_bit, take_lowest_bit
from _fastsched.planner.columns cimport JobInput, ReservationInput
from _fastsched.planner.memory cimport allocate, allocate_zeroed
from _fastsched.planner.timeline cimport rounded_up


cdef const int32_t* needed_counts(PlanPass* plan, const int32_t* asked, int32_t kinds, bint* any) except NULL nogil:
    """Returns the same counts, with "any" where nothing is requested; a shared list where nothing is requested at all."""
    cdef int32_t kind
    cdef int32_t* made
    any[0] = False
    for kind in range(kinds):
        if asked[kind]:
            any[0] = True
    if not any[0]:
        return plan.scratch.nothing_needed
    made = <int32_t*> allocate(&plan.arena, 4 * <size_t> kinds)
    for kind in range(kinds):
        made[kind] = asked[kind] if asked[kind] else INT32_MIN
    return made


cdef bint makes_sense(const PlanPass* plan, const PendingJob* job) noexcept nogil:
    """Checks validity by the last paragraph of contract.py: an invalid row can run nowhere."""
    cdef const int32_t* licenses = plan.input.jobs.licenses + job.row * plan.counts.license_kinds
    cdef int32_t kind
    for kind in range(plan.counts.gres_kinds):
        if job.gres[kind] < 0:
            return False
    for kind in range(plan.counts.license_kinds):
        if licenses[kind] < 0:
            return False
    return (
        1 <= job.nodes_min <= job.nodes_max
        and job.nodes_min <= job.ntasks
        and job.cpus_per_task >= 1
        and job.cpu_units >= 1
        and plan.input.jobs.ntasks_per_node[job.row] >= 0
        and 1 <= job.length_s <= job.limit_s <= FOREVER
        and 0 <= job.exclusive <= 5
        and job.exclusive != 3
        and job.order_kind <= 2
        and job.switches_max >= 0
        and job.segment >= 0
        and (job.segment == 0 or (job.nodes_min % job.segment == 0 and job.group < 0))
    )


cdef const uint64_t* mask_by_rank(PlanPass* plan, int32_t mask) except NULL nogil:
    """Returns a set of nodes by rank."""
    cdef const uint64_t* words = plan.input.masks + <int64_t> mask * plan.counts.mask_words
    cdef uint64_t* made
    cdef uint64_t bits
    cdef int32_t word
    if plan.cluster.masks[mask] == NULL:
        made = <uint64_t*> allocate_zeroed(&plan.arena, 8 * (<size_t> plan.counts.mask_words + 1))
        for word in range(plan.counts.mask_words):
            bits = words[word]
            if (word << 6) + 64 > plan.counts.nodes:
                bits &= (<uint64_t> 1 << (plan.counts.nodes & 63)) - 1 if plan.counts.nodes & 63 else bits
            if plan.cluster.in_index_order:
                made[word] = bits
                continue
            while bits:
                set_bit(made, plan.cluster.rank_of[(word << 6) + take_lowest_bit(&bits)])
        plan.cluster.masks[mask] = made
    return plan.cluster.masks[mask]


cdef int load_group_masks(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Called before memory is marked: masks outlive a rewind."""
    cdef int32_t entry
    if job.group >= 0:
        for entry in range(plan.input.group_first[job.group], plan.input.group_first[job.group + 1]):
            mask_by_rank(plan, plan.input.group_mask[entry])
    return 0


cdef int limit_to_reservation(PlanPass* plan, PendingJob* job) except -1 nogil:
    """Applies rule 5: only the reservation's nodes and time."""
    cdef const ReservationInput* given = &plan.input.reservations
    cdef const uint64_t* inside = mask_by_rank(plan, given.resv_mask[job.reservation])
    cdef uint64_t* mask = <uint64_t*> allocate(&plan.arena, 8 * (<size_t> plan.counts.mask_words + 1))
    cdef int64_t from_s = given.resv_from_s[job.reservation]
    cdef int32_t word
    for word in range(plan.counts.mask_words):
        mask[word] = job.mask[word] & inside[word]
    job.mask = mask
    job.not_begun = from_s > plan.limits.now_s
    job.first_s = greater(job.first_s, from_s)
    job.resv_to_s = lesser(given.resv_to_s[job.reservation], NEVER)
    return 0


cdef int32_t count_nodes(const PlanPass* plan, const PendingJob* job, int32_t enough) noexcept nogil:
    """Counts the nodes that the job may have, up to `enough`."""
    cdef int32_t word, count = 0
    cdef uint64_t bits
    for word in range(plan.counts.mask_words):
        bits = job.mask[word]
        while bits:
            if count == enough:
                return count
            take_lowest_bit(&bits)
            count += 1
    return count


cdef void set_task_limits(PlanPass* plan, PendingJob* job) noexcept nogil:
    """Computes by rule 1 how many tasks a node of a set must hold, and may."""
    cdef int32_t per_node = plan.input.jobs.ntasks_per_node[job.row]
    cdef int32_t nodes_asked
    cdef int64_t rest
    nodes_asked = job.nodes_max
    job.nodes_max = min(nodes_asked, job.ntasks)
    if job.nodes_max > job.nodes_min:  # where few nodes are allowed, each has to hold more
        job.nodes_max = max(job.nodes_min, count_nodes(plan, job, job.nodes_max))
    if job.segment > 0:
        job.nodes_max = job.nodes_min
    job.any_nodes = job.nodes_min == 1 and per_node == 0 and (nodes_asked >= job.ntasks or job.nodes_max < nodes_asked)
    job.tasks_max = job.ntasks - job.nodes_min + 1
    if 0 < per_node < job.tasks_max:
        job.tasks_max = per_node
    job.tasks_min = job.ntasks if job.nodes_max == 1 else 1
    # Even if all others of the largest set held `tasks_max`, this one would have to hold the rest.
    rest = job.ntasks - <int64_t> (job.nodes_max - 1) * job.tasks_max
    job.tasks_floor = <int32_t> greater(job.tasks_min, rest) if rest <= INT32_MAX else INT32_MAX
    job.impossible = job.tasks_floor > job.tasks_max
    job.topology = plan.counts.switch_levels > 0 and job.nodes_max > 1
    job.not_monotonic = job.group >= 0 or (job.topology and (job.segment > 0 or job.switches_max > 0))


cdef void set_times(PlanPass* plan, PendingJob* job) noexcept nogil:
    """Computes by rule 0 when it may start."""
    cdef int64_t latest_s = plan.input.jobs.latest_s[job.row]
    job.first_s = greater(job.first_s, plan.input.jobs.earliest_s[job.row])
    if job.first_s > plan.limits.now_s:
        job.first_s = rounded_up(lesser(job.first_s, NEVER), plan.limits.resolution_s)
    job.deadline_in_window = latest_s < lesser(plan.limits.window_end_s, FOREVER)
    job.last_s = lesser(lesser(job.last_s, latest_s), job.resv_to_s - job.length_s)


cdef int load_row(PlanPass* plan, PendingJob* job, int64_t row) except -1 nogil:
    """Loads one row."""
    cdef const JobInput* given = &plan.input.jobs
    cdef const int32_t* licenses = given.licenses + row * plan.counts.license_kinds
    cdef bint any
    memset(job, 0, sizeof(PendingJob))
    job.generation = -1
    job.row = row
    job.nodes_min = given.nodes_min[row]
    job.nodes_max = given.nodes_max[row]
    job.ntasks = given.ntasks[row]
    job.cpus_per_task = given.cpus_per_task[row]
    job.mem_node_mb = greater(given.mem_node_mb[row], -1)
    job.mem_cpu_mb = greater(given.mem_cpu_mb[row], -1)
    job.gres = given.gres + row * plan.counts.gres_kinds
    job.exclusive = given.exclusive[row]
    job.user = given.user[row]
    job.cpu_units = given.cpu_units[row]
    job.order_kind = given.order_kind[row]
    job.group = given.group[row]
    job.segment = given.segment[row]
    job.switches_max = given.switches_max[row]
    job.spread = given.spread[row] != 0
    job.reserve = given.reserve[row] != 0
    job.limit_s = given.limit_s[row]
    job.length_s = given.limit_min_s[row]
    job.preempts = given.preempts[row]
    job.reservation = given.resv[row]
    job.mask = mask_by_rank(plan, given.mask[row])
    job.frequent_mask = given.mask[row] if plan.shapes.is_frequent[given.mask[row]] else -1
    job.resv_to_s = NEVER
    job.first_s = plan.limits.now_s
    job.last_s = plan.limits.last_start_s
    if job.reservation >= 0 and not plan.input.reservations.resv_flex[job.reservation]:
        limit_to_reservation(plan, job)
    job.makes_sense = makes_sense(plan, job)
    if not job.makes_sense:
        return 0
    set_task_limits(plan, job)
    set_times(plan, job)
    job.gres_needed = needed_counts(plan, job.gres, plan.counts.gres_kinds, &any)
    job.licenses_needed = needed_counts(plan, licenses, plan.counts.license_kinds, &any)
    job.licenses = licenses if any else NULL
    return 0
