# The records of a pass. `PlanPass` holds all of them, in parts; each part names the module that fills and uses it.
#
# All nodes are identified by their rank: the place in `order`. So "in node order" is ascending rank, and a scan reads memory
# sequentially. The rank `counts.nodes` (one above the last) is no node: it has the licenses as if they were GRES, so that
# time, reservations and planned starts work for them by the same code.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from _fastsched.planner.columns cimport AxisLengths, PassLimits, PlanningInput
from _fastsched.planner.events cimport EventHeap
from _fastsched.planner.gaps cimport GapIndex, GapPool, TimeGap
from _fastsched.planner.memory cimport Arena, OutputColumn
from _fastsched.planner.timeline cimport NodeTimeline, PlanDemand, Segment, UndoLog


# The basis on which a candidate is tested: its planned time, that without blocks, an empty node, or without preemptable jobs.
cdef enum Basis:
    PLANNED
    WITHOUT_BLOCKS
    EMPTY
    WITHOUT_VICTIMS


# Which running jobs a node's time leaves out.
cdef enum LeftOut:
    NOTHING  # victims end at now_s + 1
    VICTIMS
    PREEMPTABLE  # victims, and those of the classes that the current row may preempt


cdef struct ReservedBlock:  # what a reservation keeps on a node
    ReservedBlock* next
    int32_t reservation
    int32_t cpus  # units; -1 = the whole node
    int64_t mem_mb
    const int32_t* gres
    int64_t from_s
    int64_t to_s


cdef struct MembersView:  # a node's time as the members of one reservation see it
    MembersView* next
    int32_t reservation
    NodeTimeline timeline
    NodeTimeline own_blocks  # the rest of the reservation's blocks


cdef struct PlannedUse:  # what a row of this pass has taken on a node; kept only where a timeline may be made again
    PlannedUse* next
    PlanDemand demand
    int32_t reservation
    int64_t from_s
    int64_t to_s


cdef struct PlanNode:  # nodetime.pyx
    int32_t index
    int32_t total_cpus  # units
    int32_t cpus  # the most that one job can have
    int32_t cpu_quantum
    int32_t weight_class
    int32_t gres_kinds
    bint up
    bint built
    int32_t free_cpus
    int64_t free_mem_mb
    int64_t total_mem_mb
    const int32_t* free_gres
    const int32_t* total_gres
    int64_t first_part  # its running parts are entries of PlanCluster.parts
    int64_t last_part
    ReservedBlock* blocks
    MembersView* views  # NULL where no reservation has a block
    PlannedUse* uses  # newest first
    NodeTimeline timeline


cdef struct PlanCluster:  # prepare.pyx
    PlanNode* nodes  # by rank
    int32_t* rank_of
    int64_t* parts  # those of one node together
    int32_t* versions  # by rank: how often this pass has changed the node's time
    const uint64_t** masks  # by rank, built on demand
    uint64_t* up
    bint in_index_order  # rank = index
    bint all_up
    bint users_matter  # a job has, or may get, a node for one user alone
    bint keep_uses
    bint leaves_matter  # a row wants leaf switches for itself alone
    int32_t* leaf_first  # by leaf: its nodes are these entries of leaf_ranks, up to those of the next
    int32_t* leaf_ranks
    int64_t* leaf_busy_s  # by leaf: when all that runs there has ended
    int32_t* leaf_taken  # by leaf: the last taking that held it
    int32_t takings
    const int32_t* no_gres


cdef struct PlanShape:  # shapes.pyx: rows with the same demand on a node, and the times at which it may be met
    PlanShape* next
    uint64_t hash
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    const int32_t* gres
    int32_t tasks_floor
    int32_t cpus_per_task
    int32_t cpu_units
    int32_t exclusive
    int32_t user
    int32_t reservation
    int32_t frequent_mask
    const uint64_t* mask  # the nodes that `gaps` may name; NULL = all
    GapIndex gaps
    int32_t searches  # that have begun: 0, 1; 2 = enough
    int64_t* earliest_s  # by class of durations: nothing is long enough before
    int64_t* nodes_s  # by class of numbers of nodes and of durations: not so many at once before; NULL: unknown
    int64_t* tasks_s  # by class of numbers of tasks and of durations: no room for so many before; NULL: unknown


cdef struct ShapeTable:  # shapes.pyx
    PlanShape** buckets
    PlanShape* list
    GapPool pool
    TimeGap* sorted  # room to sort so many gaps: firstgaps.pyx
    int32_t sorted_max
    int64_t blocks_max  # of gaps
    int64_t shortest_s  # no row of the pass is shorter
    int64_t longest_s  # nor longer, as far as classes of durations go
    int32_t first_class  # of durations, that of the shortest
    int32_t length_classes
    int32_t node_classes
    int32_t task_classes
    int32_t count
    int32_t count_max
    int32_t allocated  # have memory
    int32_t generation
    uint8_t* is_frequent  # by mask: it has so many rows that shapes have gaps of their own for it


