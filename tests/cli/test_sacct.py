"""sacct over made-up records; columns, widths and messages are Slurm's."""

import grp
import json
import os
import re
import time
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from cli.listings.sacct_fields import COLUMNS, VALUES
from cli.sacct import body
from penstock.errors import Unreachable
from penstock.v1.accounting_pb2 import ListRecordsReply
from penstock.v1.controller_pb2 import ListQosReply, Qos
from tests.cli import reports
from tests.cli.fake_controller import run_body

MIDNIGHT_US = 1_795_219_200_000_000
#: The window includes what happens within the second of its end.
LAST_US = reports.NOW_US + 999_999


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def client(monkeypatch):
    return reports.install(monkeypatch)


def only(monkeypatch, *ids):
    some = [record for record in reports.records() if record.job_id in ids]
    return reports.install(monkeypatch, ListRecords=[ListRecordsReply(records=[record]) for record in some])


def run(capsys, *argv):
    return run_body(capsys, "sacct", body, *argv)


def out(capsys, *argv):
    status, shown, wrong = run(capsys, *argv)
    assert (status, wrong) == (0, "")
    return shown


def asked(client):
    return MessageToDict(client.calls[-1][1], preserving_proto_field_name=True)


def test_default_table(client, capsys):
    assert out(capsys) == (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        "20           simulatio+       main       proj          2  COMPLETED      0:0 \n"
        "20.batch          batch                  proj          2  COMPLETED      0:0 \n"
        "21                 wrap       main       proj          2 CANCELLED+      0:0 \n"
        "21.batch          batch                  proj          2  CANCELLED     0:15 \n"
        "22                 wrap       main       proj          0 CANCELLED+      0:0 \n"
        "23_[0-9%2]         wrap       main       proj          2    PENDING      0:0 \n"
        "23_10              wrap       main       proj          2    RUNNING      0:0 \n"
        "23_10.batch       batch                  proj          2    RUNNING      0:0 \n"
        "25                 wrap       main       proj          2     FAILED      2:0 \n"
    )


def test_brief(client, capsys):
    assert out(capsys, "-b", "-X").splitlines()[:3] == [
        "JobID             State ExitCode ",
        "------------ ---------- -------- ",
        "20            COMPLETED      0:0 ",
    ]


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (["-P"], ["JobID|State", "20|COMPLETED", "20.batch|COMPLETED"]),
        (["-p"], ["JobID|State|", "20|COMPLETED|", "20.batch|COMPLETED|"]),
        (["-P", "--delimiter=, "], ["JobID, State", "20, COMPLETED", "20.batch, COMPLETED"]),
        (["-nP"], ["20|COMPLETED", "20.batch|COMPLETED"]),
        (["-XP"], ["JobID|State", "20|COMPLETED"]),
        (["-n", "--delimiter=,"], ["20            COMPLETED ", "20.batch      COMPLETED "]),
    ],
)
def test_styles(monkeypatch, capsys, argv, lines):
    only(monkeypatch, 20)
    assert out(capsys, "-o", "jobid,state", *argv).splitlines() == lines


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("jobid%6,jobname%-20,state%5", "    20 simulation_long      COMP+ "),
        ("JobName%20,JobName%4", "     simulation_long sim+ "),
        ("jobid%-4,jobid%1", "20   + "),
        ("stat,exit,elapsed,part", " COMPLETED      0:0   01:01:40       main "),
        (" jobid , state ", "20            COMPLETED "),
        ("jobid%abc", "20           "),
    ],
)
def test_widths(monkeypatch, capsys, fields, line):
    only(monkeypatch, 20)
    assert out(capsys, "-n", "-X", "-o", fields) == line + "\n"


