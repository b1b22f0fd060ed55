"""Penstock's own interface, in process: answers have the form of its OpenAPI document, which only grows.

A new path, parameter or member is added to penstock_v1.json by running this module:

    PYTHONPATH=.:tests/support .venv/bin/python tests/rest/test_own.py
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest

from cli.steps import stepquery
from ctld.rpc.gate.incoming import check_bounds
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import (
    JobRecord,
    ListProfilesReply,
    ListRecordsReply,
    ProfileRecord,
    StepMetric,
    StepRecord,
)
from penstock.v1.common_pb2 import ExitStatus, TaskEnds, Usage, UsageMetric
from penstock.v1.controller_pb2 import (
    GetBatchScriptReply,
    GpuInfo,
    GpuReadingInfo,
    JobInfo,
    ListGpuReadingsReply,
    ListJobsReply,
    ListNodesReply,
    NodeInfo,
    PingReply,
    ReconfigureReply,
    ShowConfigReply,
    ShowControllerReply,
    ShowTopologyReply,
    StoryReply,
    SubmitJobReply,
)
from penstock.v1.explain_pb2 import FitsReply, PlanChangeReply, WhyJobReply
from penstock.v1.governance_pb2 import (
    ListAuditReply,
    ListBudgetsReply,
    ListCountersReply,
    ListEventsReply,
    ReportReply,
    ReportRequest,
)
from penstock.v1.steps_pb2 import AttachStepReply, ListStepsReply, OpenOutputRequest, RankSet, StepInfo
from penstock.values.hostlist import expand_all
from penstock.values.profile import COLUMNS, GPU, HOST, TASK, encode_profile
from penstock.values.refusals import TEXT, Code
from penstock.values.timeline import SampleLine
from rest.answers import RestError
from rest.handlers import jobuse, pastjobs
from rest.handlers.own import OWN_PATHS
from rest.limits import ASKED_JOBS_MAX, ASKED_NODES_MAX, CALLER_READINGS_MAX, Requests
from rest.openapi import own_document

RECORD = Path(__file__).with_name("penstock_v1.json")
OWN = "/penstock/v1"
HOUR_US = 3600 * 1_000_000


def a_profile() -> bytes:
    """Of a minute, with a GPU that does nothing at first."""
    host, gpu = SampleLine(len(COLUMNS[HOST])), SampleLine(len(COLUMNS[GPU]))
    for number in range(4):
        host.add((number + 1) * 150, (1000 * (number + 1), 2048, 0, 4096))
        gpu.add((number + 1) * 150, (0 if number < 2 else 900, 1024, 300_000, 60, None))
    return encode_profile([(HOST, "", host), (GPU, "GPU-1", gpu)])


A_RECORD = JobRecord(
    job_id=5, state="COMPLETED", start_at_us=HOUR_US, end_at_us=3 * HOUR_US, time_limit_s=36_000, cpus_alloc=4, nodes_alloc=1,
    tres_alloc="cpu=4,mem=8G,node=1,gres/gpu=1",
    steps=[
        StepRecord(step_id=-5, name="batch", state="COMPLETED", start_at_us=HOUR_US, end_at_us=3 * HOUR_US, tasks=1,
                   usage=Usage(user_cpu_us=2 * HOUR_US, max_rss_kb=1024)),
        StepRecord(step_id=0, name="train", state="FAILED", start_at_us=2 * HOUR_US, exit=ExitStatus(code=3), node_list="n1"),
    ],
)  # fmt: skip
A_PROFILE = ProfileRecord(job_id=5, step_id=0, node="n1", profile=a_profile())
REPORT_ROWS: dict[int, Any] = {
    ReportRequest.CLUSTER: {"keys": ["7200"], "tres": "gres/gpu", "values": [3600, 0, 0, 25_200, 0, 28_800, 0, 8]},
    ReportRequest.USAGE: {"keys": ["lab", "ann"], "tres": "cpu", "values": [3600]},
    ReportRequest.WASTE: {"keys": ["ann"], "values": [3, 72_000, 288_000, 5, 7200]},
    ReportRequest.EFFICIENCY: {"keys": ["lab"], "values": [2, 30, 120, 0, 0, 45, 60]},
    ReportRequest.WAITS: {"keys": ["main", "h100"], "values": [3, 10, 2, 7, 7]},
}  # fmt: skip
BY_HOUR = {"keys": ["lab", "7200"], "tres": "cpu", "values": [3600]}
REPLIES = {
    "Ping": PingReply(user_id=7),
    "ListSteps": ListStepsReply(),
    "OpenOutput": PenstockError(Code.INVALID_STEP, "it has none"),
    "WhyJob": WhyJobReply(job_id=5, reason="Resources", state="PENDING", obstacles=[{"reason": "BeginTime", "at_us": 7}],
                          hints=[{"options": ["-t 10"], "starts_now": True}]),
    "Story": StoryReply(lines=[{"at_us": 3, "attempt": 1, "event": "start", "detail": "n1"}]),
    "GetBatchScript": GetBatchScriptReply(script=b"#!/bin/sh\n\xff"),
    "ListRecords": ListRecordsReply(records=[A_RECORD]),
    "ListProfiles": ListProfilesReply(profiles=[A_PROFILE]),
    "ShowController": ShowControllerReply(
        certificates=[{"role": "ca", "end_at_us": 9}, {"role": "node", "name": "n1", "end_at_us": 8, "warning": "soon"}],
        issued=1, database={"kind": "sqlite", "address": "/v/penstock.db", "size_bytes": 4096}),
    "Fits": FitsReply(now_us=9, partitions=[{"partition": "main", "shapes": [{"kind": "node", "cpus": 4, "limit_s": -1}]}]),
    "ShowPlanChange": PlanChangeReply(now_us=9, jobs=[{"job_id": 6, "change": "never", "before_at_us": 11}], compared=2),
    "ListJobs": ListJobsReply(jobs=[JobInfo(job_id=6, planned_start_at_us=11, planned_node_list="n1", reason="Priority",
                                            allocation=[{"node": "n1", "gres": [{"name": "gpu", "uuid": ["GPU-1"]}]}])]),
    "Report": lambda asked: ReportReply(rolled_up_to_us=9, rows=[REPORT_ROWS[asked.kind] if asked.group_by[-1:] != ["hour"]
                                             or asked.kind != ReportRequest.USAGE else BY_HOUR]),
    "ListBudgets": ListBudgetsReply(budgets=[{"account": "lab", "amount": "10", "unit": "gpu-hours", "used": 2.5}]),
    "ListCounters": ListCountersReply(counters=[
        {"account": "uni", "parent": "root", "limits": {"grptres": "gres/gpu=8"}, "used": {"grptres": "gres/gpu=6"}},
        {"account": "one", "parent": "uni", "limits": {"grptres": "cpu=9,gres/gpu=4", "borrow": "gres/gpu=4"},
         "used": {"grptres": "cpu=6,gres/gpu=6", "borrow": "gres/gpu=2"}},
        {"account": "one", "user": "ann", "parent": "one", "limits": {"grptres": "gres/gpu=6"}},
        {"account": "two", "parent": "uni", "limits": {"grptres": "gres/gpu=4"}, "used": {"lend": "gres/gpu=3"}},
    ]),
    "ShowConfig": ShowConfigReply(at_us=9, lines=[{"key": "ClusterName", "value": "test"}]),
    "Reconfigure": ReconfigureReply(problems=["x"], differences=[{"key": "MaxJobCount", "running": "1", "file": "2"}]),
    "ShowTopology": ShowTopologyReply(kind="tree", switches=[{"name": "s1", "nodes": "n1", "node_count": 1}]),
    "ListEvents": ListEventsReply(events=[{"node": "n1", "start_at_us": 7, "state": "DRAIN", "reason": "fan"}]),
    "ListAudit": ListAuditReply(records=[{"id": 3, "record": '{"user": "ann"}', "hash": "ab"}]),
    "ListNodes": ListNodesReply(nodes=[NodeInfo(name="n1", gpus=[
        GpuInfo(uuid="GPU-1", state="HEALTHY", job_ids=[6], idle_job_id=6, idle_since_us=7), GpuInfo(uuid="GPU-2", state="DRAINED", xids=[{"xid": 79}]),
    ])]),
    "ListGpuReadings": ListGpuReadingsReply(readings=[
        GpuReadingInfo(node="n1", uuid="GPU-1", at_us=7, utilization_percent=0, power_w=75), GpuReadingInfo(node="n1", uuid="GPU-2", index=1, temperature_c=40),
    ]),
}  # fmt: skip
PATHS = {
    "jobs": "/jobs",
    "jobs_wide": "/jobs/wide?order=name&count=3",
    "jobs_past": "/jobs/past?start=1000&end=2000&users=ann&states=failed,to&first=3&count=2",
    "jobs_use": "/jobs/use?jobs=5,6",
    "script": "/jobs/5/script",
    "environment": "/jobs/5/environment",
    "why": "/jobs/5/why",
    "story": "/jobs/5/story",
    "steps": "/jobs/5/steps",
    "profile": "/jobs/5/profile?step=0&nodes=n1&points=2",
    "efficiency": "/jobs/5/efficiency",
    "output": "/jobs/5/output?stream=stderr",
    "fits": "/fits",
    "forecast": "/forecast",
    "plan_without": "/plan/without?nodes=n1&jobs=run_on",
    "gpus": "/gpus",
    "gpu_readings": "/gpus/readings?nodes=n1",
    "usage": "/usage",
    "usage_hours": "/usage/hours?start=7200&end=10800",
    "utilization": "/utilization",
    "waste": "/waste?by=name&count=5",
    "efficiency_of_period": "/efficiency",
    "waits": "/waits?group_by=partition,gpus",
    "budgets": "/budgets",
    "borrowing": "/borrowing",
    "config": "/config",
    "config_diff": "/config/diff",
    "controller": "/controller",
    "templates": "/templates",
    "audit": "/audit?start=1&users=ann",
    "topology": "/topology",
    "node_events": "/nodes/events?nodes=n1",
}


def problems(value: Any, schema: Any, document: Any, where: str = "") -> Iterator[str]:
    """Where a value has not the form of a schema, or has a member that it does not know."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "allOf" in schema:
        if value is None and schema.get("nullable"):
            return
        parts = [
            document["components"]["schemas"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            for one in schema["allOf"]
        ]
        schema = {"type": "object", "properties": {name: one for part in parts for name, one in part["properties"].items()},
                  "required": [name for part in parts for name in part["required"]]}  # fmt: skip
    match schema["type"]:
        case "object":
            if not isinstance(value, dict):
                yield f"{where}: no object"
                return
            yield from (f"{where}.{name}: lacks" for name in schema["required"] if name not in value)
            yield from (f"{where}.{name}: unknown" for name in value if name not in schema["properties"])
            for name, one in schema["properties"].items():
                yield from problems(value[name], one, document, f"{where}.{name}")
        case _ if value is None and schema.get("nullable"):
            return
        case "array":
            for one in value:
                yield from problems(one, schema["items"], document, f"{where}[]")
        case kind:
            types = {"string": (str,), "integer": (int,), "boolean": (bool,), "number": (int, float)}
            if type(value) not in types[kind]:
                yield f"{where}: {value!r} is no {kind}"


def flat(value: Any, where: str = "") -> dict[str, Any]:
    """The leaves of a document, by their path."""
    if isinstance(value, dict) and value:
        return {path: one for name, inner in value.items() for path, one in flat(inner, f"{where}/{name}").items()}
    if isinstance(value, list):
        return {f"{where}/{one}": True for one in value} if all(isinstance(one, str) for one in value) else {
            path: one for at, inner in enumerate(value) for path, one in flat(inner, f"{where}/{at}").items()
        }  # fmt: skip
    return {where: value}


@pytest.mark.parametrize("name", PATHS)
def test_answers_have_the_form_of_the_document(name):
    rest = FakeRest(REPLIES)
    document = rest.get(f"{OWN}/openapi.json").json()
    assert document == own_document(OWN_PATHS)
    reply = rest.get(f"{OWN}{PATHS[name]}")
    assert reply.status_code == 200 and reply.json()["errors"] == [] and "etag" in reply.headers
    path = PATHS[name].partition("?")[0].replace("5", "{job_id}")
    schema = document["paths"][f"{OWN}{path}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(problems(reply.json(), schema, document)) == []


def test_it_only_grows():
    """All that was there is there, in the same type; what is new is in the record."""
    before, now = flat(json.loads(RECORD.read_text())), flat(own_document(OWN_PATHS))
    is_text = ("/summary", "/description")
    changed = [path for path, one in before.items() if not path.endswith(is_text) and now.get(path) != one]
    assert changed == [], "what is there stays as it is: add beside it"
    assert sorted(now.keys() - before.keys()) == [], f"add it to the record: {sys.executable} {__file__}"


def test_why_and_story():
    rest = FakeRest(REPLIES)
    why = rest.get(f"{OWN}/jobs/5_3/why").json()["why"]
    assert (why["job_id"], why["planned"], why["obstacles"][0]["at_us"]) == (5, None, 7) and "resources" in why[
        "sentence"
    ]
    assert rest.calls[-1][1].id == "5_3"
    story = rest.get(f"{OWN}/jobs/5/story").json()
    assert story["job_id"] == 5 and story["lines"] == [{"at_us": 3, "attempt": 1, "event": "start", "detail": "n1"}]
    task = rest.get(f"{OWN}/jobs/5_3/story").json()
    assert task["job_id"] == 6 and rest.calls[-1][1].job_id == 6


def test_the_environment_is_asked_for_instead_of_the_script():
    reply = GetBatchScriptReply(environment=[b"PATH=/bin", b"B=\xff", b"A=x=y"])
    rest = FakeRest({"GetBatchScript": reply})
    assert rest.get(f"{OWN}/jobs/5/environment").json() == {
        "job_id": 5, "environment": ["A=x=y", "B=\ufffd", "PATH=/bin"], "errors": [], "warnings": [],
    }  # fmt: skip
    assert (rest.calls[0][1].job_id, rest.calls[0][1].environment) == (5, True)
    rest.get(f"{OWN}/jobs/5/script")
    assert not rest.calls[1][1].environment


def test_steps_of_a_job():
    """Of one with very many, the latest."""
    rest = FakeRest(REPLIES)
    batch, train = rest.get(f"{OWN}/jobs/5/steps").json()["steps"]
    assert (batch["step"], batch["cpu_used_us"], batch["max_rss_kb"]) == ("batch", 2 * HOUR_US, 1024)
    assert (train["step"], train["state"], train["exit_code"], train["node_list"]) == ("0", "FAILED", 3, "n1")
    assert (batch["user_cpu_us"] + batch["system_cpu_us"], batch["figures"]) == (batch["cpu_used_us"], [])
    assert (batch["task_ends"], batch["task_ends_left_out"]) == ([], 0)
    ends = [
        TaskEnds(node="n2", ranks="0-3,8", exit=ExitStatus(signal=9)),
        TaskEnds(node="n3", ranks="9", kind=TaskEnds.UNKNOWN),
        TaskEnds.FromString(b"\x0a\x0210\x20\x63"),  # a kind of a later release
    ]
    metrics = [StepMetric.FromString(b"\x08\x63")]  # and of a figure
    failed = JobRecord(job_id=5, steps=[StepRecord(step_id=0, task_ends=ends, task_ends_left_out=7, metrics=metrics)])
    rest = FakeRest({"ListRecords": ListRecordsReply(records=[failed])})
    (step,) = rest.get(f"{OWN}/jobs/5/steps").json()["steps"]
    assert rest.calls[0][1].with_task_ends and (step["task_ends_left_out"], step["figures"]) == (7, [])
    assert step["task_ends"] == [
        {"node": "n2", "ranks": "0-3,8", "kind": "EXITED", "exit_code": 0, "exit_signal": 9},
        {"node": "n3", "ranks": "9", "kind": "UNKNOWN", "exit_code": 0, "exit_signal": 0},
        {"node": "", "ranks": "10", "kind": "UNKNOWN", "exit_code": 0, "exit_signal": 0},
    ]
    many = JobRecord(job_id=5, steps=[StepRecord(step_id=n) for n in range(jobuse.STEPS_MAX + 2)])
    answer = FakeRest({"ListRecords": ListRecordsReply(records=[many])}).get(f"{OWN}/jobs/5/steps").json()
    assert [answer["steps"][0]["step"], len(answer["steps"])] == ["2", jobuse.STEPS_MAX] and len(
        answer["warnings"]
    ) == 1


def test_a_profile_is_drawn_in_few_points():
    rest = FakeRest(REPLIES)
    (found,) = rest.get(f"{OWN}/jobs/5/profile?step=0&nodes=n[1-2]&points=2").json()["profiles"]
    assert [rest.calls[0][1].ids, rest.calls[1][1].ids] == [["5.0"], ["5.0"]]
    assert (found["step"], found["node"], found["start_at_us"], found["interval_s"]) == ("0", "n1", 2 * HOUR_US, 30)
    host, gpu = found["lines"]
    assert host["metrics"][0] == {"name": "cpu_cores", "mean": 2.5, "max": 4, "means": [1.5, 3.5], "maxima": [2, 4]}
    assert [one["name"] for one in gpu["metrics"]] == [
        "gpu_utilization_percent", "gpu_memory_bytes", "gpu_power_watts", "gpu_temperature_celsius",
    ]  # fmt: skip
    assert rest.get(f"{OWN}/jobs/5/profile?nodes=n2").json()["profiles"] == []
    for query in ("step=x", "step=1,2", "nodes=n[", "points=x"):
        assert rest.get(f"{OWN}/jobs/5/profile?{query}").status_code == 422, query


def test_lines_of_tasks_are_asked_for():
    """What each task has used is always there; the lines of some."""
    line = SampleLine(4)
    line.add(100, (2_000, 10, 50, 0))
    line.add(200, (1_000, 30, 0, None))
    data = encode_profile(
        [(HOST, "", line), *((TASK, str(rank), SampleLine.restored(line.data, 4)) for rank in range(3))]
    )
    record = JobRecord(job_id=5, steps=[{"step_id": 0}])
    profiles = ListProfilesReply(profiles=[{"job_id": 5, "step_id": 0, "node": "n1", "profile": data}])
    rest = FakeRest({"ListRecords": ListRecordsReply(records=[record]), "ListProfiles": profiles})
    (found,) = rest.get(f"{OWN}/jobs/5/profile").json()["profiles"]
    assert [one["kind"] for one in found["lines"]] == ["host"]
    assert found["tasks"] == [
        {"rank": rank, "cpu_used_s": 30, "memory_max_bytes": 30 * 1024, "read_bytes": 500, "written_bytes": 0}
        for rank in range(3)
    ]
    (found,) = rest.get(f"{OWN}/jobs/5/profile?tasks=2,0,9").json()["profiles"]
    assert [(one["kind"], one["device"]) for one in found["lines"]] == [("host", ""), ("task", "0"), ("task", "2")]
    assert [one["name"] for one in found["lines"][2]["metrics"]][:2] == ["cpu_cores", "memory_bytes"]
    for query in ("tasks=x", "tasks=-1", "tasks=" + ",".join(map(str, range(17)))):
        assert rest.get(f"{OWN}/jobs/5/profile?{query}").status_code == 422, query


def running(job_id: int, nodes: str = "n1", count: int = 1, **more: Any) -> JobRecord:
    """A job whose only step began an hour ago."""
    begin_us = int(time.time() * 1_000_000) - HOUR_US
    step = StepRecord(step_id=-5, state="RUNNING", start_at_us=begin_us, nodes_alloc=count, node_list=nodes, tasks=1)
    return JobRecord(job_id=job_id, state="RUNNING", start_at_us=begin_us, node_list=nodes, nodes_alloc=count, cpus_alloc=4,
                     steps=[step], **more)  # fmt: skip


def test_what_running_jobs_use_is_all_of_it_or_null(monkeypatch: pytest.MonkeyPatch):
    """Of a job that its nodes have not told of, of one that is refused, and of one with too many nodes, figures are null, not 0."""
    jobs = [running(6, tres_alloc="cpu=4,gres/gpu=1"), running(7), running(8), running(9, "n[1-300]", 300), A_RECORD]
    usage = {
        "tasks": 1,
        "metrics": [[kind, n, n, 0, n, 0] for kind, n in ((UsageMetric.CPU_MS, 7_200_000), (UsageMetric.RSS_KB, 2048))],
    }
    asked: list[int] = []

    def attach(request: Any) -> AttachStepReply:
        if request.job_id == 8:
            raise PenstockError(Code.ACCESS_DENIED, "not yours")
        return AttachStepReply(job_id=request.job_id)

    def ask(cluster: object, attached: AttachStepReply, word: str, limit_s: float) -> stepquery.Answers:
        asked.append(attached.job_id)
        return (
            stepquery.Answers({}, {"n1": "no answer in time"})
            if attached.job_id == 7
            else stepquery.Answers({"n1": usage}, {})
        )

    monkeypatch.setattr(stepquery, "ask", ask)
    rest = FakeRest(REPLIES | {"ListRecords": ListRecordsReply(records=jobs), "AttachStep": attach})
    found = {one["job_id"]: one for one in rest.get(f"{OWN}/jobs/use?jobs=6,7,8,9").json()["jobs"]}
    assert list(found) == [6, 7, 8, 9] and asked == [6, 7]
    assert (found[6]["cpu_used_s"], round(found[6]["cpu_percent"]), found[6]["memory_used_bytes"]) == (
        7200,
        50,
        2 << 20,
    )
    assert (found[6]["gpus"], found[6]["gpu_percent"], found[6]["gpu_power_w"], found[6]["gpu_memory_used_bytes"]) == (
        1,
        0,
        75,
        None,
    )
    nothing = {"cpu_used_s": None, "cpu_percent": None, "memory_used_bytes": None, "gpus": 0, "gpu_percent": None,
               "gpu_memory_used_bytes": None, "gpu_power_w": None}  # fmt: skip
    assert [found[job] | {"job_id": 0} for job in (7, 8, 9)] == [{"job_id": 0} | nothing] * 3
    for query in ("", "jobs=x", "jobs=5.0", "jobs=" + ",".join(map(str, range(1, ASKED_JOBS_MAX + 2)))):
        assert rest.get(f"{OWN}/jobs/use?{query}").status_code == 422, query


def test_gpus_of_jobs_on_thousands_of_nodes_and_of_a_user_who_may_see_no_nodes():
    """The jobs say which GPUs they have, so nodes are asked for readings alone, and in lists that a request may have."""
    job = running(6, "n[1-5000],m[1-500]", 5500, tres_alloc="gres/gpu=1")
    replies = REPLIES | {"ListRecords": ListRecordsReply(records=[job])}
    rest = FakeRest(replies)
    (found,) = rest.get(f"{OWN}/jobs/use?jobs=6").json()["jobs"]
    assert (found["gpus"], found["gpu_percent"], found["gpu_power_w"]) == (1, 0, 75)
    asked = {method: request for method, request, _ in rest.calls}
    assert list(asked) == ["ListRecords", "ListGpuReadings", "ListJobs"]
    names = asked["ListGpuReadings"].names
    assert len(set(expand_all(names))) == 5500
    for request in asked.values():
        check_bounds(request)
    assert list(asked["ListJobs"].filter.ids) == ["6"] and asked["ListJobs"].detail

    hidden = FakeRest(replies | {"ListGpuReadings": ListGpuReadingsReply()})  # PrivateData=nodes
    answer = hidden.get(f"{OWN}/jobs/use?jobs=6")
    assert answer.status_code == 200 and not answer.json()["errors"]
    (found,) = answer.json()["jobs"]
    assert (found["gpus"], found["gpu_percent"], found["gpu_power_w"], found["gpu_memory_used_bytes"]) == (
        0,
        None,
        None,
        None,
    )


def test_lists_of_more_nodes_than_a_request_has_texts():
    rest = FakeRest(REPLIES)
    for path in ("gpus", "gpus/readings", "nodes/events"):
        rest.get(f"{OWN}/{path}?nodes=n[1-5000]")
        asked = rest.calls[-1][1]
        check_bounds(asked)
        assert len(set(expand_all(asked.nodes if path == "nodes/events" else asked.names))) == 5000
    job = JobInfo(job_id=6, allocation=[{"node": f"n{number}"} for number in range(5000)])
    rest = FakeRest({"ListJobs": ListJobsReply(jobs=[job]), "ListNodes": ListNodesReply()})
    assert len(rest.get("/slurm/v0.0.46/resources/6").json()["nodes"]) == 5000
    check_bounds(rest.calls[-1][1])


def test_utilization_is_by_the_hour_and_bounded():
    rest = FakeRest(REPLIES)
    (hour,) = rest.get(f"{OWN}/utilization?start=7200&end=10800").json()["hours"]
    assert (hour["at_us"], hour["tres"], hour["allocated_s"], hour["idle_s"], hour["count"]) == (
        2 * HOUR_US, "gres/gpu", 3600, 25_200, 8,
    )  # fmt: skip
    assert list(rest.calls[-1][1].group_by) == ["hour"]
    for query in ("start=7200&end=3600", f"start=1&end={32 * 86_400}", "start=x"):
        assert rest.get(f"{OWN}/utilization?{query}").status_code == 422, query


def test_wide_rows_of_jobs_have_more_members():
    job = JobInfo(job_id=6, tasks=3, dependency="afterok:5", std_out=b"/home/\xff.out",
                  request={"name": "train", "features": "h200", "work_dir": b"/home/ann"}, exit={"code": 2})  # fmt: skip
    rest = FakeRest({"ListJobs": ListJobsReply(jobs=[job])})
    (short,) = rest.get(f"{OWN}/jobs").json()["jobs"]
    (wide,) = rest.get(f"{OWN}/jobs/wide").json()["jobs"]
    assert wide.items() >= short.items() and set(wide) > set(short)
    assert (wide["tasks"], wide["dependency"], wide["features"], wide["work_dir"], wide["exit_code"], wide["std_out"]) == (
        3, "afterok:5", "h200", "/home/ann", 2, "/home/\ufffd.out",
    )  # fmt: skip
    rest.get(f"{OWN}/jobs/wide?order=-name&search=tr&first=2&count=3&states=PENDING&users=ann")
    asked = rest.calls[-1][1]
    assert (asked.window.order, asked.window.first, asked.window.count) == ("-name", 2, 3)
    assert (list(asked.filter.states), list(asked.filter.users)) == (["PENDING"], ["ann"])


def test_past_jobs_have_what_they_used():
    """Of a window of a period, as sacct shows it. What no step has recorded is null, and not 0."""
    usage = [
        {"user_cpu_us": 5_000_000, "system_cpu_us": 1_000_000, "max_rss_kb": size, "disk_write_bytes": 10}
        for size in (70, 90)
    ]
    ended = JobRecord(
        job_id=6, array_job_id=4, array_task_id=2, state="FAILED", exit={"code": 3}, start_at_us=HOUR_US, end_at_us=3 * HOUR_US,
        eligible_at_us=HOUR_US // 2, cpus_alloc=4, account="lab", request={"name": "train", "work_dir": b"/home/\xff"},
        steps=[{"step_id": n, "usage": one, "metrics": [{"kind": "ENERGY_J", "total": 7}]} for n, one in enumerate(usage)],
    )  # fmt: skip
    runs = JobRecord(job_id=7, state="RUNNING", start_at_us=HOUR_US, steps=[{"step_id": -5}])
    rest = FakeRest({"ListRecords": ListRecordsReply(records=[runs, ended], total=40)})
    answer = rest.get(
        f"{OWN}/jobs/past?start=3600&end=7200&first=5&count=2&states=f&users=ann,bob&names=train&nodes=n[1-2]"
    ).json()
    live, past = answer["jobs"]
    assert answer["total"] == 40 and {key: past[key] for key in (
        "shown_id", "state", "exit_code", "waited_s", "elapsed_s", "cpu_allocated_s", "cpu_used_us", "user_cpu_us", "max_rss_kb",
        "disk_written_bytes", "energy_joules", "account", "name", "work_dir", "steps",
    )} == {
        "shown_id": "4_2", "state": "FAILED", "exit_code": 3, "waited_s": 1800, "elapsed_s": 7200, "cpu_allocated_s": 28_800,
        "cpu_used_us": 12_000_000, "user_cpu_us": 10_000_000, "max_rss_kb": 90, "disk_written_bytes": 20, "energy_joules": 14,
        "account": "lab", "name": "train", "work_dir": "/home/\ufffd", "steps": 2,
    }  # fmt: skip
    assert [live[key] for key in ("cpu_used_us", "max_rss_kb", "energy_joules", "end_at_us")] == [None, None, None, 0]
    asked = rest.calls[-1][1]
    assert (asked.start_at_us, asked.end_at_us, asked.window.first, asked.window.count) == (HOUR_US, 2 * HOUR_US, 5, 2)
    assert (list(asked.users), list(asked.states), list(asked.names), list(asked.nodes)) == (
        ["ann", "bob"],
        ["FAILED"],
        ["train"],
        ["n[1-2]"],
    )
    rest.get(f"{OWN}/jobs/past?states=running,failed")
    day = rest.calls[-1][1]
    assert (
        day.end_at_us - day.start_at_us == 24 * HOUR_US and day.window.count == pastjobs.ROWS
    )  # as sacct: states need an end
    for query in ("states=none", "start=9&end=8", "start=x", "count=1001", "first=x"):
        assert rest.get(f"{OWN}/jobs/past?{query}").status_code == 422, query


def test_events_of_nodes_are_asked_for_with_those_that_ended():
    rest = FakeRest(REPLIES)
    (event,) = rest.get(f"{OWN}/nodes/events?nodes=n[1-2]&start=7&end=9").json()["events"]
    assert (event["node"], event["state"], event["reason"], event["end_at_us"]) == ("n1", "DRAIN", "fan", 0)
    asked = rest.calls[-1][1]
    assert (list(asked.nodes), asked.start_at_us, asked.end_at_us) == (["n[1-2]"], 7_000_000, 9_000_000)
    assert asked.all_clusters_events
    for query in ("nodes=n[", "start=x"):
        assert rest.get(f"{OWN}/nodes/events?{query}").status_code == 422, query


def test_many_profiles_are_bounded():
    many = [ProfileRecord(job_id=5, step_id=0, node=f"n{number}", profile=a_profile()) for number in range(20)]
    rest = FakeRest(REPLIES | {"ListProfiles": ListProfilesReply(profiles=many)})
    answer = rest.get(f"{OWN}/jobs/5/profile").json()
    assert len(answer["profiles"]) == jobuse.PROFILES_MAX
    assert [one["description"] for one in answer["warnings"]] == [
        "there are more than 16 profiles; only the first are included"
    ]


def test_efficiency_is_that_of_seff():
    rest = FakeRest(REPLIES)
    answer = rest.get(f"{OWN}/jobs/5/efficiency").json()
    figures = answer["figures"]
    assert (figures["cpu_percent"], figures["elapsed_s"], figures["time_limit_s"]) == (25, 7200, 36_000)
    assert (figures["gpus"], figures["gpu_profiled_s"], figures["gpu_idle_s"]) == (1, 60, 30)
    assert answer["advice"] and "cores" in answer["advice"][-1] + answer["advice"][0]
    waits = JobRecord(job_id=5, state="PENDING")
    none = FakeRest(REPLIES | {"ListRecords": ListRecordsReply(records=[waits])}).get(f"{OWN}/jobs/5/efficiency").json()
    assert none["advice"] == [] and set(none["figures"].values()) == {None}


def test_running_steps_are_asked_and_what_is_not_had_is_said(monkeypatch):
    """A node's answer changes the entity tag; another user's job has the rest, and says why."""
    running = JobRecord(job_id=5, state="RUNNING", start_at_us=HOUR_US,
                        steps=[StepRecord(step_id=0, state="RUNNING", start_at_us=HOUR_US)])  # fmt: skip
    replies = REPLIES | {
        "ListRecords": ListRecordsReply(records=[running]), "ListProfiles": ListProfilesReply(),
        "AttachStep": AttachStepReply(streams=[{"node": f"n{number}"} for number in range(ASKED_NODES_MAX + 1)]),
    }  # fmt: skip
    asked: list[int] = []

    def ask(cluster: object, attached: AttachStepReply, word: str, limit_s: float) -> stepquery.Answers:
        asked.append(len(attached.streams))
        return stepquery.Answers({"n1": {"profile": a_profile()}}, {"n2": "no answer in time"})

    monkeypatch.setattr(stepquery, "ask", ask)
    answer = FakeRest(replies).get(f"{OWN}/jobs/5/profile")
    assert [one["node"] for one in answer.json()["profiles"]] == ["n1"] and asked == [ASKED_NODES_MAX]
    assert [one["description"] for one in answer.json()["warnings"]] == [
        "5.0 has 65 nodes; only the first 64 are asked", "node n2 does not answer: no answer in time",
    ]  # fmt: skip
    denied = PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    other = FakeRest(replies | {"AttachStep": denied}).get(f"{OWN}/jobs/5/profile")
    assert other.json()["profiles"] == [] and other.headers["etag"] != answer.headers["etag"]
    assert [one["description"] for one in other.json()["warnings"]] == [f"5.0: {TEXT[Code.ACCESS_DENIED]}"]


def test_the_output_of_a_running_job(monkeypatch):
    """Asked of the batch step's first node; a poller that has all of it gets 304, and what a node says wrongly is refused."""
    steps = ListStepsReply(steps=[StepInfo(job_id=5, step_id=one, state="RUNNING") for one in (-4, 0, -5)])
    streams = [{"node": "n2"}, {"node": "n1"}]
    attached = AttachStepReply(job_id=5, plan={"nodes": ["n1", "n2"]}, streams=streams)
    said: dict[str, object] = {"path": "/o", "at": 0, "size": 9, "data": b"one\ntwo\xc3"}
    asked: list[tuple[list[str], str]] = []

    def ask(
        cluster: object, attached: AttachStepReply, words: Sequence[str], limit_s: float
    ) -> stepquery.SeriesAnswers:
        (word,) = words
        asked.append(([one.node for one in attached.streams], word))
        missing = {} if said else {"n1": "no answer in time"}
        return stepquery.SeriesAnswers({"n1": [said]} if said else {}, missing)

    monkeypatch.setattr(stepquery, "ask_in_turn", ask)
    rest = FakeRest(REPLIES | {"ListSteps": steps, "AttachStep": attached})
    url = f"{OWN}/jobs/5/output"
    first = rest.get(f"{url}?lines=1")
    assert first.json() == {
        "job_id": 5, "state": "RUNNING", "step": "batch", "stream": "stdout", "node": "n1", "path": "/o", "text": "two",
        "offset": 4, "next_offset": 7, "size": 9, "is_live": True, "errors": [], "warnings": [],
    }  # fmt: skip
    again = rest.get(f"{url}?lines=1", headers=TOKEN | {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    said |= {"at": 7, "data": b"\xc3\xa9\n"}
    more = rest.get(f"{url}?offset=7&stream=stderr&step=0").json()
    assert (more["text"], more["offset"], more["next_offset"], more["step"]) == ("é\n", 7, 10, "0")
    assert rest.get(f"{url}?step=7").json()["is_live"] is False
    attached.plan.ranks.extend([RankSet(rank=[0, 1]), RankSet(rank=[2])])
    assert (
        rest.get(f"{url}?step=0&task=2").json()["warnings"][0]["description"]
        == "node n2: the step is of an earlier version of Penstock"
    )
    assert rest.get(f"{url}?step=0&task=3").json()["warnings"][0]["description"] == "the step has no task 3"
    assert asked.pop() == (["n2"], "tail 1 -1 2")
    steps.steps[2].state, steps.steps[2].end_at_us = "COMPLETED", time.time_ns() // 1000
    assert rest.get(f"{url}?step=batch&offset=7").json()["is_live"] is False
    steps.steps[2].state, steps.steps[2].end_at_us = "RUNNING", 0
    assert asked == [(["n1"], "tail 1 -1")] * 2 + [(["n1"], "tail 2 7"), (["n1"], "tail 1 7")]
    for query in ("step=x", "stream=stdin", "offset=-1", "lines=x"):
        assert rest.get(f"{url}?{query}").status_code == 422, query
    wrong: dict[str, list[object]] = {
        "data": [b"x" * 70_000, "text", None], "at": [-1, "1"], "size": [-1, None], "path": [1], "error": ["\x1b]0;x\x07no"],
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            before, said = said, said | {name: value}
            answer = rest.get(f"{url}?offset=3").json()
            assert (answer["text"], answer["next_offset"], len(answer["warnings"])) == ("", 3, 1)
            assert "\x1b" not in answer["warnings"][0]["description"]
            said = before
    said = {"error": "no", "denied": 1}
    assert rest.get(url).json()["errors"][0]["error_number"] == Code.ACCESS_DENIED
    said = {}
    assert rest.get(url).json()["warnings"][0]["description"] == "node n1: no answer in time"


def test_files_of_the_record_are_read_by_a_ticket(monkeypatch):
    """Of a job that has ended, and of a step whose srun writes its file; no part of a ticket is part of the answer's tag."""
    numbers = iter(range(1, 9))
    asked: list[tuple[int, str]] = []

    def ask(
        cluster: object, attached: AttachStepReply, words: Sequence[str], limit_s: float
    ) -> stepquery.SeriesAnswers:
        (word,) = words
        asked.append((attached.attempt, word))
        return stepquery.SeriesAnswers({"n2": [{"path": "/o", "at": 0, "size": 4, "data": b"one\n"}]}, {})

    def opened(request: OpenOutputRequest) -> AttachStepReply:
        number = next(numbers)
        key = bytes([number]) * 32
        return AttachStepReply(
            step_id=-20, attempt=number, plan={"nodes": ["n2"]}, streams=[{"node": "n2"}], io_key=key
        )

    monkeypatch.setattr(stepquery, "ask_in_turn", ask)
    record = JobRecord(job_id=5, state="COMPLETED", std_out=b"/o", start_at_us=7)
    replies = REPLIES | {"ListRecords": ListRecordsReply(records=[record]), "OpenOutput": opened}
    rest, url = FakeRest(replies), f"{OWN}/jobs/5/output"
    first = rest.get(f"{url}?lines=9")
    assert first.json() == {
        "job_id": 5, "state": "COMPLETED", "step": "batch", "stream": "stdout", "node": "n2", "path": "/o", "text": "one\n",
        "offset": 0, "next_offset": 4, "size": 4, "is_live": False, "errors": [], "warnings": [],
    }  # fmt: skip
    assert rest.get(f"{url}?lines=9", headers=TOKEN | {"If-None-Match": first.headers["etag"]}).status_code == 304
    assert rest.get(f"{url}?step=3&task=2&offset=1&stream=stderr").json()["step"] == "3"
    spec = {"client_out": b"/w/own"}
    steps = ListStepsReply(steps=[StepInfo(job_id=5, step_id=0, state="RUNNING", spec=spec)])
    srun = FakeRest(replies | {"ListSteps": steps})
    live = srun.get(url).json()
    assert (live["is_live"], live["text"]) == (True, "one\n") and "AttachStep" not in [call[0] for call in srun.calls]
    sent = [call[1] for call in (*rest.calls, *srun.calls) if call[0] == "OpenOutput"]
    assert [(one.job_id, one.step_id, one.task) for one in sent] == [(5, -5, 0), (5, -5, 0), (5, 3, 2), (5, 0, 0)]
    assert asked == [(1, "tail 1 -1"), (2, "tail 1 -1"), (3, "tail 2 1"), (4, "tail 1 -1")]
    for query in ("task=-1", "task=x"):
        assert rest.get(f"{url}?{query}").status_code == 422, query


def test_the_output_of_a_job_that_does_not_run():
    record = JobRecord(job_id=5, state="COMPLETED", std_out=b"/o", std_err=b"/e", start_at_us=7)
    for stream, path in (("stdout", "/o"), ("stderr", "/e")):
        replies = REPLIES | {"ListRecords": ListRecordsReply(records=[record])}
        answer = FakeRest(replies).get(f"{OWN}/jobs/5/output?stream={stream}").json()
        assert (answer["is_live"], answer["state"], answer["path"], answer["text"]) == (False, "COMPLETED", path, "")
        assert answer["warnings"][0]["description"] == "it has none; where its file is seen: penstock logs 5"
    denied = replies | {"OpenOutput": PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])}
    assert FakeRest(denied).get(f"{OWN}/jobs/5/output").json()["errors"][0]["error_number"] == Code.ACCESS_DENIED
    waits = REPLIES | {"ListRecords": ListRecordsReply(records=[JobRecord(job_id=5, state="PENDING")])}
    assert FakeRest(waits).get(f"{OWN}/jobs/5/output").json()["warnings"] == []
    assert FakeRest(REPLIES | {"ListRecords": ListRecordsReply()}).get(f"{OWN}/jobs/5/output").status_code == 404
    several = ListStepsReply(steps=[StepInfo(job_id=one, step_id=-5, state="RUNNING") for one in (5, 6)])
    assert FakeRest(REPLIES | {"ListSteps": several}).get(f"{OWN}/jobs/5/output").status_code == 404


def test_one_caller_reads_few_outputs_at_a_time():
    requests = Requests()
    with ExitStack() as held, requests.one("a", "here") as share, requests.one("b", "here") as other:
        for _ in range(CALLER_READINGS_MAX):
            held.enter_context(share.reading())
        with pytest.raises(RestError) as refused:
            held.enter_context(share.reading())
        assert refused.value.status == 429
        held.enter_context(other.reading())
    assert not requests.readings


def test_gpus_are_filtered():
    rest = FakeRest(REPLIES)
    assert [one["uuid"] for one in rest.get(f"{OWN}/gpus?states=drained,FAILED").json()["gpus"]] == ["GPU-2"]
    first = rest.get(f"{OWN}/gpus?nodes=n1").json()["gpus"][0]
    assert (first["node"], first["idle_job_id"], first["idle_since_us"]) == ("n1", 6, 7)
    unknown = rest.get(f"{OWN}/gpus?nodes=n[1-2]")
    assert (unknown.status_code, unknown.json()["errors"][0]["error_number"]) == (404, 2018)
    assert rest.get(f"{OWN}/gpus?states=BROKEN").status_code == 422
    assert rest.get(f"{OWN}/gpus?nodes=n[").status_code == 422


def test_usage_is_of_whole_hours():
    rest = FakeRest(REPLIES)
    answer = rest.get(f"{OWN}/usage?start=3700&end=7300&group_by=user,qos").json()
    assert (answer["start_at_us"], answer["end_at_us"], answer["rolled_up_to_us"]) == (3600_000_000, 10800_000_000, 9)
    asked = rest.calls[-1][1]
    assert (asked.kind, list(asked.group_by), list(asked.tres)) == (
        ReportRequest.USAGE,
        ["user", "qos"],
        ["cpu", "gres/gpu"],
    )
    assert rest.get(f"{OWN}/usage?group_by=hour").status_code == 422
    assert rest.get(f"{OWN}/usage?start=7200&end=3600").status_code == 422


def test_use_over_time_is_of_the_groups_that_used_most():
    """Seconds of each hour; only those groups are asked for by the hour, and a group without a name is none."""
    totals = {"ann": 5, "bob": 7, "cy": 7, "": 100}
    by_hour = [("bob", 3600, 4), ("bob", 7200, 3), ("cy", 7200, 7), ("eve", 7200, 1)]

    def report(request: ReportRequest) -> ReportReply:
        found = [([key], n) for key, n in totals.items()]
        if len(request.group_by) > 1:
            found = [([key, str(at)], n) for key, at, n in by_hour]
        return ReportReply(rows=[{"keys": keys, "tres": "cpu", "values": [n]} for keys, n in found], rolled_up_to_us=9)

    rest = FakeRest(REPLIES | {"Report": report})
    answer = rest.get(f"{OWN}/usage/hours?start=3700&end=10000&by=user&tres=cpu&count=2").json()
    assert (answer["start_at_us"], answer["end_at_us"], answer["rolled_up_to_us"]) == (HOUR_US, 3 * HOUR_US, 9)
    assert answer["groups"] == [
        {"key": "bob", "total_s": 7, "hours": [4, 3]}, {"key": "cy", "total_s": 7, "hours": [0, 7]},
    ]  # fmt: skip
    first, second = (request for method, request, _ in rest.calls if method == "Report")
    assert list(first.users) == [] and list(second.users) == ["bob", "cy"] and list(second.group_by) == ["user", "hour"]
    for query in (
        "by=hour",
        "by=user,account",
        "count=21",
        "count=x",
        f"start=1&end={32 * 86_400}",
        "start=7200&end=3600",
    ):
        assert rest.get(f"{OWN}/usage/hours?{query}").status_code == 422, query


def test_waste_is_that_of_the_command():
    """Its rows, in its words; of the worst job of each the command line."""
    record = JobRecord(job_id=5, request={"submit_line": "sbatch --gpus=8 train.sh"})
    rest = FakeRest(REPLIES | {"ListRecords": ListRecordsReply(records=[record])})
    answer = rest.get(f"{OWN}/waste?start=3700&end=7300&by=name").json()
    assert (answer["start_at_us"], answer["end_at_us"]) == (3600_000_000, 10800_000_000)
    assert answer["rows"] == [
        {"name": "ann", "jobs": 3, "unused_gpu_s": 72_000, "allocated_gpu_s": 288_000, "worst_job": 5,
         "worst_unused_gpu_s": 7200, "worst_command": "sbatch --gpus=8 train.sh"},
    ]  # fmt: skip
    (report, records) = (one[1] for one in rest.calls)
    assert (report.kind, list(report.group_by), list(records.ids)) == (ReportRequest.WASTE, ["name"], ["5"])
    hidden = FakeRest(REPLIES | {"ListRecords": ListRecordsReply()}).get(f"{OWN}/waste")
    assert hidden.json()["rows"][0]["worst_command"] is None and hidden.headers["etag"]
    week = hidden.json()
    assert week["end_at_us"] - week["start_at_us"] == 7 * 24 * HOUR_US
    nothing = FakeRest(REPLIES | {"Report": ReportReply()})
    assert nothing.get(f"{OWN}/waste").json()["rows"] == [] and [one[0] for one in nothing.calls] == ["Report"]


def test_waste_is_bounded():
    """Rows are looked up each, so there are few; the first ones are the worst."""
    rows = [{"keys": [f"u{number}"], "values": [1, 9, 9, number, 9]} for number in range(7)]
    rest = FakeRest(REPLIES | {"Report": ReportReply(rows=rows), "ListRecords": ListRecordsReply()})
    assert [one["name"] for one in rest.get(f"{OWN}/waste?count=2").json()["rows"]] == ["u0", "u1"]
    assert list(rest.calls[-1][1].ids) == ["0", "1"]
    for query in ("count=1001", "count=x", "by=qos", "by=user,name", "start=7200&end=3600"):
        assert rest.get(f"{OWN}/waste?{query}").status_code == 422, query


def test_efficiency_and_waits_of_a_period():
    rest = FakeRest(REPLIES)
    (row,) = rest.get(f"{OWN}/efficiency?group_by=qos").json()["rows"]
    assert row == {
        "keys": ["lab"], "jobs": 2, "cpu_used_s": 30, "cpu_allocated_s": 120, "cpu_percent": 25.0, "memory_used_mb_s": 0,
        "memory_allocated_mb_s": 0, "memory_percent": None, "gpu_used_s": 45, "gpu_allocated_s": 60, "gpu_percent": 75.0,
    }  # fmt: skip
    (row,) = rest.get(f"{OWN}/waits?start=3700&end=7300").json()["rows"]
    assert row == {"keys": ["main", "h100"], "jobs": 3, "mean_s": 3, "median_s": 2, "p95_s": 7, "longest_s": 7}
    asked = [(one[1].kind, list(one[1].group_by)) for one in rest.calls]
    assert asked == [(ReportRequest.EFFICIENCY, ["qos"]), (ReportRequest.WAITS, ["partition", "gpu_type"])]
    assert rest.get(f"{OWN}/waits?group_by=hour").status_code == 422
    assert rest.get(f"{OWN}/efficiency?group_by=gpus").status_code == 422


def test_who_borrows_from_whom():
    """Of the accounts of a cohort in which one may borrow, of what it may borrow; users have no guarantee."""
    rows = FakeRest(REPLIES).get(f"{OWN}/borrowing").json()["rows"]
    one = {"parent": "uni", "tres": "gres/gpu", "guarantee": 4}
    assert rows == [
        one | {"account": "one", "used": 6, "may_borrow": 4, "borrowed": 2, "idle": 0, "lenders": ["two"]},
        one | {"account": "two", "used": 0, "may_borrow": 0, "borrowed": 0, "idle": 3, "lenders": []},
    ]
    above = [{"account": "uni", "parent": "root", "used": {"borrow": "cpu=1"}},
             {"account": "one", "parent": "uni", "limits": {"grptres": "cpu=4", "borrow": "cpu=4"}, "used": {"borrow": "cpu=1"}}]  # fmt: skip
    (row,) = FakeRest({"ListCounters": ListCountersReply(counters=above)}).get(f"{OWN}/borrowing").json()["rows"]
    assert (row["account"], row["lenders"]) == ("one", ["uni"])  # it uses what the account above has borrowed
    assert FakeRest({"ListCounters": ListCountersReply()}).get(f"{OWN}/borrowing").json()["rows"] == []


def test_forecast():
    rest = FakeRest(REPLIES)
    (one,) = rest.get(f"{OWN}/forecast?users=ann&partitions=main").json()["jobs"]
    assert (one["job_id"], one["shown_id"], one["start_at_us"], one["node_list"]) == (6, "6", 11, "n1")
    which = rest.calls[0][1].filter
    assert (list(which.states), list(which.users), list(which.partitions)) == (["PENDING"], ["ann"], ["main"])


def test_a_job_is_tested_as_it_would_be_submitted():
    """The controller is asked for --test-only, and the answer has the form of the document."""
    rest = FakeRest({"SubmitJob": SubmitJobReply(start_at_us=7, node_list="n1", partition="main", cpus=2)})
    document = rest.get(f"{OWN}/openapi.json").json()
    body = {"job": {"current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n", "tasks": 2}}
    reply = rest.post(f"{OWN}/jobs/test", body)
    (asked,) = [one[1] for one in rest.calls]
    assert (asked.test_only, asked.job.ntasks, reply.json()["start_at_us"]) == (True, 2, 7)
    schema = document["paths"][f"{OWN}/jobs/test"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(problems(reply.json(), schema, document)) == []
    del body["job"]["script"]
    refused = rest.post(f"{OWN}/jobs/test", body)
    assert (refused.status_code, refused.json()["errors"][0]["source"]) == (422, "#/script")


def test_refusals():
    refusal = PenstockError(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
    rest = FakeRest({"WhyJob": refusal, "Story": refusal})
    for path in ("/jobs/7/why", "/jobs/7/story"):
        reply = rest.get(f"{OWN}{path}")
        assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (404, 2017)
        assert reply.json().keys() == {"errors", "warnings"}
    assert rest.get(f"{OWN}/jobs/x/why").status_code == 422
    assert rest.request("POST", f"{OWN}/fits").status_code == 404 and rest.get(f"{OWN}/nothing").status_code == 404
    for path in (*PATHS.values(), "/openapi.json"):
        assert rest.get(f"{OWN}{path}", headers={}).status_code == 401


if __name__ == "__main__":
    RECORD.write_text(json.dumps(own_document(OWN_PATHS), indent=1, sort_keys=True) + "\n")
