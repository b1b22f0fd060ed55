"""sacctmgr's lists (events, transactions, reservations, runaway jobs, ...), the server's keywords, jobs, archive, and the prompt."""

import io
import json
import time

import pytest

from cli import sacctmgr
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.v1 import explain_pb2
from penstock.v1 import governance_pb2 as gov
from penstock.v1.accounting_pb2 import ListRecordsRequest
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.treeworld import changes_of, out, world

NOW_US = 1_795_230_240_000_000  # 2026-11-21T03:04:00 UTC
S = 1_000_000
EVENTS = [
    gov.EventInfo(
        node="n1",
        start_at_us=NOW_US - 90 * S,
        state="DOWN*",
        reason="Not responding",
        user="slurm(64030)",
        tres="cpu=8",
    ),
    gov.EventInfo(
        node="n2",
        start_at_us=NOW_US - 900 * S,
        end_at_us=NOW_US - 300 * S,
        state="DRAIN",
        reason="bad fan|x",
        user="root(0)",
    ),
    gov.EventInfo(start_at_us=NOW_US - 2000 * S, end_at_us=NOW_US - 1900 * S, event_type="Cluster", tres="cpu=64"),
]
RUNAWAY = [
    gov.RunawayJob(
        job_id=7, name="wrap", partition="main", state="RUNNING", submit_at_us=NOW_US, start_at_us=NOW_US, user="ann"
    )
]
CONFIG = [
    ("SlurmctldHost[0]", "ctl(10.0.0.1)"), ("SLURM_CONF", "/etc/penstock/slurm.conf"), ("SlurmUser", "penstock(991)"),
    ("SlurmctldPort", "6817"), ("TrackWCKey", "yes"), ("AuthType", "auth/munge"),
]  # fmt: skip


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.delenv("SLURM_TIME_FORMAT", raising=False)
    monkeypatch.setattr("cli.accounts.lists.time.time_ns", lambda: NOW_US * 1000)
    return world(
        monkeypatch,
        ListEvents=lambda request: [gov.ListEventsReply(events=EVENTS[:2]), gov.ListEventsReply(events=EVENTS[2:])],
        ListTransactions=lambda request: [
            gov.ListTransactionsReply(
                transactions=[
                    gov.TransactionInfo(
                        id=3, at_us=NOW_US, action="Add Users", actor="root", where="(user='ann')", info="admin_level=1",
                        accounts=["bio"], users=["ann"],
                    )
                ]
            )
        ],
        ListReservations=pb.ListReservationsReply(
            reservations=[
                pb.ReservationInfo(name="maint", start_at_us=NOW_US - 60 * S, end_at_us=NOW_US + 60 * S, node_list="n[1-2]", tres="cpu=8"),
                pb.ReservationInfo(name="later", start_at_us=NOW_US + 600 * S, end_at_us=NOW_US + 700 * S, node_list="n3", tres="cpu=4"),
            ]
        ),
        ListRunaway=gov.ListRunawayReply(jobs=RUNAWAY),
        FixRunaway=gov.FixRunawayReply(fixed=1),
        ShowConfig=pb.ShowConfigReply(lines=[pb.ConfigLine(key=key, value=value) for key, value in CONFIG], at_us=NOW_US),
        Purge=gov.PurgeReply(records={"jobs": 12, "steps": 30}, files=["/var/archive/jobs.jsonl"]),
        Diagnostics=explain_pb2.DiagnosticsReply(
            now_us=NOW_US, since_us=NOW_US - S, by_type=[explain_pb2.RpcCount(name="Ping", count=3, total_us=30)],
            rollup=explain_pb2.PassStatistics(cycles=4, last_us=300, max_us=500, total_us=1200), last_rollup_at_us=NOW_US - 120 * S,
        ),
        ResetDiagnostics=explain_pb2.ResetDiagnosticsReply(),
        Ping=pb.PingReply(controller_host="ctl"),
        Reconfigure=pb.ReconfigureReply(),
        ModifyRecords=gov.ModifyRecordsReply(records=[gov.ModifiedRecord(job_id=7)]),
    )  # fmt: skip


