"""The client: what it retries, what it does not, which message a user gets, and what it does not import."""

import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import ANSWER_S

from penstock import calls as calls_module
from penstock.aclient import AsyncClient
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile, read_cluster, write_cluster
from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.security.ca import create_ca
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply, ListJobsRequest, PingRequest, SubmitJobRequest
from penstock.values.refusals import TEXT, Code
from penstock.values.requestkey import new_request_key

CONNECT_FAILURE = "Unable to contact slurm controller (connect failure)"
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, 0, "going down")


def test_a_call_and_its_caller(started):
    for cluster in (started.cluster, started.remote_cluster):
        with Client.open(cluster=cluster) as client:
            reply = client.call("Ping", PingRequest())
        assert (reply.cluster_name, reply.pid) == ("tiny", os.geteuid())
    assert len(started.calls) == 2


def test_streams_of_both_services(started):
    with Client.open(cluster=started.cluster) as client:
        assert len(list(client.stream("ListJobs", ListJobsRequest()))) == 3
        assert len(list(client.stream("ListRecords", ListRecordsRequest()))) == 3
        assert next(client.stream("ListJobs", ListJobsRequest())) is not None  # and the rest is not wanted
        assert client.call("Ping", PingRequest())
    assert [m for m, _ in started.calls] == ["ListJobs", "ListRecords", "ListJobs", "Ping"]


def test_a_method_that_is_not_there(started):
    with Client.open(cluster=started.cluster) as client:
        with pytest.raises(ValueError, match="no method Pong"):
            client.call("Pong", PingRequest())
        with pytest.raises(ValueError, match="answers once"):
            next(client.stream("Ping", PingRequest()))
    assert started.calls == []


def test_a_refusal_arrives_with_number_and_words_and_is_not_tried_again(started):
    code = Code.INVALID_PARTITION
    started.refusals["SubmitJob"] = [(grpc.StatusCode.INVALID_ARGUMENT, code, TEXT[code])] * 2
    with Client.open(cluster=started.cluster) as client, pytest.raises(PenstockError) as caught:
        client.call("SubmitJob", SubmitJobRequest())
    assert (caught.value.code, caught.value.text) == (code, "Invalid partition name specified")
    assert not isinstance(caught.value, Unreachable) and len(started.calls) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Code.BUSY),
        (grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED),
        (grpc.StatusCode.UNAUTHENTICATED, Code.ACCESS_DENIED),
        (grpc.StatusCode.UNIMPLEMENTED, Code.NOT_SUPPORTED),
        (grpc.StatusCode.INTERNAL, Code.INTERNAL),
        (grpc.StatusCode.UNKNOWN, Code.INTERNAL),
    ],
)
def test_a_status_without_a_number(started, status, code):
    started.refusals["Ping"] = [(status, 0, "something of gRPC's own")]
    with Client.open(cluster=started.cluster) as client, pytest.raises(PenstockError) as caught:
        client.call("Ping", PingRequest())
    assert (caught.value.code, caught.value.text) == (code, TEXT[code])
    assert caught.value.detail == "something of gRPC's own" and len(started.calls) == 1


def test_unavailable_is_tried_again_each_time_with_a_new_token(started):
    started.refusals["SubmitJob"] = [UNAVAILABLE] * 3
    started.refusals["ListJobs"] = [UNAVAILABLE]
    with Client.open(cluster=started.cluster) as client:
        client.call("SubmitJob", SubmitJobRequest(request_key="k"))
        assert len(list(client.stream("ListJobs", ListJobsRequest()))) == 3
    assert [m for m, _ in started.calls] == ["SubmitJob"] * 4 + ["ListJobs"] * 2
    assert len(set(started.tokens_seen)) == len(started.tokens_seen) == 6


BREAKS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def test_a_listing_that_breaks_off_starts_again(started):
    """The controller restarts after the first page: the whole listing is requested again, and no page comes twice."""
    started.pages["ListJobs"] = [ListJobsReply(jobs=[JobInfo(job_id=number)]) for number in (1, 2, 3)]
    started.breaks["ListJobs"] = [*BREAKS]
    with Client.open(cluster=started.cluster) as client:
        pages = list(client.stream("ListJobs", ListJobsRequest()))
    assert [job.job_id for page in pages for job in page.jobs] == [1, 2, 3]
    assert [m for m, _ in started.calls] == ["ListJobs"] * 3


def test_a_listing_that_always_breaks_off_shows_no_part(started):
    started.breaks["ListJobs"] = [grpc.StatusCode.UNAVAILABLE] * 1000
    pages: list[ListJobsReply] = []
    with Client.open(0.5, cluster=started.cluster) as client, pytest.raises(Unreachable):
        pages.extend(client.stream("ListJobs", ListJobsRequest()))
    assert pages == [] and len(started.calls) > 1


