"""GPUs divided on demand: real daemons and jobs, the real pynvml, and a card that the fake library keeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster

LAYOUTS = "whole|1g.18gb*7|3g.71gb,2g.35gb,1g.18gb"
PAUSE_S = 1
#: The order in the job's environment, and until it is told to go on.
JOB = """#!/bin/sh
echo "$CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS" >"$1.new" && mv "$1.new" "$1"
while [ ! -e "$1.go" ]; do sleep 0.05; done
"""


class MigCluster(LiveCluster):
    """One node with one or two H200s that may be divided."""

    def __init__(self, gpus: int = 1, more: tuple[str, ...] = ()) -> None:
        self.gpus = gpus
        super().__init__(1, ClusterConf(found_gpus=gpus, more=(f"PenstockMigPauseSeconds={PAUSE_S}", *more)))
        self.fake = FakeNvml(self.home / "nvml", changes={"sys.count": gpus})
        self.script("job", JOB)

    def conf_text(self, *more: str) -> str:
        line = f"Name=gpu Type=h200 Count={self.gpus} PenstockMigLayouts={LAYOUTS}\n"
        (self.home / "gres.conf").write_text(f"AutoDetect=nvml\n{line}")
        return super().conf_text("PenstockGpuPollSeconds=1", *more)

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **{**self.fake.env(), **env})

    def submit(self, gres: str, name: str) -> int:
        return self.sbatch(f"--gres=gpu:{gres}", "-t", "10", str(self.work / "job"), name)

    def sees(self, name: str) -> str:
        """What the job's environment says."""
        return self.wait_text(self.work / name, " ").strip()

    def go(self, name: str) -> None:
        (self.work / f"{name}.go").touch()

    def detail(self, job: int) -> str:
        return str(self.job(job).reason_detail)

    def gres(self) -> str:
        return self.run("sinfo", "-h", "-o", "%G").ok().out.strip()

    def reboot(self) -> None:
        """The card loses its instances, as in a reboot."""
        Path(f"{self.fake.path}.set").unlink()
        self.fake.put({})


@pytest.fixture
def cluster() -> Iterator[MigCluster]:
    with MigCluster() as made:
        yield made


def test_divided_for_a_job_and_put_together_for_the_next(cluster: MigCluster) -> None:
    assert cluster.gres() == "gpu:h200:1"
    first, second = cluster.submit("1g.18gb:1", "first"), cluster.submit("1g.18gb:2", "second")
    visible, _ = cluster.sees("first").split()
    assert visible.startswith("MIG-")
    more = cluster.sees("second").split()[0].split(",")
    assert len(more) == 2
    assert visible not in more
    assert cluster.gres() == "gpu:1g.18gb:7"
    whole = cluster.submit("h200:1", "whole")
    cluster.wait(lambda: "to be idle and then to be made whole" in cluster.detail(whole), "it says what it waits for")
    for name in ("first", "second"):
        cluster.go(name)
    cluster.wait_ends(first, second)
    assert cluster.sees("whole") == "0 0"
    assert cluster.gres() == "gpu:h200:1"
    cluster.go("whole")
    cluster.wait_state(whole, "COMPLETED")


def test_a_division_that_fails_leaves_all_as_it_was(cluster: MigCluster) -> None:
    cluster.fake.put({"gpu.0.refuse_profile.19": 23})  # 1g.18gb
    failed = cluster.submit("1g.18gb:1", "parts")
    cluster.wait(lambda: "nvmlDeviceCreateGpuInstance: Insufficient Resources" in cluster.logs(), "it fails")
    whole = cluster.submit("h200:1", "whole")
    cluster.run("scancel", str(failed)).ok()
    assert cluster.sees("whole") == "0 0"
    cluster.go("whole")
    cluster.wait_state(whole, "COMPLETED")
    assert cluster.gres() == "gpu:h200:1"


def test_the_card_that_is_free_is_divided_beside_one_in_use() -> None:
    with MigCluster(gpus=2) as cluster:
        cluster.submit("h200:1", "other")
        assert cluster.sees("other") == "0 0"
        cluster.submit("3g.71gb:1", "part")
        assert cluster.sees("part").startswith("MIG-")
        assert cluster.gres() == "gpu:h200:1,gpu:1g.18gb:1,gpu:2g.35gb:1,gpu:3g.71gb:1"
        for name in ("other", "part"):
            cluster.go(name)


def test_a_node_that_was_rebooted_has_its_layout_again(cluster: MigCluster) -> None:
    first = cluster.submit("3g.71gb:1", "first")
    visible = cluster.sees("first")
    cluster.go("first")
    cluster.wait_state(first, "COMPLETED")
    cluster.kill("n1")
    cluster.wait_death("n1")
    cluster.reboot()
    cluster.start_node("n1")
    cluster.wait_nodes()
    assert cluster.gres() == "gpu:1g.18gb:1,gpu:2g.35gb:1,gpu:3g.71gb:1"
    cluster.submit("3g.71gb:1", "second")
    assert cluster.sees("second") == visible
    cluster.go("second")


def test_jobs_go_on_when_the_daemon_is_started_anew(cluster: MigCluster) -> None:
    first = cluster.submit("1g.18gb:1", "first")
    cluster.sees("first")
    cluster.kill("n1")
    cluster.wait_death("n1")
    cluster.start_node("n1")
    cluster.wait_nodes()
    assert cluster.gres() == "gpu:1g.18gb:7"
    cluster.go("first")
    cluster.wait_state(first, "COMPLETED")
