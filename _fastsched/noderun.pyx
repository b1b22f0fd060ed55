"""The node run, compiled. The rules are in noderun_contract.py; this page says only what makes it fast, and changes no answer.

- Jobs of one request are a shape. Of each shape with waiting jobs it is known how many nodes can take a task of it now, and
  how many tasks there is room for; a change of a node updates both. So a pass asks the nodes only for shapes that may fit.
- Within a pass, and until a job ends, resources only become fewer: a shape that did not fit is not tried again before.
- Nothing that was refused fits later because time goes on: the reservation of the head only comes nearer. While no job has
  ended (`clean`), a submission makes a pass look at that job alone. Orders that change with time have no such passes.
- Who waits is sorted within each shape; the first of all shapes is the first of the queue.
"""

from libc.math cimport log2, log10
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove, memset

import numpy as np

from _fastsched import noderun_contract as contract
from _fastsched import replay_contract as words
from _fastsched.noderun_contract import NodeRun
from _fastsched.noderunner.choose cimport choose, takes, tasks_on
from _fastsched.noderunner.ends cimport expect, forget, pop_end, push_end
from _fastsched.noderunner.queues cimport entry_before, queue_find, queue_insert, queue_take
from _fastsched.noderunner.records cimport (
    RunAmount, RunChoice, RunEnd, RunEntry, RunHistory, RunJob, RunPart, RunQueue, RunShape, RunWorld,
)

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF
cdef int32_t SHORTEST = words.SHORTEST
cdef int32_t SMALLEST = words.SMALLEST
cdef int32_t SMALLEST_AREA = words.SMALLEST_AREA
cdef int32_t AGED = words.AGED
cdef int32_t WFP3 = contract.WFP3
cdef int32_t UNICEP = contract.UNICEP
cdef int32_t F1 = contract.F1
cdef int32_t EASY = words.EASY
cdef int32_t GIVEN = words.GIVEN
cdef int32_t SIMILAR = words.SIMILAR
cdef double F1_WEIGHT = contract.F1_WEIGHT
cdef double LOG2_OF_ONE = contract.LOG2_OF_ONE
cdef double SUBMIT_S_MIN = contract.SUBMIT_S_MIN


# -- orders

cdef double key_of(const RunWorld* world, int32_t order, const RunJob* job, int64_t now) noexcept nogil:
    """Rule 7."""
    cdef double r = <double> job.rank_s, n = <double> world.shape[job.shape].ntasks, share
    if order == SHORTEST:
        return r
    if order == SMALLEST:
        return n
    if order == SMALLEST_AREA:
        return r * n
    if order == AGED:
        if job.rank_s > world.aged_max_s and world.aged_factor > 0:
            return <double> (job.submit_s + world.aged_max_s)
        return <double> (job.submit_s + min(world.aged_max_s, world.aged_factor * job.rank_s))
    if order == WFP3:
        share = (<double> now - <double> job.submit_s) / r
        return -(share * share * share * n)
    if order == UNICEP:
        return -(<double> now - <double> job.submit_s) / ((log2(n) if n > 1 else LOG2_OF_ONE) * r)
    if order == F1:
        return log10(r) * n + F1_WEIGHT * log10(max(<double> job.submit_s, SUBMIT_S_MIN))
    return 0.0


