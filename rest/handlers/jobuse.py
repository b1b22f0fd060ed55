"""What a job does and has done, in /penstock/v1/: its steps, their profiles, its efficiency.

    GET /penstock/v1/jobs/{job_id}/steps        from the accounting records
    GET /penstock/v1/jobs/{job_id}/profile      as penstock profile: use over time, by step, node and GPU
    GET /penstock/v1/jobs/{job_id}/efficiency   as seff, with its advice

Figures of running steps are of their nodes, which answer the job's user and operators; a warning says what is not had.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cli.base.document import Json
from cli.base.format import DisplayClock
from cli.base.jobids import wire_id
from cli.base.listing import words
from cli.listings.jobefficiency import as_object, measured
from cli.listings.livesteps import LiveBounds
from cli.listings.profilechart import drawn_object
from cli.listings.profiles import ProfileDemand, profiles_of
from cli.listings.taskends import end_object
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply, ListRecordsRequest, StepMetric, StepRecord
from penstock.v1.common_pb2 import UsageMetric
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, format_step, parse_selector
from penstock.values.refusals import TEXT, Code
from rest.answers import RestError
from rest.asking import in_thread
from rest.calling import DIGITS_MAX, RestCall, bad_query
from rest.contract.parse import CONVERSION
from rest.handlers.jobs import job_path
from rest.limits import ASKED_NODES_MAX, ASKED_STEP_S, ASKED_STEPS_MAX

#: Steps of an answer: of a job with more, the latest.
STEPS_MAX: Final = 1_000
#: Profiles of an answer (a step on a node), and points of each of their lines.
PROFILES_MAX: Final = 16
POINTS: Final = 240
POINTS_MAX: Final = 480
#: Tasks whose lines one answer has.
TASKS_MAX: Final = 16
#: Members of a figure over the tasks of a step (`cpu_ms`, `rss_kb`, ...), and their types.
FIGURE: Final = {
    "name": "string", "total": "integer", "max": "integer", "max_node": "string", "max_task": "integer", "min": "integer",
    "min_node": "string", "min_task": "integer",
}  # fmt: skip
#: Kinds of figures that are known; a later release may know more.
_KINDS: Final = frozenset(UsageMetric.Kind.values())
#: Members of tasks that ended alike, and their types. `kind` is EXITED, UNKNOWN or NOT_STARTED.
TASK_END: Final = {
    "node": "string", "ranks": "string", "kind": "string", "exit_code": "integer", "exit_signal": "integer",
}  # fmt: skip
#: Members of what a task has used, and their types.
TASK: Final = {
    "rank": "integer", "cpu_used_s": "number?", "memory_max_bytes": "integer?", "read_bytes": "integer?",
    "written_bytes": "integer?",
}  # fmt: skip
_BOUNDS: Final = LiveBounds(ASKED_STEPS_MAX, ASKED_NODES_MAX, ASKED_STEP_S)


async def steps(call: RestCall) -> Json:
    """The steps, in the order of their starts."""
    job = await one_record(call, job_path(call.path["job_id"]), with_task_ends=True)
    found = sorted(job.steps, key=lambda step: (step.start_at_us, step.step_id))
    if len(found) > STEPS_MAX:
        call.warn(f"it has {len(found)} steps; only the latest {STEPS_MAX} are here")
    return {"job_id": job.job_id, "steps": [_step(one) for one in found[-STEPS_MAX:]]}


def _step(one: StepRecord) -> Json:
    return {
        "step": format_step(one.step_id),
        "name": one.name,
        "state": one.state,
        "start_at_us": one.start_at_us,
        "end_at_us": one.end_at_us,
        "exit_code": one.exit.code,
        "exit_signal": one.exit.signal,
        "node_list": one.node_list,
        "nodes": one.nodes_alloc,
        "tasks": one.tasks,
        "cpus": one.cpus_alloc,
        "tres": one.tres_alloc,
        "cpu_used_us": one.usage.user_cpu_us + one.usage.system_cpu_us,
        "max_rss_kb": one.usage.max_rss_kb,
        "user_cpu_us": one.usage.user_cpu_us,
        "system_cpu_us": one.usage.system_cpu_us,
        "max_vmsize_kb": one.usage.max_vmsize_kb,
        "disk_read_bytes": one.usage.disk_read_bytes,
        "disk_written_bytes": one.usage.disk_write_bytes,
        "figures": [_figure(metric) for metric in one.metrics if metric.kind in _KINDS],
        "task_ends": [end_object(ends) for ends in one.task_ends],
        "task_ends_left_out": one.task_ends_left_out,
    }


def _figure(one: StepMetric) -> Json:
    return {"name": UsageMetric.Kind.Name(one.kind).lower()} | {
        name: getattr(one, name) for name in FIGURE if name != "name"
    }


async def profile(call: RestCall) -> Json:
    """The profiles of the steps, or of one (`step`), on all nodes or some (`nodes`); with the lines of some tasks (`tasks`)."""
    selector, nodes = job_path(call.path["job_id"]), call.node_names("nodes")
    points, ranks = min(call.number("points") or POINTS, POINTS_MAX), _ranks(call)
    step_id = step_of(call)
    if step_id is not None:
        selector = replace(selector, step_id=step_id)
    job = await one_record(call, selector)
    ids, demand = [wire_id(selector)], ProfileDemand(frozenset(nodes), PROFILES_MAX, _BOUNDS)
    found = await in_thread(
        call,
        lambda client: [
            drawn_object(one, points, ranks) for one in profiles_of(client, [job], ids, client.say, demand)
        ],
    )
    call.tag.vary(json.dumps(found))  # nodes have answered, too
    return {"job_id": job.job_id, "profiles": found}


def _ranks(call: RestCall) -> frozenset[int]:
    """The tasks whose lines the query asks for, `0,1,5`. Raises RestError."""
    found = words(call.query.get("tasks"))
    if len(found) > TASKS_MAX or not all(one.isascii() and one.isdigit() and len(one) <= DIGITS_MAX for one in found):
        raise bad_query("tasks", call.query.get("tasks", ""), CONVERSION)
    return frozenset(map(int, found))


def step_of(call: RestCall) -> int | None:
    """The step that the query names (0, batch). Raises RestError."""
    text = call.query.get("step", "")
    if not text:
        return None
    try:
        found = parse_selector(f"1.{text}").step_id
    except BadValue as error:
        raise bad_query("step", text, CONVERSION) from error
    if found is None:
        raise bad_query("step", text, CONVERSION)
    return found


async def efficiency(call: RestCall) -> Json:
    """The figures of seff, under names with their units."""
    job = await one_record(call, job_path(call.path["job_id"]))
    clock = DisplayClock(call.now_us)
    found = as_object(*await in_thread(call, lambda client: measured(client, [job], clock, client.say, _BOUNDS)))
    is_known = job.start_at_us > 0 and job.state != "PENDING"
    figures = {name: _at(found, path) if is_known else None for name, _, path in EFFICIENCY}
    content = {"job_id": job.job_id, "state": job.state, "figures": figures, "advice": found["advice"]}
    call.tag.vary(json.dumps(content))
    return content


def _at(found: Json, path: Sequence[str]) -> object:
    value: object = found
    for name in path:
        assert isinstance(value, dict)
        value = value[name]
    return value


#: Members of the figures, their types, and where they are in what `seff --json` prints.
EFFICIENCY: Final = (
    ("nodes", "integer?", ("nodes",)),
    ("cores", "integer?", ("cores",)),
    ("elapsed_s", "integer?", ("time", "elapsed")),
    ("time_limit_s", "integer?", ("time", "limit")),
    ("time_percent", "number?", ("time", "efficiency_percent")),
    ("cpu_used_s", "number?", ("cpu", "used")),
    ("cpu_allocated_s", "number?", ("cpu", "allocated")),
    ("cpu_percent", "number?", ("cpu", "efficiency_percent")),
    ("memory_used_bytes", "integer?", ("memory", "used")),
    ("memory_allocated_bytes", "integer?", ("memory", "allocated")),
    ("memory_percent", "number?", ("memory", "efficiency_percent")),
    ("gpus", "integer?", ("gpu", "count")),
    ("gpu_percent", "number?", ("gpu", "efficiency_percent")),
    ("gpu_memory_used_bytes", "integer?", ("gpu", "memory_used")),
    ("gpu_memory_allocated_bytes", "integer?", ("gpu", "memory_allocated")),
    ("gpu_memory_percent", "number?", ("gpu", "memory_efficiency_percent")),
    ("gpu_profiled_s", "number?", ("gpu", "profiled")),
    ("gpu_idle_s", "number?", ("gpu", "idle")),
    ("gpu_throttled_s", "number?", ("gpu", "throttled")),
    ("energy_joules", "integer?", ("gpu", "energy_joules")),
)


async def one_record(call: RestCall, selector: JobSelector, with_task_ends: bool = False) -> JobRecord:
    """The record of one job, with the selected step alone. Raises RestError."""
    found: list[JobRecord] = []
    page: ListRecordsReply
    asked = ListRecordsRequest(ids=[wire_id(selector)], with_task_ends=with_task_ends)
    async for page in call.pages("ListRecords", asked):
        found += page.records
        if len(found) > 1:
            break
    if len(found) != 1:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], f"{call.path['job_id']} is not one job")
    return found[0]
