"""squeue over a made-up cluster. The golden lines were compared with those of Slurm 22.05 for the same jobs."""

import json
import os

import pytest
from google.protobuf.json_format import MessageToDict

from cli.listings.squeue_fields import LETTERS, NAMES
from cli.squeue import body
from penstock.errors import PenstockError, Unreachable
from penstock.v1.common_pb2 import ExitStatus
from penstock.v1.controller_pb2 import ListJobsReply
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import OTHER_STATE_WORDS, JobState, parse_job_states
from tests.cli import reports
from tests.cli.fake_controller import run_body

HEAD = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
DEFAULT = (
    HEAD
    + """\
                 1       gpu longjobn      ann  R       0:36      1 n1
                 8  gpu,main     wrap      ann PD       0:00      1 (Dependency)
      2_[9-99:2%3]      main      arr      ann PD       0:00      1 (Resources)
                 3      main     wrap      ann PD       0:00      1 (JobHeldUser)
               2_5      main      arr      ann  R       0:36      1 n2
               2_7      main      arr      ann  R       0:36      1 n3
"""
)


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def client(monkeypatch):
    return reports.install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "squeue", body, *argv)


def out(capsys, *argv):
    status, shown, wrong = run(capsys, *argv)
    assert (status, wrong) == (0, "")
    return shown


def asked(client):
    """The question, without the columns and the wish for tidiness that go with every table."""
    found = MessageToDict(client.request, preserving_proto_field_name=True)
    found.pop("columns", None)
    found.pop("hide_hidden", None)
    return found


def test_default_table(client, capsys):
    assert out(capsys) == DEFAULT
    assert asked(client) == {"filter": {"states": ["COMPLETING", "CONFIGURING", "PENDING", "RUNNING", "SUSPENDED"]}}


def test_long_has_a_date_and_whole_time_limits(client, capsys):
    lines = out(capsys, "-l").splitlines()
    assert lines[0] == "Sat Nov 21 03:04:00 2026"
    assert lines[1] == (
        "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)"
    )
    assert (
        lines[4] == "      2_[9-99:2%3]      main      arr      ann  PENDING       0:00 1-02:03:00      1 (Resources)"
    )
    assert len(lines) == 8


def test_steps(client, capsys):
    assert out(capsys, "-s") == (
        "         STEPID     NAME PARTITION     USER      TIME NODELIST\n"
        "            1.0   solver       gpu      ann      0:30 n[1-2]\n"
        "        1.batch    batch       gpu      ann      0:36 n1\n"
        "      2_5.batch    batch      main      ann      0:36 n2\n"
        "      2_7.batch    batch      main      ann      0:36 n3\n"
    )


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("2_5.batch", ["2_5.batch"]),
        ("1.0", ["1.0"]),
        ("1.1", []),  # has ended
        ("1.batch,2.batch", ["1.batch", "2_5.batch", "2_7.batch"]),
    ],
)
def test_named_steps(client, capsys, step, shown):
    assert out(capsys, "-h", "-o", "%i", "--steps", step).split() == shown


def test_start_lists_pending_jobs_by_start(client, capsys):
    lines = out(capsys, "--start").splitlines()
    assert lines[0] == (
        "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           "
        "NODELIST(REASON)"
    )
    assert [line.split()[0] for line in lines[1:]] == ["2_[9-99:2%3]", "3", "8"]
    assert asked(client)["filter"]["states"] == ["PENDING"]


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ("2_9", ["2_9"]),
        ("2_[9,13],2_5", ["2_9", "2_13", "2_5"]),
        ("2", ["2_[9-99:2%3]", "2_5", "2_7"]),
        ("1,999", ["1"]),
        ("998,999", []),
        ("1.0", ["1"]),
        ("4", []),  # it has ended: no line, but no error either
    ],
)
@pytest.mark.parametrize("spelling", ["-j{}", "--jobs={}", "--job={}"])
def test_jobs_by_id(client, capsys, ids, shown, spelling):
    assert out(capsys, "-h", "-o", "%i", spelling.format(ids)).split() == shown


def test_a_word_behind_job_is_its_value(client, capsys):
    assert out(capsys, "--noheader", "--format=%i %t", "--job", "1,3") == "1 R\n3 PD\n"


