"""Node daemons that die, are away, come back, and hear things twice or in the wrong order."""

import contextlib
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from fakelink import FakeController, FakeNode, step_key
from livecluster import CTLD, LOGGING_SCRIPT, ClusterConf, LiveCluster, read_log, shown

from nodedaemon.spool.steprecord import NAME as RECORD
from nodedaemon.spool.steprecord import StepEnd, read_record
from penstock.v1 import common_pb2 as m
from penstock.v1 import controller_pb2 as c
from penstock.v1 import node_pb2 as n
from penstock.values.jobid import BATCH_STEP
from penstock.values.requestkey import new_request_key

New = Callable[..., LiveCluster]
GATED = "echo begin; while [ ! -e {gate} ]; do sleep 0.05; done; echo end"


def tree_of(pid: int) -> list[psutil.Process]:
    """A daemon with everything that descends from it: its launcher, supervisors, jobs."""
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def power_loss(cluster: LiveCluster, name: str) -> None:
    """A node goes from one moment to the next: its daemon and all that runs on it, in no order."""
    tree = tree_of(cluster.daemons[name].process.pid)
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    cluster.daemons[name].process.wait()


def end_of(cluster: LiveCluster, name: str, key: str) -> StepEnd | None:
    """The end of a step as recorded in the node's spool; a job's last line comes before."""
    steps_fd = os.open(cluster.home / "noded" / name / "steps", os.O_RDONLY)
    try:
        return read_record(steps_fd, f"{key}/{RECORD}")[1]
    finally:
        os.close(steps_fd)


