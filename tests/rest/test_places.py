"""Reservations, partitions, nodes, allocations and resources, in process: which request reaches the controller."""

import time

import pytest
from fakerest import FakeRest

from penstock.errors import PenstockError
from penstock.v1.common_pb2 import SALLOC, GresIndices, NodeAllocation
from penstock.v1.controller_pb2 import (
    CreateReservationReply,
    Empty,
    JobInfo,
    ListJobsReply,
    ListNodesReply,
    ListPartitionsReply,
    ListReservationsReply,
    NodeInfo,
    PartitionInfo,
    ReservationInfo,
    SubmitJobReply,
)
from penstock.v1.steps_pb2 import AllocationReply
from penstock.values.refusals import TEXT, Code

CURRENT = "/slurm/v0.0.46"
START_S = 2_000_000_000
INFINITE = {"set": False, "infinite": True, "number": 0}
JOB = {"current_working_directory": "/tmp", "name": "a", "minimum_nodes": 2}


def test_a_reservation_is_made_or_changed():
    rest = FakeRest(
        {
            "ListReservations": ListReservationsReply(reservations=[ReservationInfo(name="old")]),
            "CreateReservation": CreateReservationReply(name="root_1"),
            "UpdateReservation": Empty(),
        }
    )
    new = {"start_time": START_S, "duration": 90, "users": ["ann", "-bob"], "node_count": 2, "flags": ["MAINT", "PURGE_COMP"],
           "purge_completed": {"time": 600}, "tres": [{"type": "gres", "name": "gpu", "count": 4}], "burst_buffer": "x"}  # fmt: skip
    change = {
        "name": "old",
        "duration": 30,
        "flags": ["DURATION_PLUS"],
        "node_list": ["n1", "n2"],
        "end_time": INFINITE,
    }
    reply = rest.post(f"{CURRENT}/reservations", {"reservations": [new, change]})
    assert reply.status_code == 200, reply.text
    (_, (create, made, _), (update, changed, _)) = rest.calls
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(START_S))
    assert (create, made.name) == ("CreateReservation", "")
    assert dict(made.changes) == {
        "starttime": start, "duration": "90", "users": "ann,-bob", "nodecnt": "2", "tres": "gres/gpu=4",
        "flags": "MAINT,PURGE_COMP=00:10:00",
    }  # fmt: skip
    assert (update, changed.name, dict(changed.changes)) == (
        "UpdateReservation",
        "old",
        {"duration": "+30", "nodes": "n1,n2"},
    )
    assert [one["name"] for one in reply.json()["reservations"]] == ["root_1", "old"]
    assert reply.json()["reservations"][0]["users"] == ["ann", "-bob"]
    assert [one["source"] for one in reply.json()["warnings"]] == ["#/reservations/burst_buffer"]
    one = rest.post(f"{CURRENT}/reservation", {"name": "old", "comment": "c"})
    assert one.status_code == 200 and dict(rest.calls[-1][1].changes) == {"comment": "c"}


def test_partitions():
    rest = FakeRest(
        {
            "ListPartitions": ListPartitionsReply(partitions=[PartitionInfo(name="main")]),
            "UpdatePartition": Empty(),
            "CreatePartition": Empty(),
        }
    )
    new = {"name": "new", "nodes": {"configured": "n[1-2]"}, "flags": ["HIDDEN", "DEFAULT_CLEAR"], "maximums": {"time": INFINITE},
           "priority": {"tier": 3}, "defaults": {"time": 60}, "preempt_mode": ["REQUEUE"]}  # fmt: skip
    state = {"name": "main", "partition": {"state": ["DRAIN"]}}
    reply = rest.post(f"{CURRENT}/partitions", {"partitions": [new, state]})
    assert reply.status_code == 200, reply.text
    (_, (create, made, _), (update, changed, _)) = rest.calls
    assert (create, made.name) == ("CreatePartition", "new")
    assert dict(made.changes) == {
        "nodes": "n[1-2]", "hidden": "YES", "default": "NO", "maxtime": "UNLIMITED", "prioritytier": "3",
        "defaulttime": "60", "preemptmode": "REQUEUE",
    }  # fmt: skip
    assert (update, changed.name, dict(changed.changes)) == ("UpdatePartition", "main", {"state": "DRAIN"})
    assert rest.post(f"{CURRENT}/partitions", {"partitions": [{}]}).json()["errors"][0]["error_number"] == 9200