def test_times_and_states(client, capsys):
    fields = "jobid,jobidraw,state%20,submit,start,end,elapsed,elapsedraw,timelimit,timelimitraw,planned,nodelist"
    assert out(capsys, "-n", "-X", "-P", "-o", fields).splitlines() == [
        "20|20|COMPLETED|2026-11-21T01:57:20|2026-11-21T01:57:30|2026-11-21T02:59:10|01:01:40|3700|00:10:00|10"
        "|00:00:10|n1",
        "21|21|CANCELLED by 1000|2026-11-21T01:57:20|2026-11-21T01:57:30|2026-11-21T02:59:10|01:01:40|3700|00:10:00|10"
        "|00:00:10|n2",
        "22|22|CANCELLED by 0|2026-11-21T01:57:20|None|2026-11-21T02:14:00|00:00:00|0|00:10:00|10|00:16:40"
        "|None assigned",
        "23_[0-9%2]|23|PENDING|2026-11-21T01:57:20|Unknown|Unknown|00:00:00|0|00:10:00|10|01:06:40|None assigned",
        "23_10|24|RUNNING|2026-11-21T01:57:20|2026-11-21T03:03:00|Unknown|00:01:00|60|UNLIMITED|UNLIMITED"
        "|01:05:40|n[1-2]",
        "25|25|FAILED|2026-11-21T01:57:20|2026-11-21T01:57:30|2026-11-21T02:59:10|01:01:40|3700|00:10:00|10|00:00:10"
        "|None assigned",
    ]


def test_counts(client, capsys):
    fields = "jobid,alloccpus,ncpus,reqcpus,nnodes,allocnodes,reqnodes,cputime,cputimeraw,reqmem,derivedexitcode"
    shown = dict(line.split("|", 1) for line in out(capsys, "-n", "-P", "-o", fields).splitlines())
    assert shown["20"] == "2|2|2|1|1|1|02:03:20|7400|4G|0:0"
    assert shown["20.batch"] == "2|2|2|1|1|1|02:03:20|7400||"
    assert shown["23_[0-9%2]"] == "2|2|2|1|0|1|00:00:00|0|4G|0:0"
    assert shown["23_10"].split("|")[3:5] == ["2", "2"]
    assert shown["25"].endswith("|2:0")


def test_usage(monkeypatch, capsys):
    only(monkeypatch, 20, 24)
    fields = (
        "jobid,totalcpu,usercpu,systemcpu,avecpu,maxrss,averss,maxvmsize,maxdiskread,ntasks,maxrssnode,tresusageintot"
    )
    assert out(capsys, "-n", "-P", "-o", fields).splitlines() == [
        "20|01:01.734|01:01.234|00:00.500||||||||",
        "20.batch|01:01.734|01:01.234|00:00.500|00:01:01|1228K|1228K|200M|2K|1|n1"
        "|cpu=00:01:01,mem=1228K,vmem=200M,fs/disk=2048",
        "23_10|00:00.000|00:00.000|00:00.000||||||||",
        "23_10.batch|00:00.000|00:00.000|00:00.000||||||1||",  # nothing was measured yet
    ]


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ([], "4G 1228K 2K"),
        (["--units=M"], "4096M 1.20M 0.00M"),
        (["--units", "k"], "4194304K 1228K 2K"),
        (["--noconvert"], "4096M 1257472 2048"),
    ],
)
def test_units(monkeypatch, capsys, argv, shown):
    only(monkeypatch, 20)
    lines = out(capsys, "-n", "-P", "-o", "reqmem,maxrss,maxdiskread", *argv).splitlines()
    assert lines[0].split("|")[0] + " " + " ".join(lines[1].split("|")[1:]) == shown


def test_every_field_of_slurm_is_known(client, capsys):
    assert {name for name in VALUES} <= {column.name for column in COLUMNS}
    fields = ",".join(column.name for column in COLUMNS)
    lines = out(capsys, "-P", "-o", fields).splitlines()
    assert lines[0].split("|") == [column.name for column in COLUMNS]
    assert {line.count("|") for line in lines} == {len(COLUMNS) - 1}
    shown = dict(zip(lines[0].split("|"), lines[1].split("|"), strict=True))
    assert shown["SubmitLine"] == "sbatch job.sh" and shown["WorkDir"] == "/home/ann" and shown["User"] == "ann"
    assert shown["StdOut"] == shown["StdErr"] == "/home/ann/out.txt" and shown["StdIn"] == "/dev/null"
    assert shown["ConsumedEnergy"] == shown["Layout"] == shown["QOS"] == ""


def test_long_format(client, capsys):
    lines = out(capsys, "-l", "-P").splitlines()
    assert lines[0].startswith("JobID|JobIDRaw|JobName|Partition|MaxVMSize|") and lines[0].endswith("|TRESUsageOutTot")
    assert len(lines) == 10