def test_events(client, capsys):
    assert out(capsys, "show", "event") == (
        "   Cluster        NodeName           TimeStart             TimeEnd  State                         Reason       User \n"
        "---------- --------------- ------------------- ------------------- ------ ------------------------------ ---------- \n"
        "      tiny              n1 2026-11-21T03:02:30             Unknown  DOWN*                 Not responding slurm(640+ \n"
        "      tiny              n2 2026-11-21T02:49:00 2026-11-21T02:59:00  DRAIN                      bad fan|x    root(0) \n"
        "      tiny                 2026-11-21T02:30:40 2026-11-21T02:32:20                                                  \n"
    )
    request = client.calls[-1][1]
    assert request.start_at_us == 1_795_132_800 * S and request.all_clusters_events  # 00:00 of the day before
    assert (
        out(capsys, "-nP", "show", "event", "event=node", "format=nodename,duration,event")
        == "n1|00:01:30|Node\nn2|00:10:00|Node\n"
    )
    assert out(capsys, "-nP", "list", "events", "condflags=open", "format=nodename") == "n1\n"
    assert (
        out(capsys, "-nP", "list", "events", "events=cluster")
        == "tiny|cpu=64|2026-11-21T02:30:40|2026-11-21T02:32:20|\n"
    )
    assert out(capsys, "-nP", "list", "events", "mincpus=5", "format=nodename") == "n1\n\n"
    out(
        capsys,
        "list",
        "event",
        "nodes=n[1-2]",
        "states=down,drain",
        "start=2026-11-20",
        "user=root",
        "reason='bad fan'",
    )
    request = client.calls[-1][1]
    assert (list(request.nodes), list(request.states), list(request.reasons)) == (
        ["n[1-2]"],
        ["DOWN", "DRAIN"],
        ["bad fan"],
    )
    out(capsys, "list", "event", "state=nope", status=1, err="Invalid state: nope\n")
    out(
        capsys,
        "list",
        "event",
        "event=x",
        status=1,
        err=" Unknown event type: 'x'  Valid events are Cluster and Node.\n",
    )
    out(capsys, "list", "event", "all_time")
    assert client.calls[-1][1].start_at_us == 0


def test_transactions(client, capsys):
    assert out(capsys, "list", "transactions") == (
        "               Time               Action      Actor                Where                 Info \n"
        "------------------- -------------------- ---------- -------------------- -------------------- \n"
        "2026-11-21T03:04:00            Add Users       root         (user='ann')        admin_level=1 \n"
    )
    assert (
        out(capsys, "-nP", "list", "txn", "withassoc", "format=time%10,user,acc,cluster")
        == "2026-11-21T03:04:00|ann|bio|tiny\n"
    )
    out(capsys, "list", "transactions", "Action=Add Users", "Start=11/03-10:30:00", "actor=root", "user=ann", "id=3")
    request = client.calls[-1][1]
    assert (list(request.actions), list(request.actors), list(request.users), list(request.ids)) == (
        ["Add Users"],
        ["root"],
        ["ann"],
        [3],
    )
    assert request.start_at_us == 1_793_701_800 * S
    status, _, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, "list", "txn", "start=sometime")
    assert status == 1 and wrong.startswith("sacctmgr: error: Invalid time specification")


def test_reservations(client, capsys):
    assert out(capsys, "show", "reservation") == (
        "   Cluster            Name                           TRES           TimeStart             TimeEnd UnusedWall \n"
        "---------- --------------- ------------------------------ ------------------- ------------------- ---------- \n"
        "      tiny           maint                          cpu=8 2026-11-21T03:03:00 2026-11-21T03:05:00            \n"
    )
    assert out(capsys, "-nP", "show", "resv", "end=now+1hour", "nodes=n3", "format=name,nodename") == "later|n3\n"


def test_runaway_jobs(client, capsys):
    shown = out(capsys, "-i", "show", "runawayjobs")
    lines = shown.splitlines()
    assert lines[0].startswith("NOTE: Runaway jobs are jobs that don't exist in the controller but have a start time")
    assert (
        lines[1]
        == "ID                 Name  Partition    Cluster      State          TimeSubmit           TimeStart             TimeEnd "
    )
    assert (
        lines[3]
        == "7                  wrap       main       tiny    RUNNING 2026-11-21T03:04:00 2026-11-21T03:04:00             Unknown "
    )
    assert changes_of(client) == [gov.FixRunawayRequest(job_ids=[7])]
    out(capsys, "-ir", "show", "runaway", status=1, err="Can't run this command in readonly mode.\n")
    client.answers["ListRunaway"] = gov.ListRunawayReply()
    assert out(capsys, "show", "lostjobs") == "Runaway Jobs: No runaway jobs found on cluster tiny\n"