@pytest.mark.parametrize(
    "text", ["", "CPUs=2", "NodeName=n1 CPUs", "NodeName=n1 Nothing=2", "NodeName=n1 CPUs=1 CPUs=2", 'NodeName="']
)
def test_lines_that_describe_no_node(text):
    rest = FakeRest({"CreateNodes": Empty()})
    reply = rest.post(f"{CURRENT}/new/node", {"node_conf": text})
    assert (reply.status_code, reply.json()["errors"][0]["error_number"], rest.calls) == (422, 9202, [])


def test_a_new_node():
    rest = FakeRest({"CreateNodes": Empty()})
    assert rest.post(f"{CURRENT}/new/node", {"node_conf": 'NodeName=x[1-2] CPUs=4 Reason="a b"'}).status_code == 200
    assert rest.calls[0][1].names == "x[1-2]" and dict(rest.calls[0][1].changes) == {"cpus": "4", "reason": "a b"}


@pytest.mark.parametrize(
    ("state", "immediate", "status", "warns"),
    [("RUNNING", False, 200, False), ("PENDING", False, 200, True), ("CANCELLED", True, 422, False)],
)
def test_an_allocation(state, immediate, status, warns):
    replies = {
        "SubmitJob": SubmitJobReply(job_id=5),
        "AwaitAllocation": AllocationReply(job_id=5, state=state, reason="Priority"),
    }
    rest = FakeRest(replies)
    reply = rest.post(f"{CURRENT}/job/allocate", {"job": JOB | {"immediate": immediate}})
    (_, submitted, _), (_, waited, _) = rest.calls
    assert (submitted.job.kind, submitted.job.nodes_min, submitted.spec.script) == (SALLOC, 2, b"")
    assert submitted.job.HasField("immediate_s") is immediate and (waited.job_id, waited.wait_s) == (5, 2)
    assert reply.status_code == status
    if status == 200:
        assert reply.json()["job_id"] == 5 and bool(reply.json()["warnings"]) is warns
    else:
        assert reply.json()["errors"][0]["error_number"] == 2013


def test_an_allocation_that_is_refused():
    refusal = PenstockError(Code.INVALID_PARTITION, TEXT[Code.INVALID_PARTITION])
    rest = FakeRest({"SubmitJob": refusal})
    reply = rest.post(f"{CURRENT}/job/allocate", {"hetjob": [JOB, JOB]})
    assert reply.json()["errors"][0]["error_number"] == 2000 and len(rest.calls[0][1].components) == 1
    assert rest.post(f"{CURRENT}/job/allocate", {}).json()["errors"][0]["error_number"] == 9000


def test_resources_of_a_job():
    part = NodeAllocation(
        node="n1", cpus=4, mem_mb=64, cpu_ids=(0b110011).to_bytes(1, "little"),
        gres=[GresIndices(name="gpu", type="h200", index=[0, 1, 3])],
    )  # fmt: skip
    node = NodeInfo(name="n1", sockets=2, cores_per_socket=2, threads_per_core=2)
    rest = FakeRest(
        {
            "ListJobs": ListJobsReply(jobs=[JobInfo(job_id=5, allocation=[part])]),
            "ListNodes": ListNodesReply(nodes=[node]),
        }
    )
    (found,) = rest.get(f"{CURRENT}/resources/5").json()["nodes"]
    assert (found["node"], found["core_bitmap"], found["mem_alloc"]) == ("n1", "0,2", 64)
    assert (found["sockets_per_node"], found["cores_per_socket"]) == (2, 2)
    assert found["gres"] == [{"name": "gpu", "type": "h200", "count": 3, "index": "0-1,3"}]
    waiting = FakeRest({"ListJobs": ListJobsReply(jobs=[JobInfo(job_id=6)])}).get(f"{CURRENT}/resources/6").json()
    assert waiting["nodes"] == [] and len(waiting["warnings"]) == 1
    assert FakeRest({"ListJobs": ListJobsReply()}).get(f"{CURRENT}/resources/7").status_code == 404
