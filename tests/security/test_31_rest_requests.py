"""Mutated requests to the REST interface: each is refused with 4xx, and has then asked the controller for no change, or carried
out; and no error is unexpected.

In process, with a controller that accepts everything: what reaches it is well formed. Seeds are fixed; each takes one of the
valid requests, and changes some of its values, its text, its query and its path.
"""

import copy
import grp
import json
import logging
import pwd
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from fakerest import TOKEN, FakeRest

from penstock.v1.accounting_pb2 import ListRecordsReply
from penstock.v1.controller_pb2 import (
    CreateReservationReply,
    Empty,
    JobInfo,
    JobResultsReply,
    ListGpuReadingsReply,
    ListJobsReply,
    ListNodesReply,
    ListPartitionsReply,
    ListQosReply,
    ListReservationsReply,
    NodeInfo,
    PingReply,
    Qos,
    ReconfigureReply,
    ShowConfigReply,
    StoryReply,
    SubmitJobReply,
)
from penstock.v1.explain_pb2 import DiagnosticsReply, FitsReply, PlanChangeReply, WhyJobReply
from penstock.v1.governance_pb2 import ChangeManyReply, ListTresReply, ListWckeysReply, ModifyRecordsReply, WckeyInfo
from penstock.v1.shares_pb2 import Association, ChangeAccountsReply, ListAssociationsReply
from penstock.v1.steps_pb2 import AllocationReply