def test_squeue_prints_no_row_twice(started, tmp_path):
    """A real squeue, with each way of output, during restarts of the controller."""
    write_cluster(tmp_path / "cluster.json", started.cluster)
    started.pages["ListJobs"] = [ListJobsReply(jobs=[JobInfo(job_id=n, state="RUNNING")]) for n in (1, 2, 3)]
    environment = os.environ | {"PENSTOCK_CLUSTER": str(tmp_path / "cluster.json")}
    for options in (["-h", "-o", "%i"], ["--json"]):
        started.breaks["ListJobs"] = [*BREAKS]
        command = [sys.executable, "-m", "cli.squeue", *options]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ANSWER_S, check=False)
        ids = (
            [job["job_id"] for job in json.loads(found.stdout)["jobs"]] if "--json" in options else found.stdout.split()
        )
        assert (found.returncode, found.stderr, [int(one) for one in ids]) == (0, "", [1, 2, 3]), options


def test_a_limit_of_requests_is_waited_out_however_short_the_deadline(started, monkeypatch):
    limited = (grpc.StatusCode.RESOURCE_EXHAUSTED, int(Code.RATE_LIMITED), "RPC rate limit exceeded: 30000")
    started.refusals["Ping"] = [limited] * 3
    pauses: list[float] = []
    told: list[str] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with Client.open(5.0, cluster=started.cluster) as client:
        client.on_notice = told.append
        assert client.call("Ping", PingRequest()).cluster_name
        started.refusals["Ping"] = [limited] * 1000
        with pytest.raises(PenstockError) as caught:
            client.call("Ping", PingRequest(), 0.2)
    assert pauses[:3] == [30.0] * 3 and pauses.count(30.0) == 3 + calls_module.LIMITED_MAX_S / 30
    assert told[0] == "RPC rate limited 1 time(s). Sleeping for 30.0 seconds then trying again."
    assert (caught.value.code, caught.value.text) == (Code.RATE_LIMITED, "RPC rate limit exceeded: 30000")


def test_unavailable_to_the_end(started):
    started.refusals["Ping"] = [UNAVAILABLE] * 1000
    with Client.open(0.5, cluster=started.cluster) as client, pytest.raises(Unreachable) as caught:
        client.call("Ping", PingRequest())
    assert caught.value.text == CONNECT_FAILURE and caught.value.detail == "going down"
    assert len(started.calls) > 1


def test_nobody_there_fails_at_once(tiny, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda s: pytest.fail("it waits"))
    for cluster in (tiny.cluster, dead(tiny.cluster)):
        with Client.open(cluster=cluster) as client, pytest.raises(Unreachable) as caught:
            client.call("Ping", PingRequest())
        assert caught.value.text == CONNECT_FAILURE and "auth.sock" in caught.value.detail


def dead(cluster):
    """Sockets that a killed controller left."""
    for path in (cluster.auth_socket, cluster.socket):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
    return cluster


def test_the_owner_of_a_local_cluster_is_told_what_starts_it(tmp_path):
    cluster = ClusterFile("c", socket=str(tmp_path / "s"), auth_socket=str(tmp_path / "a"), local={"home": "x"})
    with Client(cluster) as client, pytest.raises(Unreachable) as raised:
        client.call("Ping", PingRequest())
    said = f"{tmp_path}/a: No such file or directory"
    assert raised.value.detail == f"{said}; `penstock up` starts what is not running"
    with Client(cluster._replace(local={})) as client, pytest.raises(Unreachable) as raised:
        client.call("Ping", PingRequest())
    assert raised.value.detail == said


def test_an_auth_socket_alone_is_not_a_controller(started, monkeypatch, tmp_path):
    monkeypatch.setattr(time, "sleep", lambda s: pytest.fail("it waits"))
    gone = started.cluster._replace(socket=str(tmp_path / "gone.sock"))
    nobody = started.remote_cluster._replace(address="127.0.0.1:1")
    for cluster, where in ((gone, "gone.sock"), (nobody, "127.0.0.1:1")):
        with Client.open(cluster=cluster) as client, pytest.raises(Unreachable) as caught:
            client.call("Ping", PingRequest())
        assert caught.value.text == CONNECT_FAILURE and where in caught.value.detail
    assert started.calls == []


def test_a_patient_client_meets_a_controller_that_comes_up_late(tiny, monkeypatch):
    dead(tiny.cluster)
    (tiny.folder / "ctld.sock").unlink()
    waited = threading.Event()
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda s: (waited.set(), pause(s)))
    replies = []

    def user():
        with Client.open(60, retry=True, cluster=tiny.cluster) as client:
            replies.append(client.call("Ping", PingRequest()))

    thread = threading.Thread(target=user)
    thread.start()
    assert waited.wait(ANSWER_S)
    tiny.start()
    thread.join(ANSWER_S)
    tiny.stop()
    assert [r.cluster_name for r in replies] == ["tiny"] and len(tiny.calls) == 1