@pytest.mark.parametrize("answer", [[], PenstockError(Code.INVALID_JOB_ID, "Invalid job id specified")])
def test_one_job_that_does_not_exist(monkeypatch, capsys, answer):
    reports.install(monkeypatch, ListJobs=answer)
    assert run(capsys, "-j", "99") == (1, "", "slurm_load_jobs error: Invalid job id specified\n")


def test_ended_job_with_its_states(client, capsys):
    assert (
        out(capsys, "-h", "-t", "all", "-o", "%i %T %R %M %r", "-j", "4")
        == "4 FAILED (NonZeroExitCode) 0:10 NonZeroExitCode\n"
    )


def test_all_states_are_asked_for(client, capsys):
    shown = out(capsys, "--noheader", "-o", "%i %t", "-t", "all", "-u", "0")
    assert shown == "1 R\n8 PD\n9 CD\n4 F\n2_[9-99:2%3] PD\n3 PD\n2_5 R\n2_7 R\n"
    assert asked(client) == {"filter": {"users": ["0"]}, "all_states": True}


def test_states_of_this_and_of_other_versions(client, capsys):
    assert out(capsys, "-h", "-o", "%i", "-t", "pd,S,Suspended,cd").split() == ["8", "9", "2_[9-99:2%3]", "3"]
    assert out(capsys, "-h", "-t", "SUSPENDED") == ""
    # States that no job enters are accepted, and not sent.
    assert (
        out(capsys, "-h", "-o", "%i", "-t", "pd,cf,RF,RH,RQ,SE").split()
        == out(capsys, "-h", "-o", "%i", "-t", "PD").split()
    )
    assert all("" not in request.filter.states for _, request in client.calls)
    assert out(capsys, "-h", "-t", "RS,SI") == ""


def test_filters_are_sent(client, capsys):
    out(capsys, "-A", "a,b", "-p", "main, gpu", "-q", "q", "-n", "x,y", "-u", "0,5", "-t", "R")
    assert asked(client) == {
        "filter": {
            "accounts": ["a", "b"], "partitions": ["main", "gpu"], "qos": ["q"], "names": ["x", "y"],
            "users": ["0", "5"], "states": ["RUNNING"],
        }
    }  # fmt: skip


def test_me(client, capsys):
    out(capsys, "--me")
    assert asked(client)["filter"]["users"] == [str(os.getuid())]


def test_a_user_that_nobody_knows_has_no_jobs(client, capsys):
    assert run(capsys, "-u", "nosuchuser") == (0, HEAD, "squeue: error: Invalid user: nosuchuser\n")
    assert client.calls == []


def test_a_node_that_does_not_exist(client, capsys):
    assert run(capsys, "-w", "n[1-2],n9") == (1, "", "squeue: error: Invalid node name n9\n")
    assert [name for name, _ in client.calls] == ["ListNodes"]


def test_nodes_are_sent(client, capsys):
    out(capsys, "-w", "n[1-2]")
    assert list(client.calls[1][1].filter.nodes) == ["n[1-2]"]


def test_array_elements_one_by_one(client, capsys):
    shown = out(capsys, "-r", "-h", "-o", "%i %K %A %F", "-n", "arr", "-S", "i").splitlines()
    assert shown[:3] == ["1 N/A 1 1", "2_5 5 10 2", "2_7 7 11 2"]
    tasks = [line for line in shown if line.split()[2] == "2"]
    assert tasks == [f"2_{n} {n} 2 2" for n in range(9, 100, 2)]


def test_long_task_lists_are_cut(monkeypatch, capsys):
    tasks = ",".join(str(n) for n in range(1, 200, 3))
    info = reports.job(2, "PENDING", array_job_id=2, array_tasks=tasks)
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=[info])])
    shown = out(capsys, "-h", "-o", "%i|%K").strip()
    assert shown == "2_[{0}]|{0}".format("1,4,7,10,13,16,19,22,25,28,31,34,37,40,43,46,49,52,55,58,61,...")
    monkeypatch.setenv("SLURM_BITSTR_LEN", "0")
    assert out(capsys, "-h", "-o", "%K").strip() == tasks