def test_field_list(capsys):
    shown = out(capsys, "-e")
    lines = shown.splitlines()
    assert lines[0] == "Account             AdminComment        AllocCPUS           AllocNodes         "
    assert shown.split() == [column.name for column in COLUMNS]
    assert out(capsys, "--helpformat") == shown


@pytest.mark.parametrize(
    ("argv", "window"),
    [
        ([], (MIDNIGHT_US, None)),
        (["-j", "20"], (None, None)),
        (["-s", "R"], (reports.NOW_US, LAST_US)),
        (["-j", "20", "-s", "CD"], (None, LAST_US)),
        (["-S", "2026-11-01"], (1_793_491_200_000_000, None)),
        (["-S", "now-1hour", "-E", "now"], (reports.at(-3600), LAST_US)),
        (["-S", "01:30"], (MIDNIGHT_US + 5_400_000_000, None)),
        (["-s", "F", "-S", "now-1hour"], (reports.at(-3600), reports.at(-3600) + 999_999)),
        (["-S", "00:30", "-E", "01:30:00"], (MIDNIGHT_US + 1_800_000_000, MIDNIGHT_US + 5_400_999_999)),
    ],
)
def test_time_window(client, capsys, argv, window):
    out(capsys, *argv)
    assert (client.request.start_at_us or None, client.request.end_at_us or None) == window


def test_a_qos_that_there_is_not(client, capsys):
    client.answers["ListQos"] = ListQosReply(qos=[Qos(name="normal"), Qos(name="high")])
    told = "sacct: error: You gave a bad qos 'nosuch'. Valid QOS's are normal,high\nsacct: fatal: problem processing qos list\n"
    assert run(capsys, "-q", "high,nosuch") == (1, "", told)
    assert [method for method, _ in client.calls] == ["ListQos"]


def test_filters_are_sent(client, capsys):
    client.answers["ListQos"] = ListQosReply(qos=[Qos(name="q")])
    out(
        capsys, "-A", "a,b", "-r", "main", "-q", "q", "--name", "x,y", "-N", "n[1-2]", "-u", "0,5", "-s", "r,F,S", "-D",
        "-T", "-X", "-S", "now-1day", "-E", "now",
    )  # fmt: skip
    assert asked(client) == {
        "accounts": ["a", "b"], "partitions": ["main"], "qos": ["q"], "names": ["x", "y"], "nodes": ["n[1-2]"],
        "users": ["0", "5"], "states": ["COMPLETING", "CONFIGURING", "FAILED", "RUNNING", "SUSPENDED"], "duplicates": True,
        "truncate": True, "no_steps": True, "start_at_us": str(reports.at(-86400)), "end_at_us": str(LAST_US),
    }  # fmt: skip


def test_owners_and_keys_are_sent(client, capsys):
    out(capsys, "-W", "key,other", "-g", f"100,{grp.getgrgid(0).gr_name}", "-x", "7,8", "-j", "20")
    assert asked(client) == {"ids": ["20"], "wckeys": ["key", "other"], "group_ids": [100, 0], "assoc_ids": [7, 8]}


def test_numbers_of_the_database(monkeypatch, capsys):
    """DBIndex is one for each record; the numbers of QOS and wckeys are asked for when they are shown."""
    from penstock.v1.governance_pb2 import ListWckeysReply, WckeyInfo

    request = reports.request("x", account="proj", qos="high")
    made = [
        reports.record(20, "COMPLETED", assoc_id=9, wckey="*key", request=request, system_comment="sys"),
        reports.record(20, "FAILED", attempt=2, request=request),
    ]
    client = reports.install(
        monkeypatch, ListRecords=[ListRecordsReply(records=made)], ListQos=ListQosReply(qos=[Qos(name="high", id=3)]),
        ListWckeys=ListWckeysReply(wckeys=[WckeyInfo(name="key", user="ann", id=5)]),
    )  # fmt: skip
    fields = "dbindex,associd,qosraw,wckey,wckeyid,systemcomment"
    assert out(capsys, "-nP", "-o", fields).splitlines() == ["20|9|3|*key|5|sys", "8589934612|7|3||0|"]
    client.calls.clear()
    out(capsys, "-n")
    assert [method for method, _ in client.calls] == ["ListRecords"]


