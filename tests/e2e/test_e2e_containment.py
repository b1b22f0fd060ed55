"""cgroup.conf on a whole cluster: limits reach jobs, their ends reach sacct, a reload reaches the nodes."""

import os
import sys

import pytest
from livecluster import ClusterConf, LiveCluster

from nodedaemon.cgroups import find as cgroup_find

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
EAT = f"{sys.executable} -c 'x = b\"x\" * (300 << 20)'"
MORE = ("JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=1")


@pytest.fixture
def limited(tmp_path, new_cluster):
    found = cgroup_find.detect("look", str(tmp_path))
    cgroup_find.remove_subtree(found)
    if not found.can("memory") or not found.can("pids"):
        pytest.skip("no memory and pids control groups here")
    cluster: LiveCluster = new_cluster(1, ClusterConf(more=MORE), start=False)
    (cluster.home / "cgroup.conf").write_text("ConstrainRAMSpace=yes\nMinRAMSpace=1\n")
    return cluster.start()


def fields(cluster: LiveCluster, job: int, names: str) -> list[list[str]]:
    out = cluster.run("sacct", "-n", "-P", "-j", str(job), "-o", names).ok().out
    return [line.split("|") for line in out.splitlines()]


def test_out_of_memory_is_what_sacct_says(limited):
    """The script went on after its child was killed, and ended well."""
    job = limited.sbatch("--mem=50", "--wrap", f"{EAT}; exit 0")
    limited.wait_state(job, "OUT_OF_MEMORY")
    assert fields(limited, job, "JobID,State,ExitCode") == [
        [str(job), "OUT_OF_MEMORY", "0:125"],
        [f"{job}.batch", "OUT_OF_MEMORY", "0:125"],
    ]
    shown = limited.run("scontrol", "show", "job", str(job)).ok().out
    assert "JobState=OUT_OF_MEMORY Reason=OutOfMemory" in shown and "ExitCode=0:125" in shown


def test_what_a_step_used_is_recorded(limited):
    work = "import time; x = b'x' * (60 << 20); t = time.process_time()\nwhile time.process_time() < t + 1.5: pass"
    (limited.work / "work.py").write_text(work)
    job = limited.sbatch("--mem=200", "--wrap", f"{sys.executable} work.py")
    limited.wait_state(job, "COMPLETED")
    ((max_rss, max_vmsize, cpu, tasks),) = fields(limited, job, "MaxRSS,MaxVMSize,AveCPU,NTasks")[1:]
    assert 60 * 1024 < int(max_rss.removesuffix("K")) < 150 * 1024
    assert int(max_vmsize.removesuffix("K")) > int(max_rss.removesuffix("K"))
    assert (cpu[:8], tasks) == ("00:00:01", "1")


def test_a_reload_reaches_the_nodes(limited):
    shown = limited.run("scontrol", "show", "config").ok().out
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("ConstrainRAMSpace")] == ["yes"]
    (limited.home / "cgroup.conf").write_text("ConstrainRAMSpace=no\nPenstockMaxPidsPerJob=9\n")
    limited.run("scontrol", "reconfigure").ok()
    fork = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done"
    job = limited.sbatch("--mem=50", "--output=out", "--wrap", f"{EAT} && echo large; {fork}; echo all")
    limited.wait_state(job, "FAILED")
    said = (limited.work / "out").read_text()
    assert "large" in said
    assert "ork" in said and "all" not in said  # `Cannot fork`, in the shell's own words
