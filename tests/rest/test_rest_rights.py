"""Rights: every path of the REST interface times every role, on a real cluster.

The table says for each path which roles the controller lets through: the answer of the others is 2002 or 2010. A request that
is let through may be refused for what it asks (a partition that is not there), so that the cluster stays as it is.
"""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from liverest import LiveRest
from patience import ANSWER_S

from rest.contract.facts import load
from rest.handlers.own import OWN_PATHS, PREFIX

SLURM, DB, UTIL = "/slurm/v0.0.46", "/slurmdb/v0.0.46", "/util/v0.0.46"
ROLES = ("user", "other user", "coordinator", "operator", "admin")
#: Who is who. The job is the user's, in the account rlab, of which the coordinator is one.
NAMES = {"user": "nobody", "other user": "daemon", "coordinator": "bin", "operator": "sys", "admin": ""}
ALL = frozenset(ROLES)
ADMIN = frozenset(("admin",))
OPERATOR = ADMIN | {"operator"}
#: Who may touch the user's job.
TOUCH = OPERATOR | {"user", "coordinator"}
#: Who may change what is below the account rlab.
BELOW = OPERATOR | {"coordinator"}
#: Error numbers of a right that is lacking.
RIGHTS = frozenset((2002, 2010))
JOB = "{job}"
WCKEY = "{wckey}"
ACCOUNT = {"name": "rlab", "description": "rlab", "organization": "root"}
HELD = {"name": "r", "current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n"}
RESERVATION = {
    "name": "rtable",
    "start_time": int(time.time()) + 7200,
    "duration": 60,
    "users": ["root"],
    "node_list": ["n1"],
}
#: Method, path, body and who is let through. {job}: a waiting job of the user's; {wckey}: the number of a wckey of theirs.
READ = (
    "conf", "diag", f"job/{JOB}", "jobs", "jobs/state", "licenses", "nodes", "node/n1", "partitions", "partition/main", "ping",
    "reservations", "reservation/none", f"resources/{JOB}", "shares",
)  # fmt: skip
READ_DB = (
    "accounts", "account/rlab", "association?user=nobody", "associations", "clusters", "cluster/e2e", "conf", "config", "diag",
    "instance", "instances", f"job/{JOB}", "jobs", "ping", "qos", "qos/normal", "tres", "users", "user/nobody", "wckeys", "wckey/1",
)  # fmt: skip
READ_OWN = (
    "jobs",
    "jobs/wide",
    "jobs/past",
    f"jobs/use?jobs={JOB}",
    "usage/hours",
    "queue",
    f"jobs/{JOB}/why",
    f"jobs/{JOB}/story",
    f"jobs/{JOB}/steps",
    f"jobs/{JOB}/profile",
    f"jobs/{JOB}/efficiency",
    f"jobs/{JOB}/output",
    "fits",
    "forecast",
    "plan/without?nodes=n1",
    "gpus",
    "gpus/readings",
    "usage",
    "utilization",
    "waste",
    "efficiency",
    "waits",
    "budgets",
    "borrowing",
    "config",
    "templates",
    "topology",
    "nodes/events",
    "policy",
)
TABLE: tuple[tuple[str, str, Any, frozenset[str]], ...] = (
    *(("GET", f"{SLURM}/{path}", None, ALL) for path in READ),
    *(("GET", f"{DB}/{path}", None, ALL) for path in READ_DB),
    *(("GET", f"{PREFIX}/{path}", None, ALL) for path in READ_OWN),
    ("GET", f"{PREFIX}/jobs/{JOB}/script", None, ADMIN | {"user"}),
    ("GET", f"{PREFIX}/jobs/{JOB}/environment", None, ADMIN | {"user"}),  # as the script: operators do not see it
    ("GET", f"{PREFIX}/controller", None, ADMIN),
    ("GET", f"{PREFIX}/audit", None, ADMIN),
    ("GET", f"{PREFIX}/config/diff", None, ADMIN),
    (
        "POST",
        f"{PREFIX}/simulations",
        {"days": 0},
        ALL,
    ),  # a user's own log; of the last days, what accounting shows
    ("GET", f"{PREFIX}/simulations/none", None, ALL),  # there is none; of another user, too
    ("DELETE", f"{PREFIX}/simulations/none", None, ALL),
    ("GET", f"{PREFIX}/sessions", None, ALL),  # this daemon has none: test_interactive.py
    ("POST", f"{PREFIX}/sessions", {"kind": "none"}, ALL),
    ("POST", f"{PREFIX}/sessions/{JOB}/enter", None, ALL),
    ("POST", f"{UTIL}/hostlist", {"hostnames": ["n1"]}, ALL),
    ("POST", f"{UTIL}/hostnames", {"hostlist": "n[1-2]"}, ALL),
    ("POST", f"{SLURM}/job/submit", {"job": {**HELD, "partition": "none"}}, ALL),
    ("POST", f"{PREFIX}/jobs/test", {"job": {**HELD, "partition": "none"}}, ALL),
    ("POST", f"{PREFIX}/jobs/lint", {"script": "#!/bin/sh\n"}, ALL),  # it is the caller's own text
    # What the text says decides the controller, for each change: test_rest_policy.py. This one is read, and is no policy.
    *(
        ("POST", f"{PREFIX}/policy/{verb}", {"policy": "none: 1", "days": 1}, ALL)
        for verb in ("plan", "apply", "replay")
    ),
    ("POST", f"{PREFIX}/plan/with", {"job": {**HELD, "partition": "none"}}, ALL),
    ("POST", f"{SLURM}/job/allocate", {"job": {**HELD, "partition": "none"}}, ALL),
    ("POST", f"{SLURM}/job/{JOB}", {"comment": "x"}, OPERATOR | {"user"}),
    ("GET", f"{SLURM}/job/{JOB}/requeue", None, TOUCH),
    ("POST", f"{SLURM}/jobs/requeue", {"jobs": [JOB]}, TOUCH),
    ("DELETE", f"{SLURM}/job/{JOB}", None, TOUCH),
    ("DELETE", f"{SLURM}/jobs", {"jobs": [JOB]}, TOUCH),
    ("GET", f"{SLURM}/reconfigure", None, ADMIN),
    ("POST", f"{SLURM}/node/n1", {"comment": ""}, ADMIN),
    ("POST", f"{SLURM}/nodes", {"name": ["n1"], "comment": ""}, ADMIN),
    ("POST", f"{SLURM}/new/node", {"node_conf": "NodeName=n1 CPUs=1"}, ADMIN),
    ("DELETE", f"{SLURM}/node/none", None, ADMIN),
    ("POST", f"{SLURM}/partitions", {"partitions": [{"name": "main", "partition": {"state": ["UP"]}}]}, ADMIN),
    ("DELETE", f"{SLURM}/partition/none", None, ADMIN),
    ("POST", f"{SLURM}/reservation", RESERVATION, OPERATOR),
    ("POST", f"{SLURM}/reservations", {"reservations": [RESERVATION]}, OPERATOR),
    ("DELETE", f"{SLURM}/reservation/rtable", None, OPERATOR),
    ("POST", f"{DB}/accounts", {"accounts": [ACCOUNT]}, OPERATOR),
    (
        "POST",
        f"{DB}/accounts_association",
        {"association_condition": {"accounts": ["rsub"], "association": {"parent": "rlab"}}},
        BELOW,
    ),
    ("POST", f"{DB}/associations", {"associations": [{"account": "rlab", "user": "daemon", "shares_raw": 1}]}, BELOW),
    ("POST", f"{DB}/users", {"users": [{"name": "daemon", "default": {"account": "rlab"}}]}, OPERATOR),
    (
        "POST",
        f"{DB}/users_association",
        {"association_condition": {"users": ["daemon"], "accounts": ["rlab"]}, "user": {}},
        BELOW,
    ),
    ("POST", f"{DB}/qos", {"qos": [{"name": "normal", "description": ""}]}, OPERATOR),
    ("POST", f"{DB}/wckeys", {"wckeys": [{"name": "rother", "user": "daemon", "cluster": "e2e"}]}, OPERATOR),
    ("DELETE", f"{DB}/wckey/{WCKEY}", None, OPERATOR),
    ("POST", f"{DB}/config", {"accounts": [ACCOUNT]}, OPERATOR),
    ("POST", f"{DB}/clusters", {"clusters": [{"name": "e2e"}]}, OPERATOR),
    ("POST", f"{DB}/tres", {"TRES": []}, ALL),  # refused for all: 2036
    ("POST", f"{DB}/job/{JOB}", {"comment": {"job": "x"}}, OPERATOR | {"user"}),
    ("POST", f"{DB}/jobs", {"job_id_list": [JOB], "job_rec": {"comment": {"job": "x"}}}, OPERATOR | {"user"}),
    ("DELETE", f"{DB}/account/none", None, OPERATOR),
    ("DELETE", f"{DB}/user/none", None, OPERATOR),
    ("DELETE", f"{DB}/association?account=rlab&user=daemon", None, BELOW),
    ("DELETE", f"{DB}/associations?account=rsub", None, BELOW),
    ("DELETE", f"{DB}/qos/normal", None, OPERATOR),  # it is in use
    ("DELETE", f"{DB}/cluster/e2e", None, ALL),  # refused for all: 2036
)