def test_all_fields_and_old_names(client, capsys):
    assert out(capsys, "-P", "-o", "ALL").splitlines()[0].split("|") == [column.name for column in COLUMNS]
    assert out(capsys, "-P", "-X", "-o", "Reserved%20,resvcpu,ResvCPURAW").splitlines()[:2] == [
        "Planned|PlannedCPU|PlannedCPURAW", "00:00:10|00:00:20|20",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "eligible in the time window from 2026-11-21T00:00:00 to Now"),
        (["-j", "20"], "eligible in the time window from Epoch 0 to Now"),
        (["-s", "F"], "in states FAILED at the time instant 2026-11-21T03:04:00"),
    ],
)
def test_what_the_window_is(client, capsys, argv, text):
    assert run(capsys, "-v", *argv)[2] == f"sacct: Jobs {text}\n"


def test_the_kind_of_pass_is_not_known(client, capsys):
    status, shown, told = run(capsys, "-F", "SchedMain,schedbackfill", "-n")
    assert (status, len(shown.splitlines())) == (0, 9)
    assert told.startswith("sacct: warning: ") and "one planner" in told


def test_completion(client, capsys):
    """Jobs that have ended, without their steps, in the format of a completion log."""
    assert out(capsys, "-c").splitlines()[:3] == [
        "JobID           UID    JobName  Partition   NNodes        NodeList      State                 End ",
        "------------ ------ ---------- ---------- -------- --------------- ---------- ------------------- ",
        "20             1000 simulatio+       main        1              n1  COMPLETED 2026-11-21T02:59:10 ",
    ]
    assert client.request.no_steps
    assert out(capsys, "-cbnP").splitlines() == [
        "20|1000|COMPLETED", "21|1000|CANCELLED by 1000", "22|1000|CANCELLED by 0", "25|1000|FAILED",
    ]  # fmt: skip


JOBCOMP = """\
JobId=3 UserId=ann(1000) GroupId=users(100) Name=two words=x JobState=COMPLETED Partition=main TimeLimit=90 \
StartTime=2026-11-20T10:00:00 EndTime=2026-11-20T11:00:00 NodeList=n[1-2] NodeCnt=2 ProcCnt=8 WorkDir=/home/ann \
ReservationName= Tres=cpu=8,mem=4G,node=2 Account=proj QOS=normal WcKey=key Cluster=old \
SubmitTime=2026-11-20T09:00:00 EligibleTime=2026-11-20T09:00:00 DerivedExitCode=1:0 ExitCode=0:0

JobId=4 ArrayJobId=4 ArrayTaskId=7 UserId=bob(1001) GroupId=users(100) Name=b JobState=FAILED Partition=main \
TimeLimit=UNLIMITED StartTime=Unknown EndTime=2026-11-20T12:00:00 NodeList=(null) NodeCnt=0 ProcCnt=1 \
SubmitTime=2026-11-20T09:00:00 ExitCode=2:0
"""


def test_a_file_of_completed_jobs(client, capsys, tmp_path):
    path = tmp_path / "jobcomp"
    path.write_text(JOBCOMP)
    fields = "jobid,jobname,user,account,state,elapsed,timelimit,nnodes,nodelist,alloctres,wckey,cluster,exitcode"
    assert out(capsys, "-f", str(path), "-a", "-S", "11/20", "-nP", "-o", fields).splitlines() == [
        "3|two words=x|ann|proj|COMPLETED|01:00:00|01:30:00|2|n[1-2]|cpu=8,mem=4G,node=2|key|old|0:0",
        "4_7|b|bob||FAILED|00:00:00|UNLIMITED|0|None assigned|||tiny|2:0".replace("tiny", ""),
    ]
    assert client.calls == []

    def ids(*argv):
        return out(capsys, "-f", str(path), "-nP", "-o", "jobid", "-S", "11/20", *argv).split()

    assert ids("-j", "4_7") == ["4_7"]
    assert ids("-u", "1000") == ["3"]
    assert ids("-a", "-s", "F", "-E", "now") == ["4_7"]
    assert ids("-a", "-N", "n2") == ["3"]
    assert ids("-a", "-W", "key") == ["3"]
    assert ids("-a", "-E", "2026-11-20T08:00") == []


def test_a_file_that_is_none(client, capsys, tmp_path):
    path = tmp_path / "notes"
    path.write_text("JobId=1 JobState=COMPLETED\nhello\n")
    status, _, told = run(capsys, "-f", str(path), "-a", "-S", "11/20")
    assert status == 1 and told.startswith(f"sacct: error: {path}:2: not a line of a job completion file")
    assert run(capsys, "-f", str(tmp_path))[2] == f"{tmp_path} is not a valid file\n"
    assert "none is not a valid file" in run(capsys, "-f", str(tmp_path / "none"))[2]


