# Part of plan.pyx: constants and records.
#
# All nodes are known by their rank: the place in `order`. So "in node order" is ascending rank, and a scan goes straight
# through memory. The rank `nodes` (one more than there are) is no node: it carries the licenses as if they were GRES, so
# that time, reservations and holds work for them by the same code.

cdef extern from *:
    """
    #define PLAN_NEVER ((int64_t)1 << 61)
    #define PLAN_NOBODY INT32_MIN
    #define PLAN_CLOSED (INT32_MIN + 1)
    #define PLAN_SPARE_BYTES ((size_t)64 << 20)
    """
    const int64_t NEVER "PLAN_NEVER"  # after every time; two of it can be added
    const int32_t NOBODY "PLAN_NOBODY"  # as an exclusive user: anybody may come
    const int32_t CLOSED "PLAN_CLOSED"  # nobody may come; as a user: several
    const size_t SPARE_BYTES "PLAN_SPARE_BYTES"  # the memory that is kept between passes is at most this

# Which blocks of reservations count: all (a row without a reservation), none, or all but those of one (its number).
cdef enum:
    ALL_BLOCKS = -1
    NO_BLOCKS = -2

# What a node is measured by: its planned time, that without blocks, empty, or as if preemptable jobs were gone.
cdef enum Measure:
    PLANNED
    WITHOUT_BLOCKS
    EMPTY
    WITHOUT_VICTIMS


# Which running jobs a node's time leaves out.
cdef enum Without:
    NOTHING  # victims end at now_s + 1
    VICTIMS
    PREEMPTABLE  # victims, and those of the classes victim_bits


cdef struct Chunk:
    Chunk* older
    size_t size
    size_t used


cdef struct Seg:  # what is free on a node from one time to the next; GRES counts follow in memory
    int64_t from_s
    int64_t mem_mb
    int32_t cpus  # units
    int32_t jobs
    int32_t user  # of all jobs there, CLOSED if several
    int32_t xuser  # the user whose exclusive node it is


cdef struct Line:  # the time of a node: segments by time, the first from now on, the last for ever
    char* data
    int32_t count
    int32_t room
    int32_t kinds
    int32_t stride


cdef struct View:  # a node's time as the members of one reservation see it
    View* next
    int32_t resv
    Line line
    Line own  # the rest of the reservation's blocks


cdef struct Block:
    Block* next
    int32_t resv
    int32_t cpus
    int64_t mem_mb
    const int32_t* gres
    int64_t from_s
    int64_t to_s


cdef struct Need:  # what a job takes, or has to find, on one node
    int64_t mem_mb
    int32_t cpus
    int32_t user
    int32_t exclusive
    const int32_t* gres


cdef struct Take:  # what rows of this pass have taken on a node, newest first; kept only where a line may be made again
    Take* next
    Need need
    int32_t resv
    int64_t from_s
    int64_t to_s


cdef struct Node:
    int32_t index
    int32_t total_cpus
    int32_t quantum
    int32_t weight_class
    int32_t kinds
    bint up
    bint built
    int32_t free_cpus
    int64_t free_mem_mb
    int64_t total_mem_mb
    const int32_t* free_gres
    const int32_t* total_gres
    int64_t first_part  # its running parts are entries of Pass.part
    int64_t last_part
    Block* blocks
    View* views  # NULL where no reservation has a block
    Take* takes
    Line line


cdef struct Entry:  # for one shape and class of durations: no start before `bound`, by rank; `low` is the least of 64
    Entry* next
    uint64_t hash
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    const int32_t* gres
    int32_t floor
    int32_t cpus_per_task
    int32_t cpu_units
    int32_t exclusive
    int32_t user
    int32_t view
    int32_t length_class
    int64_t length_s  # the shortest duration of the class
    int64_t* bound
    int64_t* low


cdef struct Job:  # a row, ready to be planned
    int64_t row
    int32_t nodes_min
    int32_t nodes_max
    int32_t ntasks
    int32_t cpus_per_task
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    const int32_t* gres
    const int32_t* wanted  # as gres, with "any" where nothing is asked
    const int32_t* licenses  # NULL = none
    const int32_t* licenses_wanted  # as wanted
    const uint64_t* mask  # by rank, within its reservation
    int32_t exclusive
    int32_t user
    int32_t cpu_units
    int32_t least  # fewer tasks than this make a node useless
    int32_t most  # more would leave nothing for the other nodes that the job must have
    int32_t floor  # a node of a set that fits holds at least this many
    int32_t view
    int32_t order_kind
    int32_t group
    int32_t segment
    int32_t switches_max
    bint spread
    bint topology
    bint odd  # groups, segments or switches: more capacity may be worse
    bint sane
    bint never  # no node can hold what each node of a set has to
    bint reserve
    int64_t length_s  # rule 0's d
    int64_t limit_s
    int64_t first_s  # the first time that rule 0 and its reservation allow
    int64_t last_s  # the last one, the window and the deadline included
    int64_t resv_to_s  # NEVER = no end
    bint late  # the deadline comes before the end of the window
    bint not_begun  # its reservation
    uint64_t preempts
    Entry* entry  # of its shape, while `generation` is that of the pass
    int32_t generation
    int32_t picks  # of a component of a heterogeneous job
    int32_t* pick_rank
    int32_t* pick_tasks


cdef struct Cand:  # a candidate; sorted by the keys, then rank
    int64_t key1  # of rule 9
    int64_t key2
    int64_t key3  # of rule 3
    int64_t key4
    int32_t rank
    int32_t tasks
    int32_t place


cdef struct Event:
    int64_t at_s
    int32_t rank


cdef struct Buffer:  # grows; becomes an array of the answer
    char* data
    int64_t used
    int64_t room


cdef struct Saved:  # a line as it was
    Saved* next
    Line* line
    int32_t count
    size_t room
    char* copy
