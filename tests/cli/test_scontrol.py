"""scontrol against a controller that answers from a table: records, keywords, updates."""

import io
import json
import os
import re

import pytest
from google.protobuf.json_format import MessageToDict

from cli.control.update import KEYS
from cli.listings.show import ShownReport, job_record, layout
from cli.scontrol import body
from ctld.core.requests import update_keys
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import SALLOC, ExitStatus, GresCount, GresIndices, JobRequest, NodeAllocation
from penstock.values.jobid import format_sluid
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_TIME_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    cluster = ClusterFile("c", host="ctl")
    monkeypatch.setattr("cli.control.ctladmin.find_cluster", lambda: cluster)
    monkeypatch.setattr("cli.control.entities.find_cluster", lambda: cluster)
    monkeypatch.setattr("penstock.cluster.find_cluster", lambda: cluster)
    import time

    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def fake(monkeypatch, **answers):
    return FakeClient(**answers).install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "scontrol", body, *argv)


def fields(request):
    return MessageToDict(request, preserving_proto_field_name=True)


T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20 UTC

JOB = pb.JobInfo(
    job_id=7, state="RUNNING", reason="None", user_id=1000, group_id=100, user_name="ann", group_name="users",
    partition="gpu", priority=4294901757, submit_at_us=T0, eligible_at_us=T0, start_at_us=T0 + 5_000_000,
    end_at_us=T0 + 3_605_000_000, time_limit_s=3600, node_list="n[1-2]", batch_node="n1", cpus=4, nodes=2, tasks=2,
    tres_req="cpu=4,mem=8G,node=2,billing=4,gres/gpu=2", tres_alloc="cpu=4,mem=8G,node=2,billing=4,gres/gpu=2",
    last_sched_at_us=T0 + 5_000_000, mem_mb=4096, std_out=b"/w/slurm-7.out",
    exit=ExitStatus(code=0),
    request=JobRequest(
        name="train", work_dir=b"/w", command="/w/job.sh", submit_host="login", cpus_per_task=2, requeue=True,
        comment="hello world", gres_per_node=[GresCount(name="gpu", type="a100", count=1)],
    ),
    allocation=[
        NodeAllocation(node=n, cpus=2, mem_mb=4096, gres=[GresIndices(name="gpu", type="a100", index=[0, 1])])
        for n in ("n1", "n2")
    ],
)  # fmt: skip

JOB_TEXT = """\
JobId=7 JobName=train
   SLUID=s35AFRG0000007
   UserId=ann(1000) GroupId=users(100) MCS_label=N/A
   Priority=4294901757 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:01:00 TimeLimit=01:00:00 TimeMin=N/A
   SubmitTime=2023-11-14T22:13:20 EligibleTime=2023-11-14T22:13:20
   AccrueTime=2023-11-14T22:13:20
   StartTime=2023-11-14T22:13:25 EndTime=2023-11-14T23:13:25 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2023-11-14T22:13:25 Scheduler=Main
   Partition=gpu AllocNode:Sid=login:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=4,mem=8G,node=2,billing=4,gres/gpu=2
   AllocTRES=cpu=4,mem=8G,node=2,billing=4,gres/gpu=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=2 MinMemoryNode=4G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
   Command=/w/job.sh
   WorkDir=/w
   Comment=hello world
   StdErr=/w/slurm-7.out
   StdIn=/dev/null
   StdOut=/w/slurm-7.out
   TresPerNode=gres/gpu:a100:1
   TresPerTask=cpu=2

"""
NOW = ShownReport(T0 + 65_000_000)


def test_the_record_of_a_job():
    assert layout(job_record(JOB, NOW), one_line=False) == JOB_TEXT


def test_one_line_holds_the_same():
    line = layout(job_record(JOB, NOW), one_line=True)
    assert line.count("\n") == 1
    assert line.split() == JOB_TEXT.split()


def test_details_show_what_is_held():
    record = job_record(JOB, NOW._replace(detail=True))
    assert "DerivedExitCode=0:0" in record
    failed = pb.JobInfo(job_id=1, state="COMPLETED", derived_exit=ExitStatus(code=3))
    assert "DerivedExitCode=3:0" in job_record(failed, NOW._replace(detail=True))
    at = record.index("JOB_GRES=gpu:a100:4")
    assert record[at + 1] == "  Nodes=n[1-2] CPU_IDs=(null) Mem=4096 GRES=gpu:a100:2(IDX:0-1)"


def test_nodes_with_the_same_are_one_line():
    """Neighbours with the same CPUs, memory and devices, as in Slurm; others have a line of their own."""
    held = (("n1", b"\x7f", 5), ("n2", b"\x7f", 5), ("n3", b"\x03", 5), ("n4", b"\x7f", 5))
    places = [NodeAllocation(node=node, cpus=8, mem_mb=mem_mb, cpu_ids=ids) for node, ids, mem_mb in held]
    record = job_record(pb.JobInfo(job_id=1, state="RUNNING", allocation=places), NOW._replace(detail=True))
    at = record.index("JOB_GRES=(null)")
    assert record[at + 1 : at + 4] == [
        "  Nodes=n[1-2] CPU_IDs=0-6 Mem=5 GRES=", "  Nodes=n3 CPU_IDs=0-1 Mem=5 GRES=", "  Nodes=n4 CPU_IDs=0-6 Mem=5 GRES=",
    ]  # fmt: skip


