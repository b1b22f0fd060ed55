"""scontrol and steps: show step, liststeps, listpids, pidinfo, notify, as they print and ask."""

import pytest

from cli.base.jobids import layout_name
from cli.listings.squeue_steps import NAMES
from cli.scontrol import body
from cli.steps import stepquery
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import GresCount
from penstock.v1.steps_pb2 import AttachStepReply, ListStepsReply, NotifyJobReply, StepPlan, StreamAddress
from tests.cli import reports
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.reports import at


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    time.tzset()


def fake(monkeypatch, steps=None, **answers):
    found = reports.job_steps() if steps is None else steps
    return FakeClient(ListSteps=ListStepsReply(steps=found), **answers).install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "scontrol", body, *argv)


SOLVER = """\
StepId=1.0 UserId=1000 StartTime=2026-11-21T03:03:30 TimeLimit=00:05:00
   State=RUNNING Partition=gpu NodeList=n[1-2]
   Nodes=2 CPUs=4 Tasks=4 Name=solver Network=(null)
   TRES=cpu=4,mem=200M,node=2,gres/gpu=1
   ResvPorts=12000,12001
   CPUFreqReq=Default Dist=BlockCyclic
   SrunHost:Pid=login:0
   TresPerNode=gres/gpu:a100:1
   SubmitLine=srun solver

"""


def test_show_step(monkeypatch, capsys):
    client = fake(monkeypatch)
    assert run(capsys, "show", "step", "1.0") == (0, SOLVER, "")
    assert list(client.request.ids) == ["1.0"]
    status, out, _ = run(capsys, "show", "steps", "2_7")
    assert (status, out.splitlines()[0]) == (
        0,
        "StepId=2_7.batch UserId=1000 StartTime=2026-11-21T03:03:24 TimeLimit=UNLIMITED",
    )
    lines = run(capsys, "-o", "show", "step")[1].splitlines()
    assert [line.split()[0] for line in lines] == [
        "StepId=1.batch",
        "StepId=1.0",
        "StepId=2_5.batch",
        "StepId=2_7.batch",
    ]


def test_what_a_step_requested_of_each_tres(monkeypatch, capsys):
    step = reports.job_steps()[1]
    gpus = GresCount(name="gpu", type="a100", count=2)
    del step.spec.gres_per_node[:]
    step.spec.gres_per_step.append(gpus)
    step.spec.gres_per_task.append(gpus)
    step.spec.gres_per_socket.append(gpus)
    step.spec.gpu_bind, step.spec.gpu_freq = "closest", "high"
    fake(monkeypatch, steps=[step])
    lines = run(capsys, "show", "step", "1.0")[1].splitlines()[7:12]
    assert lines == [
        "   TresBind=gres/gpu:closest",
        "   TresFreq=gpu:high",
        "   TresPerStep=cpu:4,gres/gpu:a100:2",
        "   TresPerSocket=gres/gpu:a100:2",
        "   TresPerTask=gres/gpu:a100=2",
    ]
    shown = [NAMES[name].value(step, None) for name in ("tres-per-step", "tres-per-task", "tres-per-node")]
    assert shown == ["cpu:4,gres/gpu:a100:2", "gres/gpu:a100=2", "N/A"]


def test_a_step_that_is_not_there(monkeypatch, capsys):
    fake(monkeypatch, ListJobs=[pb.ListJobsReply(jobs=[pb.JobInfo(job_id=1)])])
    assert run(capsys, "show", "step", "1.9") == (1, "Job step 1.9 not found\n", "")
    assert run(capsys, "show", "step", "1.1") == (1, "Job step 1.1 not found\n", "")  # it has ended
    assert run(capsys, "show", "step", "77") == (1, "No job steps found for job 77\n", "")
    fake(monkeypatch, ListJobs=[])
    assert run(capsys, "show", "step", "78.0") == (1, "", "slurm_get_job_steps error: Invalid job id specified\n")
    assert run(capsys, "show", "step", "x")[0] == 1
    fake(monkeypatch, steps=[])
    assert run(capsys, "show", "step") == (0, "No job steps in the system\n", "")


