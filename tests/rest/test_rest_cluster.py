"""The REST daemon on a real cluster: submissions, jobs, rights, tokens, restarts."""

import json
import os
import pwd
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from livecluster import LAUNCHERS, ROOT, LiveCluster
from liverest import PREFIX, LiveRest
from patience import ANSWER_S, END_S, START_S

OWN = pwd.getpwuid(os.geteuid())
IS_ROOT = OWN.pw_uid == 0
VERSIONS = ("v0.0.43", "v0.0.44", "v0.0.45", "v0.0.46")
#: A user without rights of its own, of a cluster of root's.
OTHER = "nobody"
New = Callable[..., LiveRest]


def job(cluster: LiveCluster, script: str = "#!/bin/sh\ntrue\n", **members: object) -> dict:
    described = {"name": "rest", "current_working_directory": "/tmp", "environment": ["PATH=/usr/bin:/bin"]}
    out = cluster.work / "rest-%j.out"
    return {"job": {**described, "script": script, "standard_output": str(out), **members}}


def submit(client: httpx.Client, body: dict, version: str = "v0.0.46") -> int:
    reply = client.post(f"/slurm/{version}/job/submit", json=body)
    assert reply.status_code == 200 and reply.json()["errors"] == [], reply.text
    return reply.json()["job_id"]


