"""Invocations of scontrol that tools make (slurm-surface.md sections 12 and 13), with the patterns by which they read the answer."""

import re

import pytest

from cli.scontrol import body
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import GresCount, GresIndices, JobRequest, NodeAllocation
from penstock.v1.steps_pb2 import ListStepsReply, StepInfo
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

T0 = 1_700_000_000_000_000
JOB = pb.JobInfo(
    job_id=7, state="RUNNING", reason="None", user_name="ann", user_id=1000, partition="gpu", start_at_us=T0, submit_at_us=T0,
    node_list="n[1-2]", batch_node="n1", cpus=4, nodes=2, tasks=2, tres_alloc="cpu=4,mem=8G,node=2,billing=4,gres/gpu=2",
    request=JobRequest(name="train", gres_per_node=[GresCount(name="gpu", count=1)]), std_out=b"/w/slurm-7.out",
    allocation=[NodeAllocation(node="n1", cpus=2, mem_mb=4096, gres=[GresIndices(name="gpu", index=[0, 1])], cpu_ids=b"\x03")],
)  # fmt: skip
ANSWERS = {
    "ListJobs": [pb.ListJobsReply(jobs=[JOB])],
    "ListNodes": pb.ListNodesReply(nodes=[pb.NodeInfo(name="n1", base_state="MIXED", cpus=4, cpus_alloc=2, gres=[GresCount(name="gpu", count=2)])]),
    "ListPartitions": pb.ListPartitionsReply(partitions=[pb.PartitionInfo(name="gpu", is_default=True, state="UP"), pb.PartitionInfo(name="cpu")]),
    "ListReservations": pb.ListReservationsReply(reservations=[pb.ReservationInfo(name="maint", flags="MAINT", node_list="n1")]),
    "ListSteps": ListStepsReply(steps=[StepInfo(job_id=7, step_id=0, state="RUNNING", node_list="n1")]),
    "ShowConfig": pb.ShowConfigReply(
        at_us=T0,
        lines=[
            pb.ConfigLine(key="AccountingStorageType", value="accounting_storage/slurmdbd"), pb.ConfigLine(key="DebugFlags"),
            pb.ConfigLine(key="SlurmUser", value="slurm(64030)"),
            pb.ConfigLine(key="ConstrainDevices", value="yes", section="Cgroup Support Configuration"),
        ],
    ),
    "Ping": pb.PingReply(controller_host="ctl1"),
    "ControlJobs": pb.JobResultsReply(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def controller(monkeypatch):
    for name in ("cli.control.entities", "cli.control.ctladmin", "cli.control.reservation", "cli.control.showsteps"):
        monkeypatch.setattr(f"{name}.find_cluster", lambda: ClusterFile("c", host="ctl1"))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
    return FakeClient(**ANSWERS).install(monkeypatch)


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("show config", r"(?m)^AccountingStorageType += accounting_storage/slurmdbd$"),
        ("show config", r"(?m)^DebugFlags += \(null\)$"),
        ("show config", r"(?m)^SlurmUser += (\S+)\((\d+)\)$"),
        ("show config", r"(?m)^Configuration data as of 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d$"),
        (
            "show config",
            r"\n\nCgroup Support Configuration:\nConstrainDevices += yes\n\nSlurmctld\(primary\) at ctl1 is UP\n$",
        ),
        ("ping", r"^Slurmctld\(primary\) at ctl1 is UP\n$"),
        ("--all --oneliner show partition", r"(?m)^PartitionName=gpu .*\bDefault=YES\b.*State=UP"),
        ("-a -o show part", r"(?m)^PartitionName=cpu "),
        ("show hostnames", r"^n1\nn2\nn3\n$"),
        ("show hostnames n[01-02],m7", r"^n01\nn02\nm7\n$"),
        ("show hostname n1", r"^n1\n$"),
        ("show hostlist n1,n2,m7", r"^n\[1-2\],m7\n$"),
        ("show hostlistsorted n2,n1,n2", r"^n\[1-2(,2)?\]\n$"),
        ("show job 7", r"(?m)^   AllocTRES=.*\bmem=8G\b"),
        ("show job=7", r"^JobId=7 JobName=train\n"),
        ("show jobid 7", r"^JobId=7 "),
        ("show job -o", r"^JobId=7 JobName=train .* StdOut=/w/slurm-7.out .*\n$"),
        ("-o show job 7 -d", r"JOB_GRES=gpu:2 Nodes=n1 CPU_IDs=0-1 Mem=4096 GRES=gpu:2\(IDX:0-1\)"),
        ("show job 7", r"NodeList=(\S+)\n   BatchHost=n1\n"),
        ("-o show node", r"^NodeName=n1 .*CPUAlloc=2 .* CPUTot=4 .*State=MIXED "),
        ("show nodes n1 -o", r"^NodeName=n1 "),
        ("-o show reservation", r"^ReservationName=maint .*Flags=MAINT .*State=INACTIVE"),
        ("show res", r"^ReservationName=maint "),
        ("-o show step", r"^StepId=7.0 UserId="),
        ("requeue 7", r"^$"),
        ("version", r"^slurm \d+\.\d+\.\d+\n$"),
        ("errnumstr 2028", r"^Invalid node state specified\n$"),
    ],
)
def test_answers_that_tools_read(capsys, line, pattern):
    status, out, err = run_body(capsys, "scontrol", body, *line.split())
    assert (status, err) == (0, "")
    assert re.search(pattern, out), out


