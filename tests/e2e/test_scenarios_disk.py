"""Disks: a spool without room (reliability 25), places where a job's output cannot go (26), a controller's disk that stands
still.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster, shown
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
    assert cluster.job(refused).state == "PENDING"  # not held: nothing is wrong with it
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