def errors(reply: httpx.Response) -> list[int]:
    return [one["error_number"] for one in reply.json()["errors"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_from_submission_to_record(rest, version):
    cluster = rest.cluster
    with rest.as_user() as client:
        body = job(cluster, "#!/bin/sh\necho $GREETING $1\n", environment=["PATH=/bin", "GREETING=hello"], argv=["you"])
        job_id = submit(client, body, version)
        cluster.wait_ends(job_id)
        (found,) = client.get(f"/slurm/{version}/job/{job_id}").json()["jobs"]
        assert (found["job_id"], found["name"], found["job_state"]) == (job_id, "rest", ["COMPLETED"])
        assert found["user_name"] == OWN.pw_name and found["exit_code"]["return_code"]["number"] == 0
        (record,) = client.get(f"/slurmdb/{version}/job/{job_id}").json()["jobs"]
        assert record["state"]["current"] == ["COMPLETED"] and record["association"]["user"] == OWN.pw_name
    assert (cluster.work / f"rest-{job_id}.out").read_text() == "hello you\n"


def test_the_same_objects_as_json(rest):
    """One declaration: what the document of --json has, the answer has."""
    cluster = rest.cluster
    with rest.as_user() as client:
        submit(client, job(cluster, hold=True, comment="mine"))
        ((ours,), (theirs,)) = (
            client.get(f"{PREFIX}/jobs?").json()["jobs"][-1:],
            json.loads(cluster.run("squeue", "--json").ok().out)["jobs"][-1:],
        )
        for name in ("job_id", "comment", "job_state", "priority", "partition", "time_limit", "submit_line", "nodes"):
            assert ours[name] == theirs[name], name
        nodes = {one["name"]: one["cpus"] for one in client.get(f"{PREFIX}/nodes").json()["nodes"]}
    shown = json.loads(cluster.run("scontrol", "show", "node", "--json").ok().out)["nodes"]
    assert nodes == {one["name"]: one["cpus"] for one in shown}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_path_that_reads_answers(rest, version):
    """200, of the right version, and nothing in errors; what ends in a name is one that exists."""
    from rest.contract.facts import load
    from rest.handlers import HANDLERS

    with rest.as_user() as client:
        job_id = submit(client, job(rest.cluster, hold=True))
        names = {
            "job_id": job_id,
            "node_name": "n1",
            "partition_name": "main",
            "account_name": "root",
            "cluster_name": "e2e",
        }
        for path, methods in load().versions[version].operations.items():
            if (
                "get" not in methods
                or ("get", path.rstrip("/")) not in HANDLERS
                or path.endswith(("requeue", "reconfigure/"))
            ):
                continue
            url = path.replace("{v}", version)
            for name, value in names.items():
                url = url.replace(f"{{{name}}}", str(value))
            url = re.sub(r"\{id\}", "1", re.sub(r"\{(name|qos|reservation_name)\}", "normal", url))
            reply = client.get(url)
            assert reply.status_code == 200, url
            document = reply.json()
            assert document["errors"] == [] or "reservation" in url, url
            assert document["meta"]["plugin"]["data_parser"] == f"data_parser/{version}"


def test_hold_change_requeue_end(rest):
    cluster = rest.cluster
    with rest.as_user() as client:
        job_id = submit(client, job(cluster, "#!/bin/sh\nsleep 600\n", hold=True, time_limit=10))
        url = f"{PREFIX}/job/{job_id}"
        assert client.post(url, json={"time_limit": {"set": True, "number": 20}, "comment": "x"}).status_code == 200
        (found,) = client.get(url).json()["jobs"]
        assert (found["time_limit"]["number"], found["comment"]) == (20, "x")
        assert errors(client.get(f"{url}/requeue")) == [2024]
        assert client.post(url, json={"hold": False}).status_code == 200
        cluster.wait_state(job_id, "RUNNING")
        assert client.get(f"{url}/requeue?Hold=true").status_code == 200
        cluster.wait_state(job_id, "REQUEUE_HOLD", "PENDING")
        assert client.delete(url).json()["status"] == []
        cluster.wait_state(job_id, "CANCELLED")
        (again,) = client.delete(url).json()["status"]
        assert again["error"]["code"] == 2021
        assert errors(client.post(url, json={"comment": "y", "time_limit": 1})) == [2084]


def test_arrays_and_heterogeneous_jobs(rest):
    with rest.as_user() as client:
        array = submit(client, job(rest.cluster, array="0-3", hold=True))
        (record,) = client.get(f"{PREFIX}/job/{array}").json()["jobs"]
        assert record["array_task_string"] == "0-3"
        described = job(rest.cluster, hold=True)["job"]
        del (second := dict(described))["script"]
        first = submit(client, {"jobs": [described, second]})
        states = client.get(f"{PREFIX}/jobs/state?job_id={first}").json()["jobs"]
        assert {one["job_id"] for one in states} == {f"{first}+0", f"{first}+1"}
        assert client.request("DELETE", f"{PREFIX}/jobs", json={"user_name": OWN.pw_name}).json()["status"] == []

        def are_cancelled() -> bool:
            found = client.get(f"{PREFIX}/jobs/state?job_id={array},{first}").json()["jobs"]
            return len(found) == 3 and all(one["job_state"] == ["CANCELLED"] for one in found)

        rest.cluster.wait(are_cancelled, "the array and both components are cancelled")


def test_node_changes(rest):
    with rest.as_user() as client:
        assert client.post(f"{PREFIX}/node/n2", json={"state": ["DRAIN"], "reason": "cable"}).status_code == 200
        (node,) = client.get(f"{PREFIX}/node/n2").json()["nodes"]
        assert "DRAIN" in node["state"] and node["reason"] == "cable"
        assert client.post(f"{PREFIX}/node/n2", json={"state": ["RESUME"]}).status_code == 200
        assert errors(client.post(f"{PREFIX}/node/n9", json={"comment": "x"})) == [2018]


@pytest.mark.parametrize(
    ("change", "number"),
    [({"partition": "nosuch"}, 2000), ({"qos": "nosuch"}, 2066), ({"dependency": "afterok:999999"}, 2038)],
)  # fmt: skip
def test_refused_submissions(rest, change, number):
    with rest.as_user() as client:
        before = client.get(f"{PREFIX}/jobs/state").json()["jobs"]
        reply = client.post(f"{PREFIX}/job/submit", json=job(rest.cluster, **change))
        assert (reply.status_code, errors(reply)) == (422, [number]), reply.text
        assert client.get(f"{PREFIX}/jobs/state").json()["jobs"] == before


# ---- whose right


@pytest.mark.root
def test_another_users_rights(rest):
    cluster = rest.cluster
    with rest.as_user() as root, rest.as_user(OTHER) as other:
        job_id = submit(root, job(cluster, hold=True))
        url = f"{PREFIX}/job/{job_id}"
        assert errors(other.post(url, json={"comment": "mine"})) == [2010]
        (entry,) = other.delete(url).json()["status"]
        assert entry["error"]["code"] == 2002
        assert errors(other.post(f"{PREFIX}/node/n1", json={"state": ["DRAIN"], "reason": "x"})) == [2010]
        assert errors(other.get(f"{PREFIX}/reconfigure")) == [2002]
        assert other.post(f"{PREFIX}/job/submit", json=job(cluster, hold=True, user_id="0")).status_code == 422
        mine = submit(other, job(cluster, hold=True))
        (found,) = other.get(f"{PREFIX}/job/{mine}").json()["jobs"]
        assert found["user_name"] == OTHER
        (held,) = root.get(url).json()["jobs"]
        assert (held["job_state"], held["comment"]) == (["PENDING"], "")
        as_other = root.get(f"{PREFIX}/job/{job_id}", headers={"X-SLURM-USER-NAME": OTHER})
        assert as_other.status_code == 200  # root's token may name any user
        assert other.get(url, headers={"X-SLURM-USER-NAME": OWN.pw_name}).status_code == 401


@pytest.mark.root
def test_the_socket_is_for_the_daemons_own_user(rest):
    """Another user gets nothing without a token, however it asks."""
    with rest.by_socket() as client:
        assert client.get(f"{PREFIX}/ping").status_code == 200
    nobody = pwd.getpwnam(OTHER)
    words = ["curl", "-s", "--unix-socket", str(rest.socket), "-o", "/dev/null", "-w", "%{http_code}"]

    def asked(*more: str) -> str:
        done = subprocess.run(
            [*words, *more, f"http://localhost{PREFIX}/jobs"], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
            capture_output=True, text=True, timeout=ANSWER_S, check=True,
        )  # fmt: skip
        return done.stdout

    assert asked() == "401"
    assert asked("-H", "X-SLURM-USER-NAME: root") == "401"
    assert asked("-H", f"X-SLURM-USER-TOKEN: {rest.token(OTHER)}") == "200"


def test_tokens_that_count_for_nothing(rest):
    """401 each, the number alone, no trace of the token in the log."""
    good = rest.token()
    head, body, signature = good.split(".")
    bad = [
        "x",
        "a.b.c",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[::-1]}",
        f"{head}.{body[:-2]}.{signature}",
        "é" * 9,
    ]
    for token in bad:
        headers = {b"X-SLURM-USER-TOKEN": token.encode()}
        for path, number in ((f"{PREFIX}/jobs", 1007), ("/slurmdb/v0.0.44/users", 7000), (f"{PREFIX}/ping", 1007)):
            reply = httpx.get(f"{rest.url}{path}", headers=headers, timeout=ANSWER_S)
            assert reply.status_code == 401
            if token.isascii():
                assert [one["error_number"] for one in reply.json().pop("errors")] == [number]
    with rest.as_user(token=good) as client:
        assert client.get(f"{PREFIX}/ping").status_code == 200
    assert not any(token in rest.log() for token in (good, signature, "a.b.c"))


def test_a_revoked_token(new_rest):
    rest = new_rest()
    with rest.as_user() as client:
        assert client.get(f"{PREFIX}/jobs").status_code == 200
        rest.cluster.run("scontrol", "token", "revoke").ok()
        assert client.get(f"{PREFIX}/jobs").status_code == 401


# ---- failures


def test_daemons_that_end(new_rest: New):
    """Nothing is in the REST daemon: killed and started again it answers as before. A controller that is away is 503."""
    rest = new_rest()
    cluster = rest.cluster
    token = rest.token()
    with rest.as_user(token=token) as client:
        job_id = submit(client, job(cluster, hold=True))
    cluster.kill("restd")
    rest.start()
    with rest.as_user(token=token) as client:
        assert [one["job_id"] for one in client.get(f"{PREFIX}/jobs").json()["jobs"]] == [job_id]
        cluster.kill("ctld")
        away = client.get(f"{PREFIX}/ping")
        assert away.status_code == 503 and away.headers["retry-after"]
        cluster.start_controller()
        assert client.get(f"{PREFIX}/job/{job_id}").status_code == 200
    rest.daemon.process.terminate()
    assert cluster.wait_death("restd") == 0
    assert "Traceback" not in rest.log()


def test_two_side_by_side(rest):
    other = LiveRest(rest.cluster)
    other.socket = rest.cluster.home / "other.sock"
    other.start("restd2")
    with rest.as_user() as first, other.as_user() as second:
        job_id = submit(first, job(rest.cluster, hold=True))
        assert second.get(f"{PREFIX}/job/{job_id}").status_code == 200
    rest.cluster.daemons["restd2"].process.terminate()
    assert rest.cluster.wait_death("restd2") == 0


# ---- the daemon's own command line


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ([], 78, "nowhere to listen"), (["--listen", "x"], 78, "expected ADDR:PORT"), (["--what"], 2, "--what"),
        (["--listen", "0.0.0.0:0"], 78, "without TLS"), (["127.0.0.1:0", "--tls-cert", "x"], 78, "belong together"),
        (["unix:/nonexistent/x"], 78, "No such file"), (["--tls-cert", "/x", "--tls-key", "/x", ":0"], 78, "/x: No such file"),
    ],
)  # fmt: skip
def test_starts_that_are_refused(rest, words, status, text):
    done = rest.cluster.run("penstock", "restd", "--allow-privileged", *words)
    assert done.status == status and text in done.err and "Traceback" not in done.err


