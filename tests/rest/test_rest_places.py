"""Reservations, partitions, new nodes and allocations by the REST daemon on a real cluster."""

import os
import pwd
import time

import pytest
from liverest import PREFIX

OWN = pwd.getpwuid(os.geteuid()).pw_name


def errors(reply) -> list[int]:
    return [one["error_number"] for one in reply.json()["errors"]]


def test_a_reservation_from_its_creation_to_its_end(rest):
    start = int(time.time()) + 3600
    with rest.as_user() as client:
        body = {
            "name": "rres",
            "start_time": start,
            "duration": 60,
            "users": [OWN],
            "node_list": ["n2"],
            "comment": "one",
        }
        made = client.post(f"{PREFIX}/reservation", json=body)
        assert made.status_code == 200 and made.json()["reservations"][0]["name"] == "rres", made.text
        (found,) = client.get(f"{PREFIX}/reservation/rres").json()["reservations"]
        assert (found["node_list"], found["users"]) == ("n2", OWN)
        assert (found["start_time"]["number"], found["end_time"]["number"]) == (start, start + 3600)
        longer = {"name": "rres", "duration": 30, "flags": ["DURATION_PLUS"]}
        assert client.post(f"{PREFIX}/reservations", json={"reservations": [longer]}).status_code == 200
        (found,) = client.get(f"{PREFIX}/reservation/rres").json()["reservations"]
        assert found["end_time"]["number"] == start + 5400
        assert client.delete(f"{PREFIX}/reservation/rres").status_code == 200
        assert client.get(f"{PREFIX}/reservations").json()["reservations"] == []
        refused = client.post(
            f"{PREFIX}/reservation", json={"name": "bad", "start_time": start, "duration": 60, "users": [OWN]}
        )
        assert refused.status_code == 422 and refused.json()["errors"]


def test_what_is_to_be_new_changes_nothing_that_is_there(rest):
    """If-None-Match: * makes a reservation or a partition, or is 412; without it the same request changes the one that is there."""
    new = {"If-None-Match": "*"}
    start = int(time.time()) + 3600
    body = {
        "name": "rnew1",
        "start_time": start,
        "duration": 60,
        "users": [OWN],
        "node_list": ["n2"],
        "comment": "first",
    }
    with rest.as_user() as client:
        assert client.post(f"{PREFIX}/reservation", json=body, headers=new).status_code == 200
        other = {**body, "comment": "second", "duration": 90}
        for path, sent, place in (
            ("reservation", other, "#/name"),
            ("reservations", {"reservations": [other]}, "#/reservations/name"),
        ):
            refused = client.post(f"{PREFIX}/{path}", json=sent, headers=new)
            (error,) = refused.json()["errors"]
            assert (refused.status_code, error["source"]) == (412, place), refused.text
            assert error["description"] == "rnew1 exists already"
        (found,) = client.get(f"{PREFIX}/reservation/rnew1").json()["reservations"]
        assert found["end_time"]["number"] == start + 3600
        assert client.post(f"{PREFIX}/reservation", json={"name": "rnew1", "duration": 90}).status_code == 200
        (found,) = client.get(f"{PREFIX}/reservation/rnew1").json()["reservations"]
        assert found["end_time"]["number"] == start + 5400
        assert client.delete(f"{PREFIX}/reservation/rnew1").status_code == 200
        part = {"partitions": [{"name": "rnew2", "nodes": {"configured": "n1"}}]}
        assert client.post(f"{PREFIX}/partitions", json=part, headers=new).status_code == 200
        refused = client.post(f"{PREFIX}/partitions", json=part, headers=new)
        assert (refused.status_code, errors(refused)) == (412, [9260])
        assert client.delete(f"{PREFIX}/partition/rnew2").status_code == 200


def test_partitions_and_nodes_at_run_time(rest):
    with rest.as_user() as client:
        body = {"partitions": [{"name": "rpart", "nodes": {"configured": "n1"}, "maximums": {"time": {"number": 30}}}]}
        assert client.post(f"{PREFIX}/partitions", json=body).status_code == 200
        (found,) = client.get(f"{PREFIX}/partition/rpart").json()["partitions"]
        assert (found["nodes"]["configured"], found["maximums"]["time"]["number"]) == ("n1", 30)
        state = {"partitions": [{"name": "rpart", "partition": {"state": ["DOWN"]}}]}
        assert client.post(f"{PREFIX}/partitions", json=state).status_code == 200
        assert client.get(f"{PREFIX}/partition/rpart").json()["partitions"][0]["partition"]["state"] == ["DOWN"]
        assert client.delete(f"{PREFIX}/partition/rpart").status_code == 200
        assert (
            client.post(f"{PREFIX}/new/node", json={"node_conf": "NodeName=rnew CPUs=2 State=FUTURE"}).status_code
            == 200
        )
        assert client.get(f"{PREFIX}/node/rnew").json()["nodes"][0]["cpus"] == 2
        assert client.delete(f"{PREFIX}/node/rnew").status_code == 200


def test_an_allocation_and_what_it_has(rest):
    with rest.as_user() as client:
        job = {"name": "ralloc", "current_working_directory": "/tmp", "tasks": 1, "time_limit": 5}
        granted = client.post(f"{PREFIX}/job/allocate", json={"job": job})
        assert granted.status_code == 200 and granted.json()["warnings"] == [], granted.text
        job_id = granted.json()["job_id"]
        assert client.get(f"{PREFIX}/job/{job_id}").json()["jobs"][0]["job_state"] == ["RUNNING"]
        (node,) = client.get(f"{PREFIX}/resources/{job_id}").json()["nodes"]
        assert node["node"] in ("n1", "n2") and node["cores_per_socket"] > 0
        waiting = client.post(f"{PREFIX}/job/allocate", json={"job": {**job, "hold": True}})
        assert waiting.status_code == 200 and len(waiting.json()["warnings"]) == 1, waiting.text
        held = waiting.json()["job_id"]
        assert client.get(f"{PREFIX}/resources/{held}").json()["nodes"] == []
        assert (
            client.request("DELETE", f"{PREFIX}/jobs", json={"jobs": [str(job_id), str(held)]}).json()["status"] == []
        )
        rest.cluster.wait_state(job_id, "CANCELLED", "COMPLETED")


@pytest.mark.root
def test_a_user_makes_none_of_them(rest):
    with rest.as_user("nobody") as other:
        start = int(time.time()) + 3600
        reservation = {"name": "mine", "start_time": start, "duration": 60, "users": ["nobody"], "node_list": ["n1"]}
        for path, body in (
            ("reservation", reservation), ("partitions", {"partitions": [{"name": "mine"}]}),
            ("partitions", {"partitions": [{"name": "main", "partition": {"state": ["DOWN"]}}]}),
            ("new/node", {"node_conf": "NodeName=mine CPUs=1"}),
        ):  # fmt: skip
            assert errors(other.post(f"{PREFIX}/{path}", json=body)) == [2010], path
