"""From contract.PlanInput to a pass: pointers to its columns, their lengths, its limits.

The columns are taken from numpy's own records: a call with a small input must cost a few microseconds, since a simulator
makes 20,000 a second. `PlanningInput` (columns.pxd) has the columns of contract.py in their order; this is verified here once, when
the module is imported, as are the numbers that both sides define.
"""

cimport numpy as cnp
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t

from _fastsched import contract

from _fastsched.planner.basics cimport (
    BAD_CONSTRAINTS, DEADLINE, FOREVER, LICENSES, NODES_DOWN, NOT_TESTED, PREEMPTING, PRIORITY, RESERVED, RESOURCES,
    STARTED, greater,
)
from _fastsched.planner.columns cimport AxisLengths, JobInput, NodeInput, PlanningInput, ReservationInput, RunningInput

cnp.import_array()

cdef enum:
    COLUMNS = 73  # of `PlanningInput`
    AXES = 128  # an axis is identified by its letter
    TABLES = 4


cdef struct ColumnSpec:
    char axes[2]
    int type_number
    int same_number  # C has two names for 64 bits


cdef ColumnSpec specs[COLUMNS]
# The number of columns of each table, in the order of `PlanningInput`.
cdef int32_t[TABLES] table_columns = [
    sizeof(NodeInput) // sizeof(void*), sizeof(RunningInput) // sizeof(void*),
    sizeof(ReservationInput) // sizeof(void*), sizeof(JobInput) // sizeof(void*),
]


def _fields_by_table():
    """Returns the names of the columns by table, as the records have them."""
    tables = {
        "nodes": contract.Nodes,
        "running": contract.Running,
        "reservations": contract.Reservations,
        "jobs": contract.Jobs,
    }
    fields = {name: table._fields for name, table in tables.items()}
    fields[""] = tuple(name for name in contract.PlanInput._fields if name not in tables and name != "limits")
    return fields


def _prove_equal():
    """Raises ImportError if contract.py has other columns or numbers than those for which these modules were built."""
    words = {
        "NOT_TESTED": NOT_TESTED, "STARTED": STARTED, "RESOURCES": RESOURCES, "PRIORITY": PRIORITY,
        "NODES_DOWN": NODES_DOWN, "BAD_CONSTRAINTS": BAD_CONSTRAINTS, "LICENSES": LICENSES, "RESERVED": RESERVED,
        "PREEMPTING": PREEMPTING, "DEADLINE": DEADLINE, "FOREVER": FOREVER,
    }
    fields = _fields_by_table()
    declared = {name: tuple(columns) for name, columns in contract.GROUPS.items()}
    if (
        any(getattr(contract, word) != number for word, number in words.items())
        or fields != declared
        or [len(columns) for columns in fields.values()][:TABLES] != [table_columns[table] for table in range(TABLES)]
        or sum(len(columns) for columns in fields.values()) != COLUMNS
        or sizeof(PlanningInput) != COLUMNS * sizeof(void*)
    ):
        raise ImportError("_fastsched.plan: built for other columns than contract.py has; build again")


def _load_specs():
    """Returns for each column the axes and the type that contract.py gives it."""
    columns = [column for table in contract.GROUPS.values() for column in table.values()]
    for i, (dtype, axes) in enumerate(columns):
        kind = contract.np.dtype(dtype)
        specs[i].axes[0] = ord(axes[0])
        specs[i].axes[1] = ord(axes[1]) if len(axes) == 2 else 0
        specs[i].type_number = specs[i].same_number = kind.num
        if kind.itemsize == 8:
            specs[i].same_number = cnp.NPY_ULONGLONG if kind.kind == "u" else cnp.NPY_LONGLONG


_prove_equal()
_load_specs()


