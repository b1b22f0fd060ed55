# Rules 2 and 3 of noderun_contract.py: what a node can take, and which nodes are chosen.

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from _fastsched.noderunner.records cimport RunAmount, RunChoice, RunShape, RunWorld


cdef inline int32_t tasks_on(const RunWorld* world, const RunShape* shape, int32_t node, const RunAmount* room) noexcept nogil:
    """How many tasks the node can take."""
    cdef int64_t quantum = world.quantum[node], tasks
    if room.gpus < shape.gpus or room.cpus < quantum:
        return 0
    tasks = room.cpus // quantum * quantum
    if shape.mem_node_mb >= 0:
        if room.mem_mb < (shape.mem_node_mb if shape.mem_node_mb > 0 else world.total[node].mem_mb):
            return 0
    elif shape.mem_cpu_mb > 0:
        tasks = min(tasks, room.mem_mb // shape.mem_cpu_mb // quantum * quantum)
    tasks = min(tasks, <int64_t> (shape.ntasks - shape.nodes_min + 1))
    if shape.nodes_max == 1 and tasks < shape.ntasks:
        return 0
    return <int32_t> tasks


cdef inline RunAmount takes(const RunWorld* world, const RunShape* shape, int32_t node, int32_t tasks) noexcept nogil:
    cdef RunAmount found
    cdef int32_t quantum = world.quantum[node]
    found.cpus = (tasks + quantum - 1) // quantum * quantum
    found.gpus = shape.gpus
    if shape.mem_node_mb >= 0:
        found.mem_mb = shape.mem_node_mb if shape.mem_node_mb > 0 else world.total[node].mem_mb
    else:
        found.mem_mb = max(<int64_t> 0, shape.mem_cpu_mb) * found.cpus
    return found


cdef inline RunAmount room_of(const RunWorld* world, int32_t node, const RunAmount* free_now, bint beside) noexcept nogil:
    """What is free on a node; `beside`: also while the head runs there."""
    cdef RunAmount found = free_now[node]
    cdef const RunAmount* other
    if beside and world.reserved[node]:
        other = &world.later[node]
        found.cpus = min(found.cpus, other.cpus)
        found.gpus = min(found.gpus, other.gpus)
        found.mem_mb = min(found.mem_mb, other.mem_mb)
    return found


cdef inline int by_key(const void* a, const void* b) noexcept nogil:
    cdef const RunChoice* one = <const RunChoice*> a
    cdef const RunChoice* other = <const RunChoice*> b
    if one.key != other.key:
        return -1 if one.key < other.key else 1
    return -1 if one.node < other.node else 1


cdef inline int by_tasks(const void* a, const void* b) noexcept nogil:
    """Most tasks first; ties by the place, which `key` has then."""
    cdef const RunChoice* one = <const RunChoice*> a
    cdef const RunChoice* other = <const RunChoice*> b
    if one.tasks != other.tasks:
        return -1 if one.tasks > other.tasks else 1
    return -1 if one.key < other.key else 1


cdef inline int by_node(const void* a, const void* b) noexcept nogil:
    return -1 if (<const RunChoice*> a).node < (<const RunChoice*> b).node else 1


cdef inline int32_t shortest(const RunWorld* world, const RunShape* shape, int32_t count) noexcept nogil:
    """The length of the shortest run that will do; 0 when there is none."""
    cdef int32_t k
    cdef int64_t sum = 0
    for k in range(min(count, shape.nodes_max)):
        sum += world.choice[k].tasks
        if k + 1 >= shape.nodes_min and sum >= shape.ntasks:
            return k + 1
    return 0


cdef inline bint choose(RunWorld* world, const RunShape* shape, const RunAmount* free_now, bint beside) noexcept nogil:
    """Rule 3: fills world.choice with the chosen nodes and their tasks. False: no fit."""
    cdef int32_t node, count = 0, tasks, k, left
    cdef int64_t sum = 0
    cdef RunAmount room
    for node in range(world.nodes):
        room = room_of(world, node, free_now, beside)
        tasks = tasks_on(world, shape, node, &room)
        if tasks == 0:
            continue
        world.choice[count].node = node
        world.choice[count].tasks = tasks
        world.choice[count].key = 0
        if world.kind == 1:
            world.choice[count].key = -room.cpus
        elif world.kind == 2:
            world.choice[count].key = room.gpus if shape.gpus > 0 else room.cpus
        count += 1
        sum += tasks
        if world.kind == 0 and count >= shape.nodes_min and sum >= shape.ntasks and count <= shape.nodes_max:
            break
    if count < shape.nodes_min or sum < shape.ntasks:
        return False
    if world.kind != 0:
        qsort(world.choice, count, sizeof(RunChoice), &by_key)
    world.chosen = shortest(world, shape, count)
    if world.chosen == 0:
        for k in range(count):
            world.choice[k].key = k
        qsort(world.choice, count, sizeof(RunChoice), &by_tasks)
        world.chosen = shortest(world, shape, count)
        if world.chosen == 0:
            return False
    if world.chosen > 1:
        qsort(world.choice, world.chosen, sizeof(RunChoice), &by_node)
    left, sum = shape.ntasks, 0
    for k in range(world.chosen):
        sum += min(world.choice[k].tasks, world.quantum[world.choice[k].node])
    for k in range(world.chosen):
        sum -= min(world.choice[k].tasks, world.quantum[world.choice[k].node])
        tasks = <int32_t> min(<int64_t> world.choice[k].tasks, max(<int64_t> 1, left - sum))
        world.choice[k].tasks = tasks
        left -= tasks
    return True