def test_states_of_other_versions_match_nothing(client, capsys):
    assert out(capsys, "-n", "-s", "SPECIAL_EXIT,RV", "-S", "now-1day", "-E", "now") == ""
    assert client.calls == []


@pytest.mark.parametrize(
    ("uid", "argv", "users"),
    [
        (1000, [], ["1000"]),
        (1000, ["-a"], []),
        (1000, ["-j", "20"], []),
        (1000, ["-u", "0"], ["0"]),
        (0, [], []),
        (0, ["--uid=root"], ["0"]),
    ],
)
def test_whose_jobs(client, capsys, monkeypatch, uid, argv, users):
    monkeypatch.setattr(os, "getuid", lambda: uid)
    out(capsys, *argv)
    assert list(client.request.users) == users


@pytest.mark.parametrize(
    ("ids", "sent", "shown"),
    [
        ("20", ["20"], ["20", "20.batch"]),
        ("20.batch", ["20"], ["20.batch"]),
        ("20.0", ["20"], []),
        ("20,20.batch", ["20", "20"], ["20", "20.batch"]),
    ],
)
def test_jobs_and_steps(monkeypatch, capsys, ids, sent, shown):
    client = only(monkeypatch, 20)
    assert out(capsys, "-n", "-o", "jobid", "-j", ids).split() == shown
    assert list(client.request.ids) == sent


def test_array_ids_are_sent(client, capsys):
    out(capsys, "-j", "23_4,23_[0-3],7")
    assert list(client.request.ids) == ["23_[4]", "23_[0-3]", "7"]


def test_array_tasks_one_by_one(monkeypatch, capsys):
    only(monkeypatch, 23)
    assert out(capsys, "-n", "-o", "jobid,jobidraw,state", "--array", "-P").splitlines() == [
        f"23_{n}|23|PENDING" for n in range(10)
    ]


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        (["-i", "2"], ["24"]),
        (["-i", "1-"], ["20", "21", "24", "25"]),
        (["-I", "0-1"], ["22", "23"]),
        (["-R", "resources"], ["23"]),
        (["-C", "x"], []),
        (["-k", "5"], []),
        (["-k", "5", "-K", "10"], ["20", "21", "22", "23", "25"]),
    ],
)
def test_filters_on_this_side(client, capsys, argv, ids):
    assert out(capsys, "-n", "-X", "-P", "-o", "jobidraw", *argv).split() == ids


# What tools run.


def test_submitit(monkeypatch, capsys):
    client = only(monkeypatch, 20, 23, 24)
    assert out(capsys, "-o", "JobID,State,NodeList", "--parsable2", "-j", "20", "-j", "23") == (
        "JobID|State|NodeList\n20|COMPLETED|n1\n20.batch|COMPLETED|n1\n23_[0-9%2]|PENDING|None assigned\n"
        "23_10|RUNNING|n[1-2]\n23_10.batch|RUNNING|n1\n"
    )
    assert list(client.request.ids) == ["20", "23"]


def test_snakemake(client, capsys):
    shown = out(
        capsys, "-X", "--parsable2", "--clusters", "all", "--noheader", "--format=JobIdRaw,State",
        "--starttime", "2026-11-20T10:00", "--endtime", "now", "--name", "4b825dc6",
    )  # fmt: skip
    assert shown.splitlines() == [
        "20|COMPLETED", "21|CANCELLED by 1000", "22|CANCELLED by 0", "23|PENDING", "24|RUNNING", "25|FAILED",
    ]  # fmt: skip
    request = client.request
    assert list(request.names) == ["4b825dc6"]
    assert (request.start_at_us, request.end_at_us) == (1_795_168_800_000_000, LAST_US)


def test_format_of_the_environment(client, capsys, monkeypatch):
    monkeypatch.setenv("SACCT_FORMAT", "jobid%5,state")
    assert out(capsys, "-n", "-X").splitlines()[0] == "   20  COMPLETED "
    assert out(capsys, "-n", "-X", "-o", "user").splitlines()[0] == "      ann "
    assert out(capsys, "-n", "-X", "-b").splitlines()[0] == "20            COMPLETED      0:0 "