cdef bint read_column(PlanPass* plan, int64_t* lengths, int32_t index, object array):
    """Reads one column; False if its type or shape is wrong."""
    cdef const ColumnSpec* spec = &specs[index]
    cdef cnp.ndarray column
    cdef int32_t axis, axes = 2 if spec.axes[1] else 1
    cdef int64_t* length
    if not cnp.PyArray_Check(array):
        return False
    column = <cnp.ndarray> array
    if (
        cnp.PyArray_NDIM(column) != axes
        or cnp.PyArray_TYPE(column) not in (spec.type_number, spec.same_number)
        or not cnp.PyArray_ISCARRAY_RO(column)
    ):
        return False
    for axis in range(axes):
        length = lengths + spec.axes[axis]
        if length[0] < 0:
            length[0] = cnp.PyArray_DIM(column, axis)
        elif length[0] != cnp.PyArray_DIM(column, axis):
            return False
    (<void**> &plan.input)[index] = cnp.PyArray_DATA(column)
    return True


cdef bint read_columns(PlanPass* plan, object given) except -1:
    """Reads all columns and their lengths; False if one is wrong, or they do not fit each other."""
    cdef int64_t[AXES] lengths
    cdef int32_t i, index = 0, table
    cdef object columns
    for i in range(AXES):
        lengths[i] = -1
    lengths[c'1'] = 1
    for table in range(TABLES):
        if table == 0:
            columns = given.nodes
        elif table == 1:
            columns = given.running
        elif table == 2:
            columns = given.reservations
        else:
            columns = given.jobs
        if not isinstance(columns, tuple) or PyTuple_GET_SIZE(columns) != table_columns[table]:
            return False
        for i in range(table_columns[table]):
            if not read_column(plan, lengths, index, <object> PyTuple_GET_ITEM(columns, i)):
                return False
            index += 1
    for array in (
        given.rows, given.masks, given.group_first, given.group_mask, given.group_count, given.free_licenses, given.stop
    ):
        if not read_column(plan, lengths, index, array):
            return False
        index += 1
    return read_counts(&plan.counts, lengths)


cdef bint read_counts(AxisLengths* counts, const int64_t* lengths) noexcept:
    """Reads the lengths by the letters of contract.py. False if one is too large for the planner's integers."""
    cdef int64_t longest = max(
        lengths[c'J'], lengths[c'Q'], lengths[c'P'], lengths[c'B'], lengths[c'F'], lengths[c'D'], lengths[c'N'],
        lengths[c'R'], lengths[c'M'], lengths[c'E'],
    )
    if longest >= INT32_MAX:
        return False
    counts.job_rows = lengths[c'J']
    counts.rows = lengths[c'Q']
    counts.parts = lengths[c'P']
    counts.blocks = lengths[c'B']
    counts.license_blocks = lengths[c'F']
    counts.group_entries = lengths[c'D']
    counts.nodes = <int32_t> lengths[c'N']
    counts.gres_kinds = <int32_t> lengths[c'G']
    counts.switch_levels = <int32_t> lengths[c'S']
    counts.running = <int32_t> lengths[c'R']
    counts.license_kinds = <int32_t> lengths[c'L']
    counts.reservations = <int32_t> lengths[c'V']
    counts.masks = <int32_t> lengths[c'M']
    counts.group_bounds = <int32_t> lengths[c'E']
    counts.mask_words = <int32_t> lengths[c'W']
    return counts.mask_words == (counts.nodes + 63) // 64


cdef bint read_limits(PlanPass* plan, object limits) except -1:
    """Cuts very large numbers to "no limit". False if one is invalid."""
    cdef int64_t window_s = min(limits.window_s, FOREVER)
    plan.limits.now_s = limits.now_s
    plan.limits.resolution_s = min(limits.resolution_s, FOREVER)
    plan.limits.starts_max = min(limits.starts_max, FOREVER)
    plan.limits.rows_max = min(limits.rows_max, FOREVER)
    plan.limits.copies_max = min(limits.copies_max, FOREVER)
    plan.limits.reserve_max = min(limits.reserve_max, FOREVER)
    plan.limits.estimate = bool(limits.estimate)
    plan.limits.units_per_cpu = min(limits.units_per_cpu, FOREVER)
    plan.limits.placements_max = contract.PLACEMENTS_MAX
    if not -FOREVER <= plan.limits.now_s <= FOREVER or plan.limits.resolution_s < 1 or plan.limits.units_per_cpu < 1:
        return False
    plan.limits.window_end_s = plan.limits.now_s + window_s
    plan.limits.last_start_s = greater(plan.limits.now_s, plan.limits.window_end_s - 1)
    return True
