"""sstat: which steps are meant, how figures of several nodes become the step's, how they are printed."""

from typing import Any

import pytest

from cli.listings.stepusage import FIELDS, K, Sizes, merged
from cli.sstat import COLUMNS, FORMAT, body, cpu_text
from cli.steps import stepquery
from penstock.v1.steps_pb2 import AttachStepReply, ListStepsReply
from tests.cli import reports
from tests.cli.fake_controller import FakeClient, run_body

#: Two nodes of step 1.0: kind, total, max, task of it, min, task of it.
N1 = {
    "tasks": 2,
    "metrics": [
        [K.CPU_MS, 3000, 2000, 0, 1000, 1],
        [K.RSS_KB, 3072, 2048, 1, 1024, 0],
        [K.VMSIZE_KB, 4096, 2048, 0, 2048, 0],
        [K.READ_BYTES, 300, 200, 0, 100, 1],
        [K.WRITE_BYTES, 20, 10, 0, 10, 0],
        [K.PAGE_FAULTS, 9, 5, 0, 4, 1],
    ],
}
N2 = {
    "tasks": 2,
    "metrics": [
        [K.CPU_MS, 9000, 5000, 3, 4000, 2],
        [K.RSS_KB, 5120, 4096, 2, 512, 3],
        [K.VMSIZE_KB, 4096, 2048, 2, 2048, 2],
        [K.READ_BYTES, 2048, 2048, 2, 0, 3],
        [K.WRITE_BYTES, 4, 4, 2, 0, 3],
        [K.PAGE_FAULTS, 1, 1, 2, 0, 3],
    ],
}


@pytest.fixture
def client(monkeypatch):
    def ask(cluster, attached, word, limit_s=0.0):
        asked.append((attached.job_id, attached.step_id, word))
        if word == "pids":
            return stepquery.Answers({"n1": {"pids": [12, 11]}, "n2": {"pids": [21]}}, {})
        if attached.step_id == 0:
            return stepquery.Answers({"n1": N1, "n2": N2}, {})
        return stepquery.Answers({}, {"n1": "no answer in time"})

    asked: list[tuple[int, int, str]] = []
    monkeypatch.setattr(stepquery, "ask", ask)
    made: Any = FakeClient(
        ListSteps=ListStepsReply(steps=reports.job_steps()),
        AttachStep=lambda request: AttachStepReply(job_id=request.job_id, step_id=request.step_id),
    ).install(monkeypatch)
    made.cluster = reports.CLUSTER
    made.asked = asked
    return made


@pytest.mark.parametrize("metrics", [
    "none", 7, None, {}, [7], [[K.CPU_MS]], [[K.CPU_MS, "3000", 2000, 0, 1000, 1]], [[K.CPU_MS, 3000, 2000, -1, 1000, 1]],
    [["cpu", 3000, 2000, 0, 1000, 1]], [[K.CPU_MS, 3000, 2000, 2**40, 1000, 1]], [[K.CPU_MS, None, 2000, 0, 1000, 1]],
])  # fmt: skip
@pytest.mark.parametrize("tasks", [2, "two", None, -1, [2]])
def test_an_answer_that_is_none_leaves_the_others(metrics, tasks):
    found = merged({"n1": {"tasks": tasks, "metrics": metrics}, "n2": N2})
    assert found.metrics[K.CPU_MS].total == 9000 and found.tasks in (2, 4)


def test_processes_that_are_none_are_left_out(client, monkeypatch, capsys):
    answers: dict[str, dict[str, Any]] = {"n1": {"pids": [12, "x", None, 11]}, "n2": {"pids": "21"}}
    monkeypatch.setattr(stepquery, "ask", lambda *asked, **more: stepquery.Answers(answers, {}))
    status, out, err = run(capsys, "-nP", "-j", "1.0", "-i", "-o", "Nodelist,Pids")
    assert (status, err) == (0, "") and out.splitlines()[0].split("|") == ["1.0", "n1", "11,12"]


def run(capsys, *argv):
    return run_body(capsys, "sstat", body, *argv)


def shown(capsys, step, *fields):
    status, out, err = run(capsys, "-nP", "-j", step, "-o", ",".join(fields))
    assert (status, err) == (0, "")
    return out.strip().split("|")