def pattern(path: str) -> str:
    """The path of the contract as a pattern of the table's paths."""
    return re.sub(r"\{[^}]*\}", "[^/?]+", path.rstrip("/")) + r"(\?.*)?"


def test_the_table_has_every_path():
    """Of all versions: their handlers are the same."""
    known = {
        (method.upper(), path.rstrip("/").replace("{v}", "v0.0.46"))
        for version in load().versions.values()
        for path, methods in version.operations.items()
        for method in methods
    } | {(one.method.upper(), f"{PREFIX}{one.path}") for one in OWN_PATHS}
    fixed = {path for _, path in known if "{" not in path}

    def is_in_table(method: str, path: str) -> bool:
        return any(
            one == method
            and (
                url == path or ("{" in path and url.partition("?")[0] not in fixed and re.fullmatch(pattern(path), url))
            )
            for one, url, _, _ in ((m, u if "{" in path else u.partition("?")[0], b, w) for m, u, b, w in TABLE)
        )

    assert [one for one in sorted(known) if not is_in_table(*one)] == []
    assert len(TABLE) == len(known)


def numbers(reply: httpx.Response) -> Iterator[int]:
    """The error numbers of an answer, also of single jobs."""
    if reply.content:
        answer = reply.json()
        yield from (one["error_number"] for one in answer["errors"])
        status = answer.get("status")
        for one in status if isinstance(status, list) else ():
            yield one["error"]["code"] if isinstance(one.get("error"), dict) else one["error_code"]