cdef int64_t predict(const RunWorld* world, const RunJob* job) noexcept nogil:
    cdef const RunHistory* history = &world.history[job.user]
    if world.ranker == SIMILAR and world.alike[job.alike].jobs >= 2:
        history = &world.alike[job.alike]
    if world.ranker != GIVEN and history.jobs >= 2:
        return max(<int64_t> 1, min(job.estimate_s, (history.last_s + history.last_but_one_s) // 2))
    return job.estimate_s


cdef void learn(RunHistory* history, int64_t run_s) noexcept nogil:
    history.last_but_one_s = history.last_s
    history.last_s = run_s
    history.jobs += 1


cdef void queue_sort(const RunWorld* world, RunQueue* queue, int32_t order, int64_t now) noexcept nogil:
    """By the keys of this moment; a queue is nearly sorted by those of the last."""
    cdef int64_t k, place
    cdef RunEntry moved
    for k in range(queue.first, queue.end):
        queue.entry[k].key = key_of(world, order, &world.job[queue.entry[k].job], now)
    for k in range(queue.first + 1, queue.end):
        moved = queue.entry[k]
        place = k
        while place > queue.first and not entry_before(&queue.entry[place - 1], moved.key, moved.job):
            queue.entry[place] = queue.entry[place - 1]
            place -= 1
        queue.entry[place] = moved


# -- what is free

cdef inline void count_node(RunWorld* world, int32_t node, int32_t sign) noexcept nogil:
    """Adds or removes what a node has room for, for all shapes that wait."""
    cdef int32_t k, tasks
    cdef RunShape* shape
    for k in range(world.waiting_shapes):
        shape = &world.shape[world.waiting_shape[k]]
        tasks = tasks_on(world, shape, node, &world.now[node])
        if tasks > 0:
            shape.fitting += sign
            shape.sum += sign * tasks


cdef inline void change(RunAmount* room, const RunAmount* by, int32_t sign) noexcept nogil:
    room.cpus += sign * by.cpus
    room.gpus += sign * by.gpus
    room.mem_mb += sign * by.mem_mb


cdef void move(RunWorld* world, const RunPart* part, int32_t sign) noexcept nogil:
    count_node(world, part.node, -1)
    change(&world.now[part.node], &part.amount, sign)
    count_node(world, part.node, 1)


cdef inline bint possible(const RunWorld* world, const RunShape* shape) noexcept nogil:
    return shape.failed != world.epoch and shape.fitting >= shape.nodes_min and shape.sum >= shape.ntasks


# -- what happens

cdef void enqueue(RunWorld* world, int32_t j, int64_t now) noexcept nogil:
    cdef RunJob* job = &world.job[j]
    cdef RunShape* shape = &world.shape[job.shape]
    cdef int32_t node, tasks
    job.rank_s = 0 if job.urgent else predict(world, job)
    if shape.place < 0:
        shape.place = world.waiting_shapes
        world.waiting_shape[world.waiting_shapes] = job.shape
        world.waiting_shapes += 1
        shape.fitting = 0
        shape.sum = 0
        shape.length_min = NEVER
        for node in range(world.nodes):
            tasks = tasks_on(world, shape, node, &world.now[node])
            if tasks > 0:
                shape.fitting += 1
                shape.sum += tasks
    shape.length_min = min(shape.length_min, job.estimate_s)
    world.waiting += 1
    if not queue_insert(&shape.heads, key_of(world, world.order, job, now), j, job.estimate_s):
        world.has_room = False
    elif world.two_orders and not queue_insert(
        &shape.candidates, key_of(world, world.candidate_order, job, now), j, job.estimate_s
    ):
        world.has_room = False


cdef void dequeue(RunWorld* world, int32_t j) noexcept nogil:
    cdef RunJob* job = &world.job[j]
    cdef RunShape* shape = &world.shape[job.shape]
    cdef int32_t last
    queue_take(&shape.heads, queue_find(&shape.heads, j, key_of(world, world.order, job, 0), world.changing))
    if world.two_orders:
        queue_take(
            &shape.candidates,
            queue_find(&shape.candidates, j, key_of(world, world.candidate_order, job, 0), world.changing),
        )
    world.waiting -= 1
    if shape.heads.first == shape.heads.end:
        world.waiting_shapes -= 1
        last = world.waiting_shape[world.waiting_shapes]
        world.waiting_shape[shape.place] = last
        world.shape[last].place = shape.place
        shape.place = -1


cdef bint parts_room(RunWorld* world, int64_t more) noexcept nogil:
    cdef RunPart* grown
    if world.parts_n + more <= world.parts_room:
        return True
    grown = <RunPart*> realloc(world.parts, (2 * world.parts_room + more) * sizeof(RunPart))
    if grown == NULL:
        return False
    world.parts = grown
    world.parts_room = 2 * world.parts_room + more
    return True


cdef void start(RunWorld* world, int32_t j, int64_t now, bint outlasts) noexcept nogil:
    """Starts a job of the queue on the chosen nodes. `outlasts`: it still runs when the head is to start."""
    cdef RunJob* job = &world.job[j]
    cdef RunPart* part
    cdef RunEnd end
    cdef int32_t k
    dequeue(world, j)
    if not parts_room(world, world.chosen):
        world.has_room = False
        return
    job.start_s = now
    job.number = world.starts
    job.part = world.parts_n
    job.parts = world.chosen
    world.starts += 1
    for k in range(world.chosen):
        part = &world.parts[world.parts_n]
        world.parts_n += 1
        part.node = world.choice[k].node
        part.amount = takes(world, &world.shape[job.shape], part.node, world.choice[k].tasks)
        if outlasts and world.reserved[part.node]:
            change(&world.later[part.node], &part.amount, -1)
        move(world, part, -1)
    end.at_s = now + job.run_s
    end.number = job.number
    end.job = j
    push_end(world, end)
    expect(world, j)


cdef void end_first(RunWorld* world) noexcept nogil:
    cdef int32_t j = pop_end(world), k
    cdef RunJob* job = &world.job[j]
    forget(world, j)
    for k in range(job.parts):
        move(world, &world.parts[job.part + k], 1)
    learn(&world.history[job.user], job.run_s)
    learn(&world.alike[job.alike], job.run_s)
    world.epoch += 1
    world.clean = False


# -- passes

cdef int32_t first_head(const RunWorld* world) noexcept nogil:
    """The first job of the queue."""
    cdef int32_t k
    cdef const RunEntry* found = NULL
    cdef const RunEntry* entry
    cdef const RunQueue* queue
    for k in range(world.waiting_shapes):
        queue = &world.shape[world.waiting_shape[k]].heads
        entry = &queue.entry[queue.first]
        if found == NULL or entry_before(entry, found.key, found.job):
            found = entry
    return found.job


cdef bint try_start(RunWorld* world, int32_t j, int64_t now, bint outlasts) noexcept nogil:
    """Starts a job if its nodes are free; else notes that its shape does not fit."""
    cdef RunShape* shape = &world.shape[world.job[j].shape]
    if choose(world, shape, world.now, outlasts):
        start(world, j, now, outlasts)
        return True
    if not outlasts:
        shape.failed = world.epoch
    return False


cdef void reserve(RunWorld* world, int32_t j, int64_t now) noexcept nogil:
    """Rule 5: nodes for the head, at the earliest expected end at which it fits."""
    cdef const RunShape* shape = &world.shape[world.job[j].shape]
    cdef int64_t place = world.expected_first, at_s = now + 1, sum = shape.sum
    cdef int32_t k, tasks, fitting = shape.fitting
    cdef const RunJob* job
    cdef const RunPart* part
    cdef RunAmount taken
    for k in range(world.head_nodes):
        world.reserved[world.head_node[k]] = 0
    world.head_nodes = 0
    memcpy(world.later, world.now, world.nodes * sizeof(RunAmount))
    while place < world.expected_end:
        at_s = max(world.expected[place].at_s, now + 1)
        while place < world.expected_end and world.expected[place].at_s <= at_s:
            job = &world.job[world.expected[place].job]
            for k in range(job.parts):
                part = &world.parts[job.part + k]
                tasks = tasks_on(world, shape, part.node, &world.later[part.node])
                fitting -= tasks > 0
                sum -= tasks
                change(&world.later[part.node], &part.amount, 1)
                tasks = tasks_on(world, shape, part.node, &world.later[part.node])
                fitting += tasks > 0
                sum += tasks
            place += 1
        if fitting >= shape.nodes_min and sum >= shape.ntasks and choose(world, shape, world.later, False):
            break
    world.shadow_s = at_s
    world.head = j
    for k in range(world.chosen):
        world.head_node[k] = world.choice[k].node
        world.reserved[world.choice[k].node] = 1
        taken = takes(world, shape, world.choice[k].node, world.choice[k].tasks)
        change(&world.later[world.choice[k].node], &taken, -1)
    world.head_nodes = world.chosen


cdef inline RunQueue* candidates_of(const RunWorld* world, RunShape* shape) noexcept nogil:
    return &shape.candidates if world.two_orders else &shape.heads


cdef const RunEntry* next_candidate(const RunWorld* world, RunShape* shape, int64_t window_s) noexcept nogil:
    """The next job of a shape that may start beside the head; NULL when there is none."""
    cdef RunQueue* queue = candidates_of(world, shape)
    cdef const RunEntry* entry
    cdef int64_t least = NEVER
    cdef bint whole
    shape.cursor = max(shape.cursor, queue.first)
    if not shape.outlasts and shape.length_min > window_s:
        return NULL
    whole = shape.cursor == queue.first
    while shape.cursor < queue.end:
        entry = &queue.entry[shape.cursor]
        if entry.job != world.head and (shape.outlasts or entry.length <= window_s):
            return entry
        least = min(least, entry.length)
        shape.cursor += 1
    if whole:
        shape.length_min = least
    return NULL


cdef void backfill(RunWorld* world, int64_t now) noexcept nogil:
    """Starts what may pass the head, in the order of candidates."""
    cdef int64_t window_s = world.shadow_s - now
    cdef int32_t k
    cdef RunShape* shape
    cdef RunShape* best
    cdef const RunEntry* entry
    cdef const RunEntry* found
    for k in range(world.waiting_shapes):
        shape = &world.shape[world.waiting_shape[k]]
        shape.cursor = 0
        shape.outlasts = True
    while world.has_room:
        best = NULL
        found = NULL
        for k in range(world.waiting_shapes):
            shape = &world.shape[world.waiting_shape[k]]
            if possible(world, shape):
                entry = next_candidate(world, shape, window_s)
                if entry != NULL and (found == NULL or entry_before(entry, found.key, found.job)):
                    found = entry
                    best = shape
        if found == NULL:
            return
        if found.length > window_s:
            if not try_start(world, found.job, now, True):
                best.outlasts = False
        else:
            try_start(world, found.job, now, False)


cdef void look(RunWorld* world, int64_t now) noexcept nogil:
    """One pass over all that wait."""
    cdef int32_t j, k
    cdef RunShape* shape
    if world.changing:
        for k in range(world.waiting_shapes):
            shape = &world.shape[world.waiting_shape[k]]
            queue_sort(world, &shape.heads, world.order, now)
            if world.two_orders:
                queue_sort(world, &shape.candidates, world.candidate_order, now)
    world.clean = False
    while world.waiting > 0 and world.has_room:
        j = first_head(world)
        if possible(world, &world.shape[world.job[j].shape]) and try_start(world, j, now, False):
            continue
        world.head = j
        if world.backfill == EASY:
            reserve(world, j, now)
            if world.waiting > 1:
                backfill(world, now)
        world.clean = not world.changing
        return


cdef void look_at(RunWorld* world, int32_t j, int64_t now) noexcept nogil:
    """A pass after the submission of one job."""
    cdef const RunShape* shape = &world.shape[world.job[j].shape]
    cdef bint outlasts
    if not world.clean or first_head(world) == j or world.expected[world.expected_first].at_s <= now:
        look(world, now)
    elif world.backfill == EASY and possible(world, shape):
        outlasts = now + world.job[j].estimate_s > world.shadow_s
        try_start(world, j, now, outlasts)


cdef void run(RunWorld* world) noexcept nogil:
    """Rule 4."""
    cdef int32_t next_job = 0, first
    cdef int64_t now, submit_s
    cdef bint ended
    while world.has_room:
        submit_s = world.job[next_job].submit_s if next_job < world.jobs else NEVER
        now = min(submit_s, world.ends[0].at_s if world.ends_n > 0 else NEVER)
        if now == NEVER:
            return
        ended = False
        while world.ends_n > 0 and world.ends[0].at_s == now:
            end_first(world)
            ended = True
        first = next_job
        while next_job < world.jobs and world.job[next_job].submit_s == now:
            enqueue(world, next_job, now)
            next_job += 1
        if not ended and next_job == first + 1:
            look_at(world, first, now)
        elif world.waiting > 0:
            look(world, now)


# -- memory

cdef bint open_world(RunWorld* world, int64_t shapes, int64_t users, int64_t kinds) noexcept nogil:
    """All memory but that of the queues and parts, which grow; False when there is not as much."""
    cdef int64_t n = world.jobs + 1, nodes = world.nodes
    world.job = <RunJob*> calloc(n, sizeof(RunJob))
    world.shape = <RunShape*> calloc(shapes + 1, sizeof(RunShape))
    world.history = <RunHistory*> calloc(users + 1, sizeof(RunHistory))
    world.alike = <RunHistory*> calloc(kinds + 1, sizeof(RunHistory))
    world.total = <RunAmount*> calloc(nodes, sizeof(RunAmount))
    world.now = <RunAmount*> calloc(nodes, sizeof(RunAmount))
    world.later = <RunAmount*> calloc(nodes, sizeof(RunAmount))
    world.quantum = <int32_t*> calloc(nodes, sizeof(int32_t))
    world.reserved = <uint8_t*> calloc(nodes, 1)
    world.head_node = <int32_t*> calloc(nodes, sizeof(int32_t))
    world.choice = <RunChoice*> calloc(nodes, sizeof(RunChoice))
    world.waiting_shape = <int32_t*> calloc(shapes + 1, sizeof(int32_t))
    world.ends = <RunEnd*> calloc(n, sizeof(RunEnd))
    world.expected = <RunEnd*> calloc(2 * n, sizeof(RunEnd))
    return (
        world.job != NULL and world.shape != NULL and world.history != NULL and world.alike != NULL
        and world.total != NULL and world.now != NULL and world.later != NULL and world.quantum != NULL
        and world.reserved != NULL and world.head_node != NULL and world.choice != NULL
        and world.waiting_shape != NULL and world.ends != NULL and world.expected != NULL
    )


cdef void close_world(RunWorld* world, int64_t shapes) noexcept nogil:
    cdef int64_t k
    if world.shape != NULL:
        for k in range(shapes):
            free(world.shape[k].heads.entry)
            free(world.shape[k].candidates.entry)
    free(world.job)
    free(world.shape)
    free(world.history)
    free(world.alike)
    free(world.total)
    free(world.now)
    free(world.later)
    free(world.quantum)
    free(world.reserved)
    free(world.head_node)
    free(world.choice)
    free(world.waiting_shape)
    free(world.parts)
    free(world.ends)
    free(world.expected)


def run_on_nodes(jobs, nodes, policy):
    """noderun_reference.run_on_nodes, compiled. Raises MemoryError when there is not enough of it."""
    cdef int64_t n = len(jobs.submit_s), j, s, shapes_n, kinds_n
    shape_first, shape_of = contract.refuse(jobs, nodes, policy)
    kind_first, kind_of = contract.numbered(jobs.user, jobs.estimate_s, shape_of)
    shapes_n, kinds_n = len(shape_first), len(kind_first)
    cdef const int64_t[:, ::1] shapes = np.ascontiguousarray(
        np.stack([column[shape_first].astype(np.int64) for column in jobs[contract.REQUEST]], axis=1)
    )
    cdef const int64_t[:, ::1] table = np.ascontiguousarray(
        np.stack([column.astype(np.int64) for column in (*jobs[:4], shape_of, kind_of, jobs.urgent)], axis=1)
    )
    cdef const int64_t[:, ::1] machine = np.ascontiguousarray(np.stack([c.astype(np.int64) for c in nodes[:4]], axis=1))
    cdef int64_t users_n = int(jobs.user.max(initial=-1)) + 1
    start_s = np.empty(n, dtype=np.int64)
    first = np.zeros(n + 1, dtype=np.int64)
    cdef int64_t[::1] starts = start_s, firsts = first
    cdef int32_t[::1] names
    cdef int32_t k
    cdef RunWorld world
    memset(&world, 0, sizeof(RunWorld))
    world.jobs, world.nodes, world.kind = n, len(nodes.cpus), nodes.kind
    world.order, world.backfill, world.candidate_order, world.ranker = policy.order, policy.backfill, policy.candidates, policy.ranker
    world.aged_factor, world.aged_max_s = policy.aged_factor, policy.aged_max_s
    world.two_orders = world.backfill == EASY and world.order != world.candidate_order
    world.changing = WFP3 in (world.order, world.candidate_order) or UNICEP in (world.order, world.candidate_order)
    world.head = -1
    world.epoch = 1
    world.has_room = True
    try:
        if not open_world(&world, shapes_n, users_n, kinds_n):
            raise MemoryError(f"no memory to run {n} jobs")
        with nogil:
            for k in range(world.nodes):
                world.total[k].cpus = <int32_t> machine[k, 0]
                world.total[k].mem_mb = machine[k, 1]
                world.total[k].gpus = <int32_t> machine[k, 2]
                world.quantum[k] = <int32_t> machine[k, 3]
                world.now[k] = world.total[k]
            for s in range(shapes_n):
                world.shape[s].ntasks = <int32_t> shapes[s, 0]
                world.shape[s].nodes_min = <int32_t> shapes[s, 1]
                world.shape[s].nodes_max = <int32_t> shapes[s, 2]
                world.shape[s].gpus = <int32_t> shapes[s, 3]
                world.shape[s].mem_node_mb = shapes[s, 4]
                world.shape[s].mem_cpu_mb = shapes[s, 5]
                world.shape[s].place = -1
            for j in range(n):
                world.job[j].submit_s = table[j, 0]
                world.job[j].run_s = table[j, 1]
                world.job[j].estimate_s = table[j, 2]
                world.job[j].user = <int32_t> table[j, 3]
                world.job[j].shape = <int32_t> table[j, 4]
                world.job[j].alike = <int32_t> table[j, 5]
                world.job[j].urgent = table[j, 6] != 0
            run(&world)
        if not world.has_room:
            raise MemoryError(f"no memory to run {n} jobs")
        node = np.empty(world.parts_n, dtype=np.int32)
        names = node
        with nogil:
            for j in range(n):
                starts[j] = world.job[j].start_s
                firsts[j + 1] = firsts[j] + world.job[j].parts
                for k in range(world.job[j].parts):
                    names[firsts[j] + k] = world.parts[world.job[j].part + k].node
    finally:
        close_world(&world, shapes_n)
    return NodeRun(start_s, first, node)
