"""Issue 14 by way of HTTP: each number's attack again, with a token of a plain user, against a cluster with PrivateData.

Rights are in test_rest_rights.py, sizes in tests/security/test_09_rest_sizes.py, crowds in test_13_rest_peers.py.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from livecluster import ClusterConf, LiveCluster
from liverest import PREFIX as SLURM
from liverest import LiveRest

from tests.rest.test_rest_events import stream

DB, OWN = "/slurmdb/v0.0.46", "/penstock/v1"
VICTIM, OTHER = "nobody", "daemon"
#: An id of so many digits is no part of another number of an answer.
PRIVATE = ClusterConf(more=("AuthAltTypes=auth/jwt", "PrivateData=jobs,usage,users,accounts", "FirstJobId=700001"))
#: In /tmp a file of its output may be there, of another user: of a job of the same id of another test's cluster.
JOB = {"name": "x", "current_working_directory": "/tmp", "standard_output": "/dev/null", "environment": ["A=1"],
       "script": "#!/bin/sh\n", "hold": True}  # fmt: skip
ADDRESSES = ("|/tmp/x.sh", "/etc/cron.d/x", "-Sx=y", "+folder", "a\n~!id", "a;b", "--")
TEXTS = ("x\x1b]0;owned\x07", "x\nJobId=7 JobName=y", "x\u202ey", "x\u2028y", "x\x7f", "x\x9b2J", "x\r")
#: Members of a job that are shown to others, of a submission and of an update.
SHOWN = (
    "name", "comment", "account", "partition", "qos", "wckey", "extra", "licenses", "constraints", "prefer", "dependency",
    "reservation", "mail_user", "mcs_label", "current_working_directory", "standard_output", "standard_error", "standard_input",
    "array", "tres_per_node", "container", "distribution",
)  # fmt: skip
UPDATED = (
    "name", "comment", "account", "partition", "qos", "wckey", "extra", "licenses", "constraints", "dependency", "mail_user",
    "standard_output", "reservation",
)  # fmt: skip
FAR_S = 1 << 62
pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def private() -> Iterator[LiveRest]:
    with LiveCluster(1, PRIVATE) as cluster:
        rest = LiveRest(cluster)
        rest.start()
        yield rest


@pytest.fixture
def ask(private: LiveRest) -> Iterator[Callable[[str], httpx.Client]]:
    """The connection of a user."""
    made = {user: private.as_user(user) for user in (VICTIM, OTHER, "")}
    yield made.__getitem__
    for one in made.values():
        one.close()
    private.cluster.clean()


def submit(client: httpx.Client, **more: Any) -> int:
    reply = client.post(f"{SLURM}/job/submit", json={"job": JOB | more})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["job_id"])


def job_count(admin: httpx.Client) -> int:
    return len(admin.get(f"{SLURM}/jobs").json()["jobs"])


def refused(client: httpx.Client, method: str, path: str, body: Any) -> None:
    reply = client.request(method, path, json=body)
    assert reply.status_code == 422, (path, body, reply.status_code, reply.text[:300])
    assert reply.json()["errors"], reply.text


@pytest.mark.parametrize("text", ADDRESSES)
def test_01_an_address_that_a_mail_program_runs_is_refused(ask: Callable[[str], httpx.Client], text: str) -> None:
    user, before = ask(OTHER), job_count(ask(""))
    bad = JOB | {"mail_user": text}
    refused(user, "POST", f"{SLURM}/job/submit", {"job": bad})
    refused(user, "POST", f"{SLURM}/job/submit", {"jobs": [JOB, bad]})
    refused(user, "POST", f"{SLURM}/job/allocate", {"job": bad})
    assert job_count(ask("")) == before
    job_id = submit(user, mail_user="ann@example.org", mail_type=["END"])
    refused(user, "POST", f"{SLURM}/job/{job_id}", {"mail_user": text})
    (kept,) = user.get(f"{SLURM}/job/{job_id}").json()["jobs"]
    assert kept["mail_user"] == "ann@example.org"


@pytest.mark.parametrize("members", [
    {"user_id": "0"}, {"user_id": "0", "group_id": "0"}, {"group_id": "0"}, {"user_id": "65534"}, {"user_id": -1},
], ids=str)  # fmt: skip
def test_02_nobody_submits_as_somebody_else(ask: Callable[[str], httpx.Client], members: Any) -> None:
    """Refused, or, where the member counts for nothing (of a component, of a group alone), the caller's own job."""
    user, admin, before = ask(OTHER), ask(""), job_count(ask(""))
    bad = JOB | members
    if "user_id" in members:
        refused(user, "POST", f"{SLURM}/job/submit", {"job": bad})
        refused(user, "POST", f"{SLURM}/job/allocate", {"job": bad})
        assert job_count(admin) == before
    for body in ({"jobs": [JOB, bad]}, {"job": bad}):
        user.post(f"{SLURM}/job/submit", json=body)
    made = admin.get(f"{SLURM}/jobs").json()["jobs"][before:]
    assert {(one["user_name"], one["group_name"]) for one in made} <= {(OTHER, OTHER)}


