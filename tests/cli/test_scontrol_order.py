"""The order of lines and keys of scontrol's records, which tools parse: written down once more, as Slurm 25.05 has it.

A key that is not in the list stands behind all that are, or the test fails. `?` marks what is shown only when it is set.
"""

import json
import re

import pytest
import yaml

from cli.control import reservation, showsteps
from cli.listings import show
from cli.scontrol import body
from penstock.clusterfile import ClusterFile
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import ExitStatus, GresCount, GresIndices, JobRequest, NodeAllocation
from penstock.v1.steps_pb2 import ListStepsReply, StepInfo
from tests.cli.fake_controller import FakeClient, run_body

T0 = 1_700_000_000_000_000
REPORT = show.ShownReport(T0 + 60_000_000, detail=True)

#: slurm-surface.md section 7 for jobs; the manual pages and Slurm's own output for the others. One line each.
ORDER = {
    "job": """
        JobId ArrayJobId? ArrayTaskId? ArrayTaskThrottle? HetJobId? HetJobOffset? JobName
        SLUID?
        UserId GroupId MCS_label
        Priority Nice Account QOS WCKey?
        JobState Reason Dependency
        Requeue Restarts BatchFlag Reboot ExitCode
        DerivedExitCode?
        RunTime TimeLimit TimeMin
        SubmitTime EligibleTime
        AccrueTime
        StartTime EndTime Deadline
        CronJob? CrontabSpec?
        PreemptEligibleTime? PreemptTime?
        SuspendTime SecsPreSuspend LastSchedEval Scheduler
        Partition AllocNode:Sid
        ReqNodeList ExcNodeList
        NodeList SchedNodeList?
        BatchFeatures? BatchHost?
        NumNodes NumCPUs NumTasks CPUs/Task ReqB:S:C:T
        ReqTRES
        AllocTRES
        Socks/Node NtasksPerN:B:S:C CoreSpec? ThreadSpec?
        JOB_GRES? Nodes? CPU_IDs? Mem? GRES?
        MinCPUsNode MinMemoryNode MinTmpDiskNode
        Features DelayBoot
        Prefer?
        Reservation?
        OverSubscribe Contiguous Licenses LicensesAlloc Network
        Command
        WorkDir
        Comment?
        AdminComment?
        SystemComment?
        Extra?
        StdErr StdIn StdOut
        Switches?
        KillOInInvalidDependent?
        SpreadJob?
        CpusPerTres?
        MemPerTres?
        TresBind?
        TresFreq?
        TresPerJob?
        TresPerNode?
        TresPerSocket?
        TresPerTask?
        NtasksPerTRES?
        MailUser? MailType?
        Container?
    """,
    "node": """
        NodeName Arch CoresPerSocket
        CPUAlloc CPUEfctv CPUTot CPULoad
        AvailableFeatures
        ActiveFeatures
        Gres
        GresDrain? GresUsed?
        NodeAddr NodeHostName Port? Version
        OS
        RealMemory AllocMem FreeMem Sockets Boards
        CoreSpecCount? CPUSpecList? MemSpecLimit?
        State ThreadsPerCore TmpDisk Weight Owner MCS_label
        NextState?
        Partitions
        BootTime SlurmdStartTime
        LastBusyTime ResumeAfterTime
        CfgTRES
        AllocTRES
        CurrentWatts AveWatts
        Reason?
        Comment?
        Extra?
        ReservationName?
    """,
    "partition": """
        PartitionName
        AllowGroups AllowAccounts AllowQos
        AllocNodes Alternate? Default QoS
        DefaultTime DisableRootJobs ExclusiveUser ExclusiveTopo GraceTime Hidden
        MaxNodes MaxTime MinNodes LLN MaxCPUsPerNode MaxCPUsPerSocket
        NodeSets?
        Nodes
        PriorityJobFactor PriorityTier RootOnly ReqResv OverSubscribe
        OverTimeLimit PreemptMode
        State TotalCPUs TotalNodes SelectTypeParameters
        JobDefaults
        DefMemPerNode MaxMemPerNode
        TRES
        TRESBillingWeights?
    """,
    "reservation": """
        ReservationName StartTime EndTime Duration
        Nodes NodeCnt CoreCnt Features PartitionName Flags
        TRES
        Users Groups Accounts Licenses State BurstBuffer
        MaxStartDelay
        QOS?
        Comment?
    """,
    "step": """
        StepId UserId StartTime TimeLimit
        State Partition NodeList
        Nodes CPUs Tasks Name Network
        TRES
        ResvPorts
        CPUFreqReq Dist
        SrunHost:Pid
        TresPerNode?
        SubmitLine?
    """,
}  # fmt: skip