def test_a_controller_that_was_there_is_waited_for(tiny, monkeypatch):
    """A restart between two calls of one program: no `retry` needed."""
    tiny.start()
    waited = threading.Event()
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda s: (waited.set(), pause(s)))
    with Client.open(60, cluster=tiny.cluster) as client:
        client.call("Ping", PingRequest())
        tiny.stop()
        replies = []
        thread = threading.Thread(target=lambda: replies.append(client.call("Ping", PingRequest())))
        thread.start()
        assert waited.wait(ANSWER_S)
        tiny.start()
        thread.join(ANSWER_S)
    tiny.stop()
    assert len(replies) == 1 and len(tiny.calls) == 2


def test_silence_ends_at_the_deadline(started, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        cluster = started.cluster._replace(socket=str(tmp_path / "silent.sock"))
        with Client.open(cluster=cluster) as client, pytest.raises(Unreachable) as caught:
            client.call("Ping", PingRequest(), timeout_s=0.3)
    assert caught.value.text in (CONNECT_FAILURE, "Socket timed out on send/recv operation")


def test_a_silent_auth_socket_ends_at_the_deadline(started, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        cluster = started.cluster._replace(auth_socket=str(tmp_path / "silent.sock"))
        with Client.open(cluster=cluster) as client, pytest.raises(Unreachable):
            client.call("Ping", PingRequest(), timeout_s=0.3)
    assert started.calls == []


def test_no_deadline(started):
    with Client.open(cluster=started.cluster) as client:
        assert client.call("Ping", PingRequest(), timeout_s=math.inf).cluster_name == "tiny"


@pytest.mark.parametrize("fixture", ["other CA", "other name"])
def test_a_controller_of_another_ca_or_name_is_told_nothing(request, fixture, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda s: pytest.fail("it waits"))
    if fixture == "other name":
        controller = request.getfixturevalue("misnamed")
        cluster = controller.remote_cluster
    else:
        controller = request.getfixturevalue("started")
        create_ca(tmp_path / "other", "tiny", time.time_ns() // 1000)
        cluster = controller.remote_cluster._replace(ca=str(tmp_path / "other/ca.pem"))
    with Client.open(cluster=cluster) as client, pytest.raises(PenstockError) as caught:
        client.call("Ping", PingRequest())
    assert caught.value.text == "The controller's certificate is not one of this cluster's"
    assert controller.calls == []


def test_the_async_client(tiny):
    async def go():
        await tiny.serve()
        async with AsyncClient.open(cluster=tiny.cluster) as client:
            tiny.refusals["Ping"] = [UNAVAILABLE]
            replies = await asyncio.gather(*(client.call("Ping", PingRequest()) for _ in range(20)))
            tiny.breaks["ListJobs"] = [*BREAKS]
            pages = [page async for page in client.stream("ListJobs", ListJobsRequest())]
            tiny.refusals["Ping"] = [(grpc.StatusCode.NOT_FOUND, Code.INVALID_JOB_ID, "Invalid job id specified")]
            with pytest.raises(PenstockError) as caught:
                await client.call("Ping", PingRequest())
        await tiny.leave()
        return replies, pages, caught.value

    replies, pages, error = asyncio.run(go())
    assert {r.cluster_name for r in replies} == {"tiny"} and len(replies) == 20 and len(pages) == 3
    assert error.code == Code.INVALID_JOB_ID and len(tiny.calls) == 20 + 1 + 3 + 1


def test_the_async_client_never_calls_as_itself_for_another(tiny):
    """A proof that is not accepted is refused, over a client whose own calls are answered; and these go on."""
    junk = (("x-slurm-user-token", "junk"),)

    async def go():
        await tiny.serve()
        async with AsyncClient(tiny.cluster, limited_max_s=0) as client:
            await client.call("Ping", PingRequest())
            with pytest.raises(NotProven):
                await client.call("Ping", PingRequest(), proof=junk)
            with pytest.raises(NotProven):
                _ = [page async for page in client.stream("ListJobs", ListJobsRequest(), proof=junk)]
            await client.call("Ping", PingRequest())
            tiny.refusals["Ping"] = [
                (grpc.StatusCode.RESOURCE_EXHAUSTED, Code.RATE_LIMITED, "RPC rate limit exceeded: 60000")
            ]
            with pytest.raises(PenstockError) as limited:
                await client.call("Ping", PingRequest())
        await tiny.leave()
        return limited.value

    assert asyncio.run(go()).code == Code.RATE_LIMITED
    assert [method for method, _ in tiny.calls] == ["Ping", "Ping", "Ping"]


def test_the_async_client_and_nobody_there(tiny):
    async def go():
        async with AsyncClient.open(cluster=tiny.cluster) as client:
            await client.call("Ping", PingRequest())

    with pytest.raises(Unreachable):
        asyncio.run(go())


@given(now_us=st.integers(0, (1 << 48) * 1000 - 1), random=st.binary(min_size=10, max_size=20))
def test_request_keys_are_uuids_of_version_7(now_us, random):
    key = new_request_key(now_us, random)
    read = uuid.UUID(key)
    assert len(key) == 32 and (read.version, read.variant) == (7, uuid.RFC_4122)
    assert int(key[:12], 16) == now_us // 1000


def test_request_keys_differ():
    assert len({new_request_key(1, os.urandom(10)) for _ in range(1000)}) == 1000


ALL = ClusterFile("c", "h", "/s", "/a", "h:1", "/ca", {"pids": [1]})


def test_cluster_file_round_trip(tmp_path):
    write_cluster(tmp_path / "cluster.json", ALL)
    assert read_cluster(tmp_path / "cluster.json") == ALL._replace(path=str(tmp_path / "cluster.json"))
    assert [p.name for p in tmp_path.iterdir()] == ["cluster.json"]


def test_which_cluster(tmp_path, monkeypatch):
    for name in ("PENSTOCK_CLUSTER", "PENSTOCK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if not os.path.exists("/etc/penstock/cluster.json"):
        with pytest.raises(PenstockError, match="no cluster found: run `penstock up`"):
            find_cluster()
    (tmp_path / "home/.penstock").mkdir(parents=True)
    (tmp_path / "ph").mkdir()
    write_cluster(tmp_path / "home/.penstock/cluster.json", ALL._replace(cluster_name="home"))
    assert find_cluster().cluster_name == "home"
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "ph"))
    with pytest.raises(PenstockError, match="no cluster found") as raised:  # and not the one at home instead
        find_cluster()
    assert raised.value.detail == f"looked for {tmp_path}/ph/cluster.json (as PENSTOCK_HOME says)"
    write_cluster(tmp_path / "ph/cluster.json", ALL._replace(cluster_name="ph"))
    assert find_cluster().cluster_name == "ph"
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(tmp_path / "x.json"))
    with pytest.raises(PenstockError, match="no cluster found"):
        find_cluster()
    write_cluster(tmp_path / "x.json", ALL._replace(cluster_name="x"))
    assert find_cluster().cluster_name == "x"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": 2, "controller": {}}', b"\xff",
     b'{"version": 1, "controller": {"socket": 5}}'],
)  # fmt: skip
def test_an_unusable_cluster_file_is_named_not_skipped(tmp_path, monkeypatch, content):
    (tmp_path / "x.json").write_bytes(content)
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(tmp_path / "x.json"))
    with pytest.raises(PenstockError, match=str(tmp_path / "x.json")):
        find_cluster()