def test_scenario_05_controller_away_while_jobs_end_and_run(new_cluster: New) -> None:
    """Nothing is killed, nothing is forgotten, and the times are those at which things happened."""
    cluster = new_cluster(1)
    log = cluster.work / "runs.log"
    script = cluster.script("log.sh", LOGGING_SCRIPT)
    gates = [cluster.work / f"gate-{i}" for i in range(3)]
    ids = [cluster.sbatch("-o", "/dev/null", str(script), str(log), str(gate)) for gate in gates]
    failing = cluster.sbatch("-o", "/dev/null", "--wrap", f"while [ ! -e {gates[0]} ]; do sleep 0.05; done; exit 9")
    for job_id in (*ids, failing):
        cluster.wait_state(job_id, "RUNNING")
    cluster.wait(lambda: len(read_log(log)[0]) == 3, "all have begun")
    cluster.kill(CTLD)
    for gate in gates[:2]:
        gate.touch()
    recorded = lambda: [key for key in cluster.held_steps("n1") if end_of(cluster, "n1", key)]  # noqa: E731
    cluster.wait(lambda: len(recorded()) == 3, "the ends of three are recorded while nobody looks", show=recorded)
    assert len(read_log(log)[1]) == 2
    done = cluster.run("sbatch", "--wrap", "true")
    assert (done.status, done.out) == (1, "") and "contact slurm controller" in done.err
    down_until_us = time.time_ns() // 1000
    cluster.start_controller()
    jobs = cluster.wait_ends(*ids[:2], failing)
    assert [(j.state, j.exit.code, j.attempt) for j in jobs] == [("COMPLETED", 0, 0)] * 2 + [("FAILED", 9, 0)]
    ends = {line.job_id: line.end_ns // 1000 for line in read_log(log)[1]}
    for job in jobs[:2]:
        assert ends[job.job_id] - 1_000_000 <= job.end_at_us <= down_until_us, shown(job)
    assert cluster.job(ids[2]).state == "RUNNING"
    gates[2].touch()
    cluster.wait_state(ids[2], "COMPLETED")
    begins, ended = read_log(log)
    assert Counter(x.job_id for x in begins) == Counter(x.job_id for x in ended) == Counter(ids)
    cluster.wait(lambda: not cluster.held_steps("n1"), "the spool is empty", show=lambda: cluster.held_steps("n1"))


def test_scenario_06_node_daemon_killed_with_twenty_running_jobs(new_cluster: New) -> None:
    cluster = new_cluster(1, ClusterConf(cpus=32))
    gate = cluster.work / "gate"
    array = cluster.sbatch("--array=1-20", "-o", "out-%a", "--wrap", GATED.format(gate=gate))
    limited = cluster.sbatch("-t", "1", "-o", "limited", "--wrap", "echo begin; exec sleep 300")
    for name in (*(f"out-{i}" for i in range(1, 21)), "limited"):
        cluster.wait_text(cluster.work / name, "begin\n")
    pids = {p.pid for p in tree_of(cluster.daemons["n1"].process.pid)}
    cluster.kill("n1")
    cluster.wait(lambda: "NO_RESPOND" in cluster.node("n1").flags, "the controller notices")
    assert {j.state for j in cluster.jobs(array)} == {"RUNNING"}
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    # What ran runs on, and nothing was started a second time: the jobs' processes are the same ones.
    alive = {p for p in pids if psutil.pid_exists(p)}
    assert len(alive) >= 40  # twenty scripts and their supervisors
    cluster.limit_now(limited)
    cluster.wait_state(limited, "TIMEOUT")
    assert {j.state for j in cluster.jobs(array)} == {"RUNNING"}
    gate.touch()
    jobs = cluster.wait_ends(array)
    assert [(j.state, j.attempt) for j in jobs] == [("COMPLETED", 0)] * 20
    assert {(cluster.work / f"out-{i}").read_text() for i in range(1, 21)} == {"begin\nend\n"}
    assert Counter(r.state for r in cluster.records(array)) == {"COMPLETED": 20}


def test_scenario_08_a_supervisor_is_killed(new_cluster: New) -> None:
    cluster = new_cluster(1)
    job_id = cluster.sbatch("-o", "pids", "--no-requeue", "--wrap", "echo $$ $PPID; exec sleep 300")
    script_pid, supervisor_pid = map(int, cluster.wait_text(cluster.work / "pids", "\n").split())
    os.kill(supervisor_pid, signal.SIGKILL)
    job = cluster.wait_state(job_id, "FAILED")
    assert "supervisor" in job.reason_detail
    cluster.wait(lambda: not psutil.pid_exists(script_pid), "its process is gone")
    cluster.wait_state(cluster.sbatch("-o", "/dev/null", "--wrap", "true"), "COMPLETED")


def test_scenario_09_power_loss_and_a_new_boot(new_cluster: New) -> None:
    """The old runs are dead: who may is started again, who may not gets NODE_FAIL; the node is good for new jobs."""
    cluster = new_cluster(1)
    log = cluster.work / "runs.log"
    gate = cluster.work / "gate"
    script = cluster.script("log.sh", LOGGING_SCRIPT)
    again = cluster.sbatch("--requeue", "-o", "/dev/null", str(script), str(log), str(gate))
    once = cluster.sbatch("--no-requeue", "-o", "/dev/null", str(script), str(log), str(gate))
    cluster.wait(lambda: len(read_log(log)[0]) == 2, "both run")
    power_loss(cluster, "n1")
    cluster.boot_ids["n1"] = "11111111-2222-3333-4444-555555555555"
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    lost = cluster.wait_state(once, "NODE_FAIL")
    assert lost.reason == "NodeDown" and cluster.records(once)[0].failed_node == "n1"
    gate.touch()
    job = cluster.wait_state(again, "COMPLETED")
    assert job.attempt == 1
    begins, ends = read_log(log)
    assert sorted((x.job_id, x.attempt) for x in begins) == [(again, 0), (again, 1), (once, 0)]
    assert [(x.job_id, x.attempt) for x in ends] == [(again, 1)]
    assert [r.state for r in cluster.records(again)] == ["REQUEUED", "COMPLETED"]
    cluster.wait(
        lambda: not cluster.held_steps("n1"), "the old boot's spool is swept", show=lambda: cluster.held_steps("n1")
    )
    cluster.wait_state(cluster.sbatch("-o", "/dev/null", "--wrap", "true"), "COMPLETED")


def test_scenario_10_the_spool_is_lost_under_a_running_job(new_cluster: New) -> None:
    """Same boot, empty spool: what ran is killed before the job runs again, and the node waits for an administrator."""
    cluster = new_cluster(2)
    log, gate = cluster.work / "runs.log", cluster.work / "gate"
    # It leaves its session and its environment behind, as what tries to escape does.
    inner = f"while [ ! -e {gate} ]; do sleep 0.05; done; touch {cluster.work}/escaped-${{SLURM_RESTART_COUNT:-0}}"
    script = cluster.script("log.sh", f'#!/bin/sh\nenv -i setsid sh -c "{inner}" &\n'.encode() + LOGGING_SCRIPT)
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test").ok()
    job_id = cluster.sbatch("-o", "/dev/null", str(script), str(log), str(gate))
    cluster.wait(lambda: read_log(log)[0], "it has begun")
    cluster.run("scontrol", "update", "nodename=n2", "state=resume").ok()
    cluster.kill("n1")
    shutil.rmtree(cluster.home / "noded" / "n1")
    cluster.start_node("n1")
    cluster.wait(lambda: "DRAIN" in cluster.node("n1").flags, "the node is drained")
    assert cluster.node("n1").reason == "spool lost"
    job = cluster.wait(
        lambda: j if (j := cluster.job(job_id)).attempt == 1 and j.state == "RUNNING" else None, "it runs again"
    )
    assert job.node_list == "n2"
    cluster.wait(lambda: len(read_log(log)[0]) == 2, "it has begun again")
    gate.touch()
    cluster.wait_state(job_id, "COMPLETED")
    begins, ends = read_log(log)
    assert [(x.attempt, x.node) for x in begins] == [(0, "n1"), (1, "n2")]
    assert [(x.attempt, x.node) for x in ends] == [(1, "n2")]
    assert not (cluster.work / "escaped-0").exists()
    # by its control group, or, on a machine without those, by its supervisor
    said = (f"step {job_id}.0.{BATCH_STEP} is not in the spool", "supervise steps without a record: killing")
    log = cluster.daemons["n1"].log
    cluster.wait(lambda: any(text in log.read_text() for text in said), "the log names the step")


# ---- 16 and 17: the same thing several times, late, or in the wrong order -------------------------------------------


def fake_node(cluster: LiveCluster) -> FakeNode:
    return FakeNode(f"127.0.0.1:{cluster.node_port}", cluster.home / "certs" / "n1", "n1")


def wait_ack(cluster: LiveCluster, job_id: int, state: str) -> None:
    cluster.wait(
        lambda: cluster.job(job_id).state == state, f"job {job_id} is {state}", show=lambda: shown(cluster.job(job_id))
    )


def test_scenario_16_duplicates_at_the_controller(new_cluster: New) -> None:
    """Submit, cancel, signal, start and end, each three times; the end once more when the job is history."""
    cluster = new_cluster(1, start=False)
    cluster.start_controller()
    with fake_node(cluster) as node:
        assert node.connect().refusal == ""
        request = c.SubmitJobRequest(
            request_key=new_request_key(time.time_ns() // 1000, os.urandom(16)),
            job=m.JobRequest(name="thrice", work_dir=b"/tmp"),
            spec=m.JobSpec(script=b"#!/bin/sh\n"),
        )
        ids = {cluster.call("SubmitJob", request).job_id for _ in range(3)}
        assert len(ids) == 1 and len(cluster.jobs()) == 1
        (job_id,) = ids
        launch = node.await_command("launch", job_id).launch
        started = node.started(launch.key)
        for _ in range(2):
            node.send(report=started)
        wait_ack(cluster, job_id, "RUNNING")
        for _ in range(3):
            usr1 = c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job_id)]), signal=signal.SIGUSR1, full=True)
            assert [r.code for r in cluster.call("CancelJobs", usr1).results] == [0]
        cluster.wait(lambda: len(node.commands("signal", job_id)) == 3, "three signals arrive")  # three were asked for
        ended = node.exited(launch.key, code=5)
        for _ in range(2):
            node.send(report=ended)
        wait_ack(cluster, job_id, "FAILED")
        node.await_ack(ended)
        assert len(node.commands("launch", job_id)) == 1
        # Once more on a new stream, from a node that has heard no acknowledgement.
        node.connect(held=[n.HeldStep(key=launch.key, state=n.HeldStep.EXITED, epoch=1)])
        node.send(report=started)
        node.send(report=ended)
        late = node.exited(launch.key, code=0)  # and a report that contradicts the record
        node.await_ack(late)
        for _ in range(3):
            cancel = c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job_id)]))
            assert all(r.code for r in cluster.call("CancelJobs", cancel).results)
    job = cluster.job(job_id)
    assert (job.state, job.exit.code, job.attempt) == ("FAILED", 5, 0)
    (record,) = cluster.records(job_id)
    assert (record.state, record.exit.code, len(record.steps)) == ("FAILED", 5, 1)
    story = cluster.call("Story", c.StoryRequest(job_id=job_id)).lines
    assert [line.event for line in story].count("end") == 1


