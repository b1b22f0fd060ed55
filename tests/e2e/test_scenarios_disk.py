"""Disks: a spool without room (reliability 25), places where a job's output cannot go (26), a controller's disk that stands
still.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from httpsink import HttpSink
from livecluster import CTLD, ClusterConf, LiveCluster, load_json, shown
from stalldisk import StalledDisk

New = Callable[..., LiveCluster]
GATED = "while [ ! -e {gate} ]; do sleep 0.05; done; exit 7"


@pytest.fixture
def small_spool(new_cluster: New) -> Iterator[LiveCluster]:
    """n1's spool is a file system of 16 MB of its own."""
    cluster = new_cluster(2, start=False)
    folder = cluster.home / "noded" / "n1"
    folder.mkdir(mode=0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=711", "pstk-spool", str(folder)], check=True)
    try:
        yield cluster.start()
        cluster.close()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return path


@pytest.mark.root
def test_scenario_25_the_spool_is_full(small_spool: LiveCluster) -> None:
    """New steps go elsewhere, what runs goes on and is heard of to its end; with room the node is open again by itself."""
    cluster = small_spool
    folder, gate = cluster.home / "noded" / "n1", cluster.work / "gate"
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test").ok()
    running = [cluster.sbatch("-o", "/dev/null", "--wrap", GATED.format(gate=gate)) for _ in range(3)]
    for job_id in running:
        cluster.wait_state(job_id, "RUNNING")
    filler = fill(folder)
    refused = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
    cluster.wait(
        lambda: cluster.node("n1").reason == "spool full", "the node drains itself", show=lambda: cluster.node("n1")
    )
    assert "DRAIN" in cluster.node("n1").flags
    assert {cluster.job(job_id).state for job_id in running} == {"RUNNING"}
    cluster.wait_state(refused, "PENDING")  # not held: nothing is wrong with it
    cluster.run("scontrol", "update", "nodename=n2", "state=resume").ok()
    job = cluster.wait_state(refused, "COMPLETED")
    assert (job.node_list, job.attempt) == ("n2", 1), shown(job)
    gate.touch()
    for job in cluster.wait_ends(*running):
        assert (job.state, job.exit.code, job.node_list, job.attempt) == ("FAILED", 7, "n1", 0), shown(job)
    filler.unlink()
    cluster.wait(lambda: "DRAIN" not in cluster.node("n1").flags, "the node is open again")
    assert cluster.node("n1").reason == ""
    cluster.wait_state(cluster.sbatch("-w", "n1", "-o", "/dev/null", "--wrap", "true"), "COMPLETED")


@pytest.fixture
def small_state(new_cluster: New) -> Iterator[LiveCluster]:
    """The controller's state is a file system of 16 MB of its own."""
    cluster = new_cluster(1, start=False)
    folder, copy = cluster.home / "ctld", cluster.home / "ctld-before"
    shutil.copytree(folder, copy)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=711", "pstk-state", str(folder)], check=True)
    try:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        yield cluster.start()
        cluster.close()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
def test_20_every_command_says_that_the_controllers_storage_is_full(small_state: LiveCluster) -> None:
    """The first sbatch, too, whose batch finds it; listings work, and with room everything does."""
    cluster = small_state
    script = ("-o", "/dev/null", "--wrap", "true")
    waiting = cluster.sbatch("--hold", *script)
    filler = fill(cluster.home / "ctld")
    before: set[int] = set()
    first = cluster.run("sbatch", "--hold", *script)
    for _ in range(200):  # the log of the database has pages left
        if first.status:
            break
        before.add(int(first.out.split()[-1]))
        fill(cluster.home / "ctld")
        first = cluster.run("sbatch", "--hold", *script)
    assert first.status == 1 and "Controller storage full" in first.err, str(first)
    for words in (
        ("sbatch", "--hold", *script), ("scancel", str(waiting)), ("scontrol", "hold", str(waiting)),
        ("scontrol", "update", f"jobid={waiting}", "comment=x"), ("scontrol", "update", "nodename=n1", "state=drain", "reason=x"),
        ("salloc", "--immediate=60", "true"), ("srun", "--immediate=60", "true"),
    ):  # fmt: skip
        done = cluster.run(*words)
        assert done.status and "Controller storage full" in done.err, str(done)
    assert str(waiting) in cluster.run("squeue", "-h", "-o", "%i").ok().out.split()
    filler.unlink()
    cluster.wait(lambda: cluster.run("scancel", str(waiting)).status == 0, "there is room again")
    cluster.wait_state(waiting, "CANCELLED")
    assert before <= {int(word) for word in cluster.run("squeue", "-h", "-o", "%i").ok().out.split()}


@pytest.mark.root
def test_a_restart_without_room(small_spool: LiveCluster) -> None:
    """The daemon starts, adopts, and takes no new steps."""
    cluster = small_spool
    folder, gate = cluster.home / "noded" / "n1", cluster.work / "gate"
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test").ok()
    job_id = cluster.sbatch("-o", "/dev/null", "--wrap", GATED.format(gate=gate))
    cluster.wait_state(job_id, "RUNNING")
    cluster.kill("n1")
    fill(folder)
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    gate.touch()
    assert cluster.wait_state(job_id, "FAILED").exit.code == 7


def test_scenario_26_nowhere_to_write(new_cluster: New) -> None:
    """The job fails at its start with the reason, once: a requeue would change nothing."""
    cluster = new_cluster(1, ClusterConf())
    for path in ("/nowhere/at/all/out", "/proc/out", str(cluster.work)):
        job_id = cluster.sbatch("--requeue", "-o", path, "--wrap", "true")
        job = cluster.wait_state(job_id, "FAILED")
        assert (job.attempt, job.exit.code, job.exit.signal) == (0, 0, 53), shown(job)
        assert path in job.reason_detail, shown(job)


def test_scenario_27_an_output_that_hangs_holds_up_no_other_job(new_cluster: New) -> None:
    """Its open waits, as on a file system that does not answer: the node and other jobs go on, and its end is its own."""
    cluster = new_cluster(1)
    for option in ("-o", "-e", "-i"):
        os.mkfifo(cluster.work / option)  # which nobody reads or writes
    hung = [
        cluster.sbatch("-o", "/dev/null", option, str(cluster.work / option), "--wrap", "true")
        for option in ("-o", "-e", "-i")
        for _ in range(3)
    ]
    cluster.wait(lambda: {cluster.job(one).state for one in hung} == {"RUNNING"}, "their starts hang")
    assert cluster.wait_state(cluster.sbatch("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
    assert cluster.run("srun", "echo", "a").ok().out == "a\n"
    cluster.kill("n1")
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    cluster.run("scancel", *map(str, hung)).ok()
    assert {job.state for job in cluster.wait_ends(*hung)} == {"CANCELLED"}
    assert not cluster.node("n1").flags


@pytest.mark.root
def test_20_deliveries_wait_while_the_storage_is_full(small_state: LiveCluster) -> None:
    """A receiver that refuses events, and dead letters without room: with room all are there, and none twice."""
    cluster = small_state
    script = ("-o", "/dev/null", "--wrap", "true")
    with HttpSink(503, 503, 400) as sink:
        hooks, secret = cluster.home / "webhooks.yaml", cluster.home / "secret"
        secret.write_text("s" * 20)
        secret.chmod(0o600)
        hooks.write_text(f"- name: chat\n  url: {sink.url}/\n  secret_file: {secret}\n  events: [job.completed]\n")
        lines = cluster.home / "jobcomp.log"
        with cluster.slurm_conf.open("a") as conf:
            conf.write(f"PenstockWebhooks={hooks}\nJobCompType=jobcomp/filetxt\nJobCompLoc={lines}\n")
        cluster.run("scontrol", "reconfigure").ok()
        jobs = [cluster.sbatch(*script) for _ in range(5)]
        cluster.wait_ends(*jobs)
        filler = fill(cluster.home / "ctld")
        while (done := cluster.run("sbatch", "--hold", *script)).status == 0:
            fill(cluster.home / "ctld")
        assert "Controller storage full" in done.err, str(done)
        sink.wait_requests(3)
        cluster.wait_text(cluster.home / "log" / "ctld.log", "cannot be kept")
        cluster.kill(CTLD)
        filler.unlink()
        cluster.start_controller()
        cluster.wait_nodes()
        last = cluster.sbatch(*script)
        cluster.wait_text(lines, f"JobId={last} ")
        told = sorted(line.split()[0] for line in lines.read_text().splitlines())  # they may end in another order
        assert told == sorted(f"JobId={one}" for one in (*jobs, last))
        words = ("penstock", "db", "dead-letters", "--json", "--config", str(cluster.slurm_conf))

        def given_up() -> list[int]:
            return [json.loads(one["body"])["job_id"] for one in load_json(cluster.run(*words))["dead_letters"]]

        cluster.wait(lambda: last in given_up(), "the last dead letter is there")
        assert sorted(given_up()) == [*jobs, last]


def test_a_controller_whose_disk_stands_still_answers(new_cluster: New) -> None:
    """Whatever needs no write goes on: tokens, listings. What does waits, and nothing is lost."""
    cluster = new_cluster(1, start=False)
    disk, gate = StalledDisk(cluster.home / "still"), cluster.work / "gate"
    cluster.start_controller(**disk.env())
    cluster.start_node("n1")
    cluster.wait_nodes()
    job_id = cluster.sbatch("-o", "/dev/null", "--wrap", GATED.format(gate=gate))
    cluster.wait_state(job_id, "RUNNING")
    words = [sys.executable, "-P", "-m", "cli.sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true"]
    with disk.still():
        sbatch = subprocess.Popen(words, env=cluster.environment(), cwd=cluster.work, stdout=subprocess.PIPE)
        cluster.wait(disk.is_waited_for, "the controller waits for its disk")
        cluster.forget_client()  # the next call needs a token
        assert [job.job_id for job in cluster.jobs()] == [job_id]
        assert cluster.run("squeue", "-h", "-o", "%i %T").ok().out.split() == [str(job_id), "RUNNING"]
        assert sbatch.poll() is None
    waited = sbatch.communicate()[0]
    gate.touch()
    assert cluster.wait_state(int(waited), "COMPLETED")
    assert cluster.wait_ends(job_id)[0].exit.code == 7
