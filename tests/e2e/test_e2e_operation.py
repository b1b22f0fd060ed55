"""A cluster in operation: reconfigured, without its controller, stopped and started, made by `penstock up`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from livecluster import LiveCluster, command
from patience import ANSWER_S

New = Callable[..., LiveCluster]


def test_commands_without_a_controller_fail_clearly(new_cluster: New) -> None:
    cluster = new_cluster(start=False)
    lines = [
        ("sbatch", "--wrap=true"),
        ("squeue",),
        ("sinfo",),
        ("sacct",),
        ("scancel", "1"),
        ("scontrol", "show", "job"),
    ]
    cluster.start_controller()
    cluster.kill("ctld")
    for name, *words in lines:
        done = cluster.run(name, *words)
        assert (done.status, done.out) == (1, ""), str(done)
        assert "Unable to contact" in done.err or "ontroller" in done.err, str(done)
        assert "Traceback" not in done.err
    done = cluster.run("scontrol", "ping")
    assert done.status == 1 and "is DOWN" in done.out


def test_commands_without_any_cluster(new_cluster: New) -> None:
    cluster = new_cluster(start=False)
    for name in ("sbatch", "squeue", "sinfo", "sacct", "scontrol"):
        words = {"sbatch": ("--wrap=true",), "scontrol": ("show", "job")}.get(name, ())
        done = cluster.run(name, *words, env={"PENSTOCK_CLUSTER": str(cluster.home / "none.json")})
        if Path("/etc/penstock/cluster.json").exists():
            return  # this machine has a cluster of its own, which the command rightly finds
        assert (done.status, done.out) == (1, "") and "no cluster found: run `penstock up`" in done.err


def test_clean_stop_and_start_keep_everything(new_cluster: New) -> None:
    cluster = new_cluster(2)
    ended = cluster.sbatch("--wrap", "exit 4")
    held = cluster.sbatch("--hold", "--array=1-3", "--wrap", "true")
    running = cluster.sbatch("-o", "running.txt", "--wrap", "echo go; while [ ! -e gate ]; do sleep 0.05; done")
    cluster.wait_state(ended, "FAILED")
    cluster.wait_text(cluster.work / "running.txt", "go")
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=kept").ok()
    cluster.daemons["ctld"].process.send_signal(signal.SIGTERM)
    assert cluster.wait_death("ctld") == 0
    cluster.start_controller()
    cluster.wait_nodes()
    assert [cluster.job(i).state for i in (ended, held, running)] == ["FAILED", "PENDING", "RUNNING"]
    assert cluster.job(held).array_tasks == "1-3"
    assert "DRAIN" in cluster.node("n2").flags and cluster.node("n2").reason == "kept"
    (cluster.work / "gate").touch()
    cluster.wait_state(running, "COMPLETED")
    assert (cluster.work / "running.txt").read_text() == "go\n"
    assert cluster.sbatch("--hold", "--wrap", "true") > running


def test_shutdown_by_command(new_cluster: New) -> None:
    cluster = new_cluster(start=False)
    cluster.start_controller()
    cluster.run("scontrol", "shutdown").ok()
    assert cluster.wait_death("ctld") == 0


def test_reconfigure_is_all_or_nothing(new_cluster: New) -> None:
    cluster = new_cluster(1)
    good = cluster.conf_text("PartitionName=more Nodes=n1 State=UP").replace("KillWait=1", "KillWait=7")
    cluster.slurm_conf.write_text(good)
    cluster.run("scontrol", "reconfigure").ok()
    partitions = cluster.run("sinfo", "-h", "-o", "%P").ok().out.split()
    assert sorted(partitions) == ["main*", "more"]
    assert "KillWait                = 7 sec" in cluster.run("scontrol", "show", "config").ok().out
    in_force = cluster.run("scontrol", "show", "config").ok().out
    cluster.slurm_conf.write_text(good + "PartitionName=third Nodes=n1\nKillWayt=9\n")
    done = cluster.run("scontrol", "reconfigure")
    assert done.status == 1 and f"{cluster.slurm_conf.name}:" in done.err and "KillWayt" in done.err
    assert cluster.run("sinfo", "-h", "-o", "%P").ok().out.split() == partitions
    now = cluster.run("scontrol", "show", "config").ok().out
    assert now.splitlines()[1:] == in_force.splitlines()[1:]
    job_id = cluster.sbatch("-p", "more", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(job_id, "COMPLETED")


@pytest.fixture
def home(new_cluster: New) -> Path:
    """A folder for `penstock up`, cleaned up whatever happens."""
    return new_cluster(start=False).home / "mine"


def test_penstock_up_status_down(new_cluster: New, home: Path) -> None:
    """The two-minute tour: up, a job, up again after a crash, down, and nothing is left running."""
    env = {"PENSTOCK_HOME": str(home), "PENSTOCK_CLUSTER": ""}
    tool = new_cluster(start=False)
    squeue = f"'{sys.executable}' -P -m cli.squeue -h -o %N"

    def status() -> dict[str, Any]:
        return json.loads(tool.run("penstock", "status", "--json", env=env).ok().out)

    pids: list[int] = []
    try:
        tool.run("penstock", "up", "--nodes", "2", "--cpus-per-node", "4", "--gpus-per-node", "1", env=env).ok()
        state = status()
        pids = [state["ctld"]["pid"], *(n["pid"] for n in state["nodes"])]
        assert len(set(pids)) == 3 and all(Path(f"/proc/{p}").exists() for p in pids)
        done = tool.run("sbatch", "--wait", "-N2", "--gres=gpu:1", "-o", "up.txt", "--wrap", squeue, env=env).ok()
        assert (tool.work / "up.txt").read_text() == "n[1-2]\n", str(done)
        os.kill(state["ctld"]["pid"], signal.SIGKILL)
        tool.run("penstock", "up", env=env).ok()
        again = status()
        pids.append(again["ctld"]["pid"])
        assert [n["pid"] for n in again["nodes"]] == pids[1:3]  # what ran was left alone
        rows = tool.run("sacct", "-nXP", "-S", "now-1hour", "-o", "State", env=env).ok().out.split()
        assert rows == ["COMPLETED"]
    finally:
        down = subprocess.run(
            command("penstock", "down", "--purge"),
            env=tool.environment(**env),
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
    assert down.returncode == 0, down.stdout + down.stderr
    assert not [p for p in pids if running(p)] and not home.exists()


def running(pid: int) -> bool:
    """True when there is such a process and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