def test_runaway_jobs_are_asked_about(client, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    shown = out(capsys, "show", "runawayjobs")
    assert "Would you like to fix these runaway jobs?\n" in shown and shown.endswith(
        "(You have 30 seconds to decide)\n(N/y): "
    )
    assert not changes_of(client)


def test_instances(client, capsys):
    head = "Cluster|NodeName|TimeStart|TimeEnd|InstanceId|InstanceType|Extra\n"
    one = "tiny|n1|2026-11-21T03:04:00|Unknown|i-1|p5|rack\n"
    two = "tiny|n2|2026-11-21T03:04:00|Unknown|i-2|p5|\n"
    client.answers["ListNodes"] = pb.ListNodesReply(
        nodes=[
            pb.NodeInfo(name="n1", boot_at_us=NOW_US, instance_id="i-1", instance_type="p5", extra="rack"),
            pb.NodeInfo(name="n2", boot_at_us=NOW_US, instance_id="i-2", instance_type="p5"),
            pb.NodeInfo(name="n3", extra="no machine of a cloud"),
        ]
    )
    assert out(capsys, "-P", "show", "instance") == head + one + two
    assert out(capsys, "-P", "show", "instance", "instanceid=i-2,i-3") == head + two
    assert out(capsys, "-P", "show", "instance", "where", "instancetype=p5", "extra=rack") == head + one
    assert out(capsys, "-nP", "show", "instance", "nodes=n[1-2]", "format=nodename,instanceid") == "n1|i-1\nn2|i-2\n"
    assert list(client.calls[-1][1].names) == ["n[1-2]"]


def test_tables_of_what_there_is_not(client, capsys):
    assert out(capsys, "show", "federation") == (
        "Federation    Cluster ID             Features     FedState \n---------- ---------- -- -------------------- ------------ \n"
    )
    wrong = (
        " Problem adding federation(s): Requested operation not supported on this system\n"
        "sacctmgr: clusters are independent of each other: there are no federations\n"
    )
    out(capsys, "-i", "add", "federation", "x", status=1, err=wrong)


def test_configuration(client, capsys):
    lines = out(capsys, "show", "configuration").splitlines()
    assert lines[0] == "Configuration data as of 2026-11-21T03:04:00"
    found = dict(line.split(" = ", 1) for line in lines if " = " in line)
    values = {key.strip(): value for key, value in found.items()}
    wanted = {
        "DbdHost": "ctl", "TrackWCKey": "Yes", "SLURMDBD_CONF": "/etc/penstock/slurmdbd.conf", "AccountingStorageHost": "ctl",
        "AccountingStorageType": "accounting_storage/slurmdbd", "SLURM_CONF": "/etc/penstock/slurm.conf",
    }  # fmt: skip
    assert {key: values[key] for key in wanted} == wanted


def test_the_server(client, capsys):
    assert out(capsys, "ping") == "slurmdbd(primary) at ctl is UP\n"
    assert json.loads(out(capsys, "--json", "ping"))["pings"][0]["responding"] is True
    assert out(capsys, "-i", "reconfigure") == "" and client.calls[-1][0] == "Reconfigure"
    assert out(capsys, "-i", "clear", "stats") == "" and client.calls[-1][0] == "ResetDiagnostics"
    stats = out(capsys, "show", "stats")
    assert "\tREQUEST_PING                            ( 1008) count:3      ave_time:10     total_time:30\n" in stats
    assert (
        "Internal DBD rollup last ran Sat Nov 21 03:02:00 2026 (1795230120)\n\tLast cycle:   300\n\tMax cycle:    500\n"
        "\tTotal time:   1200\n\tTotal cycles: 4\n\tMean cycle:   300\n\n"
    ) in stats
    wrong = (
        " Problem shutting down server: Requested operation not supported on this system\n"
        "sacctmgr: the controller itself keeps the accounts; scontrol shutdown stops it\n"
    )
    out(capsys, "-i", "shutdown", status=1, err=wrong)
    client.answers["Ping"] = Unreachable("Unable to contact slurm controller (connect failure)")
    assert out(capsys, "ping", status=1).endswith("is DOWN\n")


def test_archive(client, capsys, monkeypatch):
    assert out(
        capsys,
        "-i",
        "archive",
        "dump",
        "purgejobafter=12",
        "purgestepafter=30days",
        "dir=/var/archive",
        "jobs",
        "steps",
    ) == ("  jobs           12\n  steps          30\n  /var/archive/jobs.jsonl\n")
    assert client.request == gov.PurgeRequest(
        after={"jobs": "12months", "steps": "30days"}, archive_folder="/var/archive"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert out(capsys, "archive", "dump", "purgejobafter=12").startswith(
        "This may result in loss of accounting database records"
    )
    assert len(client.calls) == 1
    out(capsys, "-i", "archive", "dump", "colour=x", status=1, err=" Unknown condition: colour=x\n")
    out(
        capsys,
        "archive",
        status=1,
        err='No valid entity in archive command\nInput line must include, "Dump", or "load"\n',
    )
    for words in (("dump", "purgejobafter=soon"), ("load",), ("load", "insert=x"), ("dump", "script=/x")):
        assert run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "archive", *words)[0] == 1
    assert len(client.calls) == 1
    client.answers["LoadArchive"] = gov.LoadArchiveReply(records=12)
    assert out(capsys, "-i", "archive", "load", "file=/var/archive/jobs") == "  12 records\n"
    assert client.calls[-1][1] == gov.LoadArchiveRequest(file="/var/archive/jobs")


def test_jobs(client, capsys, monkeypatch):
    which = ListRecordsRequest(ids=["7"])
    asked = gov.ModifyRecordsRequest(which=which, changes={"comment": "what it was", "newwckey": "w1"})
    said = ("modify", "job", "where", "jobid=7", "set", "comment='what it was'", "newwckey=w1")
    assert out(capsys, "-i", *said) == " Modified jobs...\n  7\n"
    check = gov.ModifyRecordsRequest()
    check.CopyFrom(asked)
    check.check_only = True
    assert [request for _, request in client.calls] == [check, asked]
    client.calls.clear()
    out(capsys, "-i", "modify", "job", "where", "user=ann", "wckey=old", "starttime=2026-11-01", "endtime=2026-12-01",
        "set", "derivedec=1:9")  # fmt: skip
    request = client.calls[-1][1]
    assert request.which == ListRecordsRequest(users=["ann"], wckeys=["old"]) and dict(request.changes) == {
        "derivedexitcode": "1:9"
    }
    assert (request.ended_until_us - request.started_from_us) // S == 30 * 86_400
    client.answers["ModifyRecords"] = gov.ModifyRecordsReply()
    assert out(capsys, "-i", "modify", "job", "8", "set", "extra=x", status=1) == " Nothing modified\n"
    client.answers["ModifyRecords"] = PenstockError(2002, "Access/permission denied")
    out(
        capsys,
        "-i",
        "modify",
        "job",
        "7",
        "set",
        "adminc=x",
        status=1,
        err=" Error with request: Access/permission denied\n",
    )
    client.calls.clear()
    for words in (
        ("x", "set", "comment=1"),
        ("set", "comment=1"),
        ("7", "starttime=never", "set", "comment=1"),
        ("7",),
        ("7", "set", "colour=1"),
    ):
        assert run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "modify", "job", *words)[0] == 1
    assert not client.calls