def test_every_partition_of_a_pending_job(client, capsys):
    assert out(capsys, "-P", "-h", "-t", "PD", "-o", "%i %P") == "8 gpu\n2_[9-99:2%3] main\n8 main\n3 main\n"
    assert out(capsys, "-P", "-p", "gpu", "-h", "-t", "PD", "-j", "8", "-o", "%i %P") == "8 gpu\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-i", "8 4 3 2_7 2_5 1"),
        ("P,-t,i", "1 8 2_5 2_7 3 4"),
        ("t-p", "4 8 3 1 2_5 2_7"),
        ("-M,A", "1 2_5 2_7 4 3 8"),
        ("S,i", "1 2_5 2_7 4 3 8"),
        ("j,+u,-A", "2_7 2_5 1 8 4 3"),
    ],
)
def test_sorting(monkeypatch, capsys, text, shown):
    some = [j for j in reports.jobs() if j.job_id not in (2, 9)]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-t", "all", "-o", "%i", "-S", text).split() == shown.split()


@pytest.mark.parametrize("letter", ["V", "S", "e"])
def test_times_sort_by_their_seconds(monkeypatch, capsys, letter):
    """Slurm's times are whole seconds: within one the next letter decides."""
    later = {"submit_at_us": 50_900_000, "start_at_us": 60_900_000, "end_at_us": 70_900_000}
    earlier = {name: at_us - 800_000 for name, at_us in later.items()}
    some = [reports.job(1, "COMPLETED", **later), reports.job(2, "COMPLETED", **earlier)]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-t", "all", "-o", "%i", "-S", f"{letter},i").split() == ["1", "2"]


def test_priority_sorts_numbers(client, capsys):
    assert out(capsys, "-h", "-o", "%i", "-S", "-p,i").split() == ["1", "2_5", "2_7", "2_[9-99:2%3]", "8", "3"]


def test_an_empty_sort_is_the_usual_one(client, capsys):
    assert out(capsys, "-h", "-o", "%i", "-S", "") == out(capsys, "-h", "-o", "%i")


@pytest.mark.parametrize("text", ["#P", "!", "i,Ü"])
def test_a_bad_sort_is_refused(client, capsys, text):
    status, shown, wrong = run(capsys, "-S", text)
    assert (status, shown) == (1, HEAD)
    assert wrong.startswith("squeue: error: Invalid sort specification: ")


@pytest.mark.parametrize("argv", [("-t", ""), ("-j", ""), ("--jobs", "")])
def test_an_empty_list_names_nothing(client, capsys, argv):
    assert out(capsys, *argv) == HEAD


def test_ids_that_are_nearly_right(client, capsys, monkeypatch):
    assert out(capsys, "-h", "-o", "%i", "-j", "1_").split() == ["1"]
    assert out(capsys, "-h", "-j", "2_100") == ""  # no such task, but there is the array
    assert run(capsys, "-h", "-j", "77_1") == (1, "", "slurm_load_jobs error: Invalid job id specified\n")
    assert run(capsys, "-s", "abc") == (1, "", "squeue: error: Invalid job_step id: abc.??\n")


LONG = (
    "%a;%A;%b;%B;%c;%C;%d;%D;%e;%E;%f;%F;%g;%G;%h;%H;%i;%I;%j;%J;%k;%K;%l;%L;%m;%M;%n;%N;%o;%O;%p;%P;%q;%Q;%r;%R;%s;%S;"
    "%t;%T;%u;%U;%v;%V;%w;%W;%x;%X;%y;%Y;%z;%Z"
)


def test_open_on_demands_long_format(client, capsys):
    argv = ("-M", "tiny", "--all", "--states=all", "--noconvert", "-o", LONG)
    lines = out(capsys, *argv).splitlines()
    assert lines[0] == "CLUSTER: tiny"
    assert lines[1].split(";") == [LETTERS[part[1:]].header for part in LONG.split(";")]
    assert len(lines) == 10
    running, pending = (
        dict(zip(LONG.replace("%", "").split(";"), line.split(";"), strict=True)) for line in lines[2:4]
    )
    assert running == {
        "a": "proj", "A": "1", "b": "gres/gpu:a100:1", "B": "n1", "c": "1", "C": "2", "d": "0", "D": "1",
        "e": "2026-11-21T03:33:24", "E": "(null)", "f": "(null)", "F": "1", "g": "users", "G": "100", "h": "OK",
        "H": "*",
        "i": "1", "I": "*", "j": "longjobname_more", "J": "*", "k": "hi there", "K": "N/A", "l": "30:00", "L": "29:24",
        "m": "100M", "M": "0:36", "n": "", "N": "n1", "o": "(null)", "O": "0", "p": "0.99998474121093", "P": "gpu",
        "q": "normal", "Q": "4294901759", "r": "None", "R": "n1", "s": "", "S": "2026-11-21T03:03:24", "t": "R",
        "T": "RUNNING", "u": "ann", "U": "1000", "v": "(null)", "V": "2026-11-21T03:03:20", "w": "(null)",
        "W": "(null)",
        "x": "", "X": "N/A", "y": "0", "Y": "(null)", "z": "*:*:*", "Z": "/home/ann",
    }  # fmt: skip
    assert {key: pending[key] for key in "bBeEfmMrRSxyNl"} == {
        "b": "N/A", "B": "n/a", "e": "N/A", "E": "afterok:3(unfulfilled)", "f": "x", "m": "2048M", "M": "0:00",
        "r": "Dependency", "R": "(Dependency)", "S": "N/A", "x": "n3", "y": "50", "N": "", "l": "10:00",
    }  # fmt: skip


