"""Encodes jobs by columns: of each job only the fields that a table shows, written one field after the other.

A message for each job costs 35 us and some hundred bytes; a table of ten columns has 1 us and 30 bytes for the same
job. The columns are defined in penstock/values/jobcolumns.py, with the values of JobInfo (ctld/rpc/jobs/jobinfo.py); a
test compares both for every name.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final, TypeAlias, cast

from ctld.core.queue import priority
from ctld.core.records.job import JobRow
from ctld.core.state.forecast import Forecast
from ctld.core.state.state import ClusterState
from ctld.rpc.jobs.jobinfo import begin_of, counts, end_at, file_names, nodes_estimated
from penstock.v1 import controller_pb2
from penstock.values.hostlist import compress
from penstock.values.jobcolumns import NUMBERS, tres_per_node
from penstock.values.states import END_STATES, Hold, JobState

#: The value of a column for one job.
Word: TypeAlias = int | str | bytes
_Reader = Callable[[JobRow], Word]


def partition_of(row: JobRow) -> str:
    """Returns the partition it runs or ran in; for a pending job the list that it may run in."""
    return ",".join(row.request.partitions) if row.state is JobState.PENDING else row.partition


def reservation_of(row: JobRow) -> str:
    """Returns the reservation it runs in; while it waits, the requested ones."""
    request = row.request
    if row.state is JobState.PENDING:
        return request.reservation
    return request.reservation_run or request.reservation


def _state(row: JobRow) -> str:
    if row.hold is Hold.SPECIAL_EXIT and row.state is JobState.PENDING:
        return "SPECIAL_EXIT"
    if row.stopped and row.state is JobState.RUNNING:
        return "STOPPED"
    name: str = row.state._name_  # faster than .name, which is a Python call
    return name


def _per_node(row: JobRow) -> str:
    request = row.request
    if not request.gres_per_node:
        return "N/A"
    return tres_per_node(request.gres_per_node, bool(request.gres_per_job or request.gres_per_task))


def _memory(row: JobRow) -> int:
    request = row.request
    return (request.mem_per_node_mb if request.mem_per_cpu_mb is None else request.mem_per_cpu_mb) or 0


def _het_ids(row: JobRow) -> str:
    request = row.request
    return f"{request.het_job_id}-{request.het_job_id + request.het_size - 1}" if request.het_job_id else ""


def _file(name: str) -> _Reader:
    return lambda row: file_names(row, row.request).get(name, b"")


def _count(name: str) -> _Reader:
    return lambda row: counts(row)[name]


def _flag(name: str) -> _Reader:
    return lambda row: int(getattr(row.request, name, False))


def _optional(name: str) -> _Reader:
    def read(row: JobRow) -> int:
        value = getattr(row.request, name, None)
        return -1 if value is None else int(value)

    return read


#: How the value of a column is computed from a committed row. For other names it is the attribute of that name.
_READ: Final[dict[str, _Reader]] = {
    "array_task_id": lambda row: -1 if row.array_task_id is None else row.array_task_id,
    "array_tasks": lambda row: "" if row.array_tasks is None else row.array_tasks.format(),
    "state": _state,
    "reason": attrgetter("reason._value_"),  # as .value, without a Python call for each
    "request.begin_at_us": begin_of,
    "hold": lambda row: int(row.hold),
    "partition": partition_of,
    "end_at_us": end_at,
    "node_list": lambda row: compress(part.node for part in row.alloc) if row.alloc else "",
    "cpus": _count("cpus"),
    "request.nodes_max": lambda row: row.request.nodes_max if row.request.nodes_asked else 0,
    "tasks": _count("tasks"),
    "exit.code": attrgetter("exit_code"),
    "exit.signal": attrgetter("exit_signal"),
    "derived_exit.code": attrgetter("derived_code"),
    "derived_exit.signal": attrgetter("derived_signal"),
    "mem_mb": _memory,
    "tres_per_node": _per_node,
    "het_job_id": attrgetter("request.het_job_id"),
    "het_offset": attrgetter("request.het_offset"),
    "het_job_ids": _het_ids,
    "std_out": _file("std_out"),
    "std_err": _file("std_err"),
    "std_in": _file("std_in"),
    "request.kind": lambda row: int(row.request.kind),
    **{
        f"request.{name}": _flag(name)
        for name in ("exclusive", "exclusive_user", "exclusive_mcs", "exclusive_topo", "requeue", "contiguous")
    },
    **{f"request.{name}": _optional(name) for name in ("oversubscribe", "core_spec", "thread_spec")},
    "request.nodes_required": lambda row: compress(row.request.nodes_required) if row.request.nodes_required else "",
    "request.nodes_excluded": lambda row: compress(row.request.nodes_excluded) if row.request.nodes_excluded else "",
    "request.reservation": reservation_of,
}
_PLANNED: Final = ("last_sched_at_us", "planned_start_at_us", "planned_node_list")


def page(rows: Sequence[JobRow], names: Iterable[str], state: ClusterState, forecast: Forecast | None) -> bytes:
    """Encodes one page of a listing. `state`: for present priorities. `forecast`: None = not requested."""
    plans: dict[str, Iterable[Word]] = {}
    if forecast is not None:
        plans = dict(zip(_PLANNED, _plans(rows, forecast), strict=True))
    columns = []
    for name in names:
        if name == "priority":
            values: list[Word] = [priority_of(state, row) for row in rows]
        elif name == "nodes":
            values = [nodes_estimated(row, state.layout.cpus_largest) for row in rows]
        elif name in _PLANNED:
            values = list(plans[name]) if name in plans else [0 if name in NUMBERS else ""] * len(rows)
        else:
            read: _Reader = _READ.get(name) or attrgetter(name)
            values = list(map(read, rows))
        columns.append(_column(values, name in NUMBERS))
    return controller_pb2.ListJobsReply(columns=columns, rows=len(rows)).SerializeToString()


def _column(values: list[Word], are_numbers: bool) -> controller_pb2.JobColumn:
    """Encodes a column. A value that all jobs have is sent once."""
    if values.count(values[0]) == len(values):
        values = values[:1]
    if are_numbers:
        return controller_pb2.JobColumn(numbers=cast(list[int], values))
    texts = cast(list[str | bytes], values)  # the values of a column are of one kind
    words: dict[str | bytes, int] = {}
    index = [words.setdefault(value, len(words)) for value in texts] if len(texts) > 1 else []
    encoded = [_bytes(word) for word in words] if index else [_bytes(texts[0])]
    return controller_pb2.JobColumn(words=encoded, index=index)


def _bytes(word: str | bytes) -> bytes:
    return word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")


def priority_of(state: ClusterState, row: JobRow) -> int:
    """Returns the present priority."""
    if row.hold:
        return 0
    if state.priorities is None or row.state in END_STATES:
        return row.priority
    job = state.jobs.look(row.job_id)
    return row.priority if job is None else priority.current(state, job)


def _plans(rows: Sequence[JobRow], forecast: Forecast) -> tuple[list[int], list[int], list[str]]:
    made = []
    starts = []
    nodes = []
    known = forecast.of_many([row.job_id for row in rows])
    for row in rows:
        is_seen = row.state is JobState.PENDING and row.submit_at_us <= forecast.made_at_us
        found = known.get(row.job_id) if is_seen else None
        made.append(forecast.made_at_us if is_seen else 0)
        starts.append(found[0] * 1_000_000 if found is not None else 0)
        nodes.append(compress(found[1]) if found is not None else "")
    return made, starts, nodes
