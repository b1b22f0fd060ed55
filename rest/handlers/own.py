"""Penstock's own interface, /penstock/v1/: what Slurm's has not. It only grows: a path, a parameter or a member that is there
stays, in its meaning and type (tests/rest/penstock_v1.json is the record).

    GET /penstock/v1/jobs                   jobs in short, for tables of many
    GET /penstock/v1/jobs/wide              the same with more members
    GET /penstock/v1/jobs/past              jobs of a period, with what they used
    POST /penstock/v1/jobs/test             when and where a job would start, without queueing it
    POST /penstock/v1/jobs/lint             what sbatch --lint finds in a script
    GET /penstock/v1/jobs/{job_id}/script   the script of a batch job
    GET /penstock/v1/jobs/{job_id}/environment  the environment of a batch job
    GET /penstock/v1/jobs/{job_id}/why      why a job waits, and what would start it sooner
    GET /penstock/v1/jobs/{job_id}/story    what happened to it, in order
    GET /penstock/v1/jobs/use               what running jobs use now
    GET /penstock/v1/jobs/{job_id}/steps    its steps
    GET /penstock/v1/jobs/{job_id}/profile  what its steps and GPUs did over time
    GET /penstock/v1/jobs/{job_id}/efficiency  what it used of what it had, and advice
    GET /penstock/v1/jobs/{job_id}/output   what it has written
    GET /penstock/v1/queue                  how many jobs there are, by state, partition and reason
    GET /penstock/v1/fits                   the largest jobs that would start now
    GET /penstock/v1/forecast               expected starts of waiting jobs
    GET /penstock/v1/plan/without           whose expected start would move if nodes went
    POST /penstock/v1/plan/with             when and where a job would start, and whose expected start it would move
    GET /penstock/v1/gpus                   every GPU, its health and its jobs
    GET /penstock/v1/gpus/readings          what every GPU does now
    GET /penstock/v1/usage                  what was used in a period
    GET /penstock/v1/utilization            use of the whole cluster by the hour
    GET /penstock/v1/waste                  GPU time that was allocated and not used
    GET /penstock/v1/efficiency             what the jobs of a period used of what they had
    GET /penstock/v1/waits                  how long the jobs of a period waited
    GET /penstock/v1/budgets                budgets of accounts
    GET /penstock/v1/borrowing              who uses what other accounts leave idle
    GET /penstock/v1/topology               switches or blocks of the network
    GET /penstock/v1/nodes/events           times at which nodes were not up
    GET /penstock/v1/config                 the configuration in force
    GET /penstock/v1/config/diff            what the files say otherwise now
    GET /penstock/v1/controller             certificates, and the controller's database
    GET /penstock/v1/templates              templates of job scripts
    GET /penstock/v1/audit                  the audit log
    POST /penstock/v1/simulations           begin to simulate a workload
    GET /penstock/v1/policy                 accounts, QOS, limits and shares as one text
    POST /penstock/v1/policy/plan           what such a text would change
    POST /penstock/v1/policy/apply          make what a plan has shown
    POST /penstock/v1/policy/replay         begin to simulate its effect
    GET, POST /penstock/v1/sessions         notebooks and terminals that are jobs: the caller's; start one
    POST /penstock/v1/sessions/{job_id}/enter  an address that leads into one, once
    GET, DELETE /penstock/v1/simulations/{simulation_id}  its state and result; end or forget it

Answers are the messages of the controller, field by field, as `--json` of Penstock's own commands writes them: units end the
names (`_us`: microseconds since 1970, `_s`, `_mb`), a part that is absent is null. Beside them stand `errors` and `warnings`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from cli.base.document import Json, message_object
from cli.base.listing import words
from penstock.v1.controller_pb2 import (
    CertificateInfo,
    ConfigDifference,
    ConfigLine,
    DatabaseInfo,
    GetBatchScriptReply,
    GetBatchScriptRequest,
    GpuInfo,
    GpuReadingInfo,
    JobCount,
    JobFilter,
    JobInfo,
    ListGpuReadingsRequest,
    ListJobsRequest,
    ListNodesRequest,
    StoryLine,
    StoryReply,
    StoryRequest,
    SwitchInfo,
)
from penstock.v1.explain_pb2 import (
    FitsReply,
    FitsRequest,
    PlanChangeReply,
    ShowPlanChangeRequest,
    WhyJobReply,
    WhyJobRequest,
)
from penstock.v1.governance_pb2 import AuditInfo, BudgetInfo, EventInfo, ReportRow
from penstock.values.gpustates import GpuState
from penstock.values.hostlist import as_lists
from penstock.values.reasons import sentence
from penstock.values.refusals import TEXT, Code
from rest.answers import RestError
from rest.calling import RestCall, bad_query
from rest.contract.facts import NEWEST, ListOf, ObjectOf, Operation, Parameter, Scalar, Schema, Words, load
from rest.contract.parse import UNKNOWN_WORD
from rest.handlers import borrowing, interactive, joboutput, jobreports, jobuse, liveuse, pastjobs, policy, simulate
from rest.handlers.jobs import job_path, listed
from rest.handlers.jobtable import IN_SHORT, WIDE, in_short, shown_id, wide
from rest.handlers.jobwindow import WINDOW, window_of
from rest.handlers.lint import BODY as LINT_BODY
from rest.handlers.lint import FINDING, lint
from rest.handlers.site import audit, budgets, config, config_diff, controller, node_events, templates, topology
from rest.handlers.submit import plan_with, test
from rest.handlers.usage import GROUPS, USAGE_HOURS, UTILIZATION, usage, usage_hours, utilization
from rest.limits import PLAN_TIMEOUT_S
from rest.listing import JobItem, listing, pages_of_moment

if TYPE_CHECKING:
    from google.protobuf.message import Message

PREFIX: Final = "/penstock/v1"
TAG: Final = "penstock"
_TEXT: Final = Scalar("string")
_JOB_ID: Final = Parameter("job_id", "path", _TEXT, True)


class OwnRecord(NamedTuple):
    """The type of a member: the fields of a message, and others beside them."""

    message: "type[Message] | None"
    others: Mapping[str, "OwnType"] = {}
    is_list: bool = False


#: A word is a type of JSON Schema; `?` after it: or null, `[]` after both: a list of these.
OwnType: TypeAlias = OwnRecord | str


class OwnPath(NamedTuple):
    """One method of a path. `members`: of its answer, beside errors and warnings. `body`: the path of Slurm's interface whose
    body it takes, by POST; `takes`: the members of a body of its own, by their types. Without either it is read, unless `verb`
    says otherwise. `name`: of the operation, where the path does not end in one.
    """

    path: str
    summary: str
    handler: Callable[[RestCall], Awaitable[Json]]
    parameters: tuple[Parameter, ...]
    members: Mapping[str, OwnType]
    body: str = ""
    takes: Mapping[str, str] = {}
    verb: str = ""
    name: str = ""

    @property
    def method(self) -> str:
        """get, post or delete."""
        return self.verb or ("post" if self.body or self.takes else "get")

    def operation(self) -> Operation:
        """As the operations of Slurm's contract are; its answers have no form of a version."""
        name = f"penstock_v1_{self.name or self.path.rpartition('/')[2]}"
        body: Schema | None = None
        if self.body:
            body = load().versions[NEWEST].operations[self.body]["post"].body
        elif self.takes:
            body = ObjectOf({member: _schema(kind) for member, kind in self.takes.items()})
        return Operation("v1", f"{PREFIX}{self.path}", self.method, name, TAG, ObjectOf({}), self.parameters, body)