def test_units_are_converted(client, capsys):
    assert out(capsys, "-h", "-o", "%i %m", "-t", "PD", "-S", "i").splitlines()[-1] == "8 2G"


def test_all_letters_and_all_names(client, capsys):
    assert out(capsys, "-o", "%all", "-j", "1").splitlines()[0].split("|") == [f.header for f in LETTERS.values()]
    for name, field in NAMES.items():
        head, line = out(capsys, "-O", f"{name}:60|", "-j", "1").splitlines()
        assert head == field.header.ljust(60) + "|", name
        assert len(line) == 61, name


def test_list_format_has_widths_and_suffixes(client, capsys):
    assert out(capsys, "-j", "1", "-O", "JobID:.5|,name:8,Partition:.5x,State") == (
        "JOBID|NAME    PARTIxSTATE               \n    1|longjobn  gpuxRUNNING             \n"
    )


def test_unknown_fields_are_named_and_left_out(client, capsys):
    assert run(capsys, "-h", "-j", "1", "-O", "jobid:4,Foo, name") == (
        0, "1   \n",
        "squeue: error: Invalid job format specification: Foo\n"
        "squeue: error: Invalid job format specification:  name\n",
    )  # fmt: skip
    assert run(capsys, "-h", "-j", "1", "-o", "%i|%1") == (
        0,
        "1|%1\n",
        "squeue: error: Invalid job format specification: \n",
    )


def test_step_fields(client, capsys):
    every = "%i|%A|%j|%P|%u|%U|%M|%N|%S|%l|%b|%a"
    assert out(capsys, "-s", "1.batch,1.0", "-h", "-o", every) == (
        "1.0|4|solver|gpu|ann|1000|0:30|n[1-2]|2026-11-21T03:03:30|5:00|gres/gpu:a100:1|proj\n"
        "1.batch|1|batch|gpu|ann|1000|0:36|n1|2026-11-21T03:03:24|UNLIMITED|N/A|proj\n"
    )
    names = "StepID:6,StepName:8,NumTasks:3,NumNodes:2,StepState:8,JobID:3,ResvPorts:12,SubmitLine:12"
    assert out(capsys, "-s", "1.0", "-h", "-O", names) == "1.0   solver  4  2 RUNNING 1  12000,12001 srun solver \n"
    assert out(capsys, "-s", "-h", "-o", "%i", "-w", "n2").split() == ["1.0", "2_5.batch"]
    assert out(capsys, "-s", "-h", "-o", "%i", "-p", "main", "-S", "-i").split() == ["2_7.batch", "2_5.batch"]
    assert out(capsys, "-s", "-h", "-o", "%i", "-n", "solver", "-j", "1").split() == ["1.0"]
    assert run(capsys, "-s", "-h", "-o", "%T")[2] == "squeue: error: Invalid job step format specification: T\n"


def test_time_format(client, capsys, monkeypatch):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%H.%M")
    assert out(capsys, "-h", "-j", "1", "-o", "%S %e %V") == "03.03 03.33 03.03\n"
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    assert out(capsys, "-h", "-j", "2_5", "-o", "%S %e") == "03:03:24 Tomorr 05:06\n"


