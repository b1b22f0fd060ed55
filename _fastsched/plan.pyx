"""The planner, compiled. The rules are in reference.py; this page says only what makes it fast, and changes no answer.

- All deciding happens in one `with nogil` block on C arrays: working copies of what is free, bit sets of nodes, one
  list of candidates. Nothing is allocated inside and nothing is kept between calls.
- Three bit sets shrink as the pass goes on: `up`; `unheld` = up nodes that no waiting row holds; `usable` = unheld
  nodes that are not full. A row whose mask meets no usable node is refused by a few word operations.
- Candidates are found lazily, in node_order, and only as many as the row needs: most rows that start look at a few
  nodes.
- The copies of one row share the list: after a start only the nodes just used are measured again, so that an array of n
  tasks costs about n steps and not n searches. This is right because within a row nothing else changes what a node can
  hold.
- Refusal asks the same search about empty nodes. Its answer does not change during a pass, and a refused row with a
  hold leaves no usable node in its mask, so a row of the same shape as the last refused one takes that answer over.

No overflow: tasks are bounded by ntasks (int32), sums are int64, and memory is divided before it is multiplied.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

from _fastsched import contract

cdef uint8_t NOT_TESTED = contract.NOT_TESTED
cdef uint8_t STARTED = contract.STARTED
cdef uint8_t RESOURCES = contract.RESOURCES
cdef uint8_t PRIORITY = contract.PRIORITY
cdef uint8_t NODES_DOWN = contract.NODES_DOWN
cdef uint8_t BAD_CONSTRAINTS = contract.BAD_CONSTRAINTS

include "search.pxi"


cdef struct Out:
    int64_t starts_max
    int64_t placements_max
    int64_t starts
    int64_t placements
    bint full  # one of the two limits ended the pass
    int32_t* job
    int32_t* node_first
    int32_t* node
    int32_t* cpus
    int32_t* tasks
    int64_t* mem_mb


cdef void place(Search* search, const Job* job, Nodes* nodes, int32_t used, int64_t row, Out* out) noexcept nogil:
    """Rule 3: record the start and take what it uses."""
    cdef int64_t rest = job.ntasks, tasks, offset
    cdef int32_t k, kind, node, cpus
    for k in range(used):
        node = search.node[search.picked[k]]
        offset = <int64_t> node * nodes.kinds
        tasks = min(<int64_t> search.tasks[search.picked[k]], rest - (used - 1 - k))
        rest -= tasks
        cpus = nodes.total_cpus[node] if job.exclusive else <int32_t> (tasks * job.cpus_per_task)
        out.node[out.placements] = node
        out.cpus[out.placements] = cpus
        out.tasks[out.placements] = <int32_t> tasks
        out.mem_mb[out.placements] = mem_taken(job, nodes.total_mem_mb[node], tasks)
        nodes.free_cpus[node] -= cpus
        nodes.free_mem_mb[node] -= out.mem_mb[out.placements]
        for kind in range(nodes.kinds):
            nodes.free_gres[offset + kind] -= job.gres[kind]
        if job.exclusive or nodes.free_cpus[node] <= 0:
            put(nodes.usable, node, False)
        out.placements += 1
    out.job[out.starts] = <int32_t> row
    out.starts += 1
    out.node_first[out.starts] = <int32_t> out.placements


cdef void measure_again(Search* search, const Job* job, const Nodes* nodes, int32_t used) noexcept nogil:
    """After a start: bring the used entries up to date and drop the useless ones, keeping the order."""
    cdef int32_t k, node, entry, end = search.picked[used - 1] + 1, keep
    for k in range(used):
        node = search.node[search.picked[k]]
        search.tasks[search.picked[k]] = tasks_on(job, nodes, NOW, node) if in_set(nodes.usable, node) else 0
    keep = end
    for entry in range(end - 1, search.first - 1, -1):
        if search.tasks[entry]:
            keep -= 1
            search.node[keep] = search.node[entry]
            search.tasks[keep] = search.tasks[entry]
    search.first = keep


cdef uint8_t refuse(Search* search, const Job* job, Nodes* nodes) noexcept nogil:
    """Rule 4: the reason of a job that does not fit now, and its hold."""
    cdef int32_t word
    cdef uint64_t some_open = 0
    if not (begin(search, job, nodes, EMPTY_UP) and choose(search, job, nodes)):
        if begin(search, job, nodes, EMPTY_ALL) and choose(search, job, nodes):
            return NODES_DOWN
        return BAD_CONSTRAINTS
    for word in range(nodes.words):
        some_open |= nodes.unheld[word] & job.mask[word]
        nodes.unheld[word] &= ~job.mask[word]
        nodes.usable[word] &= ~job.mask[word]
    return RESOURCES if some_open else PRIORITY


cdef bint all_held(const Nodes* nodes) noexcept nogil:
    cdef int32_t word
    for word in range(nodes.words):
        if nodes.unheld[word]:
            return False
    return True


cdef uint8_t start_copies(
    Search* search, const Job* job, Nodes* nodes, int32_t count, int64_t row, Out* out
) noexcept nogil:
    """Start as many copies as fit; the reason of the copy that stopped, or STARTED."""
    cdef int32_t copy, used
    cdef bint some = begin(search, job, nodes, NOW)
    for copy in range(count):
        if out.starts >= out.starts_max:
            return NOT_TESTED
        used = choose(search, job, nodes) if some else 0
        if used == 0:
            return refuse(search, job, nodes)
        if out.placements + used > out.placements_max:
            out.full = True
            return NOT_TESTED
        place(search, job, nodes, used, row, out)
        measure_again(search, job, nodes, used)
    return STARTED


cdef void run_pass(
    Search* search, const Jobs* jobs, Nodes* nodes, const uint64_t* masks, int64_t rows, uint8_t* reason, Out* out
) noexcept nogil:
    cdef Job job
    cdef int64_t row, refused = -1
    cdef bint holding = False
    for row in range(rows):
        if out.full or out.starts >= out.starts_max:
            return
        if jobs.count[row] <= 0:
            continue
        if holding and all_held(nodes):
            reason[row] = PRIORITY
            continue
        if refused >= 0 and same_shape(jobs, nodes.kinds, refused, row):
            reason[row] = PRIORITY if reason[refused] == RESOURCES else reason[refused]
            continue
        if not load(&job, jobs, nodes, masks, row):
            reason[row] = BAD_CONSTRAINTS
            continue
        reason[row] = start_copies(search, &job, nodes, jobs.count[row], row, out)
        if reason[row] != STARTED:
            refused = row
        if reason[row] == RESOURCES:
            holding = True


def plan(
    const int32_t[::1] free_cpus,
    const int64_t[::1] free_mem_mb,
    const int32_t[:, ::1] free_gres,
    const int32_t[::1] total_cpus,
    const int64_t[::1] total_mem_mb,
    const int32_t[:, ::1] total_gres,
    const int32_t[::1] running_jobs,
    const uint8_t[::1] held_exclusive,
    const int32_t[::1] node_order,
    const uint8_t[::1] up,
    const uint64_t[:, ::1] masks,
    const int32_t[::1] job_mask,
    const int32_t[::1] nodes_min,
    const int32_t[::1] nodes_max,
    const int32_t[::1] ntasks,
    const int32_t[::1] cpus_per_task,
    const int32_t[::1] ntasks_per_node,
    const int64_t[::1] mem_node_mb,
    const int64_t[::1] mem_cpu_mb,
    const int32_t[:, ::1] gres,
    const uint8_t[::1] exclusive,
    const int32_t[::1] count,
    int64_t starts_max,
):
    contract.check(dict(
        free_cpus=free_cpus, free_mem_mb=free_mem_mb, free_gres=free_gres, total_cpus=total_cpus,
        total_mem_mb=total_mem_mb, total_gres=total_gres, running_jobs=running_jobs, held_exclusive=held_exclusive,
        node_order=node_order, up=up, masks=masks, job_mask=job_mask, nodes_min=nodes_min, nodes_max=nodes_max,
        ntasks=ntasks, cpus_per_task=cpus_per_task, ntasks_per_node=ntasks_per_node, mem_node_mb=mem_node_mb,
        mem_cpu_mb=mem_cpu_mb, gres=gres, exclusive=exclusive, count=count,
    ))
    cdef int32_t n = <int32_t> free_cpus.shape[0], node
    cdef int64_t rows = job_mask.shape[0]
    cdef int32_t words = <int32_t> masks.shape[1]

    # Working copies, so that the caller's columns stay as they are. One spare entry each: an empty array has no first
    # element to point to.
    cdef int32_t[::1] cpus_left = np.append(free_cpus, np.int32(0))
    cdef int64_t[::1] mem_left = np.append(free_mem_mb, np.int64(0))
    cdef int32_t[::1] gres_left = np.append(free_gres, np.int32(0))
    cdef uint64_t[:, ::1] sets = np.zeros((4, words + 1), np.uint64)
    cdef int32_t[:, ::1] scratch = np.empty((3, n + 1), np.int32)
    cdef uint64_t[::1] keys = np.empty(n + 1, np.uint64)

    # Each placement takes at least one free cpu, so this much is enough; memory that is not written to costs nothing.
    cdef int64_t placements_max = contract.PLACEMENTS_MAX
    cdef int64_t room = min(placements_max, int(np.maximum(free_cpus, 0).sum(dtype=np.int64)))
    cdef int32_t[:, ::1] start_columns = np.empty((2, max(0, min(starts_max, room)) + 1), np.int32)
    cdef int32_t[:, ::1] columns = np.empty((3, room + 1), np.int32)
    cdef int64_t[::1] mem_column = np.empty(room + 1, np.int64)
    reasons = np.full(rows + 1, NOT_TESTED, np.uint8)
    cdef uint8_t[::1] reason = reasons

    cdef Nodes nodes
    cdef Jobs jobs
    cdef Search search
    cdef Out out
    with nogil:
        nodes = Nodes(
            count=n, kinds=<int32_t> free_gres.shape[1], words=words, order=&node_order[0],
            total_cpus=&total_cpus[0], total_mem_mb=&total_mem_mb[0], total_gres=&total_gres[0, 0],
            free_cpus=&cpus_left[0], free_mem_mb=&mem_left[0], free_gres=&gres_left[0], running_jobs=&running_jobs[0],
            up=&sets[0, 0], unheld=&sets[1, 0], usable=&sets[2, 0],
        )
        for node in range(n):
            put(nodes.up, node, up[node] != 0)
            put(nodes.unheld, node, up[node] != 0)
            put(nodes.usable, node, up[node] != 0 and not held_exclusive[node] and free_cpus[node] > 0)
        jobs = Jobs(
            mask=&job_mask[0], nodes_min=&nodes_min[0], nodes_max=&nodes_max[0], ntasks=&ntasks[0],
            cpus_per_task=&cpus_per_task[0], ntasks_per_node=&ntasks_per_node[0], mem_node_mb=&mem_node_mb[0],
            mem_cpu_mb=&mem_cpu_mb[0], gres=&gres[0, 0], exclusive=&exclusive[0], count=&count[0],
        )
        search = Search(
            measure=NOW, at=0, first=0, last=0, node=&scratch[0, 0], tasks=&scratch[1, 0], picked=&scratch[2, 0],
            within=&sets[3, 0], keys=&keys[0],
        )
        out = Out(
            starts_max=starts_max, placements_max=placements_max, starts=0, placements=0, full=False,
            job=&start_columns[0, 0], node_first=&start_columns[1, 0], node=&columns[0, 0], cpus=&columns[1, 0],
            tasks=&columns[2, 0], mem_mb=&mem_column[0],
        )
        out.node_first[0] = 0
        run_pass(&search, &jobs, &nodes, &masks[0, 0], rows, &reason[0], &out)

    starts, placements = out.starts, out.placements
    return contract.PlanResult(
        np.array(start_columns[0, :starts]),
        np.array(start_columns[1, :starts + 1]),
        np.array(columns[0, :placements]),
        np.array(columns[1, :placements]),
        np.array(columns[2, :placements]),
        np.array(mem_column[:placements]),
        reasons[:rows],
    )
