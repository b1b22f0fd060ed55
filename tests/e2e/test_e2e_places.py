"""Switches and licenses with real processes: what is shown, what jobs find, and that a restart keeps it."""

from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster

CONF = ClusterConf(cpus=2, more=("TopologyPlugin=topology/tree", "Licenses=matlab:3"))
TREE = "SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n[2-3]\nSwitchName=top Switches=s[1-2]\n"
ECHO = "echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN $SLURM_JOB_LICENSES"
GATE = "while [ ! -e gate ]; do sleep 0.05; done"


def test_switches_and_licenses(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(3, CONF, start=False)
    (cluster.home / "topology.conf").write_text(TREE)
    cluster.start()
    assert cluster.run("scontrol", "show", "topology", "n2").ok().out.splitlines() == [
        "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[2-3]",
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[1-2]",
    ]
    assert cluster.run("scontrol", "show", "topoconf").ok().out == TREE

    near = cluster.sbatch("-N2", "-c2", "-L", "matlab:2", "-o", "near.txt", "--wrap", f"{ECHO}; {GATE}")
    cluster.wait_state(near, "RUNNING")
    assert cluster.job(near).node_list == "n[2-3]"
    late = cluster.sbatch("-L", "matlab:2", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(lambda: cluster.job(late).reason == "Licenses", "it waits for licenses")
    assert cluster.run("squeue", "-h", "-L", "matlab", "-o", "%i %T %W").ok().out.splitlines() == [
        f"{late} PENDING matlab:2", f"{near} RUNNING matlab:2",
    ]  # fmt: skip

    used = "LicenseName=matlab\n    Total=3 Used=2 Free=1 Reserved=0 Remote=no\n"
    assert cluster.run("scontrol", "show", "licenses").ok().out == used
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait_state(near, "RUNNING")
    assert cluster.run("scontrol", "show", "licenses").ok().out == used
    (cluster.work / "gate").touch()
    cluster.wait_state(near, "COMPLETED")
    cluster.wait_state(late, "COMPLETED")
    assert (cluster.work / "near.txt").read_text() == "top.s2.n2 switch.switch.node matlab:2\n"
    free = "LicenseName=matlab\n    Total=3 Used=0 Free=3 Reserved=0 Remote=no\n"
    assert cluster.run("scontrol", "show", "licenses").ok().out == free


def test_a_job_is_told_where_its_cpus_and_devices_are(cluster: LiveCluster) -> None:
    job = cluster.sbatch("-w", "n1", "-c4", "--gres=gpu:2", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    text = cluster.run("scontrol", "-d", "show", "job", str(job)).ok().out
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith("Nodes=")]
    assert line.split(" Mem=")[0] == "Nodes=n1 CPU_IDs=0-3"
    assert line.split(" GRES=")[1] == "gpu:h200:2(IDX:0-1)"
