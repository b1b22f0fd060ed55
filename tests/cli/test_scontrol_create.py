"""scontrol create and delete of partitions and nodes, and the verbs that talk to the controller about itself."""

import io

import pytest
from google.protobuf.json_format import MessageToDict

from cli.base.run import status_of
from cli.scontrol import body
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body


def run(capsys, *argv):
    return run_body(capsys, "scontrol", body, *argv)


def fields(request):
    return MessageToDict(request, preserving_proto_field_name=True)


@pytest.mark.parametrize(
    ("words", "method", "sent"),
    [
        (["create", "partitionname=x", "Nodes=n[1-2]", "MaxTime=10"], "CreatePartition", {"name": "x", "changes": {"nodes": "n[1-2]", "maxtime": "10"}}),
        (["create", "partition", "x", "state=UP"], "CreatePartition", {"name": "x", "changes": {"state": "UP"}}),
        (["create", "part=x"], "CreatePartition", None),
        (["create", "NodeName=d[1-3]", "State=CLOUD", "CPUs=2"], "CreateNodes", {"names": "d[1-3]", "changes": {"state": "CLOUD", "cpus": "2"}}),
        (["delete", "partitionname=x"], "DeletePartition", {"name": "x"}),
        (["delete", "partition", "x"], "DeletePartition", {"name": "x"}),
        (["delete", "nodename=d1"], "DeleteNodes", {"names": "d1"}),
        (["delete", "node", "d[1-2]"], "DeleteNodes", {"names": "d[1-2]"}),
        (["setdebug", "debug"], "SetController", {"debug_level": "debug"}),
        (["setdebug", "6"], "SetController", {"debug_level": "debug2"}),
        (["update", "SlurmctldDebug=verbose"], "SetController", {"debug_level": "verbose"}),
        (["setdebugflags", "+steps,-GRES", "nodes=n[1-2]"], "SetController",
         {"debug_flags_on": ["Steps"], "debug_flags_off": ["Gres"], "nodes": "n[1-2]"}),
        (["setdebugflags", "+backfill", "-GRES"], "SetController", {"debug_flags_on": ["Backfill"], "debug_flags_off": ["Gres"]}),
        (["schedloglevel", "enable"], "SetController", {"schedule_log": True}),
        (["fsdampeningfactor", "3"], "SetController", {"fair_share_dampening_factor": 3}),
        (["power", "down", "asap", "reason=hot", "n[1-2]"], "UpdateNodes", {"names": "n[1-2]", "changes": {"state": "POWER_DOWN_ASAP", "reason": "hot"}}),
        (["power", "up", "n1"], "UpdateNodes", {"names": "n1", "changes": {"state": "POWER_UP"}}),
        (["top", "3,4"], "ControlJobs", {"ids": ["3", "4"], "action": "TOP"}),
        (["update", "jobname=x", "nice=3", "userid=1000"], "UpdateJobs", {"job_name": "x", "user": "1000", "changes": {"nice": "3"}}),
        (["-u", "1234", "update", "job=5", "timelimit=+10"], "UpdateJobs", {"ids": ["5"], "as_uid": 1234, "changes": {"timelimit": "+10"}}),
        (["update", "jobi=5", "timel=10"], "UpdateJobs", {"ids": ["5"], "changes": {"timelimit": "10"}}),
        (["update", "nod=n1", "rea=x"], "UpdateNodes", {"names": "n1", "changes": {"reason": "x"}}),
        (["update", "part=p", "maxt=5"], "UpdatePartition", {"name": "p", "changes": {"maxtime": "5"}}),
        (["update", "jo=5", "nice=1"], "UpdateJobs", None),
        (["update", "partitionname=p", "Nodes+=n3"], "UpdatePartition", {"name": "p", "changes": {"nodes": "+n3"}}),
        (["update", "partitionname=p", "MaxTime=-1"], "UpdatePartition", {"name": "p", "changes": {"maxtime": "-1"}}),
        (["update", "partitionname=p", "MaxTime-=1"], "UpdatePartition", None),
        (["update", "nodename=n1", "AvailableFeatures=a,b"], "UpdateNodes", {"names": "n1", "changes": {"features": "a,b"}}),
        (["update", "nodename=n1", "gres=gpu:2"], "UpdateNodes", {"names": "n1", "changes": {"gres": "gpu:2"}}),
    ],
)  # fmt: skip
def test_what_is_sent(monkeypatch, capsys, words, method, sent):
    replies = {"ControlJobs": pb.JobResultsReply(), "UpdateJobs": pb.JobResultsReply()}
    client = FakeClient(**{method: replies.get(method, pb.Empty())}).install(monkeypatch)
    status, out, err = run(capsys, *words)
    if sent is None:
        assert (status, client.calls) == (1, []) and err
        return
    assert (status, out, err) == (0, "", "")
    assert [name for name, _ in client.calls] == [method]
    assert fields(client.request) == sent