def launch_order(job_id: int, log: Path, attempt: int = 0) -> n.LaunchStep:
    """A launch of LOGGING_SCRIPT."""
    share = m.NodeAllocation(node="n1", cpus=1, mem_mb=10, tasks=1)
    facts = n.JobFacts(
        cluster_name="e2e", job_name="x", partition="main", node_list="n1", nodes=[share], restart_count=attempt
    )
    return n.LaunchStep(
        key=step_key(job_id, attempt),
        user_id=os.getuid(),
        group_id=os.getgid(),
        user_name="x",
        facts=facts,
        spec=m.JobSpec(script=LOGGING_SCRIPT, argv=[os.fsencode(log)], environment=[b"PATH=/usr/bin:/bin"]),
        work_dir=os.fsencode(log.parent),
        std_out=b"/dev/null",
        allocation=share,
    )


def start_alone(cluster: LiveCluster, controller: FakeController) -> None:
    """The real node daemon with the test as its controller."""
    words = [
        "noded",
        "--node-name",
        "n1",
        "--controller",
        controller.address,
        "--spool",
        str(cluster.home / "noded" / "n1"),
    ]
    cluster.launch("n1", [*words, "--cpus", "4", "--real-memory", "1000", "--stream-port", "0"], {})
    controller.admitted()


