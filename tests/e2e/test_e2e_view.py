"""Nodes, GPUs and multi-node jobs as users and administrators see them: squeue, sinfo, sacct, scontrol."""

import os
import re
import time

import pytest
from livecluster import LiveCluster, load_json, shown

HOLD_ON = "while [ ! -e {gate} ]; do sleep 0.05; done"


# ---- several nodes -------------------------------------------------------------------------------------------------


def test_multi_node_job_runs_its_script_on_the_first_node(cluster: LiveCluster) -> None:
    text = (
        "echo $SLURMD_NODENAME $SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_NTASKS $SLURM_JOB_CPUS_PER_NODE "
        "$SLURM_TASKS_PER_NODE"
    )
    job_id = cluster.sbatch("-N", "3", "--ntasks-per-node=2", "-w", "n[1-3]", "-o", "multi.txt", "--wrap", text)
    job = cluster.wait_state(job_id, "COMPLETED")
    assert (cluster.work / "multi.txt").read_text() == "n1 n[1-3] 3 6 2(x3) 2(x3)\n"
    assert (job.node_list, job.batch_node, job.nodes, job.cpus) == ("n[1-3]", "n1", 3, 6)
    row = cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", "NNodes,NCPUS,NodeList").ok().out
    assert row == "3|6|n[1-3]\n"


