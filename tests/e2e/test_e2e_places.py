"""Switches and licenses with real processes: what is shown, what jobs find, and that a restart keeps it."""

from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster

CONF = ClusterConf(cpus=2, more=("TopologyPlugin=topology/tree", "Licenses=matlab:3"))
TREE = "SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n[2-3]\nSwitchName=top Switches=s[1-2]\n"
UPLINKS = """\
- resource: uplink
  mode: MODE_2
  layers: [{layer_name: left, nodes: [n1], count: 1}, {layer_name: right, nodes: ["n[2-3]"], count: 3}]
"""
ECHO = "echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN $SLURM_JOB_LICENSES"
GATE = "while [ ! -e gate ]; do sleep 0.05; done"


def test_switches_and_licenses(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(3, CONF, start=False)
    (cluster.home / "topology.conf").write_text(TREE)
    (cluster.home / "resources.yaml").write_text(UPLINKS)
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

    for job, alloc in ((near, "matlab:2"), (late, "(null)")):
        shown = cluster.run("scontrol", "show", "job", str(job)).ok().out
        assert f"Licenses=matlab:2 LicensesAlloc={alloc} " in shown
    used = "LicenseName=matlab\n    Total=3 Used=2 Free=1 Reserved=0 Remote=no\n"
    assert cluster.run("scontrol", "show", "licenses", "matlab").ok().out == used
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait_state(near, "RUNNING")
    assert cluster.run("scontrol", "show", "licenses", "matlab").ok().out == used
    (cluster.work / "gate").touch()
    cluster.wait_state(near, "COMPLETED")
    cluster.wait_state(late, "COMPLETED")
    assert (cluster.work / "near.txt").read_text() == "top.s2.n2 switch.switch.node matlab:2\n"
    free = "LicenseName=matlab\n    Total=3 Used=0 Free=3 Reserved=0 Remote=no\n"
    assert cluster.run("scontrol", "show", "licenses", "matlab").ok().out == free
    check_layers(cluster)
    check_exclusive_topo(cluster)


def check_layers(cluster: LiveCluster) -> None:
    """A job keeps its layer of a hierarchical resource over a restart of the controller; the next one waits for it."""
    (cluster.work / "gate").unlink()
    first = cluster.sbatch("-L", "uplink:2", "-o", "/dev/null", "--wrap", GATE)
    cluster.wait_state(first, "RUNNING")
    late = cluster.sbatch("-L", "uplink:2", "-o", "/dev/null", "--wrap", "true")
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait(lambda: cluster.job(late).reason == "Licenses", "it waits for the layer")
    assert " LicensesAlloc=uplink(right):2 " in cluster.run("scontrol", "show", "job", str(first)).ok().out
    used = [
        line.split()[1] for line in cluster.run("scontrol", "show", "licenses", "uplink").ok().out.splitlines()[1::4]
    ]
    assert used == ["Used=0", "Used=2"]
    (cluster.work / "gate").touch()
    cluster.wait_state(late, "COMPLETED")


def check_exclusive_topo(cluster: LiveCluster) -> None:
    """A job has switch s2, n2 and n3, for itself alone, also after a restart of the controller."""
    (cluster.work / "gate").unlink()
    alone = cluster.sbatch("--exclusive=topo", "-w", "n2", "-o", "/dev/null", "--wrap", GATE)
    cluster.wait_state(alone, "RUNNING")
    late = cluster.sbatch("-w", "n3", "-o", "/dev/null", "--wrap", "true")
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait_nodes()
    cluster.wait_state(alone, "RUNNING")
    shown = cluster.run("sinfo", "-hN", "-o", "%N %t %T").ok().out.splitlines()
    assert shown == ["n1 idle idle", "n2 mix mixed", "n3 block blocked"]
    words = cluster.run("scontrol", "show", "node", "n3").ok().out.split()
    assert [word for word in words if word.startswith("State=IDLE+BLOCKED")]  # and PLANNED, for the job that waits
    assert "OverSubscribe=TOPO " in cluster.run("scontrol", "show", "job", str(alone)).ok().out
    columns = cluster.run("squeue", "-h", "-t", "R", "-O", "exclusive:10,oversubscribe:10,numcpus:3").ok().out.split()
    assert columns == ["TOPO", "TOPO", "1"]
    why = cluster.run("penstock", "why", str(late)).ok().out
    assert f"leaf s2 is used by job {alone}, which has it for itself alone: 1 node of these" in why
    assert cluster.job(late).state == "PENDING"
    (cluster.work / "gate").touch()
    cluster.wait_state(late, "COMPLETED")


def test_a_job_is_told_where_its_cpus_and_devices_are(cluster: LiveCluster) -> None:
    job = cluster.sbatch("-w", "n1", "-c4", "--gres=gpu:2", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    text = cluster.run("scontrol", "-d", "show", "job", str(job)).ok().out
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith("Nodes=")]
    assert line.split(" Mem=")[0] == "Nodes=n1 CPU_IDs=0-3"
    assert line.split(" GRES=")[1] == "gpu:h200:2(IDX:0-1)"


def test_a_job_leaves_cores_to_the_system(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(1, ClusterConf(cpus=8, more=("AllowSpecResourcesUsage=yes",)))
    shown = "echo $SLURM_JOB_CPUS_PER_NODE $SLURM_CPUS_ON_NODE $SLURM_TASKS_PER_NODE; srun -n7 true && echo ran; srun -n8 true"
    job = cluster.sbatch("-S1", "-o", "spec.txt", "--wrap", shown)
    cluster.wait_state(job, "FAILED")
    first, ran, *_ = (cluster.work / "spec.txt").read_text().splitlines()
    assert (first, ran) == ("7 7 7", "ran")
    text = cluster.run("scontrol", "-d", "show", "job", str(job)).ok().out
    assert "NumCPUs=8 NumTasks=1 " in text and "AllocTRES=cpu=8," in text
    assert " CoreSpec=1\n" in text and "CPU_IDs=0-6 " in text and "OverSubscribe=NO " in text
    assert cluster.run("squeue", "-h", "-t", "all", "-o", "%X %C").ok().out == "1 8\n"
    refused = cluster.run("sbatch", "-S8", "--wrap", "true")
    assert refused.status == 1
    assert refused.err.startswith(
        "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
    )

    held = str(cluster.sbatch("-H", "--wrap", "true"))
    for value, found in (("2", "CoreSpec=2"), ("*", "CoreSpec=*"), ("", "CoreSpec=0")):
        cluster.run("scontrol", "update", f"jobid={held}", f"corespec={value}").ok()
        assert f" {found}\n" in cluster.run("scontrol", "show", "job", held).ok().out
    wrong = cluster.run("scontrol", "update", f"jobid={held}", "corespec=x")
    assert (wrong.status, wrong.err.startswith("scontrol: error: Invalid CoreSpec value: x")) == (1, True)


def test_elsewhere_specialized_cores_are_ignored(cluster: LiveCluster) -> None:
    for option, name in (("-S1", "-S"), ("--thread-spec=1", "--thread-spec")):
        done = cluster.run("sbatch", option, "-o", "/dev/null", "--wrap", "true")
        word = (
            f"sbatch: error: Ignoring {name} since it's not allowed by configuration (AllowSpecResourcesUsage = No)\n"
        )
        assert (done.status, done.err) == (0, word)