def test_scenario_16_duplicates_at_the_node(new_cluster: New) -> None:
    """Launch, terminate and forget, each three times; a launch again when the job is history; one of an old epoch."""
    cluster = new_cluster(1, start=False)
    log = cluster.work / "runs.log"
    with FakeController(cluster.home / "fake.sock", epoch=2) as controller:
        start_alone(cluster, controller)
        for _ in range(3):
            assert controller.command(launch=launch_order(1, log)) == ""
        cluster.wait(lambda: controller.exits(1), "the job has ended")
        for _ in range(3):
            controller.command(launch=launch_order(1, log))
            controller.command(terminate=n.TerminateStep(key=step_key(1), grace_ms=0))
        controller.hang_up()
        controller.command(launch=launch_order(1, log))
        for _ in range(3):
            assert controller.command(forget=n.ForgetStep(key=step_key(1))) == ""
        assert controller.command(launch=launch_order(1, log)) != ""
        assert "epoch" in controller.command(epoch=1, launch=launch_order(2, log))
        assert "epoch" in controller.command(epoch=1, terminate=n.TerminateStep(key=step_key(1), grace_ms=0))
        assert controller.command(launch=launch_order(3, log)) == ""
        cluster.wait(lambda: controller.exits(3), "another job has ended")
        assert [e.exit.code for e in controller.exits(1)] == [0] and controller.exits(2) == []
    begins, ends = read_log(log)
    assert len(begins) == len(ends) == 2 and cluster.held_steps("n1") == ["3.0.-5"]


def test_scenario_17_cancel_arrives_before_launch(new_cluster: New) -> None:
    """On the node: what was ended before it came never starts, over a restart of the daemon too."""
    cluster = new_cluster(1, start=False)
    log = cluster.work / "runs.log"
    with FakeController(cluster.home / "fake.sock") as controller:
        start_alone(cluster, controller)
        assert controller.command(terminate=n.TerminateStep(key=step_key(1), grace_ms=1000)) == ""
        assert controller.command(launch=launch_order(1, log)) != ""
        cluster.wait(lambda: controller.exits(1), "its end is reported")
        assert [(e.start_at_us, bool(e.failure)) for e in controller.exits(1)] == [(0, True)]
        cluster.kill("n1")
        start_alone(cluster, controller)
        controller.admitted(2)
        assert [h.state for h in controller.registrations[-1].held] == [n.HeldStep.TOMBSTONE]
        assert controller.command(launch=launch_order(1, log)) != ""
        assert controller.command(launch=launch_order(2, log)) == ""
        cluster.wait(lambda: controller.exits(2), "another job has ended")
    assert len(read_log(log)[0]) == 1


def test_scenario_17_cancel_before_the_launch_is_acknowledged(new_cluster: New) -> None:
    """At the controller: a job that is cancelled while its launch is on the way ends as cancelled, whatever the node says."""
    cluster = new_cluster(1, start=False)
    cluster.start_controller()
    with fake_node(cluster) as node:
        node.connect()
        job_id = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
        launch = node.await_command("launch", job_id).launch
        cluster.run("scancel", str(job_id)).ok()
        node.await_command("terminate", job_id)
        node.exited(launch.key, failure="ended before it was started")
        wait_ack(cluster, job_id, "CANCELLED")
        node.await_command("forget", job_id)
    (record,) = cluster.records(job_id)
    assert record.state == "CANCELLED" and record.start_at_us <= record.end_at_us


def test_scenario_17_cancelled_at_once(new_cluster: New) -> None:
    """Twenty jobs, each cancelled as soon as it has an id: none is left over, none is recorded as anything else."""
    cluster = new_cluster(1)
    log = cluster.work / "runs.log"
    job = m.JobRequest(name="x", work_dir=os.fsencode(cluster.work), std_out=b"/dev/null")
    spec = m.JobSpec(script=LOGGING_SCRIPT, argv=[os.fsencode(log), b"/never"], environment=[b"PATH=/usr/bin:/bin"])
    ids = []
    for _ in range(20):
        key = new_request_key(time.time_ns() // 1000, os.urandom(16))
        ids.append(cluster.call("SubmitJob", c.SubmitJobRequest(request_key=key, job=job, spec=spec)).job_id)
        cluster.call("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(ids[-1])])))
    assert {j.state for j in cluster.wait_ends(*ids)} == {"CANCELLED"}
    begins, ends = read_log(log)
    assert max(Counter(x.job_id for x in begins).values(), default=0) <= 1 and ends == []
    assert Counter(r.state for r in cluster.records(*ids)) == {"CANCELLED": 20}
    assert cluster.node("n1").cpus_alloc == 0
