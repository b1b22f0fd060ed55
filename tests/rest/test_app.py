"""The application in process, with a stand-in for the controller: statuses, proofs, limits, forms of answers."""

import asyncio
import json
import os
import pwd

import httpx
import pytest
import yaml
from fakerest import TOKEN, FakeRest

from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.v1.controller_pb2 import (
    JobInfo,
    JobResult,
    JobResultsReply,
    ListJobsReply,
    ListNodesReply,
    ListPartitionsReply,
    ListReservationsReply,
    NodeInfo,
    PingReply,
    SubmitJobReply,
)
from penstock.values.refusals import TEXT, Code
from rest.contract.facts import load
from rest.handlers import HANDLERS
from rest.limits import BODY_BYTES_MAX, BODY_DEPTH_MAX, Requests

CURRENT = "/slurm/v0.0.46"
JOB = {"current_working_directory": "/tmp", "environment": ["PATH=/bin"], "name": "a", "script": "#!/bin/sh\ntrue\n"}
OWN = os.geteuid()
PING = {"Ping": PingReply(cluster_name="test", controller_host="head")}
AUTHENTICATION_FAILURE = (401, "Authentication failure")


def refusal(code: Code, detail: str = "") -> PenstockError:
    return PenstockError(code, f"{TEXT[code]}: {detail}" if detail else TEXT[code])


def numbers(reply: httpx.Response) -> list[int]:
    return [one["error_number"] for one in reply.json()["errors"]]


# ---- the caller


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-SLURM-USER-NAME": "root"},
        {"Authorization": "Basic cm9vdDo="},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"X-SLURM-USER-TOKEN": ""},
        {"X-SLURM-USER-TOKEN": "a b"},
        {"X-SLURM-USER-TOKEN": "a" * 10_000},
        {"X-SLURM-USER-TOKEN": b"\xff"},
        {"X-SLURM-USER-TOKEN": "a", "Authorization": "Bearer b"},
        {"X-SLURM-USER-TOKEN": "a", "X-SLURM-USER-NAME": b"\xc3\xa4"},
        [("X-SLURM-USER-TOKEN", "a"), ("X-SLURM-USER-TOKEN", "b")],
        [("X-SLURM-USER-TOKEN", "a"), ("X-SLURM-USER-NAME", "a"), ("X-SLURM-USER-NAME", "b")],
    ],
)
def test_without_a_proof_nothing_is_asked(headers):
    rest = FakeRest(PING)
    for path in (f"{CURRENT}/ping", "/openapi", "/slurmdb/v0.0.43/jobs"):
        reply = rest.get(path, headers=headers)
        assert (reply.status_code, reply.text) == AUTHENTICATION_FAILURE
        assert reply.headers["content-type"].startswith("text/plain")
    assert rest.calls == []


@pytest.mark.parametrize(
    ("headers", "proof"),
    [
        (TOKEN, (("x-slurm-user-token", "a.b.c"),)),
        ({"Authorization": "bearer a.b.c"}, (("x-slurm-user-token", "a.b.c"),)),
        (TOKEN | {"X-SLURM-USER-NAME": "eve"}, (("x-slurm-user-token", "a.b.c"), ("x-slurm-user-name", "eve"))),
    ],
)
def test_a_token_is_passed_on_as_it_is(headers, proof):
    rest = FakeRest(PING)
    assert rest.get(f"{CURRENT}/ping", headers=headers).status_code == 200
    assert [one[2] for one in rest.calls] == [proof]


def test_the_kernels_word_counts_for_the_daemons_own_uid_and_root():
    for uid in (OWN, 0):
        rest = FakeRest(PING, peer_uid=uid)
        assert rest.get(f"{CURRENT}/ping", headers={}).status_code == 200
        assert [one[2] for one in rest.calls] == [None]
    other = FakeRest(PING, peer_uid=OWN + 77)
    assert other.get(f"{CURRENT}/ping", headers={}).status_code == 401 and other.calls == []
    assert other.get(f"{CURRENT}/ping").status_code == 200 and other.calls[0][2] is not None