JOB = pb.JobInfo(
    job_id=7, array_job_id=5, array_task_id=2, array_throttle=3, state="RUNNING", reason="None", user_id=1, user_name="a",
    group_name="g", partition="p", start_at_us=T0, time_limit_s=60, node_list="n1", batch_node="n1", cpus=2, nodes=1, tasks=1,
    exit=ExitStatus(), admin_comment="ac", system_comment="sc", cron="@daily", submit_at_us=T0, preempt_at_us=T0, planned_node_list="n2",
    request=JobRequest(
        name="j", wckey="w", comment="c", reservation="r", prefer="f", cpus_per_gpu=1, mem_per_gpu_mb=5, ntasks_per_gpu=1,
        gres_per_job=[GresCount(name="gpu", count=1)], gres_per_task=[GresCount(name="gpu", count=1)], mail_types=["END"], spread_job=True,
        kill_on_invalid_dep=True, container="/c", extra="x", core_spec=1, batch_features="b", gpu_bind="closest", gpu_freq="high",
        switches_max=1, contiguous=True, gres_per_socket=[GresCount(name="gpu", count=1)],
    ),
    allocation=[NodeAllocation(node="n1", cpus=2, mem_mb=1, gres=[GresIndices(name="gpu", index=[0, 1])], cpu_ids=b"\x03")],
)  # fmt: skip
RECORDS = {
    "job": lambda: [show.job_record(JOB, REPORT), show.job_record(pb.JobInfo(job_id=1), REPORT._replace(detail=False))],
    "node": lambda: [
        show.node_record(pb.NodeInfo(name="n1"), REPORT._replace(detail=False)),
        show.node_record(
            pb.NodeInfo(name="n1", base_state="IDLE", flags=["DRAIN"], reason="r", reason_user="root", reason_at_us=T0,
                        comment="c", extra="e", reservation="v", port=7), REPORT,
        ),
    ],
    "partition": lambda: [show.partition_record(pb.PartitionInfo(name="p", tres_billing_weights="cpu=1", over_time_limit_s=60))],
    "reservation": lambda: [reservation.record(pb.ReservationInfo(name="r", comment="c"), REPORT)],
    "step": lambda: [showsteps.step_record(StepInfo(job_id=1, step_id=0), REPORT)],
}  # fmt: skip


def keys_of(line: str) -> list[str]:
    """The keys of a line: words before a `=` at the beginning or behind a blank."""
    return re.findall(r"(?:^|\s)([A-Z][A-Za-z/:_]*)=", line)


@pytest.mark.parametrize("kind", ORDER)
def test_keys_stand_in_slurms_order(kind):
    wanted = ORDER[kind].split()
    names = [name.rstrip("?") for name in wanted]
    required = [name for name in wanted if not name.endswith("?")]
    for record in RECORDS[kind]():
        shown = [key for line in record for key in keys_of(line)]
        known = [key for key in shown if key in names]
        assert known == sorted(known, key=names.index), shown
        last = max(at for at, key in enumerate(shown) if key in names)
        assert all(key in names for key in shown[: last + 1]), [key for key in shown[:last] if key not in names]
        if kind == "job":  # memory is by node or by cpu; streams are a batch job's
            assert [key for key in required if key not in shown and not key.startswith("Std")] == []
        else:
            assert [key for key in required if key not in shown] == []
        one_line = show.layout(record, one_line=True)
        assert one_line.count("\n") == 1 and keys_of(one_line) == shown