def test_a_pending_array():
    job = pb.JobInfo(
        job_id=9, array_job_id=9, array_tasks="5-99", array_throttle=2, state="PENDING", reason="Priority",
        submit_at_us=T0, time_limit_s=-1, nodes=1, mem_is_per_cpu=True, mem_mb=100, reason_detail="starts soon",
        request=JobRequest(name="a", nodes_min=1, nodes_max=4, exclusive=True, wckey="k"),
    )  # fmt: skip
    text = layout(job_record(job, NOW), one_line=False)
    assert text.startswith("JobId=9 ArrayJobId=9 ArrayTaskId=5-99%2 ArrayTaskThrottle=2 JobName=a\n")
    for part in (
        "RunTime=00:00:00 TimeLimit=UNLIMITED", "StartTime=Unknown EndTime=Unknown", "NodeList=(null)\n   NumNodes=1-4",
        "MinMemoryCPU=100M", "OverSubscribe=NO", "WCKey=k", "Requeue=0", "ReasonDetail=starts soon",
    ):  # fmt: skip
        assert part in text
    assert "BatchHost" not in text
    done = pb.JobInfo(job_id=10, array_job_id=9, array_task_id=0, state="FAILED", exit=ExitStatus(code=3, signal=9))
    assert layout(job_record(done, NOW), one_line=True).startswith("JobId=10 ArrayJobId=9 ArrayTaskId=0 JobName=")
    assert "ExitCode=3:9" in layout(job_record(done, NOW), one_line=True)


@pytest.mark.parametrize(
    ("reason", "detail", "shown"),
    [
        ("Priority", "", "Jobs with a higher priority wait for the same nodes."),
        ("ReqNodeNotAvail", "UnavailableNodes:n2", "UnavailableNodes:n2"),
        (
            "launch failed requeued held",
            "launch failed requeued held",
            "A node refused to start it; it is requeued",
        ),
        ("None", "", None),
        ("AReasonOfALaterVersion", "", None),
    ],
)
def test_a_reason_is_said_in_words(reason, detail, shown):
    record = job_record(pb.JobInfo(job_id=9, state="PENDING", reason=reason, reason_detail=detail), NOW)
    said = [line.partition("=")[2] for line in record if line.startswith("ReasonDetail=")]
    assert (said[0].startswith(shown) if shown else True) and len(said) == bool(shown)


def test_a_begin_time_is_the_start_that_is_expected():
    job = pb.JobInfo(job_id=9, state="PENDING", reason="BeginTime", request=JobRequest(begin_at_us=T0), time_limit_s=-1)
    text = layout(job_record(job, NOW), one_line=False)
    date = NOW.date(T0)
    assert f"EligibleTime={date}\n   AccrueTime={date}\n   StartTime={date} EndTime=Unknown" in text
    job.time_limit_s = 60
    assert f"StartTime={date} EndTime={NOW.date(T0 + 60_000_000)}" in layout(job_record(job, NOW), one_line=False)
    job.state, job.reason = "RUNNING", "None"
    assert date not in layout(job_record(job, NOW), one_line=False)


def shown(**fields):
    return layout(job_record(pb.JobInfo(job_id=9, **fields), NOW), one_line=False)


def test_the_reason_says_which_nodes_are_away():
    text = shown(state="PENDING", reason="ReqNodeNotAvail", reason_detail="UnavailableNodes:n[3-4]")
    assert "Reason=ReqNodeNotAvail,_UnavailableNodes:n[3-4] " in text
    assert "Reason=Resources " in shown(state="PENDING", reason="Resources", reason_detail="needs 4 nodes")


def test_a_job_of_a_closed_partition_is_eligible():
    date = NOW.date(T0)
    assert f"EligibleTime={date}\n   AccrueTime={date}" in shown(
        state="PENDING", reason="PartitionDown", submit_at_us=T0
    )
    assert "EligibleTime=Unknown\n" in shown(state="PENDING", reason="JobHeldUser", submit_at_us=T0)


def test_a_job_that_was_cancelled_before_it_started_keeps_its_reason():
    text = shown(state="CANCELLED", reason="JobHeldUser", submit_at_us=T0, end_at_us=T0 + 60_000_000)
    date = NOW.date(T0 + 60_000_000)
    assert "JobState=CANCELLED Reason=JobHeldUser " in text and f"StartTime={date} EndTime={date}" in text
    assert "ReasonDetail" not in text  # nobody can release it any more


def test_one_task_of_those_that_wait(monkeypatch, capsys):
    record = pb.JobInfo(job_id=9, array_job_id=9, array_tasks="0-9:3", array_throttle=2, state="PENDING")
    fake(monkeypatch, ListJobs=lambda request: [pb.ListJobsReply(jobs=[record])])
    title = "JobId=9 ArrayJobId=9 ArrayTaskId={} ArrayTaskThrottle=2 JobName="
    assert run(capsys, "show", "job", "9_3")[1].startswith(title.format("3"))
    pages = {"9_99": [], "9": [pb.ListJobsReply(jobs=[record])]}
    fake(monkeypatch, ListJobs=lambda request: pages[request.filter.ids[0]])
    assert run(capsys, "show", "job", "9_99") == (1, "Job 9_99 not found\n", "")