def test_environment_is_below_the_command_line(client, capsys, monkeypatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%A")
    monkeypatch.setenv("SQUEUE_STATES", "R")
    monkeypatch.setenv("SQUEUE_SORT", "-A")
    assert out(capsys, "-h") == "11\n10\n1\n"
    assert out(capsys, "-h", "-o", "%t", "-S", "A", "-t", "PD") == "PD\nPD\nPD\n"
    assert len(out(capsys, "-l", "-h").splitlines()) == 3
    monkeypatch.setenv("SQUEUE_FORMAT2", "jobid:3")
    assert out(capsys, "-h") == "11 \n10 \n1  \n"
    assert out(capsys, "-h", "-o", "%i") == "2_7\n2_5\n1\n"


def test_reasons(monkeypatch, capsys):
    some = [
        reports.job(1, "PENDING", reason="ReqNodeNotAvail", reason_detail="UnavailableNodes:n[1-2]"),
        reports.job(2, "PENDING", reason="Resources", reason_detail="needs 3 nodes, 2 are free"),
        reports.job(3, "PENDING", reason=""),
        reports.job(4, "COMPLETING", node_list="n1", start_at_us=reports.at(-9), end_at_us=reports.at(-5)),
    ]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-o", "%i %t %R", "-S", "i") == (
        "1 PD (ReqNodeNotAvail, UnavailableNodes:n[1-2])\n2 PD (Resources)\n3 PD (None)\n4 CG n1\n"
    )
    assert out(capsys, "-h", "-o", "%i %M", "-t", "CG") == "4 0:04\n"  # it ended when it began to
    detail = "May be reserved for other job"
    some = [reports.job(1, "PENDING", reason="ReqNodeNotAvail", reason_detail=detail)]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-o", "%r") == f"ReqNodeNotAvail, {detail}\n"


def test_a_job_that_is_held_for_its_exit_status(monkeypatch, capsys):
    held = reports.job(1, "SPECIAL_EXIT", reason="JobHeldUser", start_at_us=5)
    client = reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=[held, reports.job(2, "PENDING")])])
    assert out(capsys, "-h", "-S", "i", "-o", "%i %t %T %M %R") == (
        "1 SE SPECIAL_EXIT 0:00 (JobHeldUser)\n2 PD PENDING 0:00 (None)\n"
    )
    assert out(capsys, "-h", "-t", "pd", "-S", "i", "-o", "%i").split() == ["1", "2"]
    assert out(capsys, "-h", "-t", "SE", "-o", "%i").split() == ["1"]
    assert list(client.calls[-1][1].filter.states) == ["PENDING"]
    document = json.loads(out(capsys, "--json", "-t", "special_exit"))
    assert [job["job_state"] for job in document["jobs"]] == [["PENDING", "SPECIAL_EXIT"]]


def test_a_job_that_was_sent_sigstop(monkeypatch, capsys):
    some = [
        reports.job(1, "STOPPED", start_at_us=reports.at(-5)),
        reports.job(2, "RUNNING", start_at_us=reports.at(-9)),
    ]
    client = reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-S", "i", "-o", "%i %t %T %M") == "1 ST STOPPED 0:05\n2 R RUNNING 0:09\n"
    assert out(capsys, "-h", "-t", "r", "-S", "i", "-o", "%i").split() == ["1", "2"]
    assert out(capsys, "-h", "-t", "ST", "-o", "%i").split() == ["1"]
    assert list(client.calls[-1][1].filter.states) == ["RUNNING"]
    document = json.loads(out(capsys, "--json", "-t", "stopped"))
    assert [job["job_state"] for job in document["jobs"]] == [["RUNNING", "STOPPED"]]


def test_who_may_share_the_nodes(monkeypatch, capsys):
    kinds = [
        reports.request(exclusive=True), reports.request(exclusive_user=True), reports.request(exclusive_mcs=True),
        reports.request(),
    ]  # fmt: skip
    some = [reports.job(number, "RUNNING", request=kind) for number, kind in enumerate(kinds, 1)]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-S", "i", "-O", "Exclusive:6") == "NODE  \nUSER  \nMCS   \nNO    \n"


def test_unlimited_and_overdue(monkeypatch, capsys):
    some = [
        reports.job(1, "RUNNING", time_limit_s=-1, start_at_us=reports.at(-90000), end_at_us=reports.at(10**8)),
        reports.job(2, "RUNNING", time_limit_s=60, start_at_us=reports.at(-90), end_at_us=reports.at(-30)),
        reports.job(3, "RUNNING", start_at_us=reports.at(5)),
    ]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-o", "%l %L %M %e", "-S", "i") == (
        "UNLIMITED UNLIMITED 1-01:00:00 NONE\n1:00 INVALID 1:30 2026-11-21T03:03:30\n10:00 10:00 0:00 N/A\n"
    )


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        (["-L", "matlab"], ["6"]),
        (["--running-over", "10"], ["7"]),
        (["--running-under", "10"], ["5", "6"]),
        (["--notme"], ["7"]),
    ],
)
def test_filters_on_this_side(monkeypatch, capsys, argv, ids):
    me = os.getuid()
    some = [
        reports.job(5, "RUNNING", user_id=me, start_at_us=reports.at(-9), request=reports.request(reservation="maint")),
        reports.job(
            6, "RUNNING", user_id=me, start_at_us=reports.at(-9), request=reports.request(licenses="a,matlab:2")
        ),
        reports.job(7, "RUNNING", user_id=me + 1, start_at_us=reports.at(-700)),
    ]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    assert out(capsys, "-h", "-o", "%i", "-S", "i", *argv).split() == ids


