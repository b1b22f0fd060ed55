# The input as C structs: pointers into the arrays of contract.py, under their names there.
#
# `PlanningInput` consists of pointers only, in the order in which contract.py declares the columns: input.pyx fills it as a list,
# and verifies when it is imported that the names are the same.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef struct NodeInput:
    const int32_t* total_cpus
    const int64_t* total_mem_mb
    const int32_t* total_gres
    const int32_t* free_cpus
    const int64_t* free_mem_mb
    const int32_t* free_gres
    const int32_t* cpu_quantum
    const int32_t* order
    const int32_t* weight_class
    const uint8_t* up
    const int32_t* switches


cdef struct RunningInput:
    const int64_t* run_end_s
    const int32_t* run_user
    const uint8_t* run_exclusive
    const int32_t* run_class
    const int64_t* run_cost
    const int32_t* run_licenses
    const int32_t* part_run
    const int32_t* part_node
    const int32_t* part_cpus
    const int64_t* part_mem_mb
    const int32_t* part_gres


cdef struct ReservationInput:
    const int64_t* resv_from_s
    const int64_t* resv_to_s
    const int32_t* resv_mask
    const uint8_t* resv_flex
    const int32_t* block_resv
    const int32_t* block_node
    const int64_t* block_from_s
    const int64_t* block_to_s
    const int32_t* block_cpus
    const int64_t* block_mem_mb
    const int32_t* block_gres
    const int32_t* licblock_resv
    const int32_t* licblock_kind
    const int32_t* licblock_count
    const int64_t* licblock_from_s
    const int64_t* licblock_to_s


cdef struct JobInput:
    const int64_t* job
    const int32_t* mask
    const int32_t* nodes_min
    const int32_t* nodes_max
    const int32_t* ntasks
    const int32_t* cpus_per_task
    const int32_t* ntasks_per_node
    const int64_t* mem_node_mb
    const int64_t* mem_cpu_mb
    const int32_t* gres
    const uint8_t* exclusive
    const int32_t* user
    const int32_t* count
    const int32_t* cpu_units
    const uint8_t* spread
    const int64_t* limit_s
    const int64_t* limit_min_s
    const int64_t* earliest_s
    const int64_t* latest_s
    const uint8_t* reserve
    const int32_t* resv
    const uint64_t* preempts
    const int32_t* switches_max
    const int32_t* segment
    const uint8_t* order_kind
    const int32_t* group
    const int32_t* licenses
    const int32_t* het


cdef struct PlanningInput:
    NodeInput nodes
    RunningInput running
    ReservationInput reservations
    JobInput jobs
    const int64_t* rows
    const uint64_t* masks
    const int32_t* group_first
    const int32_t* group_mask
    const int32_t* group_count
    const int32_t* free_licenses
    const uint8_t* stop


cdef struct AxisLengths:  # the lengths of the columns' axes
    int64_t rows
    int64_t job_rows
    int64_t parts
    int64_t blocks
    int64_t license_blocks
    int64_t group_entries
    int32_t nodes
    int32_t gres_kinds
    int32_t switch_levels
    int32_t running
    int32_t license_kinds
    int32_t reservations
    int32_t masks
    int32_t mask_words
    int32_t group_bounds  # one more than the number of sets of groups


cdef struct PassLimits:  # contract.Limits, cut to the range of the planner's integers
    int64_t now_s
    int64_t resolution_s
    int64_t window_end_s
    int64_t last_start_s
    int64_t starts_max
    int64_t rows_max
    int64_t copies_max
    int64_t reserve_max
    int64_t placements_max
    int64_t units_per_cpu
    bint estimate
