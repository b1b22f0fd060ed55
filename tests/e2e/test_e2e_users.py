"""Another user on the same machine, when the daemons are root: jobs run as the user who submitted them, and only that user may change them."""

import os
import pwd
from pathlib import Path

import pytest
from livecluster import LiveCluster

pytestmark = pytest.mark.root

NOBODY, DAEMON = 65534, 1


@pytest.fixture
def mine(cluster: LiveCluster) -> Path:
    """A folder of nobody's own."""
    folder = cluster.work / "of-nobody"
    folder.mkdir(exist_ok=True)
    os.chown(folder, NOBODY, NOBODY)
    return folder


def test_jobs_run_as_the_submitting_user(cluster: LiveCluster, mine: Path) -> None:
    text = (
        "id -u; id -g; id -G; echo $SLURM_JOB_UID $SLURM_JOB_USER; grep -c NoNewPrivs:.1 /proc/self/status; touch made"
    )
    done = cluster.run("sbatch", "--parsable", "-D", str(mine), "-o", "out", "--wrap", text, uid=NOBODY).ok()
    job_id = int(done.out)
    job = cluster.wait_state(job_id, "COMPLETED")
    name = pwd.getpwuid(NOBODY).pw_name
    lines = (mine / "out").read_text().splitlines()
    group = pwd.getpwuid(NOBODY).pw_gid
    assert lines[:2] == [str(NOBODY), str(group)] and "0" not in lines[2].split()
    assert lines[3] == f"{NOBODY} {name}" and lines[4] == "1"
    assert (job.user_id, job.user_name) == (NOBODY, name)
    for path in (mine / "out", mine / "made"):
        assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, group)
    row = cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", "User,Uid").ok().out
    assert row == f"{name}|{NOBODY}\n"


def test_only_the_owner_and_administrators_touch_a_job(cluster: LiveCluster, mine: Path) -> None:
    job_id = cluster.sbatch("-D", str(mine), "-o", "/dev/null", "--wrap", "exec sleep 300", uid=NOBODY)
    held = cluster.sbatch("-D", str(mine), "--hold", "--wrap", "true", uid=NOBODY)
    cluster.wait_state(job_id, "RUNNING")
    refused = (
        ("scancel", str(job_id)),
        ("scancel", "-s", "USR1", str(job_id)),
        ("scontrol", "release", str(held)),
        ("scontrol", "requeue", str(job_id)),
        ("scontrol", "update", f"JobId={held}", "JobName=stolen"),
        ("scontrol", "write", "batch_script", str(held), "-"),
        ("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=mischief"),
        ("scontrol", "update", "PartitionName=main", "State=DOWN"),
        ("scontrol", "reconfigure"),
        ("scontrol", "shutdown"),
    )
    for name, *words in refused:
        done = cluster.run(name, *words, uid=DAEMON)
        assert done.status == 1 and "denied" in done.err.lower(), str(done)
    done = cluster.run("scancel", "-u", str(NOBODY), uid=DAEMON)
    assert "Traceback" not in done.err
    assert [cluster.job(i).state for i in (job_id, held)] == ["RUNNING", "PENDING"]
    assert cluster.job(held).request.name == "wrap" and cluster.node("n1").base_state != "DOWN"
    cluster.run("scancel", str(held), uid=NOBODY).ok()
    cluster.run("scancel", str(job_id)).ok()
    jobs = cluster.wait_ends(job_id, held)
    assert [j.state for j in jobs] == ["CANCELLED"] * 2
    states = cluster.run("sacct", "-nXP", "-j", f"{job_id},{held}", "-o", "State").ok().out.split("\n")
    assert states[:2] == ["CANCELLED by 0", f"CANCELLED by {NOBODY}"]


def test_a_job_cannot_write_where_its_user_cannot(cluster: LiveCluster, mine: Path) -> None:
    """Output files are opened as the user: root's folder stays untouched and the job says why it failed."""
    roots = cluster.home / "of-root"
    roots.mkdir(mode=0o755, exist_ok=True)
    job_id = cluster.sbatch("-D", str(mine), "-o", str(roots / "x"), "--wrap", "true", uid=NOBODY)
    job = cluster.wait_state(job_id, "FAILED")
    assert list(roots.iterdir()) == [] and "ermission denied" in job.reason_detail
    link = mine / "link"
    link.symlink_to(roots / "through-a-link")
    cluster.wait_state(cluster.sbatch("-D", str(mine), "-o", "link", "--wrap", "true", uid=NOBODY), "FAILED")
    assert list(roots.iterdir()) == []


def test_a_user_cannot_pose_as_another(cluster: LiveCluster, mine: Path) -> None:
    done = cluster.run("sbatch", "--parsable", "--uid=0", "-D", str(mine), "--wrap", "true", uid=NOBODY)
    assert done.status == 1 and done.out == ""
    job_id = cluster.sbatch("-D", str(mine), "--hold", "--wrap", "true", uid=NOBODY)
    assert cluster.job(job_id).user_id == NOBODY
    secret = cluster.sbatch("--hold", "--wrap", "echo secret")
    assert cluster.run("scontrol", "write", "batch_script", str(secret), "-", uid=NOBODY).status == 1
    assert cluster.run("squeue", "-h", "-o", "%i %U", uid=NOBODY).ok().out  # who runs what is no secret


def test_state_and_keys_are_closed_to_others(cluster: LiveCluster) -> None:
    state = cluster.home / "ctld"
    assert state.stat().st_mode & 0o777 == 0o711
    for path in state.rglob("*"):
        if path.is_file() and path.name not in ("ca.pem", "controller.pem", "cluster.json", "ctld.pid"):
            assert path.stat().st_mode & 0o077 == 0, path
    for path in (cluster.home / "certs").rglob("*.key"):
        assert path.stat().st_mode & 0o077 == 0, path
    for path in (cluster.home / "noded").iterdir():
        assert path.stat().st_mode & 0o066 == 0, path