@pytest.mark.parametrize(
    ("line", "method", "code", "err"),
    [
        ("show job 99", "ListJobs", Code.INVALID_JOB_ID, "slurm_load_jobs error: Invalid job id specified\n"),
        ("update nodename=n1 state=resume", "UpdateNodes", Code.INVALID_NODE_STATE, "slurm_update error: Invalid node state specified\n"),
        ("update partitionname=x maxtime=1", "UpdatePartition", Code.INVALID_PARTITION, "slurm_update error: Invalid partition name specified\n"),
        ("reconfigure", "Reconfigure", Code.ACCESS_DENIED, "slurm_reconfigure error: Access/permission denied\n"),
        ("delete reservation=x", "DeleteReservation", Code.RESERVATION_INVALID, "delete_reservation reservation=x: Requested reservation is invalid\n"),
    ],
)  # fmt: skip
def test_refusals_that_tools_read(monkeypatch, capsys, line, method, code, err):
    FakeClient(**{**ANSWERS, method: PenstockError(code, TEXT[code])}).install(monkeypatch)
    assert run_body(capsys, "scontrol", body, *line.split()) == (1, "", err)


@pytest.mark.parametrize(
    ("line", "method", "empty", "out"),
    [
        ("show job", "ListJobs", [], "No jobs in the system\n"),
        ("show node", "ListNodes", pb.ListNodesReply(), "No nodes in the system\n"),
        ("show partition", "ListPartitions", pb.ListPartitionsReply(), "No partitions in the system\n"),
        ("show reservation", "ListReservations", pb.ListReservationsReply(), "No reservations in the system\n"),
        ("show step", "ListSteps", ListStepsReply(), "No job steps in the system\n"),
    ],
)
def test_nothing_is_said_and_is_no_error(monkeypatch, capsys, line, method, empty, out):
    FakeClient(**{**ANSWERS, method: empty}).install(monkeypatch)
    assert run_body(capsys, "scontrol", body, *line.split()) == (0, out, "")


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("show node n9", "Node n9 not found\n"),
        ("show partition nope", "Partition nope not found\n"),
        ("show reservation nope", "Reservation nope not found\n"),
    ],
)
def test_names_that_are_not_there(monkeypatch, capsys, line, out):
    FakeClient(**{**ANSWERS, "ListNodes": pb.ListNodesReply()}).install(monkeypatch)
    assert run_body(capsys, "scontrol", body, *line.split()) == (1, out, "")
