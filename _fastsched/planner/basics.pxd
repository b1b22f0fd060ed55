# Common definitions of all modules of the planner: numbers of contract.py as C constants, special times and users, and
# arithmetic. All of it is compiled into the module that uses it, so that it costs no call.

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef extern from *:
    """
    #define PLANNER_FOREVER ((int64_t)1 << 60)
    #define PLANNER_NEVER ((int64_t)1 << 61)
    #define PLANNER_NOBODY INT32_MIN
    #define PLANNER_CLOSED (INT32_MIN + 1)
    #define planner_count_trailing_zeros(bits) __builtin_ctzll(bits)
    #define planner_count_leading_zeros(bits) __builtin_clzll(bits)
    """
    const int64_t FOREVER "PLANNER_FOREVER"  # contract.FOREVER; input.pyx verifies that they are equal
    const int64_t NEVER "PLANNER_NEVER"  # after every time; the sum of two does not overflow
    const int32_t NOBODY "PLANNER_NOBODY"  # as an exclusive user: open to all users
    const int32_t CLOSED "PLANNER_CLOSED"  # closed to all users; as a user: several
    int32_t count_trailing_zeros "planner_count_trailing_zeros"(uint64_t bits) noexcept nogil
    int32_t count_leading_zeros "planner_count_leading_zeros"(uint64_t bits) noexcept nogil


cdef enum PlanReason:  # the numbers of contract.py; input.pyx verifies that they are equal
    NOT_TESTED = 0
    STARTED = 1
    RESOURCES = 2
    PRIORITY = 3
    NODES_DOWN = 4
    BAD_CONSTRAINTS = 5
    LICENSES = 6
    RESERVED = 7
    PREEMPTING = 8
    DEADLINE = 9


# The blocks of reservations that count: all (a row without a reservation), none, or all but those of one (its number).
cdef enum:
    ALL_BLOCKS = -1
    NO_BLOCKS = -2


# Kinds of `exclusive`, which rule 1 defines, and what of a leaf's use its nodes note.
cdef enum:
    WHOLE_NODES = 1  # all cpus, and nobody else on the node
    ONE_USER = 2
    WHOLE_LEAVES = 4  # a bit: nobody else on any node of the leaf switch
    MARK_OF_LEAF = 8  # no job on this node, but on another of its leaf
    LEAF_BUSY = 1 << 30  # a bit of Segment.jobs: there is such a job, or a block
    OWN_JOBS = LEAF_BUSY - 1  # its other bits
    MARK_OF_BLOCK = -2  # as the cpus of a block: it is on another node of the leaf


cdef inline int64_t lesser(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef inline int64_t greater(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


cdef inline bint has_bit(const uint64_t* words, int32_t bit) noexcept nogil:
    return (words[bit >> 6] >> (bit & 63)) & 1


cdef inline void set_bit(uint64_t* words, int32_t bit) noexcept nogil:
    words[bit >> 6] |= (<uint64_t> 1) << (bit & 63)


cdef inline int32_t take_lowest_bit(uint64_t* bits) noexcept nogil:
    """Returns the number of the lowest set bit, and clears it; there must be one."""
    cdef int32_t lowest = count_trailing_zeros(bits[0])
    bits[0] &= bits[0] - 1
    return lowest


cdef inline int compare_int64(const void* left, const void* right) noexcept nogil:
    """Compares for qsort."""
    cdef int64_t first = (<const int64_t*> left)[0]
    cdef int64_t second = (<const int64_t*> right)[0]
    return (first > second) - (first < second)


cdef inline uint64_t mix_hash(uint64_t hash, uint64_t value) noexcept nogil:
    hash = (hash ^ value) * <uint64_t> 0x9E3779B97F4A7C15
    return hash ^ (hash >> 29)