def test_multi_node_is_all_or_nothing(cluster: LiveCluster) -> None:
    blocker = cluster.sbatch("-w", "n4", "--exclusive", "-o", "/dev/null", "--wrap", HOLD_ON.format(gate="all-gate"))
    cluster.wait_state(blocker, "RUNNING")
    wide = cluster.sbatch("-N", "4", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(lambda: cluster.job(wide).reason == "Resources", "it waits", show=lambda: shown(cluster.job(wide)))
    assert [cluster.node(n).cpus_alloc for n in ("n1", "n2", "n3")] == [0, 0, 0]
    (cluster.work / "all-gate").touch()
    cluster.wait_ends(blocker, wide)
    assert cluster.job(wide).node_list == "n[1-4]"


def test_features_and_exclusion_choose_nodes(cluster: LiveCluster) -> None:
    new = cluster.sbatch("-C", "new&big", "-o", "/dev/null", "--wrap", "true")
    old = cluster.sbatch("-C", "old", "-x", "n1", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_ends(new, old)
    assert (cluster.job(new).node_list, cluster.job(old).node_list) == ("n4", "n2")


# ---- GPUs ----------------------------------------------------------------------------------------------------------


def test_gpus_of_concurrent_jobs_are_distinct(cluster: LiveCluster) -> None:
    text = "echo $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE; " + HOLD_ON.format(gate="gpu-gate")
    ids = [cluster.sbatch("-w", "n1", f"--gres=gpu:{n}", "-o", "gpu-%j.txt", "--wrap", text) for n in (1, 2, 1)]
    for job_id in ids:
        cluster.wait_text(cluster.work / f"gpu-{job_id}.txt", "\n")
    none = cluster.sbatch("-w", "n1", "-o", "no-gpu.txt", "--wrap", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"')
    cluster.wait_state(none, "COMPLETED")
    assert (cluster.work / "no-gpu.txt").read_text() == "[]\n"
    fifth = cluster.sbatch("-w", "n1", "--gpus-per-node=h200:1", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(
        lambda: cluster.job(fifth).reason == "Resources", "no GPU is left", show=lambda: shown(cluster.job(fifth))
    )
    held: list[str] = []
    for job_id, count in zip(ids, (1, 2, 1), strict=True):
        devices, number = (cluster.work / f"gpu-{job_id}.txt").read_text().split()
        assert (len(devices.split(",")), int(number)) == (count, count)
        held += devices.split(",")
    assert sorted(held) == ["0", "1", "2", "3"]
    used = cluster.run("sinfo", "-h", "-N", "-n", "n1", "-p", "main", "-O", "GresUsed:40").ok().out
    assert used.startswith("gpu:h200:4"), used
    detail = cluster.run("scontrol", "-d", "show", "job", str(ids[1])).ok().out
    assert re.search(r"GRES=gpu:h200:2\(IDX:\d", detail), detail
    (cluster.work / "gpu-gate").touch()
    cluster.wait_ends(*ids, fifth)
    assert cluster.job(fifth).state == "COMPLETED"
    tres = cluster.run("sacct", "-nXP", "-j", str(ids[1]), "-o", "AllocTRES").ok().out
    assert "gres/gpu=2" in tres


# ---- node states ---------------------------------------------------------------------------------------------------


def test_drain_lets_jobs_end_and_resume_takes_new_ones(cluster: LiveCluster) -> None:
    running = cluster.sbatch("-w", "n3", "-o", "/dev/null", "--wrap", HOLD_ON.format(gate="drain-gate"))
    cluster.wait_state(running, "RUNNING")
    cluster.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=a test").ok()
    waiting = cluster.sbatch("-w", "n3", "-o", "/dev/null", "--wrap", "true")
    assert cluster.run("sinfo", "-hN", "-n", "n3", "-p", "main", "-o", "%N %T").ok().out == "n3 draining\n"
    assert re.match(r"a test +\S+ +\S+ n3\n", cluster.run("sinfo", "-hR").ok().out)
    (cluster.work / "drain-gate").touch()
    cluster.wait_state(running, "COMPLETED")
    assert cluster.run("sinfo", "-hN", "-n", "n3", "-p", "main", "-o", "%N %t").ok().out == "n3 drain\n"
    marker = cluster.sbatch("-w", "n4", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(marker, "COMPLETED")
    assert cluster.job(waiting).state == "PENDING"
    cluster.run("scontrol", "update", "NodeName=n3", "State=RESUME").ok()
    cluster.wait_state(waiting, "COMPLETED")
    assert cluster.run("sinfo", "-hN", "-n", "n3", "-p", "main", "-o", "%t").ok().out == "idle\n"
    done = cluster.run("scontrol", "update", "NodeName=n3", "State=DRAIN")
    assert done.status == 1 and "eason" in done.err  # a drain says why
    assert cluster.run("scontrol", "update", "NodeName=n99", "State=RESUME").status == 1


def test_partition_down_keeps_jobs_waiting(cluster: LiveCluster) -> None:
    cluster.run("scontrol", "update", "PartitionName=short", "State=DOWN").ok()
    try:
        job_id = cluster.sbatch("-p", "short", "-o", "/dev/null", "--wrap", "true")
        marker = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
        cluster.wait_state(marker, "COMPLETED")
        assert (cluster.job(job_id).state, cluster.job(job_id).reason) == ("PENDING", "PartitionDown")
    finally:
        cluster.run("scontrol", "update", "PartitionName=short", "State=UP").ok()
    cluster.wait_state(job_id, "COMPLETED")


# ---- the commands' output ------------------------------------------------------------------------------------------


def test_squeue(cluster: LiveCluster) -> None:
    running = cluster.sbatch("-J", "runner", "-w", "n2", "-c", "2", "-o", "/dev/null", "--wrap", "exec sleep 300")
    held = cluster.sbatch("-J", "holder", "--hold", "-p", "short", "--wrap", "true")
    ended = cluster.sbatch("-J", "ender", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(running, "RUNNING")
    cluster.wait_state(ended, "COMPLETED")
    lines = cluster.run("squeue").ok().out.splitlines()
    assert lines[0] == "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    assert {line.split()[0] for line in lines[1:]} == {str(running), str(held)}
    assert re.fullmatch(
        rf" +{running} +main +runner +\S+ +R +0:\d\d +1 n2", next(x for x in lines if x.split()[0] == str(running))
    )
    assert next(x for x in lines if x.split()[0] == str(held)).endswith("(JobHeldUser)")
    form = cluster.run(
        "squeue", "-h", "-t", "all", "-S", "i", "-j", f"{running},{held},{ended}", "-o", "%i|%t|%C|%N"
    ).ok()
    assert form.out == f"{running}|R|2|n2\n{held}|PD|1|\n{ended}|CD|1|{cluster.job(ended).node_list}\n"
    assert cluster.run("squeue", "-h", "-n", "holder", "--me", "-o", "%i").ok().out == f"{held}\n"
    assert cluster.run("squeue", "-h", "-p", "short", "-w", "n1", "-o", "%i").ok().out == ""
    jobs = load_json(cluster.run("squeue", "--json", "-j", str(running)))["jobs"]
    assert [(j["job_id"], j["job_state"]) for j in jobs] == [(running, ["RUNNING"])]
    unknown = cluster.run("squeue", "-j", "99999999")
    assert (unknown.status, unknown.err) == (1, "slurm_load_jobs error: Invalid job id specified\n")


def test_sinfo(cluster: LiveCluster) -> None:
    lines = cluster.run("sinfo").ok().out.splitlines()
    assert lines[0].split() == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    assert [line.split() for line in lines[1:]] == [
        ["main*", "up", "infinite", "4", "idle", "n[1-4]"],
        ["short", "up", "10:00", "2", "idle", "n[1-2]"],
    ]
    assert cluster.run("sinfo", "-h", "-o", "%P|%C|%G", "-p", "short").ok().out == "short|0/32/0/32|gpu:h200:4\n"
    nodes = cluster.run("sinfo", "-hN", "-p", "main", "-o", "%N %c %m %f").ok().out.splitlines()
    found = "gpu_h200,gpu_cc_9.0,gpu_mem_140g"  # what the nodes say of their GPUs
    assert nodes == [f"n{i} 16 16000 {words},{found}" for i, words in enumerate(("old", "old", "new", "new,big"), 1)]
    assert cluster.run("sinfo", "-s").ok().out.splitlines()[1].split() == [
        "main*",
        "up",
        "infinite",
        "0/4/0/4",
        "n[1-4]",
    ]


def test_sacct(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-J", "account", "-w", "n1", "-c", "4", "-t", "5", "-o", "/dev/null", "--wrap", "exit 2")
    job = cluster.wait_state(job_id, "FAILED")
    lines = cluster.run("sacct", "-j", str(job_id)).ok().out.splitlines()
    assert lines[0].split() == ["JobID", "JobName", "Partition", "Account", "AllocCPUS", "State", "ExitCode"]
    charged = ["root"] if os.geteuid() == 0 else []  # other users have no default account here
    assert lines[2].split() == [str(job_id), "account", "main", *charged, "4", "FAILED", "2:0"]
    assert lines[3].split() == [f"{job_id}.batch", "batch", *charged, "4", "FAILED", "2:0"]
    fields = "JobID,User,Submit,Start,End,ElapsedRaw,TimelimitRaw,NodeList,ReqCPUS"
    row = cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", fields).ok().out.strip().split("|")
    local = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(t // 1_000_000))
             for t in (job.submit_at_us, job.start_at_us, job.end_at_us)]  # fmt: skip
    assert row[0:5] == [str(job_id), job.user_name, *local] and row[6:] == ["5", "n1", "4"]
    assert cluster.run("sacct", "-nXP", "--name", "account", "-S", "now-1hour", "-E", "now", "-s", "F", "-o",
                       "JobIDRaw").ok().out.split()[-1] == str(job_id)  # fmt: skip
    assert cluster.run("sacct", "-nX", "-S", "2001-01-01", "-E", "2001-01-02").ok().out == ""


def test_scontrol_show(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-J", "shown", "--hold", "-c", "2", "--mem=50", "-t", "1:00:00", "--wrap", "true")
    text = cluster.run("scontrol", "show", "job", str(job_id)).ok().out
    pairs = dict(re.findall(r"(\S+?)=(\S*)", text))
    wanted = {"JobId": str(job_id), "JobName": "shown", "JobState": "PENDING", "Reason": "JobHeldUser", "Priority": "0",
              "TimeLimit": "01:00:00", "NumCPUs": "2", "Partition": "main", "WorkDir": str(cluster.work), "Restarts": "0",
              "StdOut": f"{cluster.work}/slurm-{job_id}.out", "StartTime": "Unknown"}  # fmt: skip
    assert {k: pairs.get(k) for k in wanted} == wanted
    one = cluster.run("scontrol", "-o", "show", "job", str(job_id)).ok().out
    assert one.count("\n") == 1 and f"JobId={job_id} " in one
    node = cluster.run("scontrol", "show", "node", "n4").ok().out
    assert re.search(r"NodeName=n4 .*\n.*CPUAlloc=0.*CPUTot=16", node) and "State=IDLE" in node
    assert "RealMemory=16000" in node and "Gres=gpu:h200:4" in node and "AvailableFeatures=new,big" in node
    partition = cluster.run("scontrol", "-o", "show", "partition", "main").ok().out
    assert partition.startswith("PartitionName=main ") and " Default=YES " in partition
    config = dict(re.findall(r"^(\S+) += (.*)$", cluster.run("scontrol", "show", "config").ok().out, re.M))
    assert config["ClusterName"] == "e2e" and config["KillWait"].startswith("1 ")
    names = cluster.run("scontrol", "show", "hostnames", "n[1-2],m07").ok().out
    assert names == "n1\nn2\nm07\n"
    assert cluster.run("scontrol", "show", "hostlist", "n1,n2,n4").ok().out == "n[1-2,4]\n"
    for entity in ("job", "node", "partition"):
        done = cluster.run("scontrol", "show", entity, "99999999")
        assert done.status == 1 and (done.err + done.out) and "Traceback" not in done.err


def test_scontrol_ping_story_and_script(cluster: LiveCluster) -> None:
    assert re.fullmatch(r"Slurmctld\(primary\) at \S+ is UP\n", cluster.run("scontrol", "ping").ok().out)
    script = b"#!/bin/sh\n# byte \xff exact\nexit 0\n"
    job_id = cluster.sbatch("-o", "/dev/null", stdin=script)
    cluster.wait_state(job_id, "COMPLETED")
    assert cluster.run("scontrol", "write", "batch_script", str(job_id), "-").ok().stdout == script
    story = cluster.run("scontrol", "show", "story", str(job_id)).ok().out
    assert len(story.splitlines()) >= 3 and "COMPLETED" in story.upper()


@pytest.mark.parametrize("name", ["squeue", "sinfo", "sacct", "scancel", "scontrol", "sbatch"])
def test_unknown_options_are_refused(cluster: LiveCluster, name: str) -> None:
    done = cluster.run(name, "--no-such-thing")
    assert done.status == (255 if name == "sbatch" else 1) and done.out == ""
    assert f"{name}: unrecognized option '--no-such-thing'" in done.err and "Traceback" not in done.err