def test_reservations_are_the_controllers_to_choose(client, capsys):
    """A job may wait for one of several, which one name does not equal."""
    out(capsys, "-h", "-R", "maint,other")
    assert list(client.request.filter.reservations) == ["maint", "other"]


def test_json(client, capsys):
    document = json.loads(out(capsys, "--json", "-t", "all"))
    assert set(document) == {"jobs", "last_backfill", "last_update", "meta", "errors", "warnings"}
    assert document["meta"]["slurm"]["version"] == {"major": "25", "minor": "05", "micro": "0"}
    assert document["meta"]["slurm"]["cluster"] == "tiny"
    by_id = {job["job_id"]: job for job in document["jobs"]}
    assert sorted(by_id) == [1, 2, 3, 4, 8, 9, 10, 11]
    one = by_id[1]
    assert one["job_state"] == ["RUNNING"]
    assert one["start_time"] == {"set": True, "infinite": False, "number": 1795230204}
    assert one["time_limit"] == {"set": True, "infinite": False, "number": 30}
    assert one["tres_alloc_str"] == "cpu=2,mem=100M,node=1,billing=2,gres/gpu=1"
    assert one["job_resources"]["nodes"]["allocation"][0]["name"] == "n1"
    assert one["memory_per_node"]["number"] == 100 and not one["memory_per_cpu"]["set"]
    assert by_id[8]["memory_per_cpu"]["number"] == 2048 and not by_id[8]["memory_per_node"]["set"]
    assert (by_id[2]["array_task_string"], by_id[2]["array_task_id"]["set"]) == ("9-99:2", False)
    assert by_id[10]["array_task_id"] == {"set": True, "infinite": False, "number": 5}
    assert by_id[4]["exit_code"] == {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    }


def test_a_job_that_is_ending(monkeypatch, capsys):
    """Its document has the state in which it ends, and the time at which it began to; as in Slurm."""
    some = [
        reports.job(1, "COMPLETING", end_state="CANCELLED", start_at_us=reports.at(-9), end_at_us=reports.at(-5)),
        reports.job(2, "COMPLETING", end_state="REQUEUED", derived_exit=ExitStatus(code=3)),
    ]
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=some)])
    one, two = sorted(json.loads(out(capsys, "--json"))["jobs"], key=lambda job: job["job_id"])
    assert (one["job_state"], two["job_state"]) == (["CANCELLED", "COMPLETING"], ["PENDING", "COMPLETING"])
    assert one["end_time"]["number"] == reports.at(-5) // 1_000_000
    assert two["derived_exit_code"]["return_code"]["number"] == 3
    assert out(capsys, "-h", "-t", "all", "-S", "i", "-O", "jobid:3,derivedec:3") == "1  0  \n2  3  \n"


def test_empty_queue(monkeypatch, capsys):
    reports.install(monkeypatch, ListJobs=[])
    assert out(capsys) == HEAD
    assert out(capsys, "-h") == ""
    assert json.loads(out(capsys, "--json"))["jobs"] == []