def test_refusals_stand_behind_slurms_words(monkeypatch, capsys):
    for words, method, code, shown in (
        (["delete", "partition=x"], "DeletePartition", Code.PARTITION_IN_USE, "delete_partition partition=x: Partition is in use\n"),
        (["delete", "nodename=x"], "DeleteNodes", Code.NODES_BUSY, "scontrol: error: failed to delete nodes x\ndelete_node nodename=x: Requested nodes are busy\n"),
        (["create", "nodename=x"], "CreateNodes", Code.INVALID_NODE_STATE, "Error creating the node(s): Invalid node state specified\n"),
        (["token"], "IssueToken", Code.NO_TOKEN, "scontrol: error: slurm_fetch_token: Unable to generate JWT\nError fetching token\n"),
    ):  # fmt: skip
        FakeClient(**{method: PenstockError(code, TEXT[code])}).install(monkeypatch)
        assert run(capsys, *words) == (1, "", shown)


def test_a_token_is_printed_as_a_variable(monkeypatch, capsys):
    client = FakeClient(IssueToken=pb.IssueTokenReply(token="a.b.c")).install(monkeypatch)
    assert run(capsys, "token", "lifespan=60", "username=ann") == (0, "SLURM_JWT=a.b.c\n", "")
    assert fields(client.request) == {"lifespan_s": "60", "for_user": "ann"}


def test_tokens_are_revoked(monkeypatch, capsys):
    for words, sent in (([], {}), (["username=ann"], {"for_user": "ann"}), (["ALL"], {"everybody": True})):
        client = FakeClient(RevokeTokens=pb.Empty()).install(monkeypatch)
        assert run(capsys, "token", "revoke", *words) == (0, "", "")
        assert fields(client.request) == sent
    assert run(capsys, "token", "revoke", "user=ann") == (1, "", "Invalid option: `user=ann`\n")


def test_the_configuration_is_written(monkeypatch, capsys, tmp_path):
    conf = pb.ShowConfigReply(lines=[pb.ConfigLine(key="SLURM_CONF", value=str(tmp_path / "slurm.conf"))])
    FakeClient(RenderConfig=pb.RenderConfigReply(text="ClusterName=c\n"), ShowConfig=conf).install(monkeypatch)
    assert run(capsys, "write", "config", "-") == (0, "ClusterName=c\n", "")
    status, out, err = run(capsys, "write", "config")
    (written,) = tmp_path.glob("slurm.conf.*")
    assert (status, out, err) == (0, f"Slurm config saved to {written}\n", "")
    assert written.read_text() == "ClusterName=c\n"
    monkeypatch.setenv("SLURM_CONF_OUT", str(tmp_path / "out"))
    assert run(capsys, "write", "config") == (0, f"Slurm config saved to {tmp_path}/out\n", "")
    assert run(capsys, "write", "config", "-") == (0, "ClusterName=c\n", "")


HOSTILE = ("", " ", "\0", "\x1b[2J", "é" * 40, "\udcff", "x" * 70_000, "n[1-", "n[1-999999999]", "-1", "1e9", "99999999999999999999",
           "=", "a=b=c", "$(id)", "../../etc/passwd", "--", "%s%n", "NULL", "1_[0-", "1+1+1", "1.x")  # fmt: skip
VERBS = (
    "show job", "show node", "show partition", "show reservation", "show step", "show hostnames", "show hostlist", "show licenses",
    "show topology", "show assoc_mgr", "show aliases", "hold", "uhold", "release", "requeue", "requeuehold", "suspend", "resume", "top",
    "update jobid=1", "update nodename=n1", "update partitionname=p", "update reservationname=r", "create partitionname=x",
    "create nodename=x", "create reservation", "delete", "delete partition", "write", "write batch_script", "wait_job", "listjobs",
    "liststeps", "listpids", "pidinfo", "notify 1", "getent", "getaddrs", "token", "reboot", "power up", "cancel_reboot", "setdebug",
    "setdebugflags", "schedloglevel", "fsdampeningfactor", "errnumstr", "takeover", "shutdown", "show",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_hostile_words_are_a_line_and_a_status(monkeypatch, capsys, tmp_path, verb):
    """What the controller is not to be asked is refused; what it is asked it refuses here. Never a traceback."""
    monkeypatch.chdir(tmp_path)

    class Refusing(FakeClient):
        def call(self, method, request, timeout_s=None):
            raise PenstockError(Code.INVALID_VALUE, "Invalid value specified")

    Refusing().install(monkeypatch)
    capsys.readouterr()
    for value in HOSTILE:
        for words in ([*verb.split(), value], [*verb.split(), f"reason={value}"]):
            err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape")
            monkeypatch.setattr("sys.stderr", err)
            monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape"))
            status = status_of("scontrol", body, words)
            err.flush()
            text = err.buffer.getvalue().decode("utf-8", "replace")
            assert status in (0, 1) and "internal error" not in text and "Traceback" not in text, (words, text[:300])
