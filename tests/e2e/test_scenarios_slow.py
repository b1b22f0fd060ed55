"""One part that does not move holds up nobody else: a node that never answers (reliability 20), output that hangs (27)."""

import os
import signal
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster, shown

New = Callable[..., LiveCluster]


def test_scenario_20_one_of_four_nodes_never_answers(new_cluster: New) -> None:
    """What is launched there waits; all others are launched, run, end and are forgotten as ever. Then it wakes up."""
    cluster = new_cluster(4, ClusterConf(cpus=4))
    cluster.daemons["n1"].process.send_signal(signal.SIGSTOP)
    # Sixteen at a time, four of them for n1: those stay where they are, and 60 others pass through three nodes.
    array = cluster.sbatch("--array=1-64", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(
        lambda: sum(job.state == "COMPLETED" for job in cluster.jobs(array)) == 60,
        "sixty have run", show=lambda: [shown(job) for job in cluster.jobs(array) if job.state != "COMPLETED"],
    )  # fmt: skip
    left = [job for job in cluster.jobs(array) if job.state != "COMPLETED"]
    assert {(job.state, job.node_list) for job in left} == {("RUNNING", "n1")} and len(left) == 4
    cluster.daemons["n1"].process.send_signal(signal.SIGCONT)
    for job in cluster.wait_ends(array):
        assert (job.state, job.attempt) == ("COMPLETED", 0), shown(job)


def test_scenario_27_output_that_hangs(new_cluster: New) -> None:
    """A job hangs on opening its output; the node goes on with others, and the hanging one can be cancelled."""
    cluster = new_cluster(1)
    fifo = cluster.work / "fifo"  # nobody reads it: to open it for writing takes for ever
    os.mkfifo(fifo)
    hanging = cluster.sbatch("-o", str(fifo), "--wrap", "true")
    cluster.wait(lambda: cluster.held_steps("n1"), "its launch has arrived")
    others = cluster.sbatch("--array=1-10", "-o", "/dev/null", "--wrap", "true")
    assert {job.state for job in cluster.wait_ends(others)} == {"COMPLETED"}
    assert cluster.job(hanging).state == "RUNNING"
    cluster.run("scancel", str(hanging)).ok()
    cluster.wait_state(hanging, "CANCELLED")
    cluster.wait_state(cluster.sbatch("-o", "/dev/null", "--wrap", "true"), "COMPLETED")