def test_repetition_stops_with_the_user(client, capsys, monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("cli.base.listing.time.sleep", sleep)
    status, shown, wrong = run(capsys, "-i", "7", "-j", "1", "-o", "%i")
    assert (status, wrong, pauses) == (130, "", [7, 7])
    assert shown == "Sat Nov 21 03:04:00 2026\nJOBID\n1\n\n" * 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--foo"], "squeue: unrecognized option '--foo'\nTry \"squeue --help\" for more information\n"),
        (["-i"], "squeue: option requires an argument -- 'i'\nTry \"squeue --help\" for more information\n"),
        (["-i", "x"], "squeue: error: --iterate=x\n"),
        (["-i", "0"], "squeue: error: --iterate=0\n"),
        (["-j", "abc"], "squeue: error: Invalid job id: abc\n"),
        (["-s", "12"], "squeue: error: Invalid job_step id: 12.??\n"),
        (["-M", "mars"], "squeue: error: No cluster 'mars' known by database.\n"
         "squeue: error: 'mars' can't be reached now, or it is an invalid entry for --cluster.  Use "
         "'sacctmgr list clusters' to see available clusters.\n"),
        (["-o", "%i", "-l"],
         "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.\n"),
    ],
)  # fmt: skip
def test_bad_input(client, capsys, argv, words):
    assert run(capsys, *argv) == (1, "", words)
    assert client.calls == []


def test_bad_state_lists_the_good_ones(client, capsys):
    status, shown, wrong = run(capsys, "-t", "R,bogus")
    assert (status, shown) == (1, "")
    first, second = wrong.splitlines()
    assert first == "squeue: error: Invalid job state specified: bogus"
    assert second.startswith("squeue: error: Valid job states include: PENDING,RUNNING,")


def test_a_stray_word(client, capsys):
    status, shown, wrong = run(capsys, "extra")
    assert (status, shown) == (1, "")
    assert wrong.startswith("squeue: error: Unrecognized option: extra\nUsage: squeue")


def test_controller_is_down(monkeypatch, capsys):
    reports.install(monkeypatch, ListJobs=Unreachable())
    assert run(capsys) == (1, "", "squeue: error: Unable to contact slurm controller (connect failure)\n")


def test_paths_keep_their_bytes(monkeypatch, capsys):
    info = reports.job(1, "RUNNING", request=reports.request(work_dir=b"/home/\xff"))
    reports.install(monkeypatch, ListJobs=[ListJobsReply(jobs=[info])])
    written: list[str] = []
    monkeypatch.setattr("cli.base.listing.sys.stdout.write", lambda text: written.append(text), raising=False)
    assert run(capsys, "-h", "-o", "%Z")[0] == 0
    assert written[0].encode("utf-8", "surrogateescape") == b"/home/\xff\n"


def test_help_and_version(capsys):
    assert run(capsys, "-V") == (0, "slurm 25.05.0\n", "")
    status, shown, _ = run(capsys, "--help")
    assert status == 0 and "--partition" in shown


@pytest.mark.parametrize("word", [*OTHER_STATE_WORDS, *OTHER_STATE_WORDS.values()])
def test_words_of_states_that_no_job_enters_are_accepted(client, capsys, word):
    assert run(capsys, "-h", "-t", f"{word},PD")[::2] == (0, "")
    assert parse_job_states(f"pd,{word.lower()}") == ({JobState.PENDING}, False)  # scancel, the controller's filters


def test_the_word_that_is_not_a_state_is_named():
    with pytest.raises(BadValue, match="Invalid job state specified: Pend. Valid states: .*STAGE_OUT"):
        parse_job_states("R,Pend")


def test_verbose_shows_the_options_in_force(client, capsys):
    shown = out(capsys, "-vv", "-p", "main", "-t", "R,pd", "-u", "0").splitlines()
    rule = "-" * 29
    at = [number for number, line in enumerate(shown) if line == rule]
    table = dict(line.split("=", 1) for line in shown[at[0] + 1 : at[1]])
    assert at[0] == 0 and len(table) == 22 + 4
    assert {
        "states      ": " R,pd",
        "partitions  ": " main",
        "verbose     ": " 2",
        "job_flag    ": " 0",
    }.items() <= table.items()
    assert shown[at[1] - 4 : at[1]] == [
        "part_list[0] = main", "state_list[0] = RUNNING", "state_list[1] = PENDING", "user_list[0] = 0"
    ]  # fmt: skip
    assert shown[at[1] + 1 : at[1] + 3] == ["", ""]
    assert shown[at[1] + 4].startswith("last_update_time=") and shown[at[1] + 4].endswith(" records=5")
    assert shown[at[1] + 5] + "\n" == HEAD
    assert out(capsys, "-v", "-h", "-j", "1").splitlines()[-4:-1] == ["", "", "last_update_time=0 records=1"]


@pytest.mark.parametrize(
    "option", ["user", "account", "partition", "name", "qos", "nodelist", "reservation", "licenses"]
)
def test_an_empty_list_matches_nothing(client, capsys, option):
    assert out(capsys, f"--{option}=") == HEAD