def test_by_the_kernels_word_nobody_else_is_meant():
    own = pwd.getpwuid(OWN).pw_name
    rest = FakeRest(PING, peer_uid=OWN)
    assert rest.get(f"{CURRENT}/ping", headers={"X-SLURM-USER-NAME": own}).status_code == 200
    assert rest.get(f"{CURRENT}/ping", headers={"X-SLURM-USER-NAME": f"{own}x"}).status_code == 401


def test_proofs_of_requests_side_by_side_are_not_mixed():
    """All wait for each other in the controller; each has its own proof there, and gets its own answer."""
    waiting: list[asyncio.Future] = []

    async def answer(request):
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) == 20:
            for one in waiting:
                one.set_result(None)
        await waiting[-1]
        return PingReply(controller_host="head")

    rest = FakeRest({"Ping": answer})

    async def send():
        async with rest.session() as session:
            asked = (session.get(f"{CURRENT}/ping", headers={"X-SLURM-USER-TOKEN": f"t{n}"}) for n in range(20))
            return await asyncio.gather(*asked)

    assert {one.status_code for one in asyncio.run(send())} == {200}
    assert {proof for _, _, proof in rest.calls} == {(("x-slurm-user-token", f"t{n}"),) for n in range(20)}


@pytest.mark.parametrize(("path", "number"), [("/slurm/v0.0.43/ping", 1007), ("/slurmdb/v0.0.46/users", 7000)])
def test_a_refused_token_says_nothing_but_its_number(path, number):
    error = NotProven(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED], "the token has ended; a.b.c")
    reply = FakeRest({"Ping": error, "ListAssociations": error}).get(path)
    assert reply.status_code == 401 and numbers(reply) == [number]
    assert reply.json().keys() == {"errors"} and "a.b.c" not in reply.text and "ended" not in reply.text


# ---- paths


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"), ("GET", "/slurm"), ("GET", "/slurm/v0.0.42/ping"), ("GET", f"{CURRENT}/nothing"),
        ("GET", "/slurm/v0.0.43/conf"), ("PUT", f"{CURRENT}/ping"), ("HEAD", f"{CURRENT}/ping"),
        ("OPTIONS", f"{CURRENT}/ping"), ("POST", f"{CURRENT}/ping"), ("GET", f"{CURRENT}/job/1/2"), ("POST", "/openapi"),
    ],
)  # fmt: skip
def test_unknown_paths_versions_and_methods(method, path):
    reply = FakeRest(PING).request(method, path)
    assert reply.status_code == 404 and reply.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("path", [f"{CURRENT}/ping", f"{CURRENT}/ping/", "/slurm/v0.0.43/ping"])
def test_a_slash_at_the_end_means_nothing(path):
    assert FakeRest(PING).get(path).status_code == 200


def test_every_path_has_a_handler_or_says_that_it_has_none():
    """501 with a JSON error, and docs/rest.md lists exactly these."""
    from pathlib import Path

    rest = FakeRest()
    listed = Path(__file__).parents[2].joinpath("docs", "rest.md").read_text().partition("## Not implemented yet")[2]
    lines = {line.removeprefix("- `").rstrip("`") for line in listed.splitlines() if line.startswith("- `")}
    lacking = set()
    for version in load().versions.values():
        for path, methods in version.operations.items():
            for method in methods:
                if (method, path.rstrip("/")) in HANDLERS:
                    continue
                lacking.add(f"{method.upper()} {path.rstrip('/').replace('/{v}', '')}")
                reply = rest.request(
                    method.upper(), path.replace("{v}", version.name).replace("{", "").replace("}", "")
                )
                assert (reply.status_code, numbers(reply)) == (501, [2036]), path
    assert lines == lacking
    assert rest.calls == []