def test_documents(client, capsys):
    for entity, key in (
        ("event", "events"),
        ("txn", "transactions"),
        ("resv", "reservations"),
        ("federation", "federations"),
    ):
        document = json.loads(out(capsys, "--json", "show", entity))
        assert key in document and document["errors"] == []
    assert json.loads(out(capsys, "--json", "show", "event"))["events"][0]["reason"] == "Not responding"


# ---- the prompt --------------------------------------------------------------------------------------------------


def prompt(capsys, monkeypatch, tmp_path, text: str, *argv: str, status: int = 0, err: str = "") -> str:
    file = tmp_path / "typed"
    file.write_text(text)
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        return out(capsys, *argv, status=status, err=err)


def test_a_prompt(client, capsys, monkeypatch, tmp_path):
    typed = "noheader\nparsable2\nshow user bob format=user,admin\n!!\n\n# nothing\nexit\nshow user\n"
    assert (
        prompt(capsys, monkeypatch, tmp_path, typed)
        == "sacctmgr: " * 3 + "bob|None\n" + "sacctmgr: bob|None\n" + "sacctmgr: " * 3
    )
    shown = prompt(
        capsys,
        monkeypatch,
        tmp_path,
        "frob\nversion\n'open\n",
        status=1,
        err="invalid keyword: frob\nsacctmgr: error: 'open: No closing quotation\n",
    )
    assert shown.endswith("sacctmgr: sacctmgr: \n")
    assert prompt(capsys, monkeypatch, tmp_path, "\\q\n") == "sacctmgr: "


def test_a_question_at_the_prompt_reads_the_next_line_only(client, capsys, monkeypatch, tmp_path):
    from penstock.v1.shares_pb2 import ChangeAccountsReply

    client.answers["ChangeAccounts"] = ChangeAccountsReply(names=["ann"])
    shown = prompt(capsys, monkeypatch, tmp_path, "delete user ann\nn\ndelete user ann\ny\nversion\n")
    assert shown.count(" Changes Discarded\n") == 1 and "slurm 25" in shown
    assert len(changes_of(client)) == 1
    out_ = prompt(
        capsys,
        monkeypatch,
        tmp_path,
        "readonly\ndelete user ann\n",
        status=1,
        err="Can't run this command in readonly mode.\n",
    )
    assert out_ == "sacctmgr: sacctmgr: sacctmgr: \n" and len(changes_of(client)) == 1


def test_nobody_there(client, capsys):
    for name in client.answers:
        client.answers[name] = Unreachable("Unable to contact slurm controller (connect failure)")
    for words in (
        ("show", "user"),
        ("show", "event"),
        ("-i", "add", "account", "x"),
        ("show", "config"),
        ("-i", "delete", "qos", "x"),
    ):
        out(capsys, *words, status=1, err="sacctmgr: error: Unable to contact slurm controller (connect failure)\n")
    client.answers["ListEvents"] = PenstockError(2002, "Access/permission denied")
    out(capsys, "show", "event", status=1, err="sacctmgr: error: Access/permission denied\n")
