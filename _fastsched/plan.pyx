"""The planner, compiled. The rules are in contract.py; this page says only what makes it fast, and changes no answer.

- All deciding happens in one `with nogil` block on C arrays. Memory comes from chunks that live as long as the pass;
  one chunk is kept for the next pass. Nothing else is kept between calls.
- A node's time is an array of segments of equal use (plan_line.pxi), made when the node is first looked at
  (plan_node.pxi). A planned job adds at most two segments.
- Nodes only fill up during a pass, so "no start before" is learned once for all rows of a shape (plan_bounds.pxi): bounds
  by node for each shape and class of durations. Most rows look into the time of a few nodes only. Victims of preemption
  reset the bounds of their nodes.
- Several nodes (plan_when.pxi): a heap of events; time moves to the next node that may come, and only then is anything
  tested.
- Which nodes, at a known time: the first that do, where only node order matters (plan_measure.pxi); else all candidates,
  sorted (plan_choose.pxi).
- Reservations are views: the time of a node as the members of one see it. Nodes without blocks have one for all.
- Licenses are one more node, which carries them as GRES.
- The course of a pass, copies, alternatives, reasons: plan_rows.pxi. Heterogeneous jobs: plan_het.pxi. Preemption:
  plan_preempt.pxi, which is rare and simply makes nodes again.

The columns are taken from numpy's own records: a call with a small input must cost a few microseconds, since a simulator
makes 20,000 a second.

No overflow: tasks are bounded by ntasks (int32), sums are int64, amounts are divided before they are multiplied.
"""

cimport cython
cimport numpy as cnp
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memmove, memset

from _fastsched import contract

cnp.import_array()

cdef extern from *:
    """
    #define count_zeros(bits) __builtin_ctzll(bits)
    #define leading_zeros(bits) __builtin_clzll(bits)
    #define PLAN_TABLE_MASK 255
    """
    int32_t count_zeros(uint64_t bits) noexcept nogil
    int32_t leading_zeros(uint64_t bits) noexcept nogil
    const uint64_t TABLE_MASK "PLAN_TABLE_MASK"  # shapes are found by hash in one list more than that

cdef int64_t FOREVER = contract.FOREVER
cdef uint8_t NOT_TESTED = contract.NOT_TESTED
cdef uint8_t STARTED = contract.STARTED
cdef uint8_t RESOURCES = contract.RESOURCES
cdef uint8_t PRIORITY = contract.PRIORITY
cdef uint8_t NODES_DOWN = contract.NODES_DOWN
cdef uint8_t BAD_CONSTRAINTS = contract.BAD_CONSTRAINTS
cdef uint8_t LICENSES = contract.LICENSES
cdef uint8_t RESERVED = contract.RESERVED
cdef uint8_t PREEMPTING = contract.PREEMPTING
cdef uint8_t DEADLINE = contract.DEADLINE

include "plan_records.pxi"
include "plan_pass.pxi"
include "plan_line.pxi"
include "plan_node.pxi"
include "plan_measure.pxi"
include "plan_choose.pxi"
include "plan_bounds.pxi"
include "plan_when.pxi"
include "plan_preempt.pxi"
include "plan_load.pxi"
include "plan_take.pxi"
include "plan_het.pxi"
include "plan_rows.pxi"
include "plan_input.pxi"


def plan(given):
    """What starts now, when and where the others start, and why they wait. ValueError: the columns do not fit."""
    cdef Pass p
    memset(&p, 0, sizeof(Pass))
    p.chunk = borrow()
    try:
        if not columns_of(&p, given) or not limits_of(&p, given.limits):
            refuse(given)
        with nogil:
            if prepare(&p):
                run_pass(&p)
            else:
                with gil:
                    refuse(given)
        return answer(&p)
    finally:
        give_back(&p)


cdef answer(Pass* p):
    cdef int64_t i
    first = cnp.PyArray_EMPTY(1, [<cnp.npy_intp> p.Q + 1], cnp.NPY_INT32, 0)
    cdef int32_t* plan_first = <int32_t*> cnp.PyArray_DATA(first)
    plan_first[0] = 0
    for i in range(p.Q):
        plan_first[i + 1] = plan_first[i] + p.plan_count[i]
    return contract.PlanResult(
        i32_array(&p.out_job),
        i32_array(&p.out_first),
        i32_array(&p.out_node),
        i32_array(&p.out_cpus),
        i32_array(&p.out_tasks),
        i64_array(&p.out_mem),
        i64_array(&p.out_limit),
        made_array(p.reason, p.Q, cnp.NPY_UINT8),
        made_array(p.start_s, 8 * p.Q, cnp.NPY_INT64),
        first,
        i32_array(&p.out_plan_node),
        i32_array(&p.out_victim_row),
        i32_array(&p.out_victim_run),
    )


cdef made_array(const void* data, int64_t size, int kind):
    cdef cnp.npy_intp length = size // (1 if kind == cnp.NPY_UINT8 else 4 if kind == cnp.NPY_INT32 else 8)
    array = cnp.PyArray_EMPTY(1, &length, kind, 0)
    if size:
        memcpy(cnp.PyArray_DATA(array), data, size)
    return array


cdef i32_array(const Buffer* buffer):
    return made_array(buffer.data, buffer.used, cnp.NPY_INT32)


cdef i64_array(const Buffer* buffer):
    return made_array(buffer.data, buffer.used, cnp.NPY_INT64)
