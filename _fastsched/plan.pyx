"""The planner, compiled: the one function that Python calls. _fastsched/planner/__init__.py explains how it works."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from _fastsched import contract

from _fastsched.planner.input cimport read_columns, read_limits
from _fastsched.planner.memory cimport OutputColumn, borrow_spare_chunk, give_back
from _fastsched.planner.prepare cimport prepare
from _fastsched.planner.records cimport PlanPass
from _fastsched.planner.rows cimport run_pass

cnp.import_array()


def plan(given):
    """Plans a pass: starts, expected starts, reasons. Raises ValueError for columns that do not fit together."""
    cdef PlanPass planned
    memset(&planned, 0, sizeof(PlanPass))
    borrow_spare_chunk(&planned.arena)
    try:
        if not read_columns(&planned, given) or not read_limits(&planned, given.limits):
            refuse(given)
        with nogil:
            if prepare(&planned):
                run_pass(&planned)
            else:
                with gil:
                    refuse(given)
        return answer_of(&planned)
    finally:
        give_back(&planned.arena)


cdef refuse(given):
    contract.check(given)
    raise ValueError("plan: a column is not aligned or not in the machine's byte order, or a limit makes no sense")


cdef answer_of(const PlanPass* planned):
    cdef int64_t rows = planned.counts.rows, i
    plan_first = cnp.PyArray_EMPTY(1, [<cnp.npy_intp> rows + 1], cnp.NPY_INT32, 0)
    cdef int32_t* first = <int32_t*> cnp.PyArray_DATA(plan_first)
    first[0] = 0
    for i in range(rows):
        first[i + 1] = first[i] + planned.answer.plan_count[i]
    return contract.PlanResult(
        int32_array(&planned.answer.job),
        int32_array(&planned.answer.node_first),
        int32_array(&planned.answer.node),
        int32_array(&planned.answer.cpus),
        int32_array(&planned.answer.tasks),
        int64_array(&planned.answer.mem_mb),
        int64_array(&planned.answer.limit_s),
        array_of(planned.answer.reason, rows, 1, cnp.NPY_UINT8),
        array_of(planned.answer.start_s, rows, 8, cnp.NPY_INT64),
        plan_first,
        int32_array(&planned.answer.plan_node),
        int32_array(&planned.answer.victim_row),
        int32_array(&planned.answer.victim_run),
    )


cdef array_of(const void* data, cnp.npy_intp length, int64_t item_bytes, int type_number):
    array = cnp.PyArray_EMPTY(1, &length, type_number, 0)
    if length:
        memcpy(cnp.PyArray_DATA(array), data, length * item_bytes)
    return array


cdef int32_array(const OutputColumn* column):
    return array_of(column.data, column.used_bytes // 4, 4, cnp.NPY_INT32)


cdef int64_array(const OutputColumn* column):
    return array_of(column.data, column.used_bytes // 8, 8, cnp.NPY_INT64)