cdef struct Picks:  # chosen nodes and their tasks
    int32_t count
    int32_t taken  # while they are chosen: the first ones, taken by groups
    int32_t* rank
    int32_t* tasks


cdef struct PendingJob:  # a row, ready to be planned: load.pyx
    int64_t row
    int32_t nodes_min
    int32_t nodes_max
    int32_t ntasks
    int32_t cpus_per_task
    int64_t mem_node_mb
    int64_t mem_cpu_mb
    const int32_t* gres
    const int32_t* gres_needed  # as gres, with "any" where nothing is requested
    const int32_t* licenses  # NULL = none
    const int32_t* licenses_needed  # as gres_needed
    const uint64_t* mask  # by rank, within its reservation
    int32_t exclusive
    int32_t user
    int32_t cpu_units
    int32_t tasks_min  # fewer tasks than this make a node useless
    int32_t tasks_max  # more would leave nothing for the other nodes that the job must have
    int32_t tasks_floor  # a node of a set that fits holds at least this many
    int32_t reservation
    int32_t order_kind
    int32_t group
    int32_t segment
    int32_t switches_max
    bint spread
    bint any_nodes  # its tasks may lie on as few or as many nodes as there are
    bint topology
    bint not_monotonic  # groups, segments or switches: more capacity may be worse
    bint makes_sense
    bint impossible  # no node can hold what each node of a set has to
    bint reserve
    int64_t length_s  # rule 0's d
    int64_t limit_s
    int64_t first_s  # the first time that rule 0 and its reservation allow
    int64_t last_s  # the last one, the window and the deadline included
    int64_t resv_to_s  # NEVER = no end
    bint deadline_in_window
    bint not_begun  # its reservation
    uint64_t preempts
    int32_t frequent_mask  # -1: its mask is rare
    PlanShape* shape  # while `generation` is that of the table
    int32_t generation
    Picks picks  # of a component of a heterogeneous job


cdef struct NodeCandidate:  # a node that could be chosen; sorted by rule 9 (victims), then rule 3
    int64_t victims_cost
    int64_t preference
    int32_t victims
    int32_t weight_class
    int32_t rank
    int32_t tasks
    int32_t place  # in the order before it is sorted again
    int32_t leaf
    int32_t leaf_candidates


cdef struct Scratch:  # each array has one entry a node at least; nothing in it outlives the choice for one row
    Segment* least  # what is free throughout an interval
    NodeCandidate* candidates
    int32_t candidates_count
    NodeCandidate* other_candidates  # twice as many
    EventHeap heap
    uint64_t* possible  # nodes that may hold a row at a time
    int32_t* room_by_rank
    int32_t* members
    uint8_t* is_member  # by rank, as are the next three
    uint8_t* is_watched
    int64_t* gap_s
    int32_t* gap_version
    int32_t* switch_counts
    int64_t* sort_keys
    int32_t* nothing_needed  # of each kind of GRES, or of licenses: any amount suffices


cdef struct PreemptionClasses:  # preempt.pyx
    uint8_t* gone  # running jobs removed by this pass
    uint64_t classes  # of running jobs that may be preempted at all
    uint64_t victim_classes  # those that the current row may preempt
    bint for_leaves  # it wants leaf switches for itself alone


cdef struct SeenJob:  # outcome.pyx
    int64_t job
    int64_t known
    int64_t copies_started  # -1 = it preempts


cdef struct Progress:  # outcome.pyx
    int64_t reserving  # waiting rows that reserve something
    int64_t starts
    int64_t placements
    SeenJob* seen  # a table by open addressing
    int64_t seen_mask
    uint64_t* waited_for  # nodes that an earlier row waits for


cdef struct PlanAnswer:  # names as in contract.PlanResult
    uint8_t* reason
    int64_t* start_s
    int32_t* plan_count  # by position; the nodes follow each other in plan_node
    OutputColumn job
    OutputColumn node_first
    OutputColumn node
    OutputColumn cpus
    OutputColumn tasks
    OutputColumn mem_mb
    OutputColumn limit_s
    OutputColumn plan_node
    OutputColumn victim_row
    OutputColumn victim_run


cdef struct PlanPass:
    PlanningInput input
    AxisLengths counts
    PassLimits limits
    Arena arena
    UndoLog undo
    PlanCluster cluster
    ShapeTable shapes
    PreemptionClasses preemption
    Basis basis
    Picks picks  # the nodes that were chosen last
    Picks kept_picks  # those of the best alternative so far
    Scratch scratch
    Progress progress
    PlanAnswer answer


cdef inline void copy_picks(Picks* into, const Picks* picks) noexcept nogil:
    into.count = picks.count
    memcpy(into.rank, picks.rank, 4 * <size_t> picks.count)
    memcpy(into.tasks, picks.tasks, 4 * <size_t> picks.count)
