"""Allocations and steps on real clusters: salloc, sattach, sbcast, sstat, and what the other commands say of steps."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from livecluster import LiveCluster, command
from patience import ANSWER_S

from penstock.v1 import steps_pb2 as s
from penstock.values.taskset import TaskSet

#: In scripts and commands: srun as it is run from this tree.
SRUN = f"{sys.executable} -P -m cli.srun"
HOLD_ON = "while [ ! -e {gate} ]; do sleep 0.05; done"
#: A task that says that it is there and then waits for a file.
WAITING = "echo ready $SLURM_PROCID; " + HOLD_ON


def start(cluster: LiveCluster, name: str, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(name, *words), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cluster.work,
        env=cluster.environment(),
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=ANSWER_S)
    return process.returncode, out.decode(), err.decode()


def last_job(cluster: LiveCluster) -> int:
    return max(job.job_id for job in cluster.jobs())


def steps(cluster: LiveCluster, job_id: int) -> list[s.StepInfo]:
    return list(cluster.call("ListSteps", s.ListStepsRequest(ids=[str(job_id)])).steps)


def live_step(cluster: LiveCluster, job_id: int, step_id: int = 0) -> s.StepInfo:
    """Wait until a step of srun runs."""

    def look() -> s.StepInfo | None:
        found = [step for step in steps(cluster, job_id) if step.step_id == step_id]
        return found[0] if found and found[0].state == "RUNNING" else None

    step = cluster.wait(look, f"step {job_id}.{step_id} runs", show=lambda: [x.state for x in steps(cluster, job_id)])
    assert step is not None
    return step


def gate(cluster: LiveCluster, name: str) -> Path:
    path = cluster.work / name
    path.unlink(missing_ok=True)
    return path


@pytest.fixture
def batch(cluster: LiveCluster) -> int:
    """A batch job on two nodes whose script has one step of four tasks, which waits for `batch-gate`."""
    gate(cluster, "batch-gate")
    inner = WAITING.format(gate="batch-gate")
    script = f"#!/bin/sh\n{SRUN} --ntasks-per-node=2 sh -c '{inner}; echo bye; exit 3'\n"
    path = cluster.script("stepped.sh", script)
    job_id = cluster.sbatch("-N2", "--ntasks-per-node=2", "--mem=500", "-o", "stepped.txt", str(path))
    live_step(cluster, job_id)
    return job_id


# ---- salloc --------------------------------------------------------------------------------------------------------


def test_a_command_with_steps_in_an_allocation(cluster: LiveCluster) -> None:
    script = f"echo $SLURM_NNODES $SLURM_JOB_NAME; {SRUN} --label -N2 hostname >hosts; exit 5"
    done = cluster.run("salloc", "-N2", "--mem=100", "-J", "mine", "sh", "-c", script)
    job_id = last_job(cluster)
    assert (done.status, done.out) == (5, "2 mine\n")
    assert done.err == f"salloc: Granted job allocation {job_id}\nsalloc: Relinquishing job allocation {job_id}\n"
    assert sorted(line[:3] for line in (cluster.work / "hosts").read_text().splitlines()) == ["0: ", "1: "]
    (job,) = cluster.wait_ends(job_id)
    assert (job.state, job.exit.code) == ("FAILED", 5)
    rows = cluster.run("sacct", "-nPj", str(job_id), "-o", "JobID,JobName,NNodes,State,ExitCode").ok().out.splitlines()
    assert rows == [f"{job_id}|mine|2|FAILED|5:0", f"{job_id}.0|hostname|2|COMPLETED|0:0"]


def test_the_record_of_an_allocation(cluster: LiveCluster) -> None:
    words = ["-m", "cli.scontrol", "show", "job"]
    script = f"{sys.executable} -P {' '.join(words)} $SLURM_JOB_ID; {sys.executable} -P -m cli.scontrol show hostnames"
    out = cluster.run("salloc", "-N2", "--mem=100", "sh", "-c", script).out
    assert "BatchFlag=0" in out and "Command=(null)" in out and "StdOut=" not in out
    assert len(out.splitlines()[-2:]) == 2 and set(out.splitlines()[-2:]) <= set(cluster.node_names)


def test_a_time_limit_takes_the_allocation(cluster: LiveCluster) -> None:
    process = start(cluster, "salloc", "--mem=100", "-t1", "sh", "-c", "echo runs; exec sleep 600")
    assert process.stdout is not None and process.stdout.readline() == b"runs\n"
    job_id = last_job(cluster)
    cluster.limit_now(job_id)
    status, _, err = finish(process)
    assert status == 128 + signal.SIGTERM
    assert f"salloc: Job {job_id} has exceeded its time limit and its allocation has been revoked.\n" in err
    assert "Relinquishing" not in err
    assert cluster.wait_ends(job_id)[0].state == "TIMEOUT"


def test_scancel_takes_the_allocation(cluster: LiveCluster) -> None:
    process = start(cluster, "salloc", "--mem=100", "sh", "-c", "echo runs; exec sleep 600")
    assert process.stdout is not None and process.stdout.readline() == b"runs\n"
    job_id = last_job(cluster)
    cluster.run("scancel", str(job_id)).ok()
    status, _, err = finish(process)
    assert (status, err.splitlines()[-1]) == (143, f"salloc: Job allocation {job_id} has been revoked.")


def test_ctrl_c_while_it_waits_cancels_the_job(cluster: LiveCluster) -> None:
    process = start(cluster, "salloc", "--begin=now+1hour", "true")
    assert process.stderr is not None
    first = process.stderr.readline().decode()
    job_id = last_job(cluster)
    assert first == f"salloc: Pending job allocation {job_id}\n"
    assert process.stderr.readline().decode() == f"salloc: job {job_id} queued and waiting for resources\n"
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    assert status == 1
    assert err == f"salloc: Job allocation {job_id} has been revoked.\nsalloc: Job aborted due to signal\n"
    assert cluster.wait_ends(job_id)[0].state == "CANCELLED"


def test_an_allocation_without_a_shell(cluster: LiveCluster) -> None:
    done = cluster.run("salloc", "--no-shell", "--mem=100")
    job_id = last_job(cluster)
    assert (done.status, done.out) == (0, "") and done.err.startswith(f"salloc: Granted job allocation {job_id}\n")
    assert cluster.run("srun", f"--jobid={job_id}", "echo", "inside").ok().out == "inside\n"
    assert cluster.job(job_id).state == "RUNNING"
    cluster.run("scancel", str(job_id)).ok()
    assert cluster.wait_ends(job_id)[0].state == "CANCELLED"


def test_it_does_not_wait_if_told_not_to(cluster: LiveCluster) -> None:
    blocker = cluster.sbatch("-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    cluster.wait_state(blocker, "RUNNING")
    done = cluster.run("salloc", "-I", "--mem=100", "true")
    assert (done.status, done.err) == (
        1,
        "salloc: error: Unable to allocate resources: Requested nodes are busy\n",
    )
    assert [job.job_id for job in cluster.active()] == [blocker]


# ---- steps of a job, from elsewhere --------------------------------------------------------------------------------


def test_commands_speak_of_steps(cluster: LiveCluster, batch: int) -> None:
    nodes = cluster.job(batch).node_list
    listed = cluster.run("squeue", "-hs", "-j", str(batch), "-o", "%i|%j|%A|%N").ok().out.splitlines()
    assert listed == [f"{batch}.0|sh|4|{nodes}", f"{batch}.batch|batch|1|{cluster.job(batch).batch_node}"]
    shown = cluster.run("scontrol", "show", "step", f"{batch}.0").ok().out
    assert f"StepId={batch}.0 UserId={os.getuid()} " in shown
    assert f"   State=RUNNING Partition=main NodeList={nodes}\n   Nodes=2 CPUs=4 Tasks=4 Name=sh " in shown
    node = cluster.job(batch).batch_node
    assert [batch, 0] == [int(w) for w in cluster.run("scontrol", "liststeps", node).ok().out.splitlines()[-1].split()]
    pids = cluster.run("scontrol", "listpids", f"{batch}.0", node).ok().out.splitlines()
    ranks = [line.split()[3:5] for line in pids[1:] if line.split()[3] != "-"]
    assert ranks == [["0", "0"], ["1", "1"]]
    pid = next(line.split()[0] for line in pids[1:])
    info = cluster.run("scontrol", "pidinfo", pid, env={"SLURMD_NODENAME": node}).ok().out
    assert info.startswith(f"Slurm JobId={batch} StepId=0 ends at ")
    assert cluster.run("scontrol", "show", "step", f"{batch}.7").out == f"Job step {batch}.7 not found\n"
    cluster.run("scontrol", "notify", str(batch), "look", "out").ok()
    cluster.wait_text(cluster.work / "stepped.txt", "look out")


def test_a_step_is_cancelled_alone(cluster: LiveCluster) -> None:
    script = f"#!/bin/sh\n{SRUN} sleep 600\necho status $?\n"
    job_id = cluster.sbatch("--mem=100", "-o", "alone.txt", str(cluster.script("alone.sh", script)))
    live_step(cluster, job_id)
    cluster.run("scancel", f"{job_id}.0").ok()
    cluster.wait_state(job_id, "COMPLETED")
    assert "status 0" not in (cluster.work / "alone.txt").read_text()
    again = cluster.run("scancel", "-v", f"{job_id}.0")  # over is what was wished
    assert again.status == 0 and f"Kill job error on job step id {job_id}.0: " in again.err


def test_a_signal_to_a_step(cluster: LiveCluster) -> None:
    inner = 'trap "echo got; exit 4" USR1; echo ready; while :; do sleep 0.05; done'
    script = f"#!/bin/sh\n{SRUN} sh -c '{inner}'\necho status $?\n"
    job_id = cluster.sbatch("--mem=100", "-o", "signal.txt", str(cluster.script("signal.sh", script)))
    cluster.wait_text(cluster.work / "signal.txt", "ready")
    cluster.run("scancel", "-s", "USR1", f"{job_id}.0").ok()
    cluster.wait_ends(job_id)
    assert "got\n" in (cluster.work / "signal.txt").read_text()
    assert "status 4\n" in (cluster.work / "signal.txt").read_text()


def test_sattach_sees_a_step_to_its_end(cluster: LiveCluster, batch: int) -> None:
    process = start(cluster, "sattach", "-l", f"{batch}.0")
    assert process.stdout is not None
    lines = sorted(process.stdout.readline() for _ in range(4))
    assert lines == [b"%d: ready %d\n" % (rank, rank) for rank in range(4)]
    (cluster.work / "batch-gate").touch()
    status, out, err = finish(process)
    assert status == 3
    assert sorted(out.splitlines()) == [f"{rank}: bye" for rank in range(4)]
    # A line for each node, or more where its tasks end further apart than the command waits to put them together.
    words = re.findall(r"^sattach: error: (n\d): tasks? ([\d,-]+): Exited with exit code 3$", err, re.MULTILINE)
    assert len(words) == len(err.splitlines())
    ended = [rank for _, text in words for rank in TaskSet.parse(text)]
    assert sorted(ended) == [0, 1, 2, 3] and len({node for node, _ in words}) == 2
    cluster.wait_ends(batch)
    assert (cluster.work / "stepped.txt").read_text().count("bye") == 4  # srun had it, too


def test_sattach_without_srun(cluster: LiveCluster) -> None:
    """A step goes on when its srun was killed; sattach shows what was kept and what comes."""
    opened = gate(cluster, "orphan-gate")
    cluster.run("salloc", "--no-shell", "--mem=100")
    job_id = last_job(cluster)
    inner = f"echo one; {HOLD_ON.format(gate=opened)}; echo two"
    process = start(cluster, "srun", f"--jobid={job_id}", "sh", "-c", inner)
    assert process.stdout is not None and process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGKILL)
    process.wait(ANSWER_S)
    process.stdout.close()
    viewer = start(cluster, "sattach", f"{job_id}.0")
    assert viewer.stdout is not None and viewer.stdout.readline() == b"one\n"
    opened.touch()
    assert finish(viewer) == (0, "two\n", "")


def test_leaving_a_step_leaves_it_alone(cluster: LiveCluster, batch: int) -> None:
    process = start(cluster, "sattach", f"{batch}.0")
    assert process.stdout is not None and process.stdout.readline().startswith(b"ready")
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    assert live_step(cluster, batch).state == "RUNNING"


def test_sattach_layout(cluster: LiveCluster, batch: int) -> None:
    first, second = cluster.run("scontrol", "show", "hostnames", cluster.job(batch).node_list).ok().out.split()
    assert cluster.run("sattach", "--layout", f"{batch}.0").ok().out == (
        f"Job step layout:\n\t4 tasks, 2 nodes ({cluster.job(batch).node_list})\n\n"
        f"\tNode 0 ({first}), 2 task(s): 0 1 \n\tNode 1 ({second}), 2 task(s): 2 3 \n"
    )
    assert cluster.run("sattach", f"{batch}.9").status == 1


def test_sbcast_to_three_nodes(cluster: LiveCluster) -> None:
    source = cluster.work / "big"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o640)
    os.utime(source, ns=(0, 1_600_000_000_000_000_000))
    cluster.run("salloc", "-N3", "--no-shell", "--mem=100")
    job_id = last_job(cluster)
    target = cluster.work / "copy of big"
    cluster.run("sbcast", f"--jobid={job_id}", "-p", "big", str(target)).ok()
    assert target.read_bytes() == source.read_bytes()
    found = target.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (0o640, 1_600_000_000_000_000_000)
    source.write_bytes(b"other")
    again = cluster.run("sbcast", f"--jobid={job_id}", "big", str(target))
    assert again.status == 1
    assert again.err.count(f": {target}: File exists\n") >= 1 and "REQUEST_FILE_BCAST(n" in again.err
    cluster.run("sbcast", "-f", "big", str(target), env={"SLURM_JOB_ID": str(job_id)}).ok()
    assert target.read_bytes() == b"other"
    assert [path.name for path in cluster.work.glob("copy of big*")] == ["copy of big"]
    tasks = [step.tasks for step in steps(cluster, job_id)]
    assert tasks == [3, 3, 3]


def test_sstat_of_a_running_step(cluster: LiveCluster, batch: int) -> None:
    done = cluster.run("sstat", "-nPj", f"{batch}.0", "-o", "JobID,NTasks,Nodelist")
    assert (done.status, done.out) == (0, f"{batch}.0|4|{cluster.job(batch).node_list}\n"), done
    figures = "AveCPU,MinCPU,MaxRSS,AveRSS,MaxVMSize,MaxRSSNode,MaxRSSTask,TRESUsageInTot"
    shown = cluster.run("sstat", "-nPj", f"{batch}.0", "-o", figures).ok().out.strip().split("|")
    assert all(shown) and shown[5] in ("n1", "n2", "n3", "n4") and shown[6] in ("0", "1", "2", "3")
    assert shown[7].startswith("cpu=00:00:0") and ",mem=" in shown[7] and ",vmem=" in shown[7]
    assert cluster.run("sstat", "-nPj", f"{batch}.batch", "-o", "NTasks,MaxRSSTask").ok().out == "1|0\n"
    pids = cluster.run("sstat", "-i", "-nPj", f"{batch}.0").ok().out.splitlines()
    assert len(pids) == 2 and all(line.split("|")[2] for line in pids)
    missing = cluster.run("sstat", "-nj", f"{batch}.9")
    assert (missing.status, missing.err) == (0, f"sstat: error: StepId={batch}.9 not found running.\n")


def test_sacct_has_the_samples_of_all_nodes(cluster: LiveCluster, batch: int) -> None:
    cluster.run("sstat", "-j", f"{batch}.0").ok()  # a sample is taken when somebody asks
    (cluster.work / "batch-gate").touch()
    cluster.wait_ends(batch)
    fields = "NTasks,NNodes,AllocCPUS,MaxRSS,MaxRSSNode,MaxRSSTask,AveCPU,MinCPUNode,TRESUsageInTot,Layout,ExitCode"
    row = cluster.run("sacct", "-nPj", f"{batch}.0", "-o", fields).ok().out.strip().split("|")
    assert row[:3] == ["4", "2", "4"] and row[-2:] == ["Block", "3:0"]
    assert row[3][-1] in "KM" and {row[4], row[7]} <= set(cluster.node_names) and row[5] in ("0", "1", "2", "3")
    assert row[6].startswith("00:00:") and row[8].startswith("cpu=00:00:") and ",mem=" in row[8]


# ---- devices by task, by job ---------------------------------------------------------------------------------------


def test_gpus_by_task_and_by_job(cluster: LiveCluster) -> None:
    """Four GPUs a node: what is asked for by task or job becomes equal parts of nodes, and tasks have their own."""
    show = f"{SRUN} sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'"
    out = cluster.run("salloc", "-Q", "--mem=100", "--gpus-per-task=1", "-n8", "sh", "-c", show).ok().out
    found = [line.split() for line in out.splitlines()]
    assert sorted(gpu for _, gpu in found) == sorted("01230123") and len({node for node, _ in found}) == 2
    show = "echo $SLURM_NNODES $SLURM_GPUS $SLURM_MEM_PER_GPU ${SLURM_MEM_PER_NODE-none} $SLURM_CPUS_PER_GPU"
    done = cluster.run(
        "salloc", "-Q", "--gpus=8", "--mem-per-gpu=100", "--cpus-per-gpu=2", "sh", "-c", f"{show}; {SRUN} true"
    )
    assert done.ok().out == "2 8 100 none 2\n"
    job = cluster.job(last_job(cluster))
    assert (job.nodes, job.cpus, job.tres_alloc.split(",")[1]) == (2, 16, "mem=800M")
    uneven = cluster.sbatch("--gpus=5", "-N2", "--wrap", "true")
    cluster.wait_state(uneven, "COMPLETED")
    assert "gres/gpu=5" in cluster.job(uneven).tres_alloc