def _schema(kind: str) -> Schema:
    """The type of a member of a body."""
    if kind.endswith("[]"):
        return ListOf(_schema(kind[:-2]))
    return Scalar("int32" if kind == "integer" else kind)


async def why(call: RestCall) -> Json:
    """Why a job waits."""
    text = call.path["job_id"]
    job_path(text)
    reply: WhyJobReply = await call.call("WhyJob", WhyJobRequest(id=text), PLAN_TIMEOUT_S)
    return {"why": message_object(reply) | {"sentence": sentence(reply.reason)}}


async def story(call: RestCall) -> Json:
    """What happened to a job, or to one task of an array."""
    text = call.path["job_id"]
    selector = job_path(text)
    job_id = selector.job_id
    if selector.tasks is not None or selector.het_offset is not None:
        found = [one.job_id async for one in listed(call, [text])]
        if len(found) != 1:
            raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], f"{text} is not one job")
        (job_id,) = found
    reply: StoryReply = await call.call("Story", StoryRequest(job_id=job_id))
    return {"job_id": job_id, "lines": [message_object(one) for one in reply.lines]}


async def jobs(call: RestCall) -> Json:
    """Jobs in short: those in the queue and those that ended lately; all of them, or a window of them in an order."""
    return await _all_or_window(call, _all_states(call), in_short)


