"""An hour of requests (`make test-full`; else four minutes), one after the other without the pauses: a poller that makes
metrics, and a portal's user beside it.

The poller asks what Telegraf's input for Slurm does, in the forms of a version that is served, each 10 s: 360 rounds. The
portal asks with entity tags each 5 s while its user submits, looks, changes and cancels. What it is shown is compared with
what was done, and the daemon is afterwards as it was before.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from effort import FULL
from livecluster import ClusterConf
from liverest import JWT, LiveRest
from patience import END_S

SLURM, DB, OWN = "/slurm/v0.0.46", "/slurmdb/v0.0.46", "/penstock/v1"
HOUR_S = 3600 if FULL else 240
#: Idle connections to the controller are closed soon.
REUSE_S = 4.0
IDLE = ClusterConf(more=JWT.more, constants={"ctld.rpc.callconnection:IDLE_S": 2 * REUSE_S})
POLLER_S = 10
PORTAL_S = 5
#: Rounds of the portal in which its user does something.
ACTS_EACH = 12
DIAG = (
    "server_thread_count", "jobs_canceled", "jobs_submitted", "jobs_started", "jobs_completed", "jobs_failed", "jobs_pending",
    "jobs_running", "schedule_cycle_last", "schedule_cycle_mean", "bf_queue_len", "bf_queue_len_mean", "bf_active",
)  # fmt: skip
NODE = ("name", "state", "cores", "cpus", "cpu_load", "alloc_cpus", "real_memory", "free_mem", "alloc_memory", "tres", "tres_used", "weight")  # fmt: skip
TRES = re.compile(r"(\w[\w/:]*=[\d.]+[KMGTP]?(,|$))*")


def answer(client: httpx.Client, path: str, **more: Any) -> dict[str, Any]:
    """A GET that must succeed."""
    reply = client.get(path, **more)
    assert reply.status_code == 200, (path, reply.status_code, reply.text[:300])
    document: dict[str, Any] = reply.json()
    assert document["errors"] == [], (path, document["errors"])
    return document


def polled(client: httpx.Client) -> int:
    """One round of the poller; the number of submissions that diag reports."""
    statistics = answer(client, f"{SLURM}/diag/")["statistics"]
    assert all(type(statistics[name]) in (int, bool) for name in DIAG)
    for job in answer(client, f"{SLURM}/jobs/")["jobs"]:
        assert job["job_id"] > 0 and job["job_state"] and isinstance(job["time_limit"]["number"], int)
        assert TRES.fullmatch(job["tres_req_str"]), job["tres_req_str"]
        assert isinstance(job["node_count"]["number"], int) and isinstance(job["standard_output"], str)
    (node,) = [one for one in answer(client, f"{SLURM}/nodes/")["nodes"] if one["name"] == "n1"]
    assert all(node[name] is not None for name in NODE) and TRES.fullmatch(node["tres"])
    (partition,) = answer(client, f"{SLURM}/partitions/")["partitions"]
    assert partition["nodes"]["total"] == 1 and TRES.fullmatch(partition["tres"]["configured"])
    assert answer(client, f"{SLURM}/reservations/")["reservations"] == []
    return int(statistics["jobs_submitted"])


class Portal:
    """The session of one user. `seen`: what each page had last, by its path, with its tag."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.seen: dict[str, tuple[str, dict[str, Any]]] = {}
        self.statuses: Counter[int] = Counter()
        self.states: dict[int, str] = {}  # of its jobs, as it expects them

    def page(self, path: str) -> dict[str, Any]:
        """What a page shows: asked for again only if it has changed."""
        tag, shown = self.seen.get(path, ("", {}))
        reply = self._client.get(path, headers={"If-None-Match": tag} if tag else {})
        self.statuses[reply.status_code] += 1
        if reply.status_code == 304:
            assert reply.headers["etag"] == tag and not reply.content
            return shown
        assert reply.status_code == 200, (path, reply.text[:300])
        shown = reply.json()
        assert shown["errors"] == []
        self.seen[path] = reply.headers["etag"], shown
        return shown

    def look(self) -> None:
        """One round: the lists of a start page, and its own jobs as it knows them."""
        jobs = {one["job_id"]: one for one in self.page(f"{SLURM}/jobs")["jobs"]}
        for job_id, state in self.states.items():
            assert jobs[job_id]["job_state"] == [state], (job_id, jobs[job_id]["job_state"], state)
        assert [one["name"] for one in self.page(f"{SLURM}/nodes")["nodes"]] == ["n1"]
        for path in (f"{SLURM}/partitions", f"{OWN}/queue", f"{OWN}/gpus", f"{DB}/associations"):
            self.page(path)

    def acts(self) -> Iterator[None]:
        """What its user does, a step at a time: forms, changes, ends, history."""
        client = self._client
        while True:
            body = {
                "script": "#!/bin/sh\n",
                "job": {"name": "portal", "current_working_directory": "/tmp", "environment": ["A=1"], "hold": True},
            }
            reply = client.post(f"{SLURM}/job/submit", json=body).json()
            assert reply["errors"] == []
            job_id = reply["job_id"]
            self.states[job_id] = "PENDING"
            yield
            assert client.post(f"{SLURM}/job/{job_id}", json={"comment": "mine"}).status_code == 200
            (job,) = answer(client, f"{SLURM}/job/{job_id}")["jobs"]
            assert (job["comment"], job["hold"]) == ("mine", True)
            assert answer(client, f"{OWN}/jobs/{job_id}/why")["why"]["job_id"] == job_id
            yield
            assert client.delete(f"{SLURM}/job/{job_id}").json()["status"] == []
            self.states[job_id] = "CANCELLED"
            yield
            (record,) = answer(client, f"{DB}/job/{job_id}")["jobs"]
            assert record["state"]["current"] == ["CANCELLED"] and record["name"] == "portal"
            yield


def open_files(pid: int) -> int:
    """How many a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_an_hour_of_a_poller_and_of_a_portal(new_rest: Callable[..., LiveRest]) -> None:
    rest = new_rest(IDLE, {"penstock.acallsocket:REUSE_S": REUSE_S, "penstock.callsocket:REUSE_S": REUSE_S})
    pid = rest.daemon.process.pid
    tokens = [rest.token() for _ in range(2)]
    before = open_files(pid)

    def poller() -> list[int]:
        with rest.as_user(token=tokens[0]) as client:
            return [polled(client) for _ in range(HOUR_S // POLLER_S)]

    def portal() -> Portal:
        with rest.as_user(token=tokens[1]) as client:
            session = Portal(client)
            acts = session.acts()
            for count in range(HOUR_S // PORTAL_S):
                if count % ACTS_EACH == 0:
                    next(acts)
                session.look()
            return session

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(poller), threads.submit(portal)
        told, session = first.result(), second.result()
    assert told == sorted(told) and len(session.states) == HOUR_S // PORTAL_S // ACTS_EACH // 4
    assert session.statuses.keys() == {200, 304} and session.statuses[304] > 3 * session.statuses[200]
    rest.cluster.wait(
        lambda: open_files(pid) <= before + 2, "the connections are closed", END_S
    )  # 2: to the controller
    assert "Traceback" not in rest.log()