def test_the_document_of_all_versions():
    rest = FakeRest()
    texts = {rest.get(path).text for path in ("/openapi", "/openapi.json", "/openapi/v3", "/openapi/")}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    assert {path.split("/")[2] for path in document["paths"]} == set(load().versions)
    assert yaml.load(rest.get("/openapi.yaml").text, yaml.CSafeLoader) == document  # 1 MB


# ---- forms


def test_ping_by_version():
    rest = FakeRest(PING)
    old, new = (rest.get(f"/slurm/{version}/ping").json() for version in ("v0.0.43", "v0.0.46"))
    assert old["pings"][0].keys() == {"hostname", "pinged", "responding", "latency", "mode", "primary"}
    assert new["pings"][0].keys() == {"hostname", "status", "responding", "latency", "primary"}
    assert (old["errors"], old["warnings"]) == ([], [])
    assert old["meta"]["plugin"]["data_parser"] == "data_parser/v0.0.43"
    assert all(isinstance(part, str) for part in new["meta"]["slurm"]["version"].values())


@pytest.mark.parametrize("accept", ["application/yaml", "application/x-yaml", "application/yaml, application/json"])
def test_yaml(accept):
    rest = FakeRest(PING)
    reply = rest.get(f"{CURRENT}/ping", headers=TOKEN | {"Accept": accept})
    assert reply.headers["content-type"].startswith("application/")
    assert yaml.safe_load(reply.text)["pings"][0]["hostname"] == "head"


@pytest.mark.parametrize("accept", ["text/html", "text/plain, image/png", "json"])
def test_no_other_form(accept):
    assert FakeRest(PING).get(f"{CURRENT}/ping", headers=TOKEN | {"Accept": accept}).status_code == 415


def test_bytes_of_a_path_that_are_no_text():
    job = JobInfo(job_id=1, std_out=b"/tmp/\xff\x9b")
    reply = FakeRest({"ListJobs": ListJobsReply(jobs=[job])}).get(f"{CURRENT}/jobs")
    assert reply.status_code == 200 and reply.json()["jobs"][0]["standard_output"] == "/tmp/\udcff\udc9b"


def test_a_job_that_never_ran_has_no_resources():
    found = FakeRest({"ListJobs": ListJobsReply(jobs=[JobInfo(job_id=7)])}).get(f"{CURRENT}/job/7").json()["jobs"]
    assert found[0]["job_id"] == 7 and found[0]["job_resources"] is None


def test_states_alone():
    jobs = [JobInfo(job_id=16, array_job_id=15, array_task_id=1, state="RUNNING"), JobInfo(job_id=3, het_job_id=3)]
    answer = FakeRest({"ListJobs": ListJobsReply(jobs=jobs)}).get(f"{CURRENT}/jobs/state").json()
    assert [one["job_id"] for one in answer["jobs"]] == ["15_1", "3+0"]
    assert answer["jobs"][0]["job_state"] == ["RUNNING"] and "last_update" not in answer


# ---- what is refused


def test_unknown_things():
    rest = FakeRest(
        {"ListJobs": ListJobsReply(), "ListNodes": ListNodesReply(nodes=[NodeInfo(name="n1")]),
         "ListPartitions": ListPartitionsReply(), "ListReservations": ListReservationsReply()}
    )  # fmt: skip
    job = rest.get(f"{CURRENT}/job/12")
    assert (job.status_code, numbers(job)) == (404, [2017])
    node = rest.get(f"{CURRENT}/node/n2")
    assert node.status_code == 200 and "nodes" not in node.json()
    assert node.json()["errors"][0] == {
        "error": "Failure to query node n2", "error_number": 0, "description": "Failure to query node n2",
        "source": "_dump_nodes",
    }  # fmt: skip
    part = rest.get(f"{CURRENT}/partition/x").json()
    assert "partitions" not in part and part["errors"] == [] and len(part["warnings"]) == 1
    assert numbers(rest.get(f"{CURRENT}/reservation/x")) == [0]