def test_scripts_and_environments(monkeypatch, capsys):
    one = reports.record(20, "COMPLETED", script=b"#!/bin/sh\necho hi\n", environment=[b"A=1", b"B=x y"])
    two = reports.record(23, "PENDING", array_job_id=23, array_task_id=4)
    client = reports.install(monkeypatch, ListRecords=[ListRecordsReply(records=[one, two])])
    rule = "-" * 80
    assert out(capsys, "-j", "20,23", "-B") == (
        f"Batch Script for 20\n{rule}\n#!/bin/sh\necho hi\n\nBatch Script for 23_4\n{rule}\nNONE\n"
    )
    assert client.request.with_script and not client.request.with_environment
    client.calls.clear()
    assert out(capsys, "-j", "20,23", "--env-vars") == (
        f"Environment used for 20 (must be batch to display)\n{rule}\nA=1\nB=x y\n"
        f"Environment used for 23_4 (must be batch to display)\n{rule}\nNONE\n"
    )
    assert client.request.with_environment and not client.request.with_script


def test_json(client, capsys):
    document = json.loads(out(capsys, "--json", "-j", "20"))
    assert set(document) == {"jobs", "meta", "errors", "warnings"}
    by_id = {job["job_id"]: job for job in document["jobs"]}
    assert sorted(by_id) == [20, 21, 22, 23, 24, 25]
    job = by_id[20]
    assert job["state"] == {"current": ["COMPLETED"], "reason": "None"}
    assert job["time"]["elapsed"] == 3700 and job["time"]["start"] == 1795226250
    assert job["time"]["total"] == {"seconds": 61, "microseconds": 734000}
    assert job["time"]["limit"] == {"set": True, "infinite": False, "number": 10}
    assert by_id[24]["time"]["limit"]["infinite"]
    assert {"type": "mem", "name": "", "id": 2, "count": 4096} in job["tres"]["allocated"]
    assert [step["step"] for step in job["steps"]] == [{"id": "20.batch", "name": "batch"}]
    assert set(job["steps"][0]["tres"]) == {"allocated", "requested", "consumed"}
    assert job["steps"][0]["task"] == {"distribution": "Unknown"}
    assert job["wckey"] == {"wckey": "", "flags": []} and job["used_gres"] == ""
    assert by_id[21]["steps"][0]["exit_code"]["signal"] == {
        "id": {"set": True, "infinite": False, "number": 15}, "name": "TERM",
    }  # fmt: skip
    text = out(capsys, "-n", "-P", "-o", "jobidraw,state,exitcode,priority,layout").splitlines()
    assert [_in_words(job) for job in document["jobs"]] == [
        re.sub(" by [0-9]+", "", line) for line in text if "." not in line
    ]
    steps = [_in_words(step, job) for job in document["jobs"] for step in job["steps"]]
    assert steps == [line for line in text if "." in line] and "21.batch|CANCELLED|0:15||Unknown" in steps
    assert by_id[23]["array"]["task"] == "0-9" and by_id[24]["array"]["task_id"]["number"] == 10


def _in_words(one: dict[str, Any], job: dict[str, Any] | None = None) -> str:
    """A job or a step of --json as the table has it."""
    ended = one["exit_code"]
    code, signal = ended["return_code"]["number"], ended["signal"]["id"]["number"]
    if job is not None:
        return f"{one['step']['id']}|{one['state'][0]}|{code}:{signal}||{one['task']['distribution']}"
    return f"{one['job_id']}|{one['state']['current'][0]}|{code}:{signal}|{one['priority']['number']}|"


def test_associations(client, capsys):
    """AssocID shows them, also of records of a version that did not note them, and so does --json."""
    shown = {*out(capsys, "-X", "-n", "-P", "-o", "user,account,associd").splitlines()}
    assert shown == {"ann|proj|7"}
    assert {job["association"]["id"] for job in json.loads(out(capsys, "--json"))["jobs"]} == {7}


def test_every_job_has_a_sluid_of_its_own(client, capsys):
    found = out(capsys, "-X", "-n", "-P", "-D", "-o", "jobid,sluid").splitlines()
    by_sluid: dict[str, set[str]] = {}
    for line in found:
        job_id, sluid = line.split("|")
        assert re.fullmatch(r"s[0-9A-HJKMNP-TV-Z]{13}", sluid)
        by_sluid.setdefault(sluid, set()).add(job_id)
    assert all(len(jobs) == 1 for jobs in by_sluid.values())