async def jobs_wide(call: RestCall) -> Json:
    """The same with more members."""
    return await _all_or_window(call, _all_states(call), wide)


def _all_states(call: RestCall) -> ListJobsRequest:
    return ListJobsRequest(filter=_which(call, words(call.query.get("states"))), all_states=True, planned=True)


async def _all_or_window(call: RestCall, request: ListJobsRequest, make: Callable[[JobInfo], Json]) -> Json:
    """The jobs of a request, or the window of them that the query asks for."""
    window = window_of(call)
    if window is None:
        return {"jobs": await listing(call, "ListJobs", request, JobItem(make)), "total": None}
    request.window.CopyFrom(window)
    found: list[Json] = []
    total = 0
    async for page, _ in pages_of_moment(call, "ListJobs", request):
        total += page.total
        found += map(make, page.jobs)
    call.check_modified()
    return {"jobs": found, "total": total}


async def queue(call: RestCall) -> Json:
    """How many jobs there are, and their GPUs."""
    request = ListJobsRequest(filter=_which(call, words(call.query.get("states"))), counts=True)
    pages = pages_of_moment(call, "ListJobs", request)
    found = [message_object(one) async for page, _ in pages for one in page.counts]
    call.check_modified()
    return {"queue": found}


def _which(call: RestCall, states: list[str]) -> JobFilter:
    """The jobs in these states that the query asks for."""
    query = call.query
    nodes = [query["nodes"]] if query.get("nodes") else []
    return JobFilter(
        states=states, users=words(query.get("users")), partitions=words(query.get("partitions")), nodes=nodes
    )


async def script(call: RestCall) -> Json:
    """The script of a batch job; bytes that are not UTF-8 are replaced."""
    selector = job_path(call.path["job_id"])
    reply: GetBatchScriptReply = await call.call("GetBatchScript", GetBatchScriptRequest(job_id=selector.job_id))
    return {"job_id": selector.job_id, "script": reply.script.decode("utf-8", "replace")}


async def environment(call: RestCall) -> Json:
    """The environment of a batch job as it was submitted; bytes that are not UTF-8 are replaced."""
    selector = job_path(call.path["job_id"])
    request = GetBatchScriptRequest(job_id=selector.job_id, environment=True)
    reply: GetBatchScriptReply = await call.call("GetBatchScript", request)
    lines = [one.decode("utf-8", "replace") for one in reply.environment]
    return {"job_id": selector.job_id, "environment": sorted(lines)}


async def fits(call: RestCall) -> Json:
    """The largest jobs that would start now, by partition."""
    request = FitsRequest(partitions=words(call.query.get("partitions")))
    reply: FitsReply = await call.call("Fits", request, PLAN_TIMEOUT_S)
    return {"fits": message_object(reply)}


async def plan_without(call: RestCall) -> Json:
    """Whose expected start would move if nodes went."""
    request = ShowPlanChangeRequest(nodes=[call.query.get("nodes", "")], jobs_run_on=call.query.get("jobs") == RUN_ON)
    reply: PlanChangeReply = await call.call("ShowPlanChange", request, PLAN_TIMEOUT_S)
    return {"change": message_object(reply)}


async def forecast(call: RestCall) -> Json:
    """The expected starts of waiting jobs; 0 = none is known. In the order of their ids, or of the window."""
    request = ListJobsRequest(filter=_which(call, ["PENDING"]), planned=True)
    return await _all_or_window(call, request, _expected)


