"""Profiles of steps on two nodes without GPUs: while they run, afterwards, for whom, and none where the site wants none."""

import json
import os
import sys
from typing import Any

import pytest
from livecluster import ClusterConf, LiveCluster

SRUN = f"{sys.executable} -P -m cli.srun"
MORE = ("JobAcctGatherFrequency=1", "PrivateData=jobs")
NOBODY = 65534
#: Works and writes until it is told to end; the second node's task works, too.
WORK = """import os, pathlib, sys
while not pathlib.Path("stop").exists():
    sum(range(200_000))
    with open(f"data-{os.environ['SLURM_PROCID']}", "wb") as file:
        file.write(b"x" * 100_000)
        file.flush()
        os.fsync(file.fileno())
"""


@pytest.fixture
def cluster(new_cluster: Any) -> LiveCluster:
    made: LiveCluster = new_cluster(2, ClusterConf(more=MORE))
    (made.work / "work.py").write_text(WORK)
    return made


def profiles(cluster: LiveCluster, job: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The lines by step and node; none while there is none."""
    done = cluster.run("penstock", "profile", "--json", job)
    found = json.loads(done.out)["profiles"] if not done.status else []
    return {(one["step"], one["node"]): one["lines"][0] for one in found}


def test_steps_on_two_nodes(cluster: LiveCluster) -> None:
    script = cluster.script("two.sh", f"#!/bin/sh\n{SRUN} -N2 -n2 {sys.executable} work.py\n")
    job = str(cluster.sbatch("-N2", "-t10", str(script)))
    places = {("0", "n1"), ("0", "n2"), ("batch", "n1")}

    def live() -> bool:
        return {place for place, line in profiles(cluster, job).items() if len(line["elapsed_s"]) >= 2} == places

    cluster.wait(live, "each has two points", show=lambda: profiles(cluster, job))
    assert set(profiles(cluster, f"{job}.0")) == {("0", "n1"), ("0", "n2")}
    cluster.kill("n2")  # its steps go on
    cluster.start_node("n2")
    cluster.wait_nodes("n2")
    before = profiles(cluster, job)["0", "n2"]
    (cluster.work / "stop").touch()
    cluster.wait_state(int(job), "COMPLETED")
    found = profiles(cluster, job)
    assert set(found) == places
    for place, line in found.items():
        metrics = line["metrics"]
        assert metrics["memory_bytes"]["max"] > 0
        assert line["elapsed_s"] == sorted(set(line["elapsed_s"]))
        if place[0] == "0":
            assert metrics["cpu_cores"]["mean"] > 0
    assert found["0", "n2"]["elapsed_s"][: len(before["elapsed_s"])] == before["elapsed_s"]
    if os.geteuid() == 0:  # PrivateData=jobs: of others one sees nothing
        done = cluster.run("penstock", "profile", job, uid=NOBODY)
        assert (done.status, done.out) == (1, "") and "not found" in done.err
    cluster.kill("ctld")
    cluster.start_controller()
    assert set(profiles(cluster, job)) == places  # from the database alone


def test_a_site_without_profiles_and_a_short_job(cluster: LiveCluster) -> None:
    job = str(cluster.sbatch("--wrap", "true"))
    cluster.wait_state(int(job), "COMPLETED")
    assert "no profile" in cluster.run("penstock", "profile", job).err
    cluster.slurm_conf.write_text(cluster.slurm_conf.read_text() + "AcctGatherProfileType=acct_gather_profile/none\n")
    cluster.run("scontrol", "reconfigure").ok()
    shown = cluster.run("scontrol", "show", "config").ok().out
    assert "acct_gather_profile/none" in shown
    job = str(cluster.sbatch("-t10", "--wrap", f"exec {sys.executable} work.py"))
    cluster.wait(lambda: "AveCPU" in cluster.run("sstat", "-j", f"{job}.batch", "-o", "AveCPU").out, "it runs")
    assert "no profile" in cluster.run("penstock", "profile", job).err
    (cluster.work / "stop").touch()
    cluster.wait_state(int(job), "COMPLETED")
    assert profiles(cluster, job) == {}
    assert cluster.run("penstock", "profile", "999").err.startswith("penstock: error: job 999: not found")