@pytest.mark.parametrize(
    ("text", "name"),
    [("", "Block"), ("cyclic", "Cyclic"), ("plane=4", "Plane"), ("Block:Cyclic,NoPack", "BlockCyclic"),
     ("*:*", "Block"), ("cyclic:fcyclic", "CyclicCFull"), ("arbitrary", "Arbitrary")],
)  # fmt: skip
def test_layouts_have_slurm_s_names(text, name):
    assert layout_name(text) == name


def test_liststeps(monkeypatch, capsys):
    fake(monkeypatch)
    assert run(capsys, "liststeps", "n1") == (0, "JOBID    STEPID  \n1        batch   \n1        0       \n", "")
    assert run(capsys, "liststeps", "n9") == (1, "", "No slurm jobs found on node n9\n")
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert run(capsys, "liststeps")[1].split() == ["JOBID", "STEPID", "11", "batch"]


def with_pids(monkeypatch):
    """Nodes that know the processes of 1.0 and of the script, and one that does not answer."""
    pids = {
        (1, 0): {"pids": [101, 102, 103], "tasks": [[2, 102], [3, 103]]},
        (1, -5): {"pids": [90], "tasks": [[0, 90]]},
    }

    def ask(cluster, attached, word, limit_s=0.0):
        assert word == "pids"
        found = pids.get((attached.job_id, attached.step_id))
        nodes = [stream.node for stream in attached.streams]
        if found is None:
            return stepquery.Answers({}, dict.fromkeys(nodes, "no answer in time"))
        return stepquery.Answers(dict.fromkeys(nodes, found), {})

    monkeypatch.setattr(stepquery, "ask", ask)
    client = fake(
        monkeypatch,
        AttachStep=lambda asked: AttachStepReply(
            job_id=asked.job_id,
            step_id=asked.step_id,
            plan=StepPlan(nodes=["n1", "n2"]),
            streams=[StreamAddress(node=name, port=1) for name in ("n1", "n2")],
        ),
        ListJobs=[pb.ListJobsReply(jobs=[pb.JobInfo(job_id=1, end_at_us=at(1764))])],
    )
    client.cluster = reports.CLUSTER
    return client


def test_listpids(monkeypatch, capsys):
    with_pids(monkeypatch)
    head = "PID      JOBID    STEPID   LOCALID GLOBALID\n"
    solver = (
        "101      1        0        -       -       \n"
        "102      1        0        0       2       \n"
        "103      1        0        1       3       \n"
    )
    assert run(capsys, "listpids", "1.0", "n1") == (0, head + solver, "")
    batch = "90       1        batch    0       0       \n"
    assert run(capsys, "listpids", "1", "n1") == (0, head + batch + solver, "")
    monkeypatch.setattr(stepquery, "ask", lambda *a, **k: stepquery.Answers({}, {"n1": "no answer in time"}))
    assert run(capsys, "listpids", "1.0", "n1") == (
        1, head, "scontrol: error: 1.0: node n1 does not answer: no answer in time\n",
    )  # fmt: skip
    assert run(capsys, "listpids", "1.0", "n7") == (1, "", "No job 1.0 found on node n7\n")


def test_pidinfo(monkeypatch, capsys):
    with_pids(monkeypatch)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    status, out, err = run(capsys, "pidinfo", "103")
    assert (status, err) == (0, "")
    first, second = out.splitlines()
    assert first == "Slurm JobId=1 StepId=0 ends at 2026-11-21T03:33:24"
    assert second.startswith("Job remaining time is ") and second.endswith(" seconds")
    assert run(capsys, "pidinfo", "7") == (1, "", "Failed to locate job for requested pid\n")
    assert run(capsys, "pidinfo", "x")[0] == 1


def test_notify(monkeypatch, capsys):
    client = fake(monkeypatch, NotifyJob=NotifyJobReply())
    assert run(capsys, "notify", "12_3", "the", "disk is full") == (0, "", "")
    assert (client.request.id, client.request.text) == ("12_3", "the disk is full")
    assert run(capsys, "notify", "12")[2] == "too few arguments for keyword:notify\n"
