"""scancel against a controller that answers from a table."""

import getpass
import io
import os
import sys

import pytest
from google.protobuf.json_format import MessageToDict

from cli.scancel import body
from penstock.clusterfile import ClusterFile
from penstock.errors import Unreachable
from penstock.v1.common_pb2 import JobRequest
from penstock.v1.controller_pb2 import JobInfo, JobResult, JobResultsReply, ListJobsReply
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SCANCEL_"):
            monkeypatch.delenv(name)


def fake(monkeypatch, *results, **answers):
    reply = JobResultsReply(results=[JobResult(id=i, code=c, text=TEXT.get(c, "")) for i, c in results])
    return FakeClient(CancelJobs=reply, **answers).install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "scancel", body, *argv)


def sent(client):
    return [MessageToDict(request, preserving_proto_field_name=True) for _, request in client.calls]


ME = getpass.getuser()


@pytest.mark.parametrize(
    ("argv", "request_fields"),
    [
        (["5"], {"filter": {"ids": ["5"]}}),
        (["5", "6,7_3", "8_[1-9:2,4]"], {"filter": {"ids": ["5", "6", "7_3", "8_[1,3-5,7,9]"]}}),
        (["5.batch"], {"filter": {"ids": ["5"]}, "batch_only": True}),
        (["5.0", "7_3.2", "8"], {"filter": {"ids": ["5.0", "7_3.2", "8"]}}),
        (["-s", "INT", "5.0"], {"filter": {"ids": ["5.0"]}, "signal": 2}),
        (["-u", ME], {"filter": {"users": [ME]}}),
        (["-u", str(os.getuid())], {"filter": {"users": [ME]}}),
        (["--me"], {"filter": {"users": [ME]}}),
        (["-n", "a,b"], {"filter": {"names": ["a,b"]}}),
        (["-p", "a,b", "-q", "high", "-A", "acc"],
         {"filter": {"partitions": ["a", "b"], "qos": ["high"], "accounts": ["acc"]}}),
        (["-t", "pd,running"], {"filter": {"states": ["PD", "RUNNING"]}}),
        (["-w", "n[1-2]", "5"], {"filter": {"ids": ["5"], "nodes": ["n[1-2]"]}}),
        (["-s", "USR1", "5"], {"filter": {"ids": ["5"]}, "signal": 10}),
        (["5", "--signal", "sigterm", "-b"], {"filter": {"ids": ["5"]}, "signal": 15, "batch_only": True}),
        (["-s9", "5"], {"filter": {"ids": ["5"]}}),
        (["-s", "KILL", "-f", "5"], {"filter": {"ids": ["5"]}, "signal": 9, "full": True}),
        (["-H", "--ctld", "5"], {"filter": {"ids": ["5"]}, "hurry": True}),
    ],
)  # fmt: skip
def test_what_is_asked_for(monkeypatch, capsys, argv, request_fields):
    client = fake(monkeypatch)
    assert run(capsys, *argv) == (0, "", "")
    assert sent(client) == [request_fields]


def test_batch_steps_and_whole_jobs_are_two_requests(monkeypatch, capsys):
    client = fake(monkeypatch)
    assert run(capsys, "5.batch", "6") == (0, "", "")
    assert sent(client) == [{"filter": {"ids": ["6"]}}, {"filter": {"ids": ["5"]}, "batch_only": True}]


def test_variables_are_filters(monkeypatch, capsys):
    client = fake(monkeypatch)
    monkeypatch.setenv("SCANCEL_PARTITION", "p")
    assert run(capsys) == (0, "", "")
    assert sent(client) == [{"filter": {"partitions": ["p"]}}]


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        ([], "scancel: error: No job identification provided\n"),
        (["foo"], "scancel: error: Invalid job id foo\n"),
        (["5_x"], "scancel: error: Invalid job id 5_x\n"),
        (["0"], "scancel: error: Invalid job id 0\n"),
        (["5_[0-4294967295]"], "scancel: error: Invalid job id 5_[0-4294967295]\n"),
        (["5_[1-10:0]"], "scancel: error: Invalid job id 5_[1-10:0]\n"),
        (["5_[5-1]"], "scancel: error: Invalid job id 5_[5-1]\n"),
        (["9223372036854775808"], "scancel: error: Invalid job id 9223372036854775808\n"),
        (["５"], "scancel: error: Invalid job id ５\n"),
        (["5+128"], "scancel: error: Invalid job id 5+128\n"),
        (["-s", "FOO", "5"], "Unknown job signal: FOO\n"),
        (["-s", "300", "5"], "Unknown job signal: 300\n"),
        (["-t", "foo"], "Invalid job state specified: foo\nValid job states are PENDING, RUNNING, and SUSPENDED\n"),
        (["-u", "no-such-user"], "scancel: error: Invalid user name: no-such-user\n"),
        (["-u", "99999999999999999999"], "scancel: error: Invalid user name: 99999999999999999999\n"),
        (["-w", "n[1-"], "scancel: error: Invalid --nodelist specification\n"),
        (["-5"], "scancel: invalid option -- '5'\n"),
    ],
)
def test_mistakes(monkeypatch, capsys, argv, err):
    client = fake(monkeypatch)
    status, out, shown = run(capsys, *argv)
    assert (status, out, client.calls) == (1, "", [])
    assert shown.startswith(err)


def test_the_number_of_ids_has_a_limit(monkeypatch, capsys):
    client = fake(monkeypatch)
    status, _, err = run(capsys, ",".join(str(i) for i in range(1, 262_146)))
    assert (status, client.calls) == (1, [])
    assert err == "scancel: error: 262145 job ids given, the limit is 262144\n"