@pytest.mark.parametrize("job_id", ["abc", "0", "-1", "1.2", "99999999999", "%00", "1,2", "é"])
def test_no_job_ids(job_id):
    reply = FakeRest().get(f"{CURRENT}/job/{job_id}")
    assert (reply.status_code, numbers(reply)) == (422, [9000])


@pytest.mark.parametrize(
    "query", ["update_time=x", "update_time=-1", "update_time=1e3", "flags=NOTHING", "update_time=" + "9" * 40]
)
def test_query_values_that_cannot_be_read(query):
    reply = FakeRest({"ListJobs": ListJobsReply()}).get(f"{CURRENT}/jobs?{query}")
    assert reply.status_code == 422 and numbers(reply)[-1] == 9000


def test_update_time_in_the_future():
    rest = FakeRest(
        {"ListJobs": ListJobsReply(jobs=[JobInfo(job_id=1)]), "ListNodes": ListNodesReply(),
         "ListPartitions": ListPartitionsReply(), "ListReservations": ListReservationsReply()}
    )  # fmt: skip
    for path in ("nodes", "partitions", "partition/main", "reservations"):
        reply = rest.get(f"{CURRENT}/{path}?update_time=9999999999")
        assert (reply.status_code, reply.content) == (304, b"")
        assert rest.get(f"{CURRENT}/{path}?update_time=1").status_code == 200
    jobs = rest.get(f"{CURRENT}/jobs?update_time=9999999999").json()
    assert jobs["jobs"] == [] and len(jobs["warnings"]) == 1


@pytest.mark.parametrize(
    ("code", "status", "number"),
    [
        (Code.INVALID_PARTITION, 422, 2000), (Code.INVALID_ACCOUNT, 422, 2045), (Code.INVALID_QOS, 422, 2066),
        (Code.INVALID_USER, 422, 2010), (Code.SCRIPT_TOO_LARGE, 422, 2012), (Code.INVALID_DEPENDENCY, 422, 2038),
        (Code.INVALID_ARRAY, 422, 2081), (Code.ACCESS_DENIED, 422, 2002), (Code.BUSY, 503, 9004),
    ],
)  # fmt: skip
def test_refusals_of_the_controller_have_slurms_numbers(code, status, number):
    reply = FakeRest({"SubmitJob": refusal(code, "why")}).post(f"{CURRENT}/job/submit", {"job": JOB})
    assert (reply.status_code, numbers(reply)) == (status, [number])
    assert "why" in reply.json()["errors"][0]["description"]


@pytest.mark.parametrize(
    ("code", "status"), [(Code.ACCESS_DENIED, 403), (Code.INVALID_USER, 422), (Code.INVALID_JOB_ID, 404)]
)
def test_who_lacks_a_right_is_told_so_by_the_status_on_our_paths_alone(code, status):
    rest = FakeRest({"ListQos": refusal(code, "why"), "ListNodes": refusal(code, "why"), "Fits": refusal(code, "why")})
    reply = rest.get("/penstock/v1/fits")
    assert (reply.status_code, numbers(reply)) == (status, [code])
    for path in ("/slurm/v0.0.46/nodes", "/slurmdb/v0.0.46/qos"):
        assert rest.get(path).status_code == (422 if status == 403 else status)


def test_a_controller_that_limits_requests_or_is_away():
    limited = FakeRest({"Ping": PenstockError(Code.RATE_LIMITED, "RPC rate limit exceeded: 2500")}).get(
        f"{CURRENT}/ping"
    )
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
    away = FakeRest({"Ping": Unreachable()}).get(f"{CURRENT}/ping")
    assert (away.status_code, numbers(away)) == (503, [1800]) and "retry-after" in away.headers