def test_no_records(monkeypatch, capsys):
    reports.install(monkeypatch, ListRecords=[])
    assert len(out(capsys).splitlines()) == 2
    assert out(capsys, "-n") == ""


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-o", "jobid,foo"], 'sacct: error: Invalid field requested: "foo"\n'),
        (["-s", "bogus"], "sacct: fatal: unrecognized job state value 'bogus'\n"),
        (["-j", "abc"], "sacct: fatal: Bad job/step specified: abc\n"),
        (["-u", "nosuchuser"], "sacct: error: Invalid user id: nosuchuser\n"),
        (["-g", "nosuchgroup"], "sacct: error: Invalid group id: nosuchgroup\n"),
        (["-B"], "sacct: fatal: When requesting job script you must also request specific jobs with the '-j' "
         "option.\n"),
        (["-B", "--env-vars", "-j", "1"],
         "sacct: fatal: Options --batch-script and --env-vars are mutually exclusive\n"),
        (["-o", "jobid", "-l"],
         "sacct: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.\n"),
        (["-x", "physics"], "sacct: fatal: Invalid association id: physics\n"),
        (["--units=X"], "sacct: error: Invalid unit type 'X'. Possible options are 'KMGTP'\nsacct: fatal: Invalid unit type\n"),
        (["-i", "x"], "sacct: error: Invalid numeric value \"x\" for requested node range.\n"),
        (["-I", "x"], "sacct: error: Invalid numeric value \"x\" for requested cpu range.\n"),
        (["a", "b"], "sacct: error: Unknown arguments:\nsacct: error:  a\nsacct: error:  b\n"),
        (["-S", "2026-11-22", "-E", "2026-11-20"],
         "sacct: error: Start time (2026-11-22T00:00:00) requested is after end time (2026-11-20T00:00:00).\n"),
        (["-F", "SchedNever"], "sacct: error: Invalid --flags specification\n"
         "sacct: write SchedSubmit, SchedMain or SchedBackfill\n"),
        (["--name"], "sacct: option '--name' requires an argument\n"),
        (["--whole-hetjob=maybe"], 'sacct: fatal: Invalid --whole-hetjob value "maybe". Valid values: [yes|no].\n'),
    ],
)  # fmt: skip
def test_bad_input(client, capsys, argv, words):
    assert run(capsys, *argv) == (1, "", words)
    assert client.calls == []


def test_bad_time(client, capsys):
    status, shown, wrong = run(capsys, "-S", "bogus")
    assert (status, shown) == (1, "")
    assert wrong.startswith("Invalid time specification (pos=0): bogus: ")


def test_controller_is_down(monkeypatch, capsys):
    reports.install(monkeypatch, ListRecords=Unreachable())
    assert run(capsys) == (1, "", "sacct: error: Unable to contact slurm controller (connect failure)\n")