def _expected(one: JobInfo) -> Json:
    return {
        "job_id": one.job_id,
        "shown_id": shown_id(one),
        "name": one.request.name,
        "user_name": one.user_name,
        "partition": one.partition,
        "priority": one.priority,
        "reason": one.reason,
        "start_at_us": one.planned_start_at_us,
        "node_list": one.planned_node_list,
        "time_limit_s": one.time_limit_s,
    }


async def gpus(call: RestCall) -> Json:
    """Every GPU, its health and its jobs."""
    names = call.node_names("nodes")
    states = [word.upper() for word in words(call.query.get("states"))]
    for word in states:
        if word not in GpuState.__members__:
            raise bad_query("states", word, UNKNOWN_WORD)
    request = ListNodesRequest(names=as_lists(names), gpus=True, gpus_only=True)
    nodes = (await call.polled("ListNodes", request)).nodes
    missing = sorted(set(names) - {node.name for node in nodes})
    if missing:
        raise RestError(404, 2018, "Invalid node name specified", missing[0], "#/nodes")
    found = [(node.name, gpu) for node in nodes for gpu in node.gpus if not states or gpu.state in states]
    return {"gpus": [{"node": node} | message_object(gpu) for node, gpu in found]}


async def gpu_readings(call: RestCall) -> Json:
    """What every GPU does now, as its node said last; GPUs of which nothing is known are not listed."""
    reply = await call.polled("ListGpuReadings", ListGpuReadingsRequest(names=as_lists(call.node_names("nodes"))))
    return {"readings": [message_object(one) for one in reply.readings]}


_FORECAST: Final = {
    "job_id": "integer", "shown_id": "string", "name": "string", "user_name": "string", "partition": "string",
    "priority": "integer", "reason": "string", "start_at_us": "integer", "node_list": "string", "time_limit_s": "integer",
}  # fmt: skip
_EXPECTED: Final[Mapping[str, OwnType]] = {
    "start_at_us": "integer", "node_list": "string", "partition": "string", "cpus": "integer",
    "job_submit_user_msg": "string",
}  # fmt: skip
_STEP: Final[Mapping[str, OwnType]] = {
    "step": "string", "name": "string", "state": "string", "start_at_us": "integer", "end_at_us": "integer",
    "exit_code": "integer", "exit_signal": "integer", "node_list": "string", "nodes": "integer", "tasks": "integer",
    "cpus": "integer", "tres": "string", "cpu_used_us": "integer", "max_rss_kb": "integer",
    "user_cpu_us": "integer", "system_cpu_us": "integer", "max_vmsize_kb": "integer", "disk_read_bytes": "integer",
    "disk_written_bytes": "integer", "figures": OwnRecord(None, jobuse.FIGURE, is_list=True),
    "task_ends": OwnRecord(None, jobuse.TASK_END, is_list=True), "task_ends_left_out": "integer",
}  # fmt: skip
_METRIC: Final = {"name": "string", "mean": "number", "max": "number", "means": "number?[]", "maxima": "number?[]"}
_LINE: Final[Mapping[str, OwnType]] = {
    "kind": "string",
    "device": "string",
    "metrics": OwnRecord(None, _METRIC, is_list=True),
}
_PROFILE: Final[Mapping[str, OwnType]] = {
    "step": "string", "node": "string", "start_at_us": "integer", "interval_s": "number",
    "lines": OwnRecord(None, _LINE, is_list=True), "tasks": OwnRecord(None, jobuse.TASK, is_list=True),
}  # fmt: skip
_STATES: Final = Words(tuple(GpuState.__members__))
#: What becomes of the jobs on nodes that go.
RUN_ON: Final = "run_on"
_FATES: Final = Words(("end", RUN_ON))
_COUNT: Final = {"reason": "string", "count": "integer"}
_CURVE: Final = {"name": "string", "mean": "number", "max": "number", "means": "number?[]"}
_RUN: Final[Mapping[str, OwnType]] = {
    "policy": "string", "engine": "string", "notes": "string[]",
    "figures": OwnRecord(None, {"name": "string", "value": "number"}, is_list=True),
    "lines": OwnRecord(None, _CURVE, is_list=True),
}  # fmt: skip
_SIMULATION: Final[Mapping[str, OwnType]] = {
    "simulation_id": "string", "state": "string", "error": "string", "name": "string", "jobs": "integer",
    "processors": "integer", "interval_s": "number", "notes": "string[]",
    "left_out": OwnRecord(None, _COUNT, is_list=True), "doubts": OwnRecord(None, _COUNT, is_list=True),
    "runs": OwnRecord(None, _RUN, is_list=True), "waits": OwnRecord(None, policy.WAIT, is_list=True),
}  # fmt: skip
_STEP_OF_PLAN: Final[Mapping[str, OwnType]] = {
    "sign": "string", "what": "string", "changes": OwnRecord(None, policy.CHANGE, is_list=True),
}  # fmt: skip
_SIMULATION_ID: Final = Parameter("simulation_id", "path", _TEXT, True)