def test_an_unexpected_error_is_one_line(caplog):
    reply = FakeRest({"Ping": RuntimeError("secret")}).get(f"{CURRENT}/ping")
    assert reply.status_code == 500 and "secret" not in reply.text and "Traceback" not in reply.text
    assert "secret" in caplog.text


# ---- bodies


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400), (b"\xff", 400), (b'{"a": NaN}', 400), (b"[" * 100_000, 400), (b'{"a":"\\ud800"}', 400),
        (b'{"\\udc00":1}', 400), (b"1" * 5000, 400), (b"[" * (BODY_DEPTH_MAX + 1) + b"]" * (BODY_DEPTH_MAX + 1), 400),
        (b"[" + b"1," * 200_000 + b"1]", 400), (b"\0", 400), (b"", 422), (b"null", 422), (b"[]", 422), (b"1", 422),
        (b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)  # fmt: skip
def test_bodies_that_are_none(content, status):
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=1)})
    headers = TOKEN | {"Content-Type": "application/json"}
    assert rest.request("POST", f"{CURRENT}/job/submit", content=content, headers=headers).status_code == status
    assert rest.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/json; charset=utf-8"}, 415), ({}, 415),
        ({"Content-Type": "application/json", "Content-Length": "x"}, 400),
        ({"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, 406),
    ],
)  # fmt: skip
def test_heads_of_bodies(headers, status):
    reply = FakeRest().request("POST", f"{CURRENT}/job/submit", content=b"{}", headers=TOKEN | headers)
    assert reply.status_code == status


def test_no_cache_keeps_an_answer_for_another_caller():
    """Who asks is in a header that caches do not know."""
    rest = FakeRest({"Ping": PingReply(cluster_name="x"), "SubmitJob": NotProven(Code.ACCESS_DENIED, "no")})
    job = {"job": {"current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n"}}
    said = [
        rest.get(f"{CURRENT}/ping"), rest.get(f"{CURRENT}/job/x"), rest.get(f"{CURRENT}/ping", headers={}),
        rest.request("POST", f"{CURRENT}/job/submit", json=job, headers=TOKEN), rest.request("POST", "/util/v0.0.46/hostlist", json={"hostnames": ["n1"]}, headers=TOKEN),
    ]  # fmt: skip
    assert [(one.status_code, one.headers.get("cache-control")) for one in said] == [
        (200, "private, no-cache"), (422, "no-store"), (401, "no-store"), (401, "no-store"), (200, "no-store"),
    ]  # fmt: skip


# ---- limits


def test_requests_in_progress_of_a_caller_and_in_all():
    held = asyncio.Event()

    async def answer(request):
        await held.wait()
        return PingReply()

    rest = FakeRest({"Ping": answer}, Requests(requests_max=4, caller_max=2, wait_s=0))

    async def send():
        async with rest.session() as session:

            def ask(token):
                return asyncio.ensure_future(session.get(f"{CURRENT}/ping", headers={"X-SLURM-USER-TOKEN": token}))

            mine = [ask("a") for _ in range(3)]
            while not any(one.done() for one in mine):
                await asyncio.sleep(0)
            others = [ask("b"), ask("c"), ask("d")]
            while not any(one.done() for one in others):
                await asyncio.sleep(0)
            held.set()
            done = await asyncio.gather(*mine, *others)
            return done, await ask("a")

    done, after = asyncio.run(send())
    assert sorted(one.status_code for one in done) == [200] * 4 + [429] * 2
    assert all(one.headers["retry-after"] for one in done if one.status_code == 429)
    assert after.status_code == 200


def test_the_bodies_of_all_requests_have_a_limit(monkeypatch):
    """What is held is given back, also after a refusal."""
    monkeypatch.setattr("rest.limits.BODIES_BYTES_MAX", 1000)
    requests = Requests()
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=1)}, requests)
    for _ in range(2):
        assert rest.post(f"{CURRENT}/job/submit", {"job": JOB}).status_code == 200
        large = rest.post(f"{CURRENT}/job/submit", {"job": JOB | {"comment": "x" * 1000}})
        assert large.status_code == 429 and large.headers["retry-after"]
    assert requests.body_bytes == 0