def test_show_job_asks_for_all_states(monkeypatch, capsys):
    client = fake(monkeypatch, ListJobs=[pb.ListJobsReply(jobs=[JOB]), pb.ListJobsReply(jobs=[JOB])])
    status, out, err = run(capsys, "show", "job", "7,9_[1-3]", "-do")
    assert (status, err, out.count("\n"), out.count("JOB_GRES")) == (0, "", 2, 2)
    assert fields(client.request) == {
        "filter": {"ids": ["7", "9_[1-3]"]},
        "all_states": True,
        "detail": True,
        "planned": True,
    }
    run(capsys, "SHOW", "Jobs")
    assert fields(client.calls[1][1]) == {"filter": {}, "all_states": True, "planned": True, "hide_hidden": True}


def test_jobs_that_are_not_there(monkeypatch, capsys):
    fake(monkeypatch, ListJobs=[])
    assert run(capsys, "show", "job", "5") == (1, "", "slurm_load_jobs error: Invalid job id specified\n")
    assert run(capsys, "show", "job") == (0, "No jobs in the system\n", "")
    fake(monkeypatch, ListJobs=PenstockError(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID]))
    assert run(capsys, "show", "job", "5") == (1, "", "slurm_load_jobs error: Invalid job id specified\n")
    status, out, err = run(capsys, "show", "job", "abc")
    assert (status, out) == (1, "")
    assert err.startswith("scontrol_print_job error: Invalid job id specified: ") and err.count("\n") == 1
    assert run(capsys, "-Q", "show", "job", "5") == (1, "", "")


NODE = pb.NodeInfo(
    name="n1", hostname="h1", addr="10.0.0.1", base_state="MIXED", flags=["DRAIN", "NO_RESPOND"], reason="bad fan",
    reason_user="ann", reason_at_us=T0, cpus=8, cpus_alloc=2, boards=1, sockets=1, cores_per_socket=4,
    threads_per_core=2, real_memory_mb=16384, mem_alloc_mb=4096, free_memory_mb=9000, gres=[
        GresCount(name="gpu", type="a100", count=4)], gres_used=[GresIndices(name="gpu", type="a100", index=[0, 1])],
    features=["fast", "ib"], partitions=["gpu", "all"], weight=1, version="25.05.0", os="Linux 6.1", arch="x86_64",
    cpu_load_centi=151, boot_at_us=T0, noded_start_at_us=T0, last_busy_at_us=T0, pretended=True,
)  # fmt: skip

NODE_TEXT = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=4 |
   CPUAlloc=2 CPUEfctv=8 CPUTot=8 CPULoad=1.51
   AvailableFeatures=fast,ib
   ActiveFeatures=fast,ib
   Gres=gpu:a100:4
   GresDrain=N/A
   GresUsed=gpu:a100:2(IDX:0-1)
   NodeAddr=10.0.0.1 NodeHostName=h1 Version=25.05.0
   OS=Linux 6.1 |
   RealMemory=16384 AllocMem=4096 FreeMem=9000 Sockets=1 Boards=1
   State=MIXED+DRAIN+NOT_RESPONDING ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,all |
   BootTime=2023-11-14T22:13:20 SlurmdStartTime=2023-11-14T22:13:20
   LastBusyTime=2023-11-14T22:13:20 ResumeAfterTime=None
   CfgTRES=cpu=8,mem=16G,billing=8,gres/gpu=4
   AllocTRES=cpu=2,mem=4G,gres/gpu=2
   CurrentWatts=0 AveWatts=0
   Reason=bad fan [ann@2023-11-14T22:13:20]
   Pretended=YES

""".replace("|", "")


def test_show_node(monkeypatch, capsys):
    client = fake(monkeypatch, ListNodes=pb.ListNodesReply(nodes=[NODE]))
    assert run(capsys, "-d", "show", "node", "n1") == (0, NODE_TEXT, "")
    assert list(client.request.names) == ["n1"]
    status, out, err = run(capsys, "show", "node", "n[1-2]", "-o")
    assert (status, err) == (1, "")
    assert out.startswith("NodeName=n1 ") and out.endswith("\nNode n2 not found\n") and "GresUsed" not in out


def test_what_of_a_node_is_the_systems(monkeypatch, capsys):
    node = pb.NodeInfo()
    node.CopyFrom(NODE)
    node.MergeFrom(pb.NodeInfo(effective_cpus=6, core_spec_count=1, cpu_spec_list="6-7", mem_spec_limit_mb=1000))
    fake(monkeypatch, ListNodes=pb.ListNodesReply(nodes=[node]))
    lines = run(capsys, "show", "node", "n1")[1].splitlines()
    assert "   CPUAlloc=2 CPUEfctv=6 CPUTot=8 CPULoad=1.51" in lines
    after = lines.index("   RealMemory=16384 AllocMem=4096 FreeMem=9000 Sockets=1 Boards=1") + 1
    assert lines[after] == "   CoreSpecCount=1 CPUSpecList=6-7 MemSpecLimit=1000"
    assert "   CfgTRES=cpu=6,mem=16G,billing=6,gres/gpu=4" in lines
    found = json.loads(run(capsys, "show", "node", "n1", "--json")[1])["nodes"][0]
    keys = ("cpus", "effective_cpus", "alloc_idle_cpus", "specialized_cores", "specialized_cpus", "specialized_memory")
    assert [found[key] for key in keys] == [8, 6, 4, 1, "6-7", 1000]


PARTITION = pb.PartitionInfo(
    name="gpu", state="UP", is_default=True, nodes=["n1", "n2"], max_time_s=-1, min_nodes=0, max_nodes=-1,
    total_cpus=16, total_nodes=2, priority_tier=1, priority_job_factor=1, over_subscribe="NO", max_cpus_per_node=-1,
    max_cpus_per_socket=6,
    def_mem_per_cpu_mb=100, allow_accounts=["a", "b"], tres="cpu=16,mem=32G,node=2,billing=16",
)  # fmt: skip

PARTITION_TEXT = """\
PartitionName=gpu
   AllowGroups=ALL AllowAccounts=a,b AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=6
   Nodes=n[1-2]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=16 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerCPU=100 MaxMemPerNode=UNLIMITED
   TRES=cpu=16,mem=32G,node=2,billing=16

