"""A job's life as its user steers it: arrays, dependencies, hold, begin, time limits, requeue, signals, cancelling."""

import re
import signal
import sys
from collections.abc import Callable
from datetime import datetime, timedelta

from livecluster import CTLD, ClusterConf, LiveCluster, read, shown

New = Callable[..., LiveCluster]
GATE = "while [ ! -e {gate} ]; do sleep 0.05; done"


def gated(cluster: LiveCluster, name: str, *words: str) -> int:
    """A job that ends when a file of that name is there."""
    return cluster.sbatch(*words, "-J", name, "--wrap", GATE.format(gate=name))


def open_gate(cluster: LiveCluster, name: str) -> None:
    (cluster.work / name).touch()


def exits(cluster: LiveCluster, job_id: int) -> tuple[str, int, int]:
    job = cluster.job(job_id)
    return job.state, job.exit.code, job.exit.signal


# ---- arrays --------------------------------------------------------------------------------------------------------


def test_array_tasks_each_have_their_output_and_environment(cluster: LiveCluster) -> None:
    text = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX"
    job_id = cluster.sbatch("--array=1-7:2,10", "--wrap", text)
    jobs = cluster.wait_ends(job_id)
    assert sorted((j.array_task_id, j.state) for j in jobs) == [(t, "COMPLETED") for t in (1, 3, 5, 7, 10)]
    assert len({j.job_id for j in jobs}) == 5 and job_id in {j.job_id for j in jobs}
    for task in (1, 3, 5, 7, 10):
        assert (cluster.work / f"slurm-{job_id}_{task}.out").read_text() == f"{job_id} {task} 5 1 10\n"
    assert len(list(cluster.work.glob(f"slurm-{job_id}*"))) == 5
    done = cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", "JobID,State").ok()
    assert sorted(done.out.splitlines()) == sorted(f"{job_id}_{t}|COMPLETED" for t in (1, 3, 5, 7, 10))


def test_array_limit_holds_at_every_moment(cluster: LiveCluster) -> None:
    log = cluster.work / "limit.log"
    script = f"date +%s%N | sed 's/^/b /' >>{log}; sleep 0.1; date +%s%N | sed 's/^/e /' >>{log}"
    job_id = cluster.sbatch("--array=1-6%2", "-o", "/dev/null", "--wrap", script)
    cluster.wait_ends(job_id)
    moments = sorted((int(n), kind) for kind, n in (line.split() for line in log.read_text().splitlines()))
    running, most = 0, 0
    for _, kind in moments:
        running += 1 if kind == "b" else -1
        most = max(most, running)
    assert (len(moments), most) == (12, 2)