# ---- writing


def submitted(body, **more) -> tuple[httpx.Response, FakeRest]:
    rest = FakeRest({"SubmitJob": SubmitJobReply(job_id=5)})
    return rest.post(f"{CURRENT}/job/submit", body, **more), rest


def test_a_submission_is_that_of_sbatch():
    described = JOB | {
        "tasks": 4, "cpus_per_task": 2, "time_limit": {"set": True, "number": 90}, "partition": "main,long",
        "memory_per_node": 2048, "array": "0-7%2", "tres_per_node": "gres/gpu:h200:2", "nodes": "2-4", "hold": True,
        "mail_type": ["END", "TIME=80%"], "shared": ["user"], "required_nodes": "n[1-2]", "flags": ["SPREAD_JOB"],
        "standard_output": "/tmp/o", "argv": ["x", "1"], "kill_warning_signal": "USR1", "kill_warning_delay": 60,
        "kill_warning_flags": ["BATCH_JOB"], "requeue": False, "nice": -3, "rlimits": {"nofile": 1024, "core": -1},
    }  # fmt: skip
    reply, rest = submitted({"job": described})
    assert reply.json()["job_id"] == 5 and reply.json()["errors"] == []
    ((_, request, _),) = rest.calls
    job = request.job
    assert (job.name, job.ntasks, job.cpus_per_task, job.time_limit_s) == ("a", 4, 2, 5400)
    assert (list(job.partitions), job.mem_per_node_mb, job.array) == (["main", "long"], 2048, "0-7%2")
    assert (job.nodes_min, job.nodes_max, job.hold, job.exclusive_user) == (2, 4, True, True)
    assert [(one.name, one.type, one.count) for one in job.gres_per_node] == [("gpu", "h200", 2)]
    assert set(job.mail_types) == {"END", "TIME_LIMIT_80"} and job.signal == "B:USR1@60"
    assert (job.nodes_required, job.spread_job, job.requeue, job.nice) == ("n[1-2]", True, False, -3)
    assert (job.work_dir, job.std_out, dict(job.rlimits)) == (b"/tmp", b"/tmp/o", {"NOFILE": 1024, "CORE": -1})
    assert (request.spec.script, list(request.spec.argv)) == (b"#!/bin/sh\ntrue\n", [b"x", b"1"])
    assert request.request_key


def test_a_heterogeneous_job():
    reply, rest = submitted({"jobs": [JOB | {"tasks": 1}, {"current_working_directory": "/tmp", "tasks": 3}]})
    assert reply.status_code == 200
    request = rest.calls[0][1]
    assert (request.job.ntasks, [one.ntasks for one in request.components]) == (1, [3])


@pytest.mark.parametrize(
    ("script", "words"),
    [("hostname\n", "does not look like a batch script"), ("\n#!/bin/sh\n", "does not look like"), (" \n ", "whitespace"),
     ("#!/bin/sh\r\ntrue\r\n", "DOS line breaks"), ("#!/bin/sh\n\0", "NULL")],
)  # fmt: skip
def test_scripts_that_sbatch_refuses(script, words):
    for body in ({"job": JOB | {"script": script}}, {"job": {**JOB, "script": None}, "script": script}):
        reply, rest = submitted(body)
        assert (reply.status_code, numbers(reply), rest.calls) == (422, [2009], []), reply.text
        assert words in reply.json()["errors"][0]["description"].replace("\n", " ")


