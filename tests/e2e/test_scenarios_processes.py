"""A full process table on the controller's machine: it loses nothing, answers everything, and starts programs later."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from livecluster import CTLD, ROOT, ClusterConf, LiveCluster
from processlimit import process_limit

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
New = Callable[..., LiveCluster]


def test_a_controller_that_can_start_nothing(new_cluster: New) -> None:
    """Neither a thread nor a program can be started, from its first request on."""
    cluster = new_cluster(1, ClusterConf(cpus=8, more=("MailProg=/bin/true", "PriorityType=priority/multifactor")))
    controller = cluster.daemons[CTLD].process
    with process_limit(cluster.work) as table:
        table.take(controller.pid)
        table.fill()
        jobs = [cluster.sbatch("--mail-type=ALL", "-o", "/dev/null", "--wrap", "true") for _ in range(8)]
        for job in jobs:
            cluster.wait_state(job, "COMPLETED")
        for words in (
            ["sinfo"], ["squeue", "-u", "root"], ["sshare"], ["sprio"], ["sdiag"], ["sacct", "-j", str(jobs[0])],
            ["sreport", "cluster", "utilization"], ["scontrol", "show", "job", str(jobs[0])],
            ["scontrol", "reconfigure"], ["penstock", "why", str(jobs[0])],
        ):  # fmt: skip
            cluster.run(*words).ok()
        assert controller.poll() is None
        cluster.wait(lambda: "MailProg cannot be run" in cluster.logs(), "the log names the program")
        table.free()
        assert cluster.run("sbatch", "--mail-type=ALL", "-o", "/dev/null", "--wrap", "true").ok()
        assert controller.poll() is None


CONF = """ClusterName=c
SlurmctldHost=localhost
StateSaveLocation={0}
NodeName=n1 CPUs=1
PartitionName=main Nodes=ALL
"""
NODE_WORDS = ("--node-name", "n1", "--controller", "unix:none", "--spool", "n1")


@pytest.mark.parametrize(
    ("thread", "words"), [("start", ("ctld", "--config", "slurm.conf")), ("log", ("noded", *NODE_WORDS))]
)
def test_a_daemon_that_cannot_start_its_threads_says_so(tmp_path: Path, thread: str, words: tuple[str, ...]) -> None:
    """`thread`: its first one."""
    (tmp_path / "slurm.conf").write_text(CONF.format(tmp_path))
    with process_limit(tmp_path) as table:
        table.fill()
        command = table.entering([sys.executable, "-P", "-m", "cli.penstock", *words])
        path = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=path)
    assert done.stderr == f"penstock {words[0]}: error: thread {thread}: Resource temporarily unavailable\n"
    assert done.returncode == 75  # temporary: systemd starts it again