def test_waiting_array_in_squeue(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("--hold", "--array=0-9,12%3", "--wrap", "true")
    done = cluster.run("squeue", "-h", "-j", str(job_id), "-o", "%i %t %r").ok()
    assert done.out == f"{job_id}_[0-9,12%3] PD JobHeldUser\n"
    rows = cluster.run("squeue", "-hr", "-j", str(job_id), "-o", "%i").ok().out.split()
    assert rows == [f"{job_id}_{t}" for t in (*range(10), 12)]
    cluster.run("scancel", f"{job_id}_[2-4]").ok()
    left = cluster.run("squeue", "-h", "-j", str(job_id), "-t", "PD", "-o", "%i").ok().out
    assert left == f"{job_id}_[0-1,5-9,12%3]\n"


# ---- dependencies --------------------------------------------------------------------------------------------------


def test_dependency_chain_runs_in_order(cluster: LiveCluster) -> None:
    first = gated(cluster, "chain-gate")
    second = cluster.sbatch("-d", f"afterok:{first}", "-o", "/dev/null", "--wrap", "echo second >>chain.log")
    third = cluster.sbatch("-d", f"afterany:{second}", "-o", "/dev/null", "--wrap", "echo third >>chain.log")
    assert [cluster.job(i).reason for i in (second, third)] == ["Dependency", "Dependency"]
    open_gate(cluster, "chain-gate")
    jobs = cluster.wait_ends(first, second, third)
    assert [j.state for j in jobs] == ["COMPLETED"] * 3
    assert (cluster.work / "chain.log").read_text() == "second\nthird\n"
    assert jobs[0].end_at_us <= jobs[1].start_at_us and jobs[1].end_at_us <= jobs[2].start_at_us


def test_dependencies_on_how_a_job_ended(cluster: LiveCluster) -> None:
    failing = gated(cluster, "fail-gate", "--hold")
    cluster.run("scontrol", "release", str(failing)).ok()
    bad = cluster.sbatch("-d", f"afterany:{failing}", "-o", "/dev/null", "--wrap", "exit 1")
    not_ok = cluster.sbatch("-d", f"afternotok:{bad}", "-o", "/dev/null", "--wrap", "true")
    never = cluster.sbatch("-d", f"afterok:{bad}", "-o", "/dev/null", "--wrap", "true")
    killed = cluster.sbatch("-d", f"afterok:{bad}", "--kill-on-invalid-dep=yes", "--wrap", "true")
    either = cluster.sbatch("-d", f"afterok:{bad}?afternotok:{bad}", "-o", "/dev/null", "--wrap", "true")
    open_gate(cluster, "fail-gate")
    ended = cluster.wait_ends(failing, bad, not_ok, killed, either)
    assert [j.state for j in ended] == ["COMPLETED", "FAILED", "COMPLETED", "CANCELLED", "COMPLETED"]
    job = cluster.job(never)
    assert (job.state, job.reason) == ("PENDING", "DependencyNeverSatisfied")


def test_singleton(cluster: LiveCluster) -> None:
    first = gated(cluster, "single")
    second = cluster.sbatch("-J", "single", "-d", "singleton", "-o", "/dev/null", "--wrap", "true")
    other = cluster.sbatch("-J", "not-single", "-d", "singleton", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(other, "COMPLETED")
    assert (cluster.job(second).state, cluster.job(second).reason) == ("PENDING", "Dependency")
    open_gate(cluster, "single")
    one, two = cluster.wait_ends(first, second)
    assert one.end_at_us <= two.start_at_us


# ---- hold, begin ---------------------------------------------------------------------------------------------------


def test_hold_and_release(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("--hold", "-o", "/dev/null", "--wrap", "true")
    marker = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(marker, "COMPLETED")  # a later job ran meanwhile
    job = cluster.job(job_id)
    assert (job.state, job.reason, job.priority) == ("PENDING", "JobHeldUser", 0)
    cluster.run("scontrol", "release", str(job_id)).ok()
    cluster.wait_state(job_id, "COMPLETED")


def test_hold_of_a_waiting_job_by_an_administrator(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("--begin=now+1hour", "--wrap", "true")
    cluster.run("scontrol", "hold", str(job_id)).ok()
    assert cluster.job(job_id).reason in ("JobHeldUser", "JobHeldAdmin")
    cluster.run("scontrol", "release", str(job_id)).ok()
    assert cluster.job(job_id).reason == "BeginTime"


def test_begin_is_waited_for(cluster: LiveCluster) -> None:
    at = datetime.now() + timedelta(seconds=3)
    job_id = cluster.sbatch(f"--begin={at:%Y-%m-%dT%H:%M:%S}", "-o", "/dev/null", "--wrap", "true")
    assert (cluster.job(job_id).state, cluster.job(job_id).reason) == ("PENDING", "BeginTime")
    job = cluster.wait_state(job_id, "COMPLETED")
    begin_us = int(at.replace(microsecond=0).timestamp()) * 1_000_000
    assert begin_us <= job.eligible_at_us <= job.start_at_us


# ---- time limit, signals -------------------------------------------------------------------------------------------


def test_time_limit_sends_term_and_kills_after_kill_wait(cluster: LiveCluster) -> None:
    """Two jobs over their limit: one leaves at SIGTERM, one ignores it and is killed KillWait later."""
    polite = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    stubborn = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    one = cluster.sbatch("-t", "1", "-o", "one.txt", "--wrap", polite)
    two = cluster.sbatch("-t", "1", "-o", "two.txt", "--wrap", stubborn)
    for name in ("one.txt", "two.txt"):
        cluster.wait_text(cluster.work / name, "ready")
    cluster.limit_now(one, two)
    ended = cluster.wait_ends(one, two)
    assert [j.state for j in ended] == ["TIMEOUT", "TIMEOUT"], [shown(j) for j in ended]
    kill_wait_us = cluster.conf.kill_wait_s * 1_000_000
    assert ended[1].end_at_us - ended[1].start_at_us >= kill_wait_us
    text_one, text_two = (cluster.work / "one.txt").read_text(), (cluster.work / "two.txt").read_text()
    for job_id, text in ((one, text_one), (two, text_two)):
        assert "asked" in text
        assert re.search(rf"JOB {job_id} ON n\d CANCELLED AT [\d:T-]+ DUE TO TIME LIMIT", text), text
    rows = cluster.run("sacct", "-nXP", "-j", f"{one},{two}", "-o", "State").ok().out.split()
    assert rows == ["TIMEOUT", "TIMEOUT"]


def test_scancel_a_waiting_and_a_running_job(cluster: LiveCluster) -> None:
    waiting = cluster.sbatch("--hold", "--wrap", "true")
    running = cluster.sbatch("-o", "cancelled.txt", "--wrap", "echo ready; exec sleep 300")
    cluster.wait_text(cluster.work / "cancelled.txt", "ready")
    cluster.run("scancel", str(waiting), str(running)).ok()
    cluster.wait_ends(waiting, running)
    assert exits(cluster, running) == ("CANCELLED", 0, signal.SIGTERM)
    assert f"JOB {running} ON" in (cluster.work / "cancelled.txt").read_text()
    assert cluster.job(waiting).start_at_us == 0
    states = cluster.run("sacct", "-nXP", "-j", f"{waiting},{running}", "-o", "State").ok().out.splitlines()
    assert all(re.fullmatch(r"CANCELLED by \d+", s) for s in states) and len(states) == 2
    again = cluster.run("scancel", str(running))
    assert again.status in (0, 1) and "Traceback" not in again.err
    assert exits(cluster, running) == ("CANCELLED", 0, signal.SIGTERM)


def test_scancel_signal_goes_to_the_script(cluster: LiveCluster) -> None:
    text = "trap 'echo got usr1; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    job_id = cluster.sbatch("-o", "usr1.txt", "--wrap", text)
    cluster.wait_text(cluster.work / "usr1.txt", "ready")
    cluster.run("scancel", "-s", "USR1", "-b", str(job_id)).ok()
    cluster.wait_state(job_id, "COMPLETED")
    assert (cluster.work / "usr1.txt").read_text() == "ready\ngot usr1\n"


def test_scancel_filters(cluster: LiveCluster) -> None:
    ids = [cluster.sbatch("--hold", "-J", name, "-p", part, "--wrap", "true") for name, part in
           (("red", "main"), ("red", "short"), ("blue", "short"))]  # fmt: skip
    cluster.run("scancel", "-n", "red", "-p", "short").ok()
    assert [cluster.job(i).state for i in ids] == ["PENDING", "CANCELLED", "PENDING"]
    cluster.run("scancel", "--me", "-t", "PENDING").ok()
    assert [cluster.job(i).state for i in ids] == ["CANCELLED"] * 3
    done = cluster.run("scancel")
    assert done.status == 1 and "No job identification provided" in done.err


# ---- requeue -------------------------------------------------------------------------------------------------------


def test_requeue_counts_restarts(cluster: LiveCluster) -> None:
    text = "echo run ${SLURM_RESTART_COUNT:-0}; if [ ${SLURM_RESTART_COUNT:-0} = 0 ]; then exec sleep 300; fi"
    job_id = cluster.sbatch("--requeue", "-o", "requeue.txt", "--open-mode=append", "--wrap", text)
    cluster.wait_text(cluster.work / "requeue.txt", "run 0")
    cluster.run("scontrol", "requeue", str(job_id)).ok()
    job = cluster.wait_state(job_id, "COMPLETED")
    assert job.attempt == 1
    lines = [line for line in (cluster.work / "requeue.txt").read_text().splitlines() if line.startswith("run")]
    assert lines == ["run 0", "run 1"]
    states = cluster.run("sacct", "-nXPD", "-j", str(job_id), "-o", "State").ok().out.split()
    assert states == ["REQUEUED", "COMPLETED"]
    assert cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", "State,Restarts").ok().out == "COMPLETED|1\n"


def test_requeue_is_refused_for_a_job_that_may_not(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("--no-requeue", "-o", "/dev/null", "--wrap", "exec sleep 300")
    cluster.wait_state(job_id, "RUNNING")
    done = cluster.run("scontrol", "requeue", str(job_id))
    assert done.status == 1 and done.err
    assert (cluster.job(job_id).state, cluster.job(job_id).attempt) == ("RUNNING", 0)


# ---- resources -----------------------------------------------------------------------------------------------------


def test_a_job_waits_for_resources_and_starts_when_they_are_free(cluster: LiveCluster) -> None:
    big = gated(cluster, "big-gate", "-w", "n3", "--exclusive")
    cluster.wait_state(big, "RUNNING")
    small = cluster.sbatch("-w", "n3", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(lambda: cluster.job(small).reason == "Resources", "the reason is Resources",
                 show=lambda: shown(cluster.job(small)))  # fmt: skip
    assert cluster.node("n3").cpus_alloc == 16
    open_gate(cluster, "big-gate")
    one, two = cluster.wait_ends(big, small)
    assert one.end_at_us <= two.start_at_us and two.node_list == "n3"


def test_scontrol_update_of_a_waiting_job(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("--hold", "--wrap", "true")
    cluster.run("scontrol", "update", f"JobId={job_id}", "JobName=renamed", "TimeLimit=2:00:00", "Comment=why").ok()
    job = cluster.job(job_id)
    assert (job.request.name, job.time_limit_s, job.request.comment) == ("renamed", 7200, "why")
    done = cluster.run("scontrol", "update", f"JobId={job_id}", "Partition=nowhere")
    assert done.status == 1 and "Invalid partition name specified" in done.err
    assert cluster.job(job_id).partition == "main"


def test_time_limit_beyond_the_partitions(cluster: LiveCluster) -> None:
    """The partition short allows 10 minutes. EnforcePartLimits is NO: what asks for more waits, with the reason."""
    fits = cluster.sbatch("-p", "short", "-t", "10", "-o", "/dev/null", "--wrap", "true")
    over = cluster.sbatch("-p", "short", "-t", "11", "--wrap", "true")
    cluster.wait_state(fits, "COMPLETED")
    assert (cluster.job(over).state, cluster.job(over).reason) == ("PENDING", "PartitionTimeLimit")


def test_a_job_on_many_cpus_outlives_both_daemons(new_cluster: New) -> None:
    """Masks of more than 64 CPUs: of the job, of a step, in what both daemons read at their start."""
    cluster = new_cluster(1, ClusterConf(cpus=192, memory_mb=64000))
    gate = cluster.work / "gate"
    srun = f"{sys.executable} -P -m cli.srun"
    waits = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    job_id = cluster.sbatch("-n", "150", "-o", "out", "--wrap", f"{srun} -n1 -c100 sh -c '{waits}' && echo whole")
    cluster.wait(lambda: len(cluster.held_steps("n1")) == 2, "the step has begun")
    cluster.kill(CTLD)
    cluster.start_controller()
    cluster.kill("n1")
    cluster.start_node("n1")
    cluster.wait_nodes()
    assert cluster.run("scontrol", "show", "job", "-d", str(job_id)).ok().out.count("CPU_IDs=0-149 ") == 1
    gate.touch()
    cluster.wait_state(job_id, "COMPLETED")
    assert read(cluster.work / "out") == "whole\n"