def test_a_token_in_the_environment_is_not_passed_on():
    _, rest = submitted({"job": JOB | {"environment": ["A=1", "SLURM_JWT=x"]}})
    assert list(rest.calls[0][1].spec.environment) == [b"A=1"]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"script": ""}, 9000), ({"environment": []}, 2127), ({"environment": None}, 2127),
        ({"current_working_directory": ""}, 2063), ({"current_working_directory": "here"}, 2063),
        ({"time_limit": "0:05:00"}, 9202), ({"flags": ["JUMP"]}, 9207), ({"rlimits": []}, 9209), ({"tasks": "x"}, 9202),
        ({"tasks": -1}, 9202), ({"array": "7-"}, 9202), ({"tres_per_node": "help"}, 9202),
        ({"user_id": "eve"}, 9202), ({"tasks": 0}, 9202), ({"nodes": "4-2"}, 9202), ({"name": "a\nb"}, 9202),
        ({"required_nodes": "n[1-"}, 9202), ({"distribution": "help"}, 9202), ({"container": "/x"}, 9202),
    ],
)  # fmt: skip
def test_submissions_that_make_no_job(change, number):
    reply, rest = submitted({"job": JOB | change})
    assert (reply.status_code, numbers(reply)[0]) == (422, number), reply.text
    assert rest.calls == []


@pytest.mark.parametrize(("members", "found"), [
    ({"tres_per_node": "gres/gpu:2"}, {"gres_per_node": [("gpu", "", 2)]}),  # of --gres and of --gpus-per-node
    ({"tres_per_node": "gres/gpu:h200=2,gres/shard:3"}, {"gres_per_node": [("gpu", "h200", 2), ("shard", "", 3)]}),
    ({"tres_per_job": "gres/gpu:h200:2,gres/gpu:a100=1"}, {"gres_per_job": [("gpu", "h200", 2), ("gpu", "a100", 1)]}),
    ({"tres_per_job": "gres/gpu"}, {"gres_per_job": [("gpu", "", 1)]}),
    ({"tres_per_task": "cpu=2,gres/gpu:1"}, {"gres_per_task": [("gpu", "", 1)], "cpus_per_task": 2}),
    ({"tres_per_socket": "gres/gpu:1", "sockets_per_node": 1}, {"gres_per_socket": [("gpu", "", 1)]}),
    ({"tres_per_node": "gres/gpu:1", "cpus_per_tres": "gres/gpu:4", "memory_per_tres": "gres/gpu=512"},
     {"cpus_per_gpu": 4, "mem_per_gpu_mb": 512}),
    ({"tres_per_job": "gres/gpu:2", "tres_bind": "gres/gpu:closest", "tres_freq": "gpu:high,memory=low"},
     {"gpu_bind": "closest", "gpu_freq": "high,memory=low"}),
])  # fmt: skip
def test_resources_are_those_of_the_options_that_slurm_has_for_them(members, found):
    reply, rest = submitted({"job": JOB | members})
    assert (reply.status_code, reply.json()["warnings"]) == (200, [])
    ((_, request, _),) = rest.calls
    for name, value in found.items():
        is_list = isinstance(value, list)
        got = getattr(request.job, name)
        assert ([(one.name or "gpu", one.type, one.count) for one in got] if is_list else got) == value, name


@pytest.mark.parametrize(
    "text", ["gres/shard:4", "gres/gpumem:4", "cpu=4", "license/x:2", "gres/gpu:1,gres/shard:1", "2"]
)
def test_resources_that_are_not_counted_so_are_no_type_of_gpu(text):
    for member in ("tres_per_job", "tres_per_socket", "cpus_per_tres", "memory_per_tres", "tres_freq"):
        if member == "tres_freq" and text.startswith("gres/gpu:1"):
            continue  # words of one resource
        reply, rest = submitted({"job": JOB | {member: text, "sockets_per_node": 1}})
        assert (reply.status_code, rest.calls) == (422, []) and "GPUs" in reply.text, (member, reply.text)