def test_06_an_owner_gets_rid_of_no_administrators_hold(ask: Callable[[str], httpx.Client]) -> None:
    user, admin = ask(OTHER), ask("")
    job_id = submit(user)
    url = f"{SLURM}/job/{job_id}"
    assert admin.post(url, json={"hold": True}).status_code == 200
    for method, path, body in (
        ("POST", url, {"hold": False}), ("POST", url, {"priority": 100}), ("POST", url, {"hold": True}), ("POST", url, {"hold": False}),
        ("GET", f"{url}/requeue?Hold=true", None), ("POST", f"{SLURM}/jobs/requeue", {"jobs": [str(job_id)], "flags": ["Hold"]}),
        ("POST", url, {"begin_time": 1}), ("POST", url, {"nice": 0}), ("POST", url, {"hold": False}),
    ):  # fmt: skip
        user.request(method, path, json=body)
    (held,) = admin.get(url).json()["jobs"]
    assert (held["job_state"], held["state_reason"], held["priority"]["number"]) == (["PENDING"], "JobHeldAdmin", 0)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_07_no_member_takes_what_a_terminal_obeys(ask: Callable[[str], httpx.Client], text: str) -> None:
    user, admin = ask(OTHER), ask("")
    job_id = submit(user)
    before = job_count(admin)
    for member in SHOWN:
        value = (
            f"/tmp/{text}"
            if member in ("current_working_directory", "standard_output", "standard_error", "standard_input")
            else text
        )
        refused(user, "POST", f"{SLURM}/job/submit", {"job": JOB | {member: value}})
    for member in UPDATED:
        refused(user, "POST", f"{SLURM}/job/{job_id}", {member: text})
    assert job_count(admin) == before
    for path, body in (
        ("slurmdb/v0.0.46/accounts", {"accounts": [{"name": "t", "description": text, "organization": "o"}]}),
        ("slurmdb/v0.0.46/qos", {"qos": [{"name": "t", "description": text}]}),
        ("slurm/v0.0.46/node/n1", {"comment": text}), ("slurm/v0.0.46/node/n1", {"state": ["DRAIN"], "reason": text}),
        ("slurm/v0.0.46/reservation", {"name": "t", "start_time": 4_000_000_000, "duration": 60, "users": ["root"],
                                       "node_list": ["n1"], "comment": text}),
    ):  # fmt: skip
        refused(admin, "POST", f"/{path}", body)


def test_07_no_path_makes_a_line_of_the_log(private: LiveRest, ask: Callable[[str], httpx.Client]) -> None:
    """restd logs paths with --verbose, and those of answers that end early always."""
    user = ask(OTHER)
    for path in (
        "/slurm/%0a[2026-01-01] ERROR restd: forged%1b[2J",
        "/slurm/v0.0.46/job/1%0aforged",
        "/%e2%80%a8forged%c2%9b2J",
    ):
        user.get(path)
    log = private.logged("forged")
    assert not any(line.lstrip("\u2028").startswith(("forged", "[2026-01-01]")) for line in log.splitlines())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", log)


