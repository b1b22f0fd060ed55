# What the node run keeps of jobs, requests and nodes.

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef struct RunHistory:
    int64_t jobs
    int64_t last_s
    int64_t last_but_one_s


cdef struct RunAmount:
    int64_t mem_mb
    int32_t cpus
    int32_t gpus


cdef struct RunPart:
    RunAmount amount
    int32_t node


cdef struct RunJob:
    int64_t submit_s
    int64_t run_s
    int64_t estimate_s
    int64_t rank_s
    int64_t start_s
    int64_t part  # the first of its parts
    int32_t parts
    int32_t user
    int32_t shape
    int32_t alike  # number of its user, estimate and shape
    int32_t number  # of its start
    bint urgent


cdef struct RunEntry:
    double key
    int64_t length
    int32_t job


cdef struct RunQueue:  # entries in order of (key, job)
    RunEntry* entry
    int64_t first
    int64_t end
    int64_t room


cdef struct RunShape:
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    int64_t sum  # tasks that there is room for now; valid while a job of it waits, like the next
    int64_t length_min  # no job that waits has a shorter estimate
    int64_t failed  # the epoch in which it did not fit
    int64_t cursor  # of a pass: the next candidate
    int32_t fitting  # nodes that can take a task now
    int32_t ntasks
    int32_t nodes_min
    int32_t nodes_max
    int32_t gpus
    int32_t place  # among the waiting shapes; -1 = none of it waits
    bint outlasts  # of a pass: a job that outlasts the reservation may still fit
    RunQueue heads
    RunQueue candidates


cdef struct RunChoice:  # a candidate node
    int32_t node
    int32_t tasks
    int64_t key


cdef struct RunEnd:
    int64_t at_s
    int32_t number  # of the start, or of the job
    int32_t job


cdef struct RunWorld:
    RunJob* job
    RunShape* shape
    RunHistory* history
    RunHistory* alike
    RunAmount* total
    RunAmount* now  # what is free
    RunAmount* later  # what is free when the head starts; on its nodes: beside it
    int32_t* quantum
    uint8_t* reserved  # by node: of the head
    int32_t* head_node
    RunChoice* choice
    int32_t* waiting_shape
    RunPart* parts
    RunEnd* ends  # a heap by (time, number of the start)
    RunEnd* expected  # sorted by (time, job), from expected_first on
    int64_t parts_n, parts_room, jobs, ends_n, expected_first, expected_end, waiting, shadow_s, epoch, aged_factor, aged_max_s
    int32_t nodes, kind, waiting_shapes, chosen, head, head_nodes, starts
    int32_t order, backfill, candidate_order, ranker
    bint two_orders, changing, clean, has_room