def test_figures_of_all_nodes_are_the_step_s(client, capsys):
    assert shown(capsys, "1.0", "JobID", "NTasks", "AveCPU", "MinCPU", "MinCPUNode", "MinCPUTask") == [
        "1.0", "4", "00:03.000", "00:01.000", "n1", "1",
    ]  # fmt: skip
    assert shown(capsys, "1.0", "AveRSS", "MaxRSS", "MaxRSSNode", "MaxRSSTask") == ["2M", "4M", "n2", "2"]
    assert shown(capsys, "1.0", "AveVMSize", "MaxVMSize", "MaxPages", "AvePages") == ["2M", "2M", "5", "2"]
    assert shown(capsys, "1.0", "AveDiskRead", "MaxDiskRead", "MaxDiskReadNode", "MaxDiskWrite") == [
        "587", "2K", "n2", "10",
    ]  # fmt: skip
    assert shown(capsys, "1.0", "TRESUsageInTot") == ["cpu=00:00:12,fs/disk=2348,mem=8M,pages=10,vmem=8M"]
    assert shown(capsys, "1.0", "TRESUsageInAve") == ["cpu=00:00:03,fs/disk=587,mem=2M,pages=2,vmem=2M"]
    assert shown(capsys, "1.0", "TRESUsageInMaxNode") == ["cpu=n2,fs/disk=n2,mem=n2,pages=n1,vmem=n1"]
    assert shown(capsys, "1.0", "TRESUsageInMinTask") == ["cpu=1,fs/disk=3,mem=3,pages=3,vmem=0"]
    assert shown(capsys, "1.0", "TRESUsageOutMax", "TRESUsageOutTot") == ["fs/disk=10", "fs/disk=24"]
    assert shown(capsys, "1.0", "ConsumedEnergy", "ReqCPUFreqMin") == ["0", "Unknown"]


def test_the_table(client, capsys):
    assert run(capsys, "-j", "1.0", "-o", "JobID,MaxRSS,AveCPU,NTasks") == (
        0,
        "JobID            MaxRSS     AveCPU   NTasks \n"
        "------------ ---------- ---------- -------- \n"
        "1.0                  4M  00:03.000        4 \n",
        "",
    )
    assert run(capsys, "-j", "1.0", "--noconvert", "-npo", "maxrss")[1] == "4194304|\n"
    assert run(capsys, "-j", "1.0")[1].startswith("JobID         MaxVMSize  MaxVMSizeNode  MaxVMSizeTask")


def test_which_steps_are_meant(client, capsys):
    assert shown(capsys, "1", "JobID") == ["1.0"]  # the first of srun's
    assert run(capsys, "-n", "-o", "jobid", "-j", "2_5")[1].split() == ["2_5.batch"]
    assert run(capsys, "-an", "-o", "jobid", "-j", "1")[1].split() == ["1.batch", "1.0"]
    assert run(capsys, "-n", "-o", "jobid", "1.0", "2_7")[1].split() == ["1.0", "2_7.batch"]
    status, out, err = run(capsys, "-n", "-o", "jobid", "-j", "1.0,1.1,99")
    assert (status, out.split()) == (0, ["1.0"])
    assert err == "sstat: error: StepId=1.1 not found running.\nsstat: error: No steps running for job 99\n"
    assert run(capsys, "-n", "-o", "jobid", "-j", "99.0") == (0, "", "sstat: error: couldn't get steps for job 99\n")


def test_a_node_that_does_not_answer_is_named(client, capsys):
    status, out, err = run(capsys, "-nP", "-j", "1.batch", "-o", "jobid,maxrss")
    assert (status, out) == (0, "1.batch|\n")
    assert err == "sstat: error: 1.batch: node n1 does not answer: no answer in time\n"


def test_processes_by_node(client, capsys):
    assert run(capsys, "-i", "-nP", "-j", "1.0")[1] == "1.0|n1|11,12\n1.0|n2|21\n"
    assert client.asked == [(1, 0, "pids")]


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        ([], "sstat: error: You didn't give me any jobs to stat.\n"),
        (["-j", "x"], "sstat: fatal: Bad job/step specified: x\n"),
        (["-j", "1", "-o", "foo"], 'sstat: error: Invalid field requested: "foo"\n'),
        (["-q"], "sstat: invalid option -- 'q'\n"),
    ],
)
def test_mistakes(client, capsys, argv, err):
    status, out, shown_err = run(capsys, *argv)
    assert (status, out) == (1, "") and shown_err.startswith(err)


def test_every_default_field_is_there(capsys):
    names = {column.name.lower() for column in COLUMNS}
    assert set(FORMAT.split(",")) <= names
    assert set(name.lower() for name in FIELDS) <= names
    assert run(capsys, "-e")[1].split()[:2] == ["AveCPU", "AveCPUFreq"]


def test_cpu_times():
    assert [cpu_text(ms) for ms in (0, 61_234, 3_600_000, 90_061_000)] == [
        "00:00.000", "01:01.234", "01:00:00", "1-01:01:01",
    ]  # fmt: skip


def test_nothing_sampled_prints_nothing():
    usage = merged({"n1": {"tasks": 0}, "n2": {}})
    assert {show(usage, Sizes()) for show in FIELDS.values()} == {""}