#: 600 requests in each run, 10,000 more in the long one.
SEEDS = 24
LONG_SEEDS = 400
LONG_PARTS = 16
REQUESTS_PER_SEED = 25
REPLIES = {
    "Ping": PingReply(), "SubmitJob": SubmitJobReply(job_id=1), "CancelJobs": JobResultsReply(),
    "UpdateJobs": JobResultsReply(), "ControlJobs": JobResultsReply(), "UpdateNodes": Empty(), "DeleteNodes": Empty(),
    "ListJobs": ListJobsReply(jobs=[JobInfo(job_id=1)]), "ListNodes": ListNodesReply(nodes=[NodeInfo(name="n1")]),
    "ListGpuReadings": ListGpuReadingsReply(), "ListPartitions": ListPartitionsReply(), "ListReservations": ListReservationsReply(),
    "ListRecords": ListRecordsReply(), "ListAssociations": ListAssociationsReply(cluster="test", associations=[
        Association(id=1, account="root"), Association(id=2, account="lab", parent="root"), Association(id=5, account="lab", user="a"),
    ]),
    "ListQos": ListQosReply(qos=[Qos(name="normal", id=1)]),
    "ListWckeys": ListWckeysReply(wckeys=[WckeyInfo(id=5, name="k", user="a")]), "ListTres": ListTresReply(),
    "ChangeMany": ChangeManyReply(replies=[ChangeAccountsReply(names=["x"])]), "ShowConfig": ShowConfigReply(), "Reconfigure": ReconfigureReply(),
    "ModifyRecords": ModifyRecordsReply(), "CreateReservation": CreateReservationReply(name="r"),
    "UpdateReservation": Empty(), "CreatePartition": Empty(), "UpdatePartition": Empty(), "CreateNodes": Empty(),
    "AwaitAllocation": AllocationReply(job_id=1, state="RUNNING"), "DeletePartition": Empty(), "DeleteReservation": Empty(),
    "Diagnostics": DiagnosticsReply(), "WhyJob": WhyJobReply(), "Fits": FitsReply(), "ShowPlanChange": PlanChangeReply(),
    "Story": StoryReply(),
}  # fmt: skip
#: Methods that change nothing: a request that is refused has asked for no other.
READING = frozenset((
    "Ping", "ListJobs", "ListNodes", "ListGpuReadings", "ListPartitions", "ListReservations", "ListRecords", "ListAssociations", "ListQos",
    "ListWckeys", "ListTres", "ShowConfig", "Diagnostics", "WhyJob", "Fits", "ShowPlanChange", "Story",
))  # fmt: skip
#: Whose records are made one after the other (docs/rest.md).
ONE_BY_ONE = ("/slurm/v0.0.46/reservations", "/slurm/v0.0.46/partitions")
#: A name that no database of a system is asked for.
LONG = "x" * 5_000
NUMBER = {"set": True, "infinite": False, "number": 4}
TRES = [{"type": "cpu", "count": 4}, {"type": "gres", "name": "gpu", "count": -1, "id": 1001}]
ASSOCIATION = {
    "account": "lab", "user": "a", "partition": "main", "cluster": "test", "parent_account": "root", "is_default": True,
    "shares_raw": 3, "priority": NUMBER, "qos": ["normal"], "default": {"qos": "normal"}, "flags": [],
    "max": {"jobs": {"active": NUMBER, "per": {"count": 5, "wall_clock": -1}}, "tres": {"total": TRES, "per": {"job": TRES}}},
}  # fmt: skip
QOS = {
    "name": "q", "id": 1, "description": "d", "flags": ["DENY_LIMIT", "ADD"], "priority": NUMBER, "usage_factor": {"number": 0.5},
    "preempt": {"list": ["normal"], "mode": ["CANCEL"], "exempt_time": 5},
    "limits": {"grace_time": 5, "factor": NUMBER, "max": {"tres": {"per": {"user": TRES}}, "jobs": {"count": 1}}},
}  # fmt: skip
USER = {
    "name": "a", "old_name": "b", "administrator_level": ["Operator"], "default": {"account": "lab", "wckey": "k"},
    "associations": [{"account": "lab", "user": "a"}], "coordinators": [{"name": "lab", "direct": True}],
    "wckeys": [{"name": "k", "user": "a", "cluster": "test"}],
}  # fmt: skip
ACCOUNT = {"name": "lab", "description": "d", "organization": "o", "coordinators": [{"name": "a"}], "flags": []}
CONDITION = {
    "users": ["a"],
    "accounts": ["lab"],
    "clusters": ["test"],
    "partitions": ["main"],
    "wckeys": ["k"],
    "association": {"fairshare": 5, "grptres": TRES, "maxjobs": NUMBER, "qoslevel": ["normal"], "parent": "root"},
}
RESERVATION = {
    "name": "r", "start_time": NUMBER, "end_time": 2_000_000_000, "duration": 60, "users": ["a", "-b"], "accounts": ["lab"],
    "node_list": ["n[1-2]"], "node_count": 2, "core_count": 4, "flags": ["MAINT", "PURGE_COMP", "DURATION_PLUS"], "tres": TRES,
    "purge_completed": {"time": 60}, "licenses": ["x:1"], "features": "a&b", "comment": "c", "partition": "main",
}  # fmt: skip
PARTITION = {
    "name": "p", "nodes": {"configured": "n[1-2]"}, "flags": ["DEFAULT", "HIDDEN_CLEAR"], "maximums": {"time": NUMBER, "nodes": -1},
    "defaults": {"time": 5, "partition_memory_per_cpu": NUMBER}, "partition": {"state": ["UP"]}, "priority": {"tier": 3},
    "accounts": {"allowed": "a,b"}, "qos": {"assigned": "normal"}, "preempt_mode": ["REQUEUE"], "grace_time": 5,
}  # fmt: skip
JOB = {
    "name": "a", "current_working_directory": "/tmp", "environment": ["PATH=/bin"], "script": "#!/bin/sh\n", "tasks": 2,
    "argv": ["x"], "partition": "main", "nodes": "1-2", "minimum_nodes": 1, "array": "0-3%2", "nice": 3, "hold": True,
    "time_limit": {"set": True, "infinite": False, "number": 5}, "memory_per_node": {"number": 10}, "flags": ["SPREAD_JOB"],
    "begin_time": {"set": True, "number": 2_000_000_000}, "deadline": 2_000_000_000, "priority": 7, "delay_boot": 1,
    "tres_per_node": "gres/gpu:1", "tres_per_job": "gres/gpu=2", "tres_per_task": "cpu=1", "dependency": "afterok:1",
    "mail_type": ["END"], "shared": ["user"], "open_mode": ["APPEND"], "required_nodes": "n1", "excluded_nodes": ["n2"],
    "rlimits": {"nofile": 1024}, "user_id": "0", "group_id": "0", "kill_warning_signal": "USR1", "kill_warning_delay": 5,
    "required_switches": 1, "wait_for_switch": 60, "constraints": "a&b", "licenses": "x:1", "distribution": "block",
    "cpus_per_tres": "gres/gpu:2", "memory_per_tres": "gres/gpu:10", "oom_kill_step": 1, "segment_size": 1,
    "time_minimum": 1, "account_gather_frequency": "task=30", "standard_output": "/tmp/o", "wait_all_nodes": True,
}  # fmt: skip
VALID: list[tuple[str, str, Any]] = [
    ("POST", "/slurm/v0.0.46/job/submit", {"job": JOB}),
    ("POST", "/slurm/v0.0.43/job/submit", {"script": "#!/bin/sh\n", "jobs": [JOB, JOB]}),
    ("POST", "/slurm/v0.0.45/job/12", {"comment": "x", "time_limit": 5, "required_nodes": ["n1"], "begin_time": 2_000_000_000}),
    ("POST", "/slurm/v0.0.45/job/12", {"hold": True}),
    ("DELETE", "/slurm/v0.0.44/jobs/", {"jobs": ["1", "2_3"], "signal": "TERM", "flags": ["FULL_JOB"], "user_id": "3"}),
    ("DELETE", "/slurm/v0.0.46/job/12?signal=USR1&flags=BATCH_JOB", None),
    ("GET", "/slurm/v0.0.46/job/12/requeue?Hold=true", None),
    ("POST", "/slurm/v0.0.46/jobs/requeue", {"jobs": ["1"], "flags": ["Hold"]}),
    ("POST", "/slurm/v0.0.46/node/n1", {"state": ["DRAIN"], "reason": "x", "weight": 5, "resume_after": 9}),
    ("POST", "/slurm/v0.0.46/nodes", {"name": ["n1"], "comment": "x"}),
    ("POST", "/util/v0.0.46/hostnames", {"hostlist": "n[1-3]"}),
    ("POST", "/util/v0.0.46/hostlist", {"hostnames": ["n1", "n2"]}),
    ("GET", "/slurm/v0.0.43/jobs?update_time=5&flags=DETAIL", None),
    ("GET", "/slurm/v0.0.43/node/n[1-2]?update_time=5", None),
    ("GET", "/slurmdb/v0.0.46/jobs?start_time=2026-01-01&state=FAILED&users=a&step=1", None),
    ("GET", "/slurmdb/v0.0.46/associations?user=a&account=b", None),
    ("GET", "/slurmdb/v0.0.46/wckey/5", None),
    ("GET", "/slurmdb/v0.0.46/qos/normal?with_deleted=true", None),
    ("POST", "/slurm/v0.0.46/job/allocate", {"job": {**JOB, "immediate": True}}),
    ("POST", "/slurm/v0.0.44/job/allocate", {"hetjob": [JOB, JOB]}),
    ("POST", "/slurm/v0.0.46/reservation", RESERVATION),
    ("POST", "/slurm/v0.0.46/reservations", {"reservations": [RESERVATION, RESERVATION]}),
    ("POST", "/slurm/v0.0.46/partitions", {"partitions": [PARTITION]}),
    ("POST", "/slurm/v0.0.46/new/node", {"node_conf": 'NodeName=n[1-2] CPUs=4 Reason="a b"'}),
    ("GET", "/slurm/v0.0.46/resources/12", None),
    ("GET", "/slurm/v0.0.46/conf?update_time=5", None),
    ("POST", "/slurmdb/v0.0.46/accounts", {"accounts": [ACCOUNT]}),
    ("POST", "/slurmdb/v0.0.45/accounts_association", {"association_condition": CONDITION, "account": {"organization": "o"}}),
    ("POST", "/slurmdb/v0.0.46/associations", {"associations": [ASSOCIATION, {**ASSOCIATION, "user": ""}]}),
    ("POST", "/slurmdb/v0.0.43/users", {"users": [USER]}),
    ("POST", "/slurmdb/v0.0.46/users_association", {"association_condition": CONDITION, "user": {"adminlevel": ["None"]}}),
    ("POST", "/slurmdb/v0.0.46/qos", {"qos": [QOS]}),
    ("POST", "/slurmdb/v0.0.46/wckeys", {"wckeys": USER["wckeys"]}),
    ("POST", "/slurmdb/v0.0.46/config", {"accounts": [ACCOUNT], "associations": [ASSOCIATION], "qos": [QOS], "users": [USER],
                                         "wckeys": USER["wckeys"], "tres": TRES, "clusters": [{"name": "test"}]}),
    ("GET", "/slurmdb/v0.0.46/config", None),
    ("GET", "/slurmdb/v0.0.46/conf", None),
    ("GET", "/slurmdb/v0.0.46/diag", None),
    ("GET", "/slurmdb/v0.0.46/instances?node_list=n[1-2]&instance_id=x", None),
    ("POST", "/slurmdb/v0.0.46/job/12", {"comment": {"job": "x"}, "derived_exit_code": {"return_code": 3, "signal": {"id": 9}}}),
    ("POST", "/slurmdb/v0.0.46/jobs", {"job_id_list": ["1", "2_3"], "job_rec": {"extra": "x", "wckey": "k"}}),
    ("POST", "/slurmdb/v0.0.46/clusters", {"clusters": [{"name": "test", "nodes": "n1"}]}),
    ("DELETE", "/slurmdb/v0.0.46/account/lab", None),
    ("DELETE", "/slurmdb/v0.0.46/user/a", None),
    ("DELETE", "/slurmdb/v0.0.46/associations?account=lab&user=a&id=5", None),
    ("DELETE", "/slurmdb/v0.0.46/association?account=lab&user=a", None),
    ("DELETE", "/slurmdb/v0.0.46/qos/normal", None),
    ("DELETE", "/slurmdb/v0.0.46/wckey/5", None),
    ("GET", "/penstock/v1/jobs/12_3/why", None),
    ("GET", "/penstock/v1/jobs/12/story", None),
    ("GET", "/penstock/v1/fits?partitions=main,x", None),
    ("GET", "/penstock/v1/forecast?users=a&partitions=main", None),
    ("GET", "/penstock/v1/gpus?nodes=n1&states=DRAINED", None),
    ("GET", "/penstock/v1/gpus/readings?nodes=n1", None),
]  # fmt: skip
HOSTILE: list[Any] = [
    None, True, False, -1, 0, 2**31, 2**32, 2**63, 2**70, -(2**70), 1e308, 0.5, "", " ", "\0", "a" * 5000, "help", "\u202e",
    "\ud83d\ude00", "n[1-9999999]", "1-", "-", "--x=y", "=", ",", "\n", "%s", "$(id)", [], [[]], [None], {}, {"a": {}},
    {"set": True}, {"infinite": "x"}, {"number": []}, ["x"] * 300, "٣", "1" * 400, "gres/gpu:", "gres/:::", "0-99999999",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below this one."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [one for key in keys for one in [(*path, key), *places(value[key], (*path, key))]]


def mutated(body: Any, chance: random.Random) -> Any:
    """The body with one to three values replaced, removed or added."""
    body = copy.deepcopy(body)
    for _ in range(chance.randint(1, 3)):
        found = places(body)
        if not found:
            return chance.choice(HOSTILE)
        *above, key = chance.choice(found)
        holder = body
        for one in above:
            holder = holder[one]
        if chance.random() < 0.1:
            del holder[key]
        elif chance.random() < 0.1 and isinstance(holder, dict):
            holder[str(chance.choice(HOSTILE))[:20]] = chance.choice(HOSTILE)
        else:
            holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    return body


def mutated_text(text: str, chance: random.Random) -> str:
    """The text with some of it replaced or removed; of what a URL may have."""
    at = chance.randrange(len(text))
    piece = chance.choice(
        ["%00", "%ff", "%2F", "9" * 30, "", "&", "=", "?x", "%0a", "-1", "[", ",", "%E2%80%AE", "..", "/"]
    )
    return text[:at] + piece + text[at + chance.randint(0, 3) :]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_mutated_requests(seed, caplog):
    send_mutated(seed, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(LONG_PARTS))
def test_ten_thousand_mutated_requests(part, caplog):
    for seed in range(SEEDS + part, SEEDS + LONG_SEEDS, LONG_PARTS):
        send_mutated(seed, caplog)


def send_mutated(seed, caplog):
    chance = random.Random(seed)
    rest = FakeRest(REPLIES)
    headers = TOKEN | {"Content-Type": "application/json"}
    caplog.set_level(logging.WARNING)
    for _ in range(REQUESTS_PER_SEED):
        method, path, body = chance.choice(VALID)
        if chance.random() < 0.3 or body is None:
            path = "/" + mutated_text(path[1:], chance)
        content = b"" if body is None else json.dumps(mutated(body, chance)).encode()
        if content and chance.random() < 0.15:
            at = chance.randrange(len(content))
            content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        asked = len(rest.calls)
        reply = rest.request(method, path, content=content, headers=headers)
        shown = (method, path, content[:2000], reply.text[:500])
        assert reply.status_code < 500 or reply.status_code == 501, shown
        assert "Traceback" not in reply.text, shown
        if reply.headers["content-type"].startswith("application/json"):
            json.loads(reply.text)
        if reply.status_code >= 400:
            changing = {name for name, _, _ in rest.calls[asked:]} - READING
            assert not changing or path.partition("?")[0] in ONE_BY_ONE, (changing, *shown)
    assert caplog.records == []


def long_ones() -> Iterator[tuple[str, str, Any]]:
    """The valid requests, each with one of its texts made long: in the body, the path or the query."""
    for method, path, body in VALID:
        place, _, query = path.partition("?")
        words = place.split("/")
        for at in range(3, len(words)):
            yield method, "/".join([*words[:at], LONG, *words[at + 1 :]]), body
        for pair in filter(None, query.split("&")):
            name = pair.partition("=")[0]
            yield method, f"{place}?{name}={LONG}", body
        for *above, key in places(body):
            longer = copy.deepcopy(body)
            holder = longer
            for one in above:
                holder = holder[one]
            if isinstance(holder[key], str):
                holder[key] = LONG
                yield method, path, longer


def test_26_1_no_long_name_is_looked_up(monkeypatch):
    """Nor any other: the REST daemon looks nothing up, and what it passes on is bounded by the controller
    (test_10_names_looked_up)."""
    asked: list[str] = []

    def unknown(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise KeyError(name)

    for module, name in ((pwd, "getpwnam"), (grp, "getgrnam"), (socket, "getaddrinfo"), (socket, "gethostbyname")):
        monkeypatch.setattr(module, name, unknown)
    sent = 0
    rest = FakeRest(REPLIES)
    for method, path, body in long_ones():
        reply = rest.request(method, path, **({} if body is None else {"json": body}))
        assert reply.status_code < 500 or reply.status_code == 501, (method, path[:200], reply.text[:500])
        sent += 1
    for who in ("X-SLURM-USER-NAME", "X-SLURM-USER-TOKEN", "Authorization", "Cookie"):
        rest.get("/slurm/v0.0.46/jobs", headers=TOKEN | {who: LONG})
    assert sent > 100
    assert [name[:40] for name in asked] == []


def test_the_valid_ones_are_carried_out():
    """Else the mutations would prove nothing."""
    for method, path, body in VALID:
        rest = FakeRest(REPLIES)
        more = {} if body is None else {"json": body}
        reply = rest.request(method, path, **more)
        assert reply.status_code == 200, (method, path, reply.text)
        assert rest.calls or path.startswith("/util")