def _query(name: str, schema: Scalar | Words = _TEXT) -> Parameter:
    return Parameter(name, "query", schema, False)


def _rows(members: Mapping[str, str]) -> Mapping[str, OwnType]:
    return {"start_at_us": "integer", "end_at_us": "integer", "rows": OwnRecord(None, members, is_list=True)}


OWN_PATHS: Final = (
    OwnPath("/jobs", "Jobs in short: all, or a window of them in an order", jobs,
            (_query("states"), _query("users"), _query("partitions"), _query("nodes"), *map(_query, WINDOW)),
            {"jobs": OwnRecord(None, IN_SHORT, is_list=True), "total": "integer?"}),
    OwnPath("/jobs/wide", "Jobs with all that a table may show of them", jobs_wide,
            (_query("states"), _query("users"), _query("partitions"), _query("nodes"), *map(_query, WINDOW)),
            {"jobs": OwnRecord(None, WIDE, is_list=True), "total": "integer?"}, name="jobs_wide"),
    OwnPath("/jobs/past", "Jobs of a period from the accounting records, with what they used: a window of them, the newest first",
            pastjobs.past_jobs, (*map(_query, pastjobs.PARAMETERS),),
            {"jobs": OwnRecord(None, pastjobs.PAST, is_list=True), "total": "integer"}, name="jobs_past"),
    OwnPath("/jobs/use", "What running jobs use now: CPU time and memory by their nodes, GPUs by the last readings",
            liveuse.use, (_query("jobs"),), {"jobs": OwnRecord(None, liveuse.USE, is_list=True)}, name="jobs_use"),
    OwnPath("/jobs/test", "When and where a job would start, without queueing it", test, (),
            _EXPECTED, body="/slurm/{v}/job/submit"),
    OwnPath("/jobs/lint", "What sbatch --lint finds in a script, by line; nothing is queued, and nothing in it looked up", lint,
            (), {"findings": OwnRecord(None, FINDING, is_list=True), "lines_read": "integer"}, takes=LINT_BODY),
    OwnPath("/jobs/{job_id}/script", "The script of a batch job", script, (_JOB_ID,),
            {"job_id": "integer", "script": "string"}),
    OwnPath("/jobs/{job_id}/environment", "The environment of a batch job, as submitted: for those who may see the script",
            environment, (_JOB_ID,), {"job_id": "integer", "environment": "string[]"}),
    OwnPath("/jobs/{job_id}/why", "Why a job waits, and what would start it sooner", why, (_JOB_ID,),
            {"why": OwnRecord(WhyJobReply, {"sentence": "string"})}),
    OwnPath("/jobs/{job_id}/story", "What happened to a job, in order", story, (_JOB_ID,),
            {"job_id": "integer", "lines": OwnRecord(StoryLine, is_list=True)}),
    OwnPath("/jobs/{job_id}/steps", "The steps of a job, in the order of their starts", jobuse.steps, (_JOB_ID,),
            {"job_id": "integer", "steps": OwnRecord(None, _STEP, is_list=True)}),
    OwnPath("/jobs/{job_id}/profile", "What a job's steps and their GPUs did over time", jobuse.profile,
            (_JOB_ID, _query("step"), _query("nodes"), _query("points"), _query("tasks")),
            {"job_id": "integer", "profiles": OwnRecord(None, _PROFILE, is_list=True)}),
    OwnPath("/jobs/{job_id}/efficiency", "What a job used of what it had, and advice", jobuse.efficiency, (_JOB_ID,),
            {"job_id": "integer", "state": "string", "advice": "string[]",
             "figures": OwnRecord(None, {name: kind for name, kind, _ in jobuse.EFFICIENCY})}),
    OwnPath("/jobs/{job_id}/output", "What a job has written: the end of its output, or what follows an offset",
            joboutput.output, (_JOB_ID, _query("step"), _query("stream"), _query("offset"), _query("lines"), _query("task")),
            joboutput.OUTPUT),
    OwnPath("/queue", "How many jobs there are by state, partition and reason, and their GPUs", queue,
            (_query("states"), _query("users"), _query("partitions")), {"queue": OwnRecord(JobCount, is_list=True)}),
    OwnPath("/fits", "The largest jobs that would start now, by partition", fits, (_query("partitions"),),
            {"fits": OwnRecord(FitsReply)}),
    OwnPath("/forecast", "Expected starts of waiting jobs", forecast,
            (_query("users"), _query("partitions"), _query("nodes"), *map(_query, WINDOW)),
            {"jobs": OwnRecord(None, _FORECAST, is_list=True), "total": "integer?"}),
    OwnPath("/plan/without", "Whose expected start would move if nodes went", plan_without,
            (_query("nodes"), _query("jobs", _FATES)), {"change": OwnRecord(PlanChangeReply)}, name="plan_without"),
    OwnPath("/plan/with", "When and where a job would start, and whose expected start it would move", plan_with, (),
            {**_EXPECTED, "change": OwnRecord(PlanChangeReply)}, body="/slurm/{v}/job/submit", name="plan_with"),
    OwnPath("/gpus", "Every GPU, its health and its jobs", gpus, (_query("nodes"), _query("states", _STATES)),
            {"gpus": OwnRecord(GpuInfo, {"node": "string"}, is_list=True)}),
    OwnPath("/gpus/readings", "What every GPU does now, as its node said last; those of which nothing is known are not listed",
            gpu_readings, (_query("nodes"),), {"readings": OwnRecord(GpuReadingInfo, is_list=True)}, name="gpu_readings"),
    OwnPath("/usage", "What was used in a period: TRES seconds by group_by", usage,
            (_query("start"), _query("end"), _query("group_by", GROUPS), _query("tres")),
            {"start_at_us": "integer", "end_at_us": "integer", "rolled_up_to_us": "integer",
             "rows": OwnRecord(ReportRow, is_list=True)}),
    OwnPath("/usage/hours", "The accounts, users, ... that used most in a period, hour by hour: TRES seconds", usage_hours,
            (_query("start"), _query("end"), _query("by", GROUPS), _query("tres"), _query("count")),
            {"start_at_us": "integer", "end_at_us": "integer", "rolled_up_to_us": "integer",
             "groups": OwnRecord(None, USAGE_HOURS, is_list=True)}, name="usage_hours"),
    OwnPath("/utilization", "Use of the whole cluster, hour by hour: TRES seconds", utilization,
            (_query("start"), _query("end"), _query("tres")),
            {"start_at_us": "integer", "end_at_us": "integer", "rolled_up_to_us": "integer",
             "hours": OwnRecord(None, UTILIZATION, is_list=True)}),
    OwnPath("/waste", "GPU time that jobs which ended in a period had and did not use, by user, account or job name",
            jobreports.waste, (_query("start"), _query("end"), _query("by", jobreports.WASTE_GROUPS), _query("count")),
            _rows(jobreports.WASTE)),
    OwnPath("/efficiency", "What jobs that ended in a period used of what they had", jobreports.efficiency,
            (_query("start"), _query("end"), _query("group_by", GROUPS)), _rows(jobreports.EFFICIENCY),
            name="efficiency_of_period"),
    OwnPath("/waits", "How long jobs that started in a period had waited", jobreports.waits,
            (_query("start"), _query("end"), _query("group_by", jobreports.WAIT_GROUPS)), _rows(jobreports.WAITS)),
    OwnPath("/budgets", "Budgets of accounts: used, reserved, period", budgets, (_query("accounts"),),
            {"budgets": OwnRecord(BudgetInfo, is_list=True)}),
    OwnPath("/borrowing", "Guarantees of accounts that lend and borrow: what is used beyond them, what is idle",
            borrowing.borrowing, (), {"rows": OwnRecord(None, borrowing.BORROWING, is_list=True)}),
    OwnPath("/topology", "The switches or blocks of the network, the lowest level first", topology, (),
            {"kind": "string", "switches": OwnRecord(SwitchInfo, is_list=True)}),
    OwnPath("/nodes/events", "Times at which nodes, or the cluster, were not up", node_events,
            (_query("nodes"), _query("start"), _query("end")), {"events": OwnRecord(EventInfo, is_list=True)},
            name="node_events"),
    OwnPath("/config", "The configuration in force, as scontrol show config", config, (),
            {"at_us": "integer", "lines": OwnRecord(ConfigLine, is_list=True)}),
    OwnPath("/config/diff", "What the files say otherwise than the configuration in force, for administrators", config_diff, (),
            {"differences": OwnRecord(ConfigDifference, is_list=True), "problems": "string[]", "jobs": "string[]",
             "file_errors": "string[]"}, name="config_diff"),
    OwnPath("/controller", "Until when certificates are valid, and where the database is, for administrators", controller, (),
            {"certificates": OwnRecord(CertificateInfo, is_list=True), "issued": "integer", "database": OwnRecord(DatabaseInfo)}),
    OwnPath("/templates", "The site's templates of job scripts", templates, (),
            {"templates": OwnRecord(None, dict.fromkeys(("name", "title", "description", "script"), "string"), is_list=True)}),
    OwnPath("/audit", "The audit log, for administrators: each record as JSON, and its hash", audit,
            (_query("start"), _query("end"), _query("users")), {"records": OwnRecord(AuditInfo, is_list=True)}),
    OwnPath("/simulations", "Begin to simulate a log, or the cluster's last days, under some policies", simulate.begin, (),
            _SIMULATION, takes=simulate.BODY),
    OwnPath("/simulations/{simulation_id}", "A simulation of the caller: its state, and its result when it is done",
            simulate.show, (_SIMULATION_ID,), _SIMULATION, name="simulation"),
    OwnPath("/policy", "Accounts, users, QOS, limits and shares as one text, as penstock policy export", policy.show, (),
            {"policy": "string"}),
    OwnPath("/policy/plan", "What such a text would change, and whether the controller would make it for the caller",
            policy.plan, (),
            {"steps": OwnRecord(None, _STEP_OF_PLAN, is_list=True), "not_in_the_file": "string[]", "fingerprint": "string",
             "refusal": "string"}, takes=policy.BODY, name="policy_plan"),
    OwnPath("/policy/apply", "Make all that a plan has shown, or nothing; 409 if the cluster is another one since",
            policy.apply, (), {"changes": "integer"}, takes=policy.APPLY, name="policy_apply"),
    OwnPath("/policy/replay", "Begin to replay the last days' jobs under the present policy and a text's", policy.replay, (),
            _SIMULATION, takes=policy.REPLAY, name="policy_replay"),
    OwnPath("/sessions", "The caller's own sessions: notebooks and terminals that are jobs", interactive.sessions, (),
            {"sessions": OwnRecord(None, interactive.SESSION, is_list=True),
             "kinds": OwnRecord(None, interactive.KIND, is_list=True)}),
    OwnPath("/sessions", "Start a session", interactive.create, (), {"job_id": "integer", "job_submit_user_msg": "string"},
            takes=interactive.REQUEST, name="start_session"),
    OwnPath("/sessions/{job_id}/enter", "An address that leads into a session, once", interactive.enter, (_JOB_ID,),
            {"url": "string"}, verb="post", name="enter_session"),
    OwnPath("/simulations/{simulation_id}", "End a simulation; of one that has ended, forget the result",
            simulate.cancel, (_SIMULATION_ID,), _SIMULATION, verb="delete", name="cancel_simulation"),
)  # fmt: skip


def operations() -> dict[str, dict[str, Operation]]:
    """By path and method."""
    found: dict[str, dict[str, Operation]] = {}
    for one in OWN_PATHS:
        found.setdefault(one.path, {})[one.method] = one.operation()
    return found
