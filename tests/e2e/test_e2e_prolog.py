"""What surrounds jobs, on a real cluster: prolog and epilog, health checks, reboots, private folders."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from livecluster import CTLD, ClusterConf, LiveCluster

Make = Callable[..., LiveCluster]


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def node_state(cluster: LiveCluster, name: str) -> str:
    return cluster.run("sinfo", "-h", "-N", "-n", name, "-o", "%t|%E").ok().out.splitlines()[0].strip()


def wait_node_state(cluster: LiveCluster, name: str, state: str) -> None:
    cluster.wait(
        lambda: node_state(cluster, name) == state, f"{name} is {state}", show=lambda: node_state(cluster, name)
    )


def test_a_node_reboots_when_its_job_has_ended(new_cluster: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    reboot = program(tmp_path / "reboot.sh", f"echo $SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME >> {log}")
    cluster = new_cluster(2, ClusterConf(more=(f"RebootProgram={reboot}", "ResumeTimeout=600")))
    job = cluster.sbatch("-w", "n1", "--wrap", "sleep 1000")
    cluster.wait_state(job, "RUNNING")
    cluster.run("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=kernel", "n1").ok()
    assert node_state(cluster, "n1") == "drng@|kernel"
    assert not log.exists()
    cluster.run("scancel", str(job)).ok()
    cluster.wait(lambda: lines(log) == ["reboot n1"], "RebootProgram has run")
    assert node_state(cluster, "n1") == "drain^|kernel"
    cluster.kill("n1")
    cluster.boot_ids["n1"] = "another-boot"
    cluster.start_node("n1")
    cluster.wait(lambda: node_state(cluster, "n1") == "idle|none", "n1 is back")
    assert lines(log) == ["reboot n1"]


def test_a_node_reboots_for_a_job(new_cluster: Make, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    reboot = program(tmp_path / "reboot.sh", f"echo $SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME >> {log}")
    cluster = new_cluster(1, ClusterConf(cpus=4, more=(f"RebootProgram={reboot}", "ResumeTimeout=600")))
    job = cluster.sbatch("--reboot", "-o", str(out), "--wrap", "echo ran")
    cluster.wait(lambda: lines(log) == ["reboot n1"], "RebootProgram has run")
    queue = ("squeue", "-h", "-j", str(job), "-o", "%T %C %N %h")
    assert cluster.run(*queue).ok().out == "CONFIGURING 4 n1 NO\n"
    assert node_state(cluster, "n1") == "alloc^|none"
    assert (
        "\n   Requeue=1 Restarts=0 BatchFlag=1 Reboot=1 " in cluster.run("scontrol", "show", "job", str(job)).ok().out
    )
    cluster.kill("n1")
    cluster.kill(CTLD)
    cluster.start_controller()
    assert cluster.run(*queue).ok().out == "CONFIGURING 4 n1 NO\n"
    cluster.boot_ids["n1"] = "another-boot"
    cluster.start_node("n1")
    cluster.wait_state(job, "COMPLETED")
    assert (lines(log), lines(out)) == (["reboot n1"], ["ran"])


def test_what_cannot_be_rebooted_is_said(new_cluster: Make) -> None:
    cluster = new_cluster(1)
    done = cluster.run("scontrol", "reboot", "n1")
    assert done.status == 1
    assert done.err == (
        "scontrol_reboot_nodes error: Requested operation is presently disabled: RebootProgram is not set\n"
    )
    done = cluster.run("scontrol", "reboot", "ASAP")
    assert (done.status, done.err) == (1, "Missing node list. Specify ALL|<NodeList>\n")


#: On another machine only root is known to the controller: as a plain user the test's nodes have no such caller.
ELSEWHERE = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.mark.parametrize(
    "own_tokens",
    [
        pytest.param(False, id="on the controller's machine"),
        pytest.param(True, id="on a machine of its own", marks=[pytest.mark.root, ELSEWHERE]),
    ],
)
def test_a_health_check_drains_its_node_by_scontrol(new_cluster: Make, tmp_path: Path, own_tokens: bool) -> None:
    check = tmp_path / "check.sh"
    conf = ClusterConf(more=(f"HealthCheckProgram={check}", "HealthCheckInterval=1"), own_tokens=own_tokens)
    cluster = new_cluster(1, conf, start=False)
    path = cluster.environment()["PYTHONPATH"]
    scontrol = f"PYTHONPATH={path} {sys.executable} -P -m cli.scontrol"
    drain = "update nodename=$SLURMD_NODENAME state=drain reason=sick"
    program(check, f"if [ -e {tmp_path}/sick ]; then {scontrol} {drain}; fi")
    cluster.start()
    (tmp_path / "sick").touch()
    cluster.wait(lambda: node_state(cluster, "n1") == "drain|sick", "the check drains n1")


def site(tmp_path: Path, *more: str, **bodies: str) -> ClusterConf:
    """Programs that write into `log` what they are and which job they are for; `bodies` come before that."""
    names = {"prolog": "Prolog", "epilog": "Epilog", "first": "PrologSlurmctld", "last": "EpilogSlurmctld"}
    log, lines_ = tmp_path / "log", []
    for name, key in names.items():
        say = f"echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID ${{SLURM_JOB_EXIT_CODE2:-}} >> {log}"
        path = program(tmp_path / name, f"{bodies.get(name, '')}\n{say}")
        lines_.append(f"{key}={path}")
    return ClusterConf(more=(*lines_, *more))


def test_everything_in_its_order(new_cluster: Make, tmp_path: Path) -> None:
    cluster = new_cluster(1, site(tmp_path))
    log = tmp_path / "log"
    job = cluster.sbatch("--wrap", f"echo job {os.getpid()} >> {log}; sleep 1000 & echo $! > {tmp_path}/left; exit 3")
    cluster.wait_state(job, "FAILED")
    cluster.wait(lambda: len(lines(log)) == 5, "EpilogSlurmctld has run", show=lambda: lines(log))
    assert lines(log) == [
        f"prolog_slurmctld {job}", f"prolog_slurmd {job}", f"job {os.getpid()}", f"epilog_slurmd {job} 3:0",
        f"epilog_slurmctld {job} 3:0",
    ]  # fmt: skip
    out = cluster.run("sacct", "-n", "-P", "-j", str(job), "-o", "JobID,State,ExitCode").ok().out
    assert out.splitlines() == [f"{job}|FAILED|3:0", f"{job}.batch|FAILED|3:0", f"{job}.extern|COMPLETED|0:0"]
    assert cluster.held_steps("n1") == []


def test_an_epilog_finds_no_process_of_the_job(new_cluster: Make, tmp_path: Path) -> None:
    check = f"kill -0 $(cat {tmp_path}/left) 2>/dev/null && echo lives >> {tmp_path}/log"
    cluster = new_cluster(1, site(tmp_path, epilog=check))
    escape = f"setsid sh -c 'echo $$ > {tmp_path}/left; sleep 1000' >/dev/null 2>&1 & sleep 1000"
    job = cluster.sbatch("--wrap", escape)
    cluster.wait_text(tmp_path / "left", "\n")
    cluster.run("scancel", str(job)).ok()
    cluster.wait_state(job, "CANCELLED")
    assert "lives" not in lines(tmp_path / "log")


def test_a_failed_prolog(new_cluster: Make, tmp_path: Path) -> None:
    cluster = new_cluster(2, site(tmp_path, prolog='[ "$SLURMD_NODENAME" = n2 ] || exit 1'))
    job = cluster.sbatch("--wrap", "echo ran")
    cluster.wait(lambda: cluster.job(job).reason == "launch failed requeued held", "the job is held")
    wait_node_state(cluster, "n1", "drain|Prolog error")  # "drng" until the end of the attempt is written
    cluster.run("scontrol", "release", str(job)).ok()
    cluster.wait_state(job, "COMPLETED")
    assert cluster.job(job).node_list == "n2"
    story = cluster.run("scontrol", "show", "story", str(job)).ok().out
    assert f"prolog failed n1: {tmp_path}/prolog: exit status 1" in story


def test_programs_that_hang_are_killed_and_named(new_cluster: Make, tmp_path: Path) -> None:
    conf = site(tmp_path, "PrologEpilogTimeout=1", epilog="sleep 1000")
    cluster = new_cluster(1, conf)
    job = cluster.sbatch("--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    wait_node_state(cluster, "n1", f"drain|Epilog error: {tmp_path}/epilog: killed, it did not end within 1 s")


def test_the_controller_and_the_node_are_killed_during_a_prolog(new_cluster: Make, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    cluster = new_cluster(1, site(tmp_path, prolog=f"read x < {tmp_path}/go"))
    job = cluster.sbatch("--wrap", f"echo job >> {tmp_path}/log")
    cluster.wait(lambda: f"prolog_slurmctld {job}" in lines(tmp_path / "log"), "PrologSlurmctld has run")
    go = os.open(tmp_path / "go", os.O_RDWR)
    cluster.wait(lambda: bool(cluster.held_steps("n1")), "the holder is there")
    cluster.kill(CTLD, "n1")
    cluster.start_controller()
    cluster.start_node("n1")
    cluster.wait_nodes()
    assert cluster.job(job).state == "CONFIGURING"
    os.write(go, b"\n")
    cluster.wait_state(job, "COMPLETED")
    os.close(go)
    order = [line for line in lines(tmp_path / "log") if "slurmctld" not in line]
    assert order == [f"prolog_slurmd {job}", "job", f"epilog_slurmd {job} 0:0"]


def test_jobs_have_a_tmp_of_their_own(new_cluster: Make, disk_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    base = disk_path / "base"
    more = (f"PenstockPrivateTmp={base}", "PenstockPrivateTmpDirs=/mnt,/dev/shm")
    cluster = new_cluster(1, ClusterConf(more=more))
    name = f"penstock-{os.getpid()}"
    look = f"ls /mnt /dev/shm; echo mine > /mnt/{name}; echo mine > /dev/shm/{name}; cat /mnt/{name}"
    jobs = [cluster.sbatch("-o", "out-%j", "--wrap", look) for _ in range(2)]
    for job in jobs:
        cluster.wait_state(job, "COMPLETED")
        assert (cluster.work / f"out-{job}").read_text() == "/dev/shm:\n\n/mnt:\nmine\n"
    assert not Path("/mnt", name).exists() and not Path("/dev/shm", name).exists()
    assert list((base / "n1").iterdir()) == []


def test_an_allocation_waits_for_its_prologs_and_ends_with_its_epilogs(new_cluster: Make, tmp_path: Path) -> None:
    cluster = new_cluster(2, site(tmp_path))
    log = tmp_path / "log"
    srun = f"{sys.executable} -P -m cli.srun -N 2 sh -c 'echo step >> {log}'"
    done = cluster.run("salloc", "-N", "2", "sh", "-c", f"echo inside >> {log}; {srun}")
    assert done.status == 0, str(done)
    cluster.wait(
        lambda: lines(log)[-1:] == ["epilog_slurmctld 1 0:0"], "EpilogSlurmctld has run", show=lambda: lines(log)
    )
    assert lines(log) == [
        "prolog_slurmctld 1", "prolog_slurmd 1", "prolog_slurmd 1", "inside", "step", "step", "epilog_slurmd 1 0:0",
        "epilog_slurmd 1 0:0", "epilog_slurmctld 1 0:0",
    ]  # fmt: skip
    done = cluster.run("srun", "-N", "2", "hostname")
    assert done.status == 0, str(done)


def test_an_allocation_whose_prolog_fails_is_cancelled(new_cluster: Make, tmp_path: Path) -> None:
    cluster = new_cluster(1, site(tmp_path, prolog="exit 1"))
    done = cluster.run("salloc", "true")
    assert done.status == 1, str(done)
    cluster.wait_state(1, "CANCELLED")
    wait_node_state(cluster, "n1", "drain|Prolog error")  # "drng" until the end of the attempt is written


def test_task_prolog_and_task_epilog(new_cluster: Make, tmp_path: Path) -> None:
    prolog = program(tmp_path / "tp", "echo export FROM_PROLOG=yes; echo print hello; echo $SLURM_SCRIPT_CONTEXT >&2")
    epilog = program(tmp_path / "te", f"echo epilog $SLURM_JOB_ID >> {tmp_path}/log")
    cluster = new_cluster(1, ClusterConf(more=(f"TaskProlog={prolog}", f"TaskEpilog={epilog}")))
    job = cluster.sbatch("-o", "out", "--wrap", "echo job $FROM_PROLOG")
    cluster.wait_state(job, "COMPLETED")
    assert (cluster.work / "out").read_text() == "prolog_task\nhello\njob yes\n"
    assert lines(tmp_path / "log") == [f"epilog {job}"]