"""


def test_show_partition(monkeypatch, capsys):
    hidden = pb.PartitionInfo(name="secret", hidden=True, deny_accounts=["x"], default_time_s=60)
    fake(monkeypatch, ListPartitions=pb.ListPartitionsReply(partitions=[PARTITION, hidden]))
    assert run(capsys, "--hide", "show", "partition") == (0, PARTITION_TEXT, "")
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert run(capsys, "show", "partition") == (0, PARTITION_TEXT, "")
    monkeypatch.setattr("os.getuid", lambda: 0)  # to root nothing is hidden
    assert "PartitionName=secret" in run(capsys, "show", "partition")[1]
    status, out, _ = run(capsys, "--all", "--oneliner", "show", "partition")
    assert (status, out.count("\n")) == (0, 2)
    assert re.search(r"^PartitionName=gpu .*Default=YES ", out)
    assert "DenyAccounts=x" in out and "DefaultTime=00:01:00" in out
    assert "PartitionName=secret" in run(capsys, "show", "part", "secret")[1]
    monkeypatch.setattr("os.getuid", lambda: 1000)
    monkeypatch.setenv("SCONTROL_ALL", "1")
    assert "PartitionName=secret" in run(capsys, "show", "partition")[1]
    assert run(capsys, "show", "partition", "foo") == (1, "Partition foo not found\n", "")


def test_show_config(monkeypatch, capsys):
    lines = [pb.ConfigLine(key="ClusterName", value="c"), pb.ConfigLine(key="Epilog")]
    fake(monkeypatch, ShowConfig=pb.ShowConfigReply(lines=lines, at_us=T0))
    status, out, err = run(capsys, "show", "config")
    assert (status, err) == (0, "")
    assert out == (
        "Configuration data as of 2023-11-14T22:13:20\n"
        "ClusterName             = c\n"
        "Epilog                  = (null)\n"
        "\nSlurmctld(primary) at ctl is UP\n"
    )
    assert dict(re.findall(r"^(\S+) += (.*)$", out, re.MULTILINE)) == {"ClusterName": "c", "Epilog": "(null)"}


def test_hostlists(monkeypatch, capsys, tmp_path):
    assert run(capsys, "show", "hostnames", "n[1-2],m0[8-9]") == (0, "n1\nn2\nm08\nm09\n", "")
    assert run(capsys, "show", "hostlist", "n3,n1,n2,n1") == (0, "n[3,1-2,1]\n", "")
    assert run(capsys, "show", "hostlistsorted", "n3,n1,n2,n1") == (0, "n[1,1-3]\n", "")
    (tmp_path / "hosts").write_text("n1\nn2\n")
    assert run(capsys, "show", "hostlist", str(tmp_path / "hosts")) == (0, "n[1-2]\n", "")
    assert run(capsys, "show", "hostnames") == (1, "", "scontrol: error: host list is empty\n")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert run(capsys, "show", "hostnames") == (0, "n1\nn2\n", "")
    for bad in ("n[1-", "n[1-99999999]", "n[5-1]", "n;rm"):
        status, out, err = run(capsys, "show", "hostnames", bad)
        assert (status, out) == (1, "")
        assert err.startswith("scontrol: error: Invalid hostlist")


def test_show_story(monkeypatch, capsys):
    lines = [pb.StoryLine(at_us=T0, event="submitted"), pb.StoryLine(at_us=T0, attempt=1, event="requeued", detail="x")]
    client = fake(monkeypatch, Story=pb.StoryReply(lines=lines))
    assert run(capsys, "show", "story", "7") == (
        0,
        "2023-11-14T22:13:20 attempt=0 submitted\n2023-11-14T22:13:20 attempt=1 requeued x\n",
        "",
    )
    assert client.request.job_id == 7


Action = pb.ControlJobsRequest.Action


@pytest.mark.parametrize(
    ("keyword", "action"),
    [
        ("hold", Action.HOLD), ("suspend", Action.SUSPEND), ("resume", Action.RESUME),
        ("uhold", Action.USER_HOLD), ("release", Action.RELEASE), ("requeue", Action.REQUEUE),
        ("requeuehold", Action.REQUEUE_HOLD), ("RELEASE", Action.RELEASE), ("req", Action.REQUEUE),
    ],
)  # fmt: skip
def test_control(monkeypatch, capsys, keyword, action):
    client = fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=[pb.JobResult(id="5")]))
    assert run(capsys, keyword, "5", "6,7_[1-2]") == (0, "", "")
    assert client.request.action == action
    assert list(client.request.ids) == ["5", "6", "7_[1-2]"]


@pytest.mark.parametrize("words", [("requeue", "State=SpecialExit"), ("requeuehold", "state=se")])
def test_requeue_as_special_exit(monkeypatch, capsys, words):
    client = fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=[pb.JobResult(id="5")]))
    assert run(capsys, *words, "5") == (0, "", "")
    assert (client.request.action, list(client.request.ids)) == (Action.REQUEUE_SPECIAL, ["5"])
    status, _, said = run(capsys, words[0], "State=Held", "5")
    assert (status, said) == (1, "Invalid job id specified for job State=Held: the only state is SpecialExit\n")


def test_job_ids_may_have_their_word_before_them(monkeypatch, capsys):
    client = fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=[pb.JobResult(id="5")]))
    assert run(capsys, "hold", "jobid=5", "Job=6,7_[1-2]") == (0, "", "")
    assert list(client.request.ids) == ["5", "6", "7_[1-2]"]


def test_control_that_is_refused(monkeypatch, capsys):
    results = [pb.JobResult(id="5", code=2017, text="Invalid job id specified"), pb.JobResult(id="6")]
    fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=results))
    told = "Invalid job id specified for job 5\n"
    again = "slurm_suspend error: Invalid job id specified\n"
    assert run(capsys, "hold", "5", "6") == (1, "", told + again)
    assert run(capsys, "suspend", "5", "6") == (1, "", told)
    status, _, err = run(capsys, "hold", "foo")
    assert status == 1 and err.startswith("Invalid job id specified for job foo: ") and err.endswith(f"\n{again}")
    fake(monkeypatch, ControlJobs=PenstockError(2002, "Access/permission denied"))
    assert run(capsys, "requeue", "5") == (1, "", "slurm_requeue error: Access/permission denied\n")


def test_tasks_of_an_array_are_named_before_slurms_words(monkeypatch, capsys):
    pending, unknown = (Code.JOB_PENDING, "Job is pending execution"), (Code.INVALID_JOB_ID, "Invalid job id specified")
    results = [
        pb.JobResult(id=name, code=code, text=text)
        for name, (code, text) in {"5_[1,3]": pending, "5_9": unknown}.items()
    ]
    fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=results), UpdateJobs=pb.JobResultsReply(results=results))
    told = "5_1,3: Job is pending execution\n5_9: Invalid job id specified\n"
    for words in (
        ["hold", "5_[1,3]"],
        ["suspend", "5_[1,3]"],
        ["requeue", "5_[1,3]"],
        ["update", "jobid=5_9", "nice=1"],
    ):
        assert run(capsys, *words) == (1, "", told)
    fake(monkeypatch, UpdateJobs=PenstockError(Code.INVALID_PARTITION, f"{TEXT[Code.INVALID_PARTITION]}: x"))
    assert run(capsys, "update", "jobid=5_[2-3]", "partition=x") == (
        1,
        "",
        "5_2-3: Invalid partition name specified: x\n",
    )


def test_a_job_that_waits_is_requeued_already(monkeypatch, capsys):
    results = [pb.JobResult(id="5", code=Code.JOB_PENDING, text=TEXT[Code.JOB_PENDING])]
    fake(monkeypatch, ControlJobs=pb.JobResultsReply(results=results))
    assert run(capsys, "requeue", "5") == (0, "", "")
    assert run(capsys, "requeuehold", "5") == (1, "", "Job is pending execution for job 5\n")


@pytest.mark.parametrize(
    ("word", "code", "detail", "expected"),
    [
        ("partition=x", Code.INVALID_PARTITION, "x", "Invalid partition name specified for job 5: x\n"),
        ("timelimit=x", Code.INVALID_VALUE, "timelimit: why", "scontrol: error: Invalid TimeLimit value: why\n"),
        ("numtasks=x", Code.INVALID_VALUE, "numtasks: why", "scontrol: error: Invalid NumTasks value: x: why\n"),
        ("numnodes=x", Code.INVALID_VALUE, "numnodes: why",
         'scontrol: error: Invalid numeric value "x" for requested node count.: why\n'),
        ("burstbuffer=x", Code.NOT_SUPPORTED, "why", "Requested operation not supported on this system for job 5: why\n"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_value(monkeypatch, capsys, word, code, detail, expected):
    fake(monkeypatch, UpdateJobs=PenstockError(code, f"{TEXT[code]}: {detail}"))
    assert run(capsys, "update", "jobid=5", word) == (1, "", expected)


def test_the_job_stands_behind_slurms_words(monkeypatch, capsys):
    text = f"{TEXT[Code.RESERVATION_INVALID]}: nope"
    results = [pb.JobResult(id="5", code=Code.RESERVATION_INVALID, text=text)]
    fake(monkeypatch, UpdateJobs=pb.JobResultsReply(results=results))
    words = ("update", "jobid=5", "reservationname=nope")
    assert run(capsys, *words) == (1, "", "Requested reservation is invalid for job 5: nope\n")


@pytest.mark.parametrize(
    ("words", "method", "expected"),
    [
        (["JobId=5", "TimeLimit=10", "JobName='a b'"], "UpdateJobs",
         {"ids": ["5"], "changes": {"timelimit": "10", "jobname": "a b"}}),
        (["partition=p", "job=5,6_1"], "UpdateJobs", {"ids": ["5", "6_1"], "changes": {"partition": "p"}}),
        (["job", "5", "TimeLimit+=5"], "UpdateJobs", {"ids": ["5"], "changes": {"timelimit": "+5"}}),
        (["job", "5", "ArrayTaskThrottle", "3"], "UpdateJobs", {"ids": ["5"], "changes": {"arraytaskthrottle": "3"}}),
        (["jobid=5", "nice", "Prio=7"], "UpdateJobs", {"ids": ["5"], "changes": {"nice": "100", "priority": "7"}}),
        (["jobid=5", "timel=7", "reqnodel", "n1"], "UpdateJobs", {"ids": ["5"], "changes": {"timelimit": "7", "reqnodelist": "n1"}}),
        (["JOBID=5", "name=x", "comment=a=b"], "UpdateJobs",
         {"ids": ["5"], "changes": {"jobname": "x", "comment": "a=b"}}),
        (["NodeName=n[1-2]", "State=drain", "Reason=bad fan"], "UpdateNodes",
         {"names": "n[1-2]", "changes": {"state": "drain", "reason": "bad fan"}}),
        (["nodename=n1", "state=resume"], "UpdateNodes", {"names": "n1", "changes": {"state": "resume"}}),
        (["PartitionName=p", "State=DOWN"], "UpdatePartition", {"name": "p", "changes": {"state": "DOWN"}}),
    ],
)  # fmt: skip
def test_update(monkeypatch, capsys, words, method, expected):
    client = fake(monkeypatch, UpdateJobs=pb.JobResultsReply(), UpdateNodes=pb.Empty(), UpdatePartition=pb.Empty())
    assert run(capsys, "update", *words) == (0, "", "")
    assert [m for m, _ in client.calls] == [method]
    assert fields(client.request) == expected


@pytest.mark.parametrize(
    ("words", "err"),
    [
        (["foo=1"], "No valid entity in update command\n"),
        (["jobid=4", "foo=bar"], "Update of this parameter is not supported: foo=bar\nRequest aborted\n"),
        (["jobid=4"], "No changes specified\n"),
        (["jobid=4", "foo"], "Invalid input: foo\nRequest aborted\n"),
        (["jobid=abc", "timelimit=5"], "Invalid job id specified for job abc: "),
        (["jobid=4", "userid=ann"], "No changes specified\n"),
        (["nodename=n1", "state=drain"], "You must specify a reason when DOWNING or DRAINING a node. Request denied\n"),
        (["nodename=n1", "state=foo"], "Invalid input: state=foo\nRequest aborted\nValid states are: "),
        ([], "too few arguments for update keyword\n"),
    ],
)
def test_updates_that_are_refused_here(monkeypatch, capsys, words, err):
    client = fake(monkeypatch)
    status, out, shown = run(capsys, "update", *words)
    assert (status, out, client.calls) == (1, "", [])
    assert shown.startswith(err)


def test_an_update_that_is_refused_there(monkeypatch, capsys):
    fake(monkeypatch, UpdateNodes=PenstockError(Code.INVALID_NODE_NAME, TEXT[Code.INVALID_NODE_NAME]))
    words = ["update", "nodename=n1", "state=resume"]
    assert run(capsys, *words) == (1, "", "slurm_update error: Invalid node name specified\n")


def test_a_job_by_its_sluid(monkeypatch, capsys):
    sluid = format_sluid(1_700_000_000_000_000, 5)
    found = pb.ListJobsReply(jobs=[pb.JobInfo(job_id=5)])
    script = pb.GetBatchScriptReply(script=b"#!/bin/sh\n")
    client = fake(monkeypatch, ListJobs=[found], GetBatchScript=script)
    assert run(capsys, "write", "batch_script", sluid, "-") == (0, "#!/bin/sh\n", "")
    assert client.calls[-1][1].job_id == 5
    client = fake(monkeypatch, ListJobs=[pb.ListJobsReply()], GetBatchScript=script)
    assert run(capsys, "write", "batch_script", sluid, "-") == (
        1, "", "job script retrieval failed: Invalid job id specified\n",
    )  # fmt: skip
    assert [name for name, _ in client.calls] == ["ListJobs"]


def test_write_batch_script(monkeypatch, capsys, tmp_path):
    script = b"#!/bin/sh\n\xff\n"
    fake(monkeypatch, GetBatchScript=pb.GetBatchScriptReply(script=script))
    shown = "batch script for job 5 written to slurm-5.sh\n"
    assert run(capsys, "write", "batch_script", "5") == (0, shown, "")
    assert (tmp_path / "slurm-5.sh").read_bytes() == script
    assert run(capsys, "write", "batch_script", "5", "x.sh")[0] == 0
    assert (tmp_path / "x.sh").read_bytes() == script


def test_write_to_stdout_is_byte_exact(monkeypatch):
    fake(monkeypatch, GetBatchScript=pb.GetBatchScriptReply(script=b"#!/bin/sh\n\xff\n"))
    import io
    import sys

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw))
    assert body(["write", "batch_script", "5", "-"]) == 0
    assert raw.getvalue() == b"#!/bin/sh\n\xff\n"


def test_ping(monkeypatch, capsys):
    fake(monkeypatch, Ping=pb.PingReply(controller_host="ctl1"))
    assert run(capsys, "ping") == (0, "Slurmctld(primary) at ctl1 is UP\n", "")
    fake(monkeypatch, Ping=Unreachable())
    status, out, err = run(capsys, "ping")
    assert (status, err) == (1, "")
    assert out.startswith("Slurmctld(primary) at ctl is DOWN\n****")


def test_reconfigure_and_shutdown(monkeypatch, capsys):
    client = fake(monkeypatch, Reconfigure=pb.ReconfigureReply(warnings=["odd key"]), Shutdown=pb.Empty())
    assert run(capsys, "reconfigure") == (0, "", "scontrol: warning: odd key\n")
    assert run(capsys, "shutdown") == (0, "", "")
    assert run(capsys, "shutdown", "foo") == (1, "", "invalid shutdown argument:foo\n")
    assert [method for method, _ in client.calls] == ["Reconfigure", "Shutdown"]
    fake(monkeypatch, Reconfigure=PenstockError(Code.CONFIG_INVALID, "slurm.conf:3: unknown key"))
    assert run(capsys, "reconfigure") == (1, "", "slurm_reconfigure error: slurm.conf:3: unknown key\n")


def test_completing_and_listjobs(monkeypatch, capsys):
    job = pb.JobInfo(job_id=7, end_at_us=T0, node_list="n1")
    client = fake(monkeypatch, ListJobs=[pb.ListJobsReply(jobs=[job])])
    status, out, _ = run(capsys, "completing")
    assert status == 0
    assert re.fullmatch(r"JobId=7 EndTime=2023-11-14T22:13:20 CompletingTime=[-0-9:]+ Nodes\(COMPLETING\)=n1\n", out)
    assert fields(client.calls[0][1]) == {"filter": {"states": ["COMPLETING"]}}
    assert run(capsys, "listjobs", "n1") == (0, "JOBID\n7\n", "")
    fake(monkeypatch, ListJobs=[])
    assert run(capsys, "listjobs", "n1") == (1, "", "No slurm jobs found on node n1\n")


@pytest.mark.parametrize(
    ("argv", "status", "out", "err"),
    [
        (["version"], 0, "slurm 25.05.0\n", ""),
        (["-V"], 0, "slurm 25.05.0\n", ""),
        (["errnumstr", "2000"], 0, "Invalid partition name specified\n", ""),
        (["errnumstr", "99999"], 0, "Unknown error 99999\n", ""),
        (["errnumstr", "foo"], 1, "", "numeric arguments required for keyword:errnumstr\n"),
        (["foo"], 1, "", "invalid keyword: foo\n"),
        (["s"], 1, "", "invalid keyword: s\n"),
        (["show"], 1, "", "too few arguments for keyword:show\n"),
        (["show", "foo"], 1, "", "invalid entity:foo for keyword:show \n"),
        (["takeover"], 1, "", "slurm_takeover error: Requested operation not supported on this system\n"),
        (["takeover", "x"], 1, "", "takeover: invalid backup controller index (0)\n"),
        (["abort"], 1, "", "slurm_shutdown error: Requested operation not supported on this system\n"),
        (["power"], 1, "", "too few arguments for keyword:power\n"),
        (["power", "up"], 1, "", "Missing node list. Specify ALL|<NodeList>\n"),
        (["power", "sideways", "n1"], 1, "", "Invalid power argument: sideways\n"),
        (["reboot", "foo=1"], 1, "", "Invalid reboot parameter: foo=1\n"),
        (["reboot", "asap"], 1, "", "Missing node list. Specify ALL|<NodeList>\n"),
        (["reboot", "nextstate=IDLE", "n1"], 1, "", "Invalid state: IDLE\n"),
        (["token", "x"], 1, "", "Invalid option: `x`\n"),
        (["token", "lifespan=foo"], 1, "", "Invalid lifespan: "),
        (["setdebug", "foo"], 1, "", "invalid debug level: foo\n"),
        (["setdebug", "12"], 1, "", "invalid debug level: 12\n"),
        (["setdebug"], 1, "", "too few arguments for keyword:setdebug\n"),
        (["setdebugflags", "foo"], 1, "", "invalid debug flag: foo\nUsage: setdebugflags [+|-]NAME\n"),
        (
            ["setdebugflags", "nodes=n1"],
            1,
            "",
            "invalid option: nodes=n1\nUsage: setdebugflags [+|-]NAME [nodes=NODES]\n",
        ),
        (
            ["setdebugflags", "+steps", "nodes="],
            1,
            "",
            "invalid option: nodes=\nUsage: setdebugflags [+|-]NAME [nodes=NODES]\n",
        ),
        (["setdebugflags", ","], 1, "", "invalid debug flag: \nUsage: setdebugflags [+|-]NAME\n"),
        (["schedloglevel", "foo"], 1, "", "invalid schedlog level: foo\n"),
        (["fsdampeningfactor", "x"], 1, "", "invalid dampening factor: x\n"),
        (["wait_job", "x"], 1, "", "Invalid job_id x\n"),
        (["create", "foo"], 1, "", "scontrol: error: Invalid creation entity: foo\n"),
        (
            ["delete", "foo"],
            1,
            "",
            "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'\n",
        ),
        (["delete", "foo=x"], 1, "", "Invalid deletion entity: foo=x\n"),
        (["create", "partitionname=x", "nodes"], 1, "", "scontrol: error: Invalid input: nodes  Request aborted\n"),
        (["create", "partition"], 1, "", "scontrol: error: Invalid input: partition  Request aborted\n"),
        (["errnumstr", "2075"], 0, "Partition is in use\n", ""),
        (["errnumstr", "0"], 0, "No error\n", ""),
        (["show", "federation"], 0, "", ""),
        (["show", "burstbuffer"], 0, "", ""),
        (["oneliner"], 0, "", ""),
        (["-M", "elsewhere", "ping"], 1, "", "scontrol: error: No cluster 'elsewhere' known by database.\n"),
        (["-u", "no such user", "ping"], 1, "", 'scontrol: error: --uid="no such user" invalid\n'),
        (["suspend"], 1, "", "too few arguments for keyword:suspend\n"),
        (["write", "foo"], 1, "", "invalid write argument:foo\n"),
        (["hold"], 1, "", "too few arguments for keyword:hold\n"),
        (["ping", "x"], 1, "", "too many arguments for keyword:ping\n"),
        (
            ["--json", "show", "hostnames"],
            1,
            "",
            "scontrol: error: show hostnames has no --json and no --yaml\n",
        ),
        (["show", "story", "x"], 1, "", "Invalid job id specified\n"),
    ],
)
def test_keywords(monkeypatch, capsys, argv, status, out, err):
    client = fake(monkeypatch)
    got = run(capsys, *argv)
    assert got[:2] == (status, out)
    assert got[2].startswith(err) and bool(err) == bool(got[2])
    assert client.calls == []


def test_lines_are_read_until_the_end(monkeypatch, capsys):
    """`!!` is the last line again; a line that fails is reported, and counts for the exit status."""
    client = fake(monkeypatch, UpdateNodes=pb.Empty())
    text = 'version\n!!\n\nupdate nodename=n1 state=drain reason="two words"\nfrob\n"\nexit now\nexit\nversion\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    status, out, err = run(capsys)
    assert status == 1
    assert out.count("slurm 25.05.0\n") == 2 and out.count("scontrol: ") == 8
    assert "invalid keyword: frob\n" in err and "No closing quotation" in err
    assert "too many arguments for keyword:exit\n" in err
    assert fields(client.request)["changes"] == {"state": "drain", "reason": "two words"}
    monkeypatch.setattr("sys.stdin", io.StringIO("oneliner\nversion"))
    assert run(capsys) == (0, "scontrol: scontrol: slurm 25.05.0\nscontrol: \n", "")


def test_times_follow_the_users_wish(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%Y")
    fake(monkeypatch, ListJobs=[pb.ListJobsReply(jobs=[JOB])])
    assert "SubmitTime=2023 EligibleTime=2023\n" in run(capsys, "show", "job", "7")[1]
    assert os.environ["SLURM_TIME_FORMAT"] == "%Y"


def test_an_allocation_has_no_script(monkeypatch, capsys):
    job = pb.JobInfo()
    job.CopyFrom(JOB)
    job.request.kind = SALLOC
    job.request.command = ""
    job.request.cpus_per_gpu, job.request.mem_per_gpu_mb = 4, 1024
    job.request.gres_per_job.add(name="gpu", count=2)
    job.request.gres_per_task.add(name="gpu", count=1)
    fake(monkeypatch, ListJobs=[pb.ListJobsReply(jobs=[job])])
    text = run(capsys, "show", "job", "7")[1]
    assert "BatchFlag=0" in text and "Partition=gpu AllocNode:Sid=login:0\n" in text
    assert "   Command=(null)\n   WorkDir=/w\n" in text and "Std" not in text
    asked = "   CpusPerTres=gres/gpu:4\n   MemPerTres=gres/gpu:1024\n   TresPerJob=gres/gpu:2\n   TresPerTask=cpu=2,gres/gpu=1\n"
    assert asked in text and "TresPerNode" not in text


def test_keys_of_update_are_those_of_the_controller() -> None:
    """A key stands in two tables: what the command takes, and what the controller does with it."""
    elsewhere = {
        "eligibletime",
        "name",
        "newwckey",
        "derivedexitcode",
        "steptimelimit",
    }  # other spellings; sacctmgr; StepId=
    no_effect = {"mcslabel", "burstbuffer"}  # taken here, refused there
    there, here = set(update_keys.KEYS) - elsewhere, set(KEYS["job"]) - no_effect
    assert there == here, (
        f"{sorted(there ^ here)}: cli/control/update.py (KEYS), ctld/core/requests/update_keys.py (KEYS)"
    )


def test_an_update_by_a_name_that_no_job_has(monkeypatch, capsys):
    fake(monkeypatch, UpdateJobs=PenstockError(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID]))
    words = "scontrol: error: No jobs with "
    assert run(capsys, "update", "jobname=x", "nice=5", "userid=1000") == (1, "", f"{words}user ID 1000 and name 'x'\n")
    monkeypatch.setattr("os.getuid", lambda: 0)
    assert run(capsys, "update", "jobname=x", "nice=5") == (1, "", f"{words}name 'x'\n")