def is_let_through(reply: httpx.Response, what: str) -> bool:
    """Whether the controller looked at what was asked; no answer is an error of the daemons. The status shows that a
    right is lacking where the paths are Penstock's own, the number alone where they are Slurm's."""
    has_right = RIGHTS.isdisjoint(numbers(reply))
    statuses = (403,) if PREFIX in what and not has_right else (200, 304, 404, 422)
    assert reply.status_code in statuses, (what, reply.status_code, reply.text)
    return has_right


@pytest.fixture
def callers(rest: LiveRest) -> Iterator[dict[str, httpx.Client]]:
    """A connection for each role, and the accounts that make the roles."""
    found = {role: rest.as_user(NAMES[role]) for role in ROLES}
    admin = found["admin"]
    places = [{"account": "rlab", "user": NAMES[role]} for role in ROLES[:4]]
    for path, body in (
        ("accounts", {"accounts": [ACCOUNT]}), ("associations", {"associations": places}),
        ("users", {"users": [{"name": NAMES["coordinator"], "coordinators": [{"name": "rlab"}]},
                             {"name": NAMES["operator"], "administrator_level": ["Operator"]}]}),
        ("wckeys", {"wckeys": [{"name": "rkey", "user": NAMES["user"], "cluster": "e2e"}]}),
    ):  # fmt: skip
        assert admin.post(f"{DB}/{path}", json=body).status_code == 200
    yield found
    assert admin.request("DELETE", f"{SLURM}/jobs", json={"account": "rlab"}).status_code == 200
    assert admin.delete(f"{DB}/account/rlab").status_code == 200
    for one in found.values():
        one.close()


@pytest.mark.root
def test_every_path_times_every_role(rest, callers):
    def new_job() -> str:
        job = {**HELD, "hold": True, "account": "rlab"}
        return str(callers["user"].post(f"{SLURM}/job/submit", json={"job": job}).json()["job_id"])

    def ask(client: httpx.Client, method: str, path: str, body: Any, job_id: str) -> httpx.Response:
        sent = None if body is None else json.loads(json.dumps(body).replace(JOB, job_id))
        return client.request(method, path.replace(JOB, job_id).replace(WCKEY, wckey), json=sent)

    wrong: list[str] = []
    job_id = new_job()
    (found,) = callers["admin"].get(f"{DB}/wckeys?name=rkey").json()["wckeys"]
    wckey = str(found["id"])
    with httpx.Client(base_url=rest.url, timeout=ANSWER_S) as anonymous:
        for method, path, body, allowed in TABLE:
            nobody = ask(anonymous, method, path, body, job_id)
            assert (nobody.status_code, nobody.text) == (401, "Authentication failure"), (method, path)
            for role in ROLES:
                if is_let_through(ask(callers[role], method, path, body, job_id), f"{role}: {method} {path}"):
                    wrong += [] if role in allowed else [f"{role} may {method} {path}"]
                    job_id = new_job() if method == "DELETE" and JOB in f"{path}{body}" else job_id
                elif role in allowed:
                    wrong.append(f"{role} may not {method} {path}")
    assert not wrong, "\n".join(wrong)