def test_it_does_not_run_as_root_or_slurmuser(rest):
    done = rest.cluster.run("penstock", "restd", "--listen", "127.0.0.1:0")
    assert done.status == 78 and "--allow-privileged" in done.err


def test_slurmrestd_is_its_other_name(rest):
    assert rest.cluster.run("slurmrestd", "-V").ok().out.startswith("slurmrestd ")
    taken = rest.cluster.run(
        "slurmrestd", "-s", "slurmctld", "-d", "v0.0.43", "--allow-privileged", rest.url[len("http://") :]
    )
    assert taken.status == 75 and "in use" in taken.err


def test_penstock_up_with_rest():
    """A private cluster: started and stopped with the others, reached over a Unix socket in its folder."""
    home = Path(tempfile.mkdtemp(prefix="pstk-"))  # a short path: sockets are below it
    env = {
        "PENSTOCK_HOME": str(home / "p"), "PATH": f"{LAUNCHERS}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def penstock(*words: str) -> str:
        done = subprocess.run(
            [str(LAUNCHERS / "penstock"), *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=START_S + END_S,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    try:
        said = penstock("up", "--rest", "--cpus-per-node", "2")
        assert "ctld, n" in said and "restd" in said
        shown = json.loads(penstock("status", "--json"))["rest"]
        assert shown["running"]
        transport = httpx.HTTPTransport(uds=shown["socket"])
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=ANSWER_S) as client:
            assert client.get(f"{PREFIX}/ping").json()["pings"][0]["responding"]
        assert "up already" in penstock("up", "--rest")
    finally:
        stopped = penstock("down", "--purge")
    assert "restd" in stopped and not (home / "p").exists()