#: What a user asks about one job, by any method.
QUESTIONS: tuple[tuple[str, str, Any], ...] = (
    ("GET", f"{SLURM}/job/{{id}}", None), ("GET", f"{SLURM}/jobs/state?job_id={{id}}", None),
    ("GET", f"{SLURM}/resources/{{id}}", None), ("DELETE", f"{SLURM}/job/{{id}}", None),
    ("DELETE", f"{SLURM}/job/{{id}}?signal=USR1&flags=BATCH_JOB", None), ("DELETE", f"{SLURM}/jobs", {"jobs": ["{id}"]}),
    ("POST", f"{SLURM}/job/{{id}}", {"comment": "x"}), ("POST", f"{SLURM}/job/{{id}}", {"hold": True}),
    ("GET", f"{SLURM}/job/{{id}}/requeue", None), ("POST", f"{SLURM}/jobs/requeue", {"jobs": ["{id}"]}),
    ("POST", f"{SLURM}/job/submit", {"job": JOB | {"dependency": "afterok:{id}"}}),
    ("POST", f"{SLURM}/job/submit", {"jobs": [JOB, JOB | {"dependency": "afterany:{id}"}]}),
    ("POST", f"{SLURM}/job/allocate", {"job": JOB | {"dependency": "after:{id}"}}),
    ("POST", f"{SLURM}/job/{{mine}}", {"dependency": "afternotok:{id}"}),
    ("GET", f"{DB}/job/{{id}}", None), ("GET", f"{DB}/jobs?step={{id}}", None),
    ("POST", f"{DB}/job/{{id}}", {"comment": {"job": "x"}}),
    ("POST", f"{DB}/jobs", {"job_id_list": ["{id}"], "job_rec": {"comment": {"job": "x"}}}),
    ("GET", f"{OWN}/jobs/{{id}}/why", None), ("GET", f"{OWN}/jobs/{{id}}/story", None), ("GET", f"{OWN}/jobs/{{id}}/script", None),
)  # fmt: skip
#: Times of the answer, and the port of the connection.
VARIES = re.compile(r'"(?:last_update|number|source)":("[^"]*"|\d+)')


@pytest.mark.parametrize("state", ["pending", "running", "ended"])
def test_08_a_job_of_somebody_else_is_one_that_is_not_there(
    private: LiveRest, ask: Callable[[str], httpx.Client], state: str
) -> None:
    script = "#!/bin/sh\nsleep 600\n" if state == "running" else "#!/bin/sh\n"
    theirs = submit(ask(VICTIM), hold=state == "pending", script=script)
    if state != "pending":
        private.cluster.wait_state(theirs, "RUNNING" if state == "running" else "COMPLETED")
    mine, absent = submit(ask(OTHER)), 999_999

    def answer(method: str, path: str, body: Any, job_id: int) -> tuple[int, str]:
        def filled(text: str) -> str:
            return text.replace("{id}", str(job_id)).replace("{mine}", str(mine))

        sent = None if body is None else json.loads(filled(json.dumps(body)))
        reply = ask(OTHER).request(method, filled(path), json=sent)
        return reply.status_code, VARIES.sub("", reply.text).replace(str(job_id), "ID")

    told = [one for one in QUESTIONS if answer(*one, theirs) != answer(*one, absent)]
    assert told == [], [(answer(*one, theirs), answer(*one, absent)) for one in told]
    (still,) = ask("").get(f"{SLURM}/job/{theirs}").json()["jobs"]
    assert not still["comment"] and still["job_state"] == [{"ended": "COMPLETED"}.get(state, state.upper())]