def python(code, *args):
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=ANSWER_S)


def test_what_is_not_imported():
    code = "import sys, json, penstock.client; print(json.dumps(sorted(sys.modules)))"
    modules = set(json.loads(python(code).stdout))
    assert not modules & {"grpc", "asyncio", "cryptography", "msgspec", "numpy", "penstock.v1", "google.protobuf"}


def test_what_a_whole_call_imports_and_says(started, tmp_path):
    """Also over TLS no cryptography; nothing on stderr; the environment as it was."""
    code = (
        "import sys, os, json\n"
        "before = dict(os.environ)\n"
        "from penstock.client import Client\n"
        "from penstock.v1.controller_pb2 import PingRequest\n"
        "with Client.open() as client: client.call('Ping', PingRequest())\n"
        "assert dict(os.environ) == before\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    for n, cluster in enumerate((started.cluster, started.remote_cluster)):
        write_cluster(tmp_path / f"{n}.json", cluster)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PENSTOCK_CLUSTER": str(tmp_path / f"{n}.json")},
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        modules = set(json.loads(done.stdout))
        assert not modules & {"cryptography", "msgspec", "numpy", "sqlalchemy", "penstock.v1.node_pb2"}
        assert not [m for m in modules if m.endswith("_pb2_grpc")]


def test_penstock_node_token(started, capsys, monkeypatch, tmp_path):
    from cli.subcommands import node

    write_cluster(tmp_path / "c.json", started.cluster)
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(tmp_path / "c.json"))
    refusal = (grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED, "Access/permission denied: no")
    started.refusals["CreateNodeToken"] = [refusal]
    started.authenticator.roles = replace(started.authenticator.roles, administrator_uids=frozenset({os.geteuid()}))
    assert node.main(["token", "n1"]) == 1
    assert capsys.readouterr().err == "penstock node: error: Access/permission denied: no\n"
    assert node.main(["token", "n1"]) == 0
    assert "--node-name n1 --join" in capsys.readouterr().err