def test_a_step_of_many_tasks_has_its_samples(monkeypatch, capsys):
    from penstock.v1.accounting_pb2 import ListRecordsReply, StepMetric
    from penstock.v1.common_pb2 import UsageMetric

    metrics = [
        StepMetric(kind=UsageMetric.CPU_MS, total=8000, max=3000, max_node="n2", max_task=3, min=1000, min_node="n1"),
        StepMetric(kind=UsageMetric.RSS_KB, total=8192, max=4096, max_node="n2", max_task=2, min=512, min_node="n1"),
        StepMetric(kind=UsageMetric.READ_BYTES, total=100, max=50, max_node="n1", max_task=1),
        StepMetric(kind=UsageMetric.WRITE_BYTES, total=8, max=8, max_node="n1"),
    ]
    step = reports.step(
        "COMPLETED", step_id=0, name="solver", tasks=4, nodes_alloc=2, cpus_alloc=4, node_list="n[1-2]", metrics=metrics,
        distribution="cyclic", submit_line="srun -n4 solver", submit_at_us=reports.at(-90), start_at_us=reports.at(-80), end_at_us=reports.at(-20),
        tres_alloc="cpu=4,mem=4G,node=2",
    )  # fmt: skip
    record = reports.record(30, "COMPLETED", steps=[step], start_at_us=reports.at(-90), end_at_us=reports.at(-20))
    reports.install(monkeypatch, ListRecords=[ListRecordsReply(records=[record])])

    def shown(*fields):
        return run(capsys, "-nPj", "30.0", "-o", ",".join(fields))[1].strip().split("|")

    assert shown("JobID", "NTasks", "NNodes", "AllocCPUS", "NodeList", "AllocTRES", "Layout") == [
        "30.0", "4", "2", "4", "n[1-2]", "cpu=4,mem=4G,node=2", "Cyclic",
    ]  # fmt: skip
    assert shown("AveRSS", "MaxRSS", "MaxRSSNode", "MaxRSSTask", "AveCPU", "MinCPU", "MinCPUNode") == [
        "2M", "4M", "n2", "2", "00:00:02", "00:00:01", "n1",
    ]  # fmt: skip
    assert shown("TRESUsageInTot", "TRESUsageInMaxTask", "TRESUsageOutMax") == [
        "cpu=00:00:08,fs/disk=100,mem=8M", "cpu=3,fs/disk=1,mem=2", "fs/disk=8",
    ]  # fmt: skip
    assert shown("SubmitLine", "Submit", "Elapsed") == ["srun -n4 solver", "2026-11-21T03:02:30", "00:01:00"]


def test_what_gpus_did_and_what_they_consumed(monkeypatch, capsys):
    from penstock.v1.accounting_pb2 import ListRecordsReply, StepMetric
    from penstock.v1.common_pb2 import UsageMetric

    def gpus(*figures):
        return [
            StepMetric(kind=kind, total=total, max=high, max_node="n2", max_task=4, min=low, min_node="n1")
            for kind, total, high, low in figures
        ]

    first = gpus((UsageMetric.GPU_UTIL, 150, 99, 50), (UsageMetric.GPU_MEM_KB, 3072, 2048, 1024), (UsageMetric.ENERGY_J, 1_234_567, 900_000, 300))  # fmt: skip
    steps = [
        reports.step("COMPLETED", step_id=0, tasks=2, node_list="n[1-2]", nodes_alloc=2, metrics=first),
        reports.step("COMPLETED", step_id=1, tasks=1, metrics=gpus((UsageMetric.ENERGY_J, 500, 500, 500))),
        reports.step("COMPLETED", step_id=2, tasks=1),
    ]
    reports.install(monkeypatch, ListRecords=[ListRecordsReply(records=[reports.record(30, "COMPLETED", steps=steps)])])

    def shown(*fields, options=()):
        return run(capsys, "-nPj", "30", *options, "-o", ",".join(fields))[1].splitlines()

    energy = ("JobID", "ConsumedEnergy", "ConsumedEnergyRaw")
    assert shown(*energy) == ["30|1.24M|1235067", "30.0|1.23M|1234567", "30.1|500|500", "30.2||"]
    assert shown(*energy, options=["--noconvert"])[:2] == ["30|1235067|1235067", "30.0|1234567|1234567"]
    assert shown(*energy, options=["--units=K"])[:2] == ["30|1235.07K|1235067", "30.0|1234.57K|1234567"]
    tres = shown("TRESUsageInTot", "TRESUsageInAve", "TRESUsageInMax", "TRESUsageInMaxNode", "TRESUsageInMinNode")
    assert tres[0] == "||||"
    assert tres[1].split("|") == [
        "energy=1234567,gres/gpumem=3M,gres/gpuutil=150",
        "energy=617283,gres/gpumem=1536K,gres/gpuutil=75",
        "energy=900000,gres/gpumem=2M,gres/gpuutil=99",
        "energy=n2,gres/gpumem=n2,gres/gpuutil=n2",
        "energy=n1,gres/gpumem=n1,gres/gpuutil=n1",
    ]
    document = json.loads(run(capsys, "-j", "30", "--json")[1])["jobs"][0]["steps"]
    assert document[0]["statistics"]["energy"]["consumed"] == {"set": True, "infinite": False, "number": 1_234_567}
    assert document[0]["tres"]["requested"]["max"][1] == {
        "type": "gres", "name": "gpumem", "id": 1001, "count": 2048 * 1024, "node": "n2", "task": 4,
    }  # fmt: skip
    assert document[2]["statistics"]["energy"]["consumed"]["set"] is False