def test_each_refusal_is_a_line(monkeypatch, capsys):
    fake(monkeypatch, ("5", Code.INVALID_JOB_ID), ("6", 0), ("7", Code.ALREADY_DONE), ("8", Code.ACCESS_DENIED))
    assert run(capsys, "5", "6", "7", "8") == (
        1,
        "",
        "scancel: error: Kill job error on job id 5: Invalid job id specified\n"
        "scancel: error: Kill job error on job id 8: Access/permission denied\n",
    )


def test_ended_jobs_are_no_error(monkeypatch, capsys):
    """But a signal that could not be sent is one."""
    fake(monkeypatch, ("7", Code.ALREADY_DONE))
    words = "scancel: error: Kill job error on job id 7: Job/step already completing or completed\n"
    assert run(capsys, "7") == (0, "", "")
    assert run(capsys, "-v", "7") == (0, "", "scancel: Terminating job 7\n" + words)
    assert run(capsys, "-s", "KILL", "7") == (0, "", "")
    assert run(capsys, "-s", "USR1", "7") == (1, "", words)
    assert run(capsys, "-s", "USR1", "-Q", "7") == (0, "", "")
    assert run(capsys, "--me") == (0, "", "")
    assert run(capsys, "--me", "-v")[0] == 0


def test_verbose(monkeypatch, capsys):
    fake(monkeypatch, ("7", 0))
    assert run(capsys, "-v", "7") == (0, "", "scancel: Terminating job 7\n")
    assert run(capsys, "-v", "-s", "10", "7") == (0, "", "scancel: Signal 10 to job 7\n")


def test_a_controller_that_is_down(monkeypatch, capsys):
    FakeClient(CancelJobs=Unreachable()).install(monkeypatch)
    words = "Unable to contact slurm controller (connect failure)"
    assert run(capsys, "5") == (1, "", f"scancel: error: Kill job error on job id 5: {words}\n")
    assert run(capsys, "--me") == (1, "", f"scancel: error: {words}\n")


def test_interactive_asks_for_each_job(monkeypatch, capsys):
    jobs = [
        JobInfo(job_id=5, partition="p", request=JobRequest(name="a")),
        JobInfo(job_id=6, array_job_id=6, array_tasks="2-4", partition="p", request=JobRequest(name="b")),
        JobInfo(job_id=7, array_job_id=6, array_task_id=1, partition="p", request=JobRequest(name="b")),
    ]
    client = fake(monkeypatch, ListJobs=[ListJobsReply(jobs=jobs)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\nYes\n"))
    status, out, err = run(capsys, "-i", "-p", "p")
    assert (status, err) == (0, "")
    assert out.startswith("Cancel job_id=5 name=a partition=p [y/n]? Cancel job_id=6_[2-4] name=b")
    assert sent(client) == [{"filter": {"partitions": ["p"]}}, {"filter": {"ids": ["6_[2-4]"]}}]
    client.calls.clear()
    assert run(capsys, "-i", "5")[0] == 0  # no more answers: nothing is cancelled
    assert [method for method, _ in client.calls] == ["ListJobs"]
    fake(monkeypatch, ListJobs=[ListJobsReply()])
    err = "scancel: error: Kill job error on job id 9: Invalid job id specified\n"
    assert run(capsys, "-i", "9") == (1, "", err)
    assert run(capsys, "-i", "-p", "p") == (0, "", "")


def test_reservations_and_wckeys(monkeypatch, capsys):
    client = fake(monkeypatch)
    client.cluster = ClusterFile("c")
    assert run(capsys, "-R", "maint,x", "--wckey=k", "-M", "c")[0] == 0
    assert (list(client.request.filter.reservations), list(client.request.filter.wckeys)) == (["maint", "x"], ["k"])
    status, _, err = run(capsys, "-M", "other", "5")
    assert status == 1 and err.startswith("scancel: error: No cluster 'other' known by database.\n")
    assert len(client.calls) == 1


def test_siblings_are_accepted_with_a_warning(monkeypatch, capsys):
    fake(monkeypatch)
    status, _, err = run(capsys, "--sibling=a", "5")
    assert status == 0 and err.startswith("scancel: warning: option --sibling is accepted and has no effect: ")


def test_verbose_names_the_filters_that_no_job_passes(monkeypatch, capsys):
    fake(monkeypatch)
    words = "scancel: error: No active jobs match ALL job filters, including: "
    assert run(capsys, "-n", "none", "-t", "pd,r") == (0, "", "")
    assert run(capsys, "-v", "-n", "none", "-t", "pd,r") == (0, "", words + "job_name=none state=PENDING,RUNNING \n")
    fake(monkeypatch, ("7", 0))
    assert run(capsys, "-v", "-p", "main") == (0, "", "scancel: Terminating job 7\n")


def test_three_v_show_the_options_in_force(monkeypatch, capsys):
    fake(monkeypatch, ("7", 0))
    lines = run(capsys, "-vvv", "-p", "a,b", "7")[2].splitlines()
    assert lines[0] == "scancel: account        : (null)" and "scancel: partition      : a,b" in lines
    assert lines[-2:] == ["scancel: job_id[0]      : 7", "scancel: Terminating job 7"]


def test_interactive_asks_for_a_step_by_its_own_number(monkeypatch, capsys):
    job = JobInfo(job_id=5, partition="p", request=JobRequest(name="a"))
    client = fake(monkeypatch, ("5.0", 0), ListJobs=[ListJobsReply(jobs=[job])])
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run(capsys, "-i", "5.0") == (0, "Cancel step_id=5.0 name=a partition=p [y/n]? ", "")
    assert sent(client)[1] == {"filter": {"ids": ["5.0"]}}
