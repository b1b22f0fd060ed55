"""What surrounds jobs, on a real cluster: prolog and epilog, health checks, reboots, private folders."""

import sys
from collections.abc import Callable
from pathlib import Path

from livecluster import ClusterConf, LiveCluster

Make = Callable[..., LiveCluster]


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def node_state(cluster: LiveCluster, name: str) -> str:
    return cluster.run("sinfo", "-h", "-N", "-n", name, "-o", "%t|%E").ok().out.splitlines()[0].strip()


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


def test_what_cannot_be_rebooted_is_said(new_cluster: Make) -> None:
    cluster = new_cluster(1)
    done = cluster.run("scontrol", "reboot", "n1")
    assert done.status == 1
    assert done.err == (
        "scontrol_reboot_nodes error: Requested operation is presently disabled: RebootProgram is not set\n"
    )
    done = cluster.run("scontrol", "reboot", "ASAP")
    assert (done.status, done.err) == (1, 'You must specify a list of nodes or "ALL" to reboot\n')


def test_a_health_check_drains_its_node_by_scontrol(new_cluster: Make, tmp_path: Path) -> None:
    check = tmp_path / "check.sh"
    conf = ClusterConf(more=(f"HealthCheckProgram={check}", "HealthCheckInterval=1"))
    cluster = new_cluster(1, conf, start=False)
    path = cluster.environment()["PYTHONPATH"]
    scontrol = f"PYTHONPATH={path} {sys.executable} -P -m cli.scontrol"
    drain = "update nodename=$SLURMD_NODENAME state=drain reason=sick"
    program(check, f"if [ -e {tmp_path}/sick ]; then {scontrol} {drain}; fi")
    cluster.start()
    (tmp_path / "sick").touch()
    cluster.wait(lambda: node_state(cluster, "n1") == "drain|sick", "the check drains n1")