def test_what_has_no_effect_is_said():
    reply, _ = submitted(
        {
            "job": JOB
            | {"unknown": 1, "selinux_context": "x", "immediate": True, "tasks": "2", "environment": {"A": "1"}}
        }
    )
    assert reply.status_code == 200
    assert {one["source"] for one in reply.json()["warnings"]} == {
        "#/job/unknown", "#/job/selinux_context", "#/job/immediate", "#/job/tasks", "#/job/environment",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "signal", "full"), [("", 0, False), ("signal=KILL", 0, False), ("signal=USR1", 10, False),
                                  ("signal=9&flags=FULL_JOB", 9, True)]
)  # fmt: skip
def test_ending_a_job(query, signal, full):
    rest = FakeRest({"CancelJobs": JobResultsReply(results=[JobResult(id="5")])})
    reply = rest.request("DELETE", f"{CURRENT}/job/5?{query}")
    assert reply.json()["status"] == [] and reply.status_code == 200
    request = rest.calls[0][1]
    assert (list(request.filter.ids), request.signal, request.full) == (["5"], signal, full)


def test_an_unknown_signal_ends_no_job():
    rest = FakeRest()
    reply = rest.request("DELETE", f"{CURRENT}/job/5?signal=JUMP")
    assert reply.status_code == 200 and numbers(reply) == [0] and rest.calls == []


def test_jobs_that_could_not_be_ended_are_listed():
    results = [
        JobResult(id="5"),
        JobResult(id="6", code=Code.ALREADY_DONE, text="done"),
        JobResult(id="7", code=Code.ACCESS_DENIED, text="no"),
    ]
    rest = FakeRest({"CancelJobs": JobResultsReply(results=results)})
    reply = rest.request("DELETE", f"{CURRENT}/jobs", json={"jobs": ["5", "6", "7"]})
    assert [(one["step_id"], one["error"]["code"]) for one in reply.json()["status"]] == [("6", 2021), ("7", 2002)]


@pytest.mark.parametrize("body", [{}, {"flags": ["FULL_JOB"]}, {"jobs": []}, {"account": "", "signal": "TERM"}])
def test_ending_all_jobs_takes_a_filter(body):
    rest = FakeRest()
    assert rest.request("DELETE", f"{CURRENT}/jobs", json=body).status_code == 422
    assert rest.calls == []


def test_an_update_has_the_keys_of_scontrol():
    rest = FakeRest({"UpdateJobs": JobResultsReply(results=[JobResult(id="5")])})
    body = {"time_limit": -1, "comment": "x", "priority": {"set": True, "number": 7}, "required_nodes": ["n1", "n2"]}
    assert rest.post(f"{CURRENT}/job/5", body).json()["results"] is None
    assert dict(rest.calls[0][1].changes) == {
        "timelimit": "UNLIMITED", "comment": "x", "priority": "7", "reqnodelist": "n1,n2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "number"),
    [(Code.JOB_FINISHED, 2084), (Code.INVALID_JOB_ID, 2017), (Code.INVALID_USER, 2010), (Code.INVALID_PARTITION, 2000)],
)
def test_refused_updates(code, number):
    rest = FakeRest({"UpdateJobs": JobResultsReply(results=[JobResult(id="5", code=code, text=TEXT[code])])})
    reply = rest.post(f"{CURRENT}/job/5", {"comment": "x"})
    assert (reply.status_code, numbers(reply)) == (422, [number])


def test_lines_of_the_submit_filter_are_in_the_answer():
    replies = {
        "SubmitJob": SubmitJobReply(job_id=1, user_messages=["time limit set", "be well"]),
        "UpdateJobs": JobResultsReply(results=[JobResult(id="1")], user_messages=["seen"]),
    }
    rest = FakeRest(replies)
    job = {"script": "#!/bin/sh\n", "current_working_directory": "/tmp", "environment": ["A=1"]}
    answer = rest.post(f"{CURRENT}/job/submit", {"job": job}).json()
    assert answer["job_submit_user_msg"] == "time limit set\nbe well"
    answer = rest.post(f"{CURRENT}/job/1", {"comment": "x"}).json()
    assert [one["description"] for one in answer["warnings"]] == ["seen"]