def test_08_no_listing_has_it(private: LiveRest, ask: Callable[[str], httpx.Client]) -> None:
    theirs, mine = submit(ask(VICTIM), name="secretname"), submit(ask(OTHER))
    listings = (
        f"{SLURM}/jobs", f"{SLURM}/jobs/state", f"{SLURM}/shares", f"{SLURM}/diag", f"{DB}/jobs?start_time=2020-01-01",
        f"{DB}/jobs?users={VICTIM}", f"{DB}/jobs?state=PENDING", f"{OWN}/jobs", f"{OWN}/jobs?users={VICTIM}", f"{OWN}/forecast",
        f"{OWN}/forecast?users={VICTIM}", f"{OWN}/gpus", f"{OWN}/fits", f"{DB}/users", f"{DB}/associations", f"{DB}/config",
    )  # fmt: skip
    for path in listings:
        reply = ask(OTHER).get(path)
        assert reply.status_code == 200, (path, reply.text)
        assert "secretname" not in reply.text and f'"{VICTIM}"' not in reply.text, path
    for path in (f"{SLURM}/jobs", f"{OWN}/jobs", f"{OWN}/forecast"):
        assert {one["job_id"] for one in ask(OTHER).get(path).json()["jobs"]} & {theirs, mine} == {mine}
    for path in (f"{OWN}/jobs?order=name&count=1000", f"{OWN}/forecast?order=-job_id&count=1000", f"{OWN}/queue"):
        seen = ask(VICTIM).get(path).json()  # an order and counts are kept for those who ask again
        found = ask(OTHER).get(path).json()
        if "queue" in found:
            own = [one for one in ask(OTHER).get(f"{OWN}/jobs").json()["jobs"] if one["state"] == "PENDING"]
            assert sum(one["jobs"] for one in found["queue"]) == len(own), (found, seen)
        else:
            assert {one["job_id"] for one in found["jobs"]} & {theirs, mine} == {mine}
            assert found["total"] == len(found["jobs"]) and theirs in {one["job_id"] for one in seen["jobs"]}
    assert ask(OTHER).get(f"{OWN}/queue?users={VICTIM}").json()["queue"] == []
    assert ask(OTHER).get(f"{OWN}/jobs?search=secretname&count=5").json()["total"] == 0


def test_08_no_event_has_it(ask: Callable[[str], httpx.Client]) -> None:
    """The first change that somebody else is sent is one of their own, also when they ask for the other's."""
    with stream(ask(OTHER)) as all_changes, stream(ask(OTHER), f"kinds=job&users={VICTIM}") as of_victim:
        assert next(all_changes).name == next(of_victim).name == "hello"
        theirs = submit(ask(VICTIM))
        ask(VICTIM).delete(f"{SLURM}/job/{theirs}")
        mine = submit(ask(OTHER))
        first = next(one for one in all_changes if one.name == "job")
        assert first.data["job_id"] == mine
    with stream(ask("")) as everything:
        next(everything)
        theirs = submit(ask(VICTIM))
        assert next(one for one in everything if one.name == "job").data["job_id"] == theirs


@pytest.mark.parametrize("members", [
    {"begin_time": FAR_S}, {"begin_time": {"set": True, "number": 300_000_000_000}}, {"deadline": FAR_S},
    {"time_limit": {"set": True, "number": 2**31}}, {"time_minimum": 2**31},
], ids=str)  # fmt: skip
def test_14_a_date_out_of_all_measure_breaks_nobodys_listing(
    private: LiveRest, ask: Callable[[str], httpx.Client], members: Any
) -> None:
    user, admin = ask(OTHER), ask("")
    job_id, before = submit(user), job_count(admin) + 1
    assert before > 0
    reply = user.post(f"{SLURM}/job/submit", json={"job": JOB | members})
    assert reply.status_code == 422, reply.text
    if "time_minimum" not in members:
        changed = user.post(f"{SLURM}/job/{job_id}", json=members)
        assert changed.status_code == 422, changed.text
    if "begin_time" in members:
        made = admin.post(f"{SLURM}/reservation", json={"name": "far", "start_time": members["begin_time"], "duration": 60,
                                                         "users": ["root"], "node_list": ["n1"]})  # fmt: skip
        assert made.status_code == 422, made.text
    for words in (("scontrol", "show", "job"), ("squeue", "--start"), ("squeue", "--json")):
        private.cluster.run(*words).ok()
    assert {one["job_id"] for one in admin.get(f"{SLURM}/jobs").json()["jobs"]} >= {job_id}