@pytest.mark.parametrize("kind", ORDER)
def test_keys_of_a_line_stay_together(kind):
    """Tools look for whole lines, too: no line of ours mixes two of Slurm's, but where Slurm's are optional."""
    place = {key.rstrip("?"): at for at, line in enumerate(ORDER[kind].strip().split("\n")) for key in line.split()}
    for record in RECORDS[kind]():
        for line in record:
            assert len({place[key] for key in keys_of(line) if key in place}) <= 1, line


def test_what_details_add_to_a_job():
    record = show.job_record(JOB, REPORT)
    at = record.index("JOB_GRES=gpu:2")
    assert record[at + 1] == "  Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=gpu:2(IDX:0-1)"


def test_a_reason_names_who_and_when():
    node = pb.NodeInfo(
        name="n1",
        base_state="IDLE",
        flags=["DRAIN", "NO_RESPOND"],
        reason="bad fan",
        reason_user="ann",
        reason_at_us=T0,
    )
    record = show.node_record(node, REPORT)
    assert any(line.startswith("State=IDLE+DRAIN+NOT_RESPONDING ThreadsPerCore=") for line in record)
    (reason,) = [line for line in record if line.startswith("Reason=")]
    assert re.fullmatch(r"Reason=bad fan \[ann@2023-11-1[45]T\d\d:\d\d:\d\d\]", reason)


REPLIES = {
    "partition": ("ListPartitions", pb.ListPartitionsReply(partitions=[pb.PartitionInfo(name="p", max_time_s=-1, max_nodes=3)])),
    "reservation": ("ListReservations", pb.ListReservationsReply(reservations=[pb.ReservationInfo(name="r", flags="MAINT,PURGE_COMP=5", users=["ann"])])),
    "licenses": ("ListLicenses", pb.ListLicensesReply(licenses=[pb.LicenseInfo(name="m", total=5, used=2)])),
    "step": ("ListSteps", ListStepsReply(steps=[StepInfo(job_id=4, step_id=0, state="RUNNING", node_list="n[1-2]")])),
    "config": ("ShowConfig", pb.ShowConfigReply(lines=[pb.ConfigLine(key="ClusterName", value="c")])),
}  # fmt: skip


@pytest.mark.parametrize("kind", REPLIES)
def test_documents(monkeypatch, capsys, kind):
    for module in ("cli.control.entities", "cli.control.reservation", "cli.control.showsteps", "cli.control.topology"):
        monkeypatch.setattr(f"{module}.find_cluster", lambda: ClusterFile("c", host="ctl"))
    method, reply = REPLIES[kind]
    FakeClient(**{method: reply}).install(monkeypatch)
    status, out, err = run_body(capsys, "scontrol", body, "show", kind, "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    (one,) = document[{"config": "config", "licenses": "licenses"}.get(kind, f"{kind}s")]
    assert document["meta"]["slurm"]["cluster"] == "c" and document["errors"] == []
    expected = {
        "partition": lambda: (
            one["name"] == "p" and one["maximums"]["time"]["infinite"] and one["maximums"]["nodes"]["number"] == 3
        ),
        "reservation": lambda: one["flags"] == ["MAINT", "PURGE_COMP"] and one["users"] == "ann",
        "licenses": lambda: (one["LicenseName"], one["Free"]) == ("m", 3),
        "step": lambda: one["id"]["step_id"] == "0" and one["nodes"] == {"count": 2, "range": "n[1-2]"},
        "config": lambda: one == {"ClusterName": "c"},
    }
    assert expected[kind](), one
    FakeClient(**{method: reply}).install(monkeypatch)
    status, out, _ = run_body(capsys, "scontrol", body, "--yaml", "show", kind)
    assert status == 0 and yaml.safe_load(out).keys() == document.keys()
