"""What jobs did with their GPUs, from the card to sacct, sstat and seff: real daemons and jobs on the fake NVML.

The fake says what the test says: who is on a GPU, how busy it is, what its energy counter shows.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest

GIB = 1 << 30
SRUN = f"{sys.executable} -P -m cli.srun"
CARD_GB = 140.40  # of an H200
#: Writes who it is and which GPU it sees; goes on when it is told to.
HOLD = """#!/bin/sh
echo "$$ $CUDA_VISIBLE_DEVICES" >"$1.new" && mv "$1.new" "$1"
while [ ! -e "$1.go" ]; do sleep 0.05; done
"""


class Held(NamedTuple):
    """A program of a job that has a GPU."""

    pid: int
    gpu: int  # as the fake numbers them


class GpuCluster(LiveCluster):
    """One node with two GPUs that its daemon finds."""

    def __init__(self) -> None:
        self.map = Path()
        super().__init__(1, ClusterConf(found_gpus=2))
        self.fake = FakeNvml(self.home / "nvml")
        self.joules = {0: 1000, 1: 2000}  # what the counters show
        self.order = sorted((0, 1), key=lambda gpu: str(self.fake.keys[f"gpu.{gpu}.busid"]))
        self.calls = self.home / "calls"
        self.hold = self.home / "hold"
        self.hold.write_text(HOLD)
        self.hold.chmod(0o755)

    def conf_text(self, *more: str) -> str:
        self.map = self.home / "map"
        self.map.mkdir(exist_ok=True)
        return super().conf_text(
            "PenstockGpuPollSeconds=1",
            "JobAcctGatherFrequency=1",
            f"PenstockGpuJobMapDir={self.map}",
            "PenstockGpuIdleWarn=3",
            *more,
        )

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **{**self.fake.env(), "FAKE_NVML_LOG": str(self.calls), **env})

    def held(self, name: str) -> Held:
        """Wait for a program."""
        self.wait_text(self.work / name, " ")
        pid, visible = (self.work / name).read_text().split()
        held = Held(int(pid), self.order[int(visible.split(",")[0])])
        looks = self.looks(held.gpu)  # energy is counted from the first look that knows of the program
        self.wait(lambda: self.looks(held.gpu) >= looks + 2, "its GPU was looked at")
        return held

    def looks(self, gpu: int) -> int:
        """How often the energy counter was read."""
        return self.calls.read_text().count(f" nvmlDeviceGetTotalEnergyConsumption {gpu}\n")

    def go(self, name: str) -> None:
        (self.work / f"{name}.go").touch()

    def busy(self, held: Held, percent: int, gib: float, joules: int) -> None:
        """That program works."""
        gpu = f"gpu.{held.gpu}"
        self.fake.put({f"{gpu}.proc.0": f"{held.pid},{int(gib * GIB)},C,{percent},1", f"{gpu}.util_gpu": percent})
        self.energy(held.gpu, joules)

    def idle(self, gpu: int) -> None:
        """Nobody is there."""
        self.fake.put({f"gpu.{gpu}.proc.0": None, f"gpu.{gpu}.util_gpu": 0})

    def energy(self, gpu: int, joules: int) -> None:
        """So much more than before was used."""
        self.joules[gpu] += joules
        self.fake.put({f"gpu.{gpu}.energy_mj": self.joules[gpu] * 1000})

    def sstat(self, step: str) -> dict[str, str]:
        """The figures of a step that runs."""
        names = "TRESUsageInMax,TRESUsageInTot,ConsumedEnergyRaw"
        done = self.run("sstat", "-nP", "-j", step, "-o", names)
        return dict(zip(names.split(","), done.out.strip().split("|"), strict=False))

    def profile(self, job: str) -> dict[str, dict[str, Any]]:
        """By device, "" = the processes: the lines of a job with one step; none while it has no profile."""
        done = self.run("penstock", "profile", "--json", job)
        if done.status:
            return {}
        (one,) = json.loads(done.out)["profiles"]
        return {line["device"] or "": line for line in one["lines"]}

    def sacct(self, job: str) -> dict[str, dict[str, str]]:
        """By line."""
        names = [
            "JobID",
            "ConsumedEnergyRaw",
            "ConsumedEnergy",
            "TRESUsageInMax",
            "TRESUsageInTot",
            "MaxRSS",
            "AllocTRES",
        ]
        lines = self.run("sacct", "-nPj", job, "-o", ",".join(names)).ok().out.splitlines()
        rows = [dict(zip(names, line.split("|"), strict=True)) for line in lines]
        return {row["JobID"]: row for row in rows}

    def wait_sstat(self, step: str, field: str, text: str) -> None:
        self.wait(lambda: text in self.sstat(step).get(field, ""), f"{step} has {text}", show=lambda: self.sstat(step))


def tres(text: str) -> dict[str, str]:
    return dict(item.split("=") for item in text.split(",")) if text else {}


@pytest.fixture(scope="module")
def shared() -> Iterator[GpuCluster]:
    cluster = GpuCluster()
    try:
        cluster.start_controller()
        cluster.start_node("n1")
        cluster.wait_nodes()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(shared: GpuCluster) -> Iterator[GpuCluster]:
    yield shared
    for gpu in (0, 1):
        shared.idle(gpu)
    for path in shared.work.glob("*.go"):
        path.unlink()
    shared.clean()


def test_a_job_on_one_gpu(cluster: GpuCluster) -> None:
    """Shown while it runs, recorded when it has ended; its energy counter is set back in the middle."""
    job = cluster.sbatch("--gpus=1", "-t10", "--wrap", f"exec {cluster.hold} a")
    held = cluster.held("a")
    place = str(cluster.order.index(held.gpu))
    assert (cluster.map / place).read_text() == f"{job}\n"
    cluster.busy(held, 80, 20, 500)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "500")
    shown = tres(cluster.sstat(f"{job}.batch")["TRESUsageInMax"])
    assert (shown["gres/gpumem"], shown["gres/gpuutil"], shown["energy"]) == ("20G", "80", "500")
    assert "GPU Memory Utilized: 20.00 GB" in cluster.run("seff", str(job)).ok().out
    cluster.joules[held.gpu] = 0  # the driver was loaded again
    cluster.energy(held.gpu, 7)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "507")
    cluster.idle(held.gpu)
    cluster.energy(held.gpu, 2)
    cluster.go("a")
    cluster.wait_state(job, "COMPLETED")
    rows = cluster.sacct(str(job))
    assert (rows[str(job)]["ConsumedEnergyRaw"], rows[f"{job}.batch"]["ConsumedEnergyRaw"]) == ("509", "509")
    told = tres(rows[f"{job}.batch"]["TRESUsageInMax"])
    assert (told["gres/gpumem"], told["gres/gpuutil"]) == ("20G", "80")
    assert "cpu" in told  # the figures that a script always had are still there
    assert not (cluster.map / place).exists()
    cluster.wait(lambda: "its GPUs is an estimate" in cluster.logs(), "the log says so")
    seff = json.loads(cluster.run("penstock", "seff", "--json", str(job)).ok().out)["gpu"]
    assert (seff["count"], seff["memory_used"], seff["energy_joules"]) == (1, 20 * GIB, 509)
    assert 0 < seff["efficiency_percent"] <= 80 and seff["memory_efficiency_percent"] == pytest.approx(14.25, abs=0.1)
    lines = cluster.run("seff", str(job)).ok().out.splitlines()
    assert "GPU Energy: 509 J (0.000 kWh, estimated)" in lines
    assert f"GPU Memory Efficiency: 14.24% of {CARD_GB:.2f} GB ({CARD_GB:.2f} GB/GPU)" in lines


def test_two_steps_on_two_gpus(cluster: GpuCluster) -> None:
    """Each has what it did; the script above them only what neither did."""
    steps = "\n".join(f"{SRUN} --exact -n1 --gpus=1 {cluster.hold} {name} &" for name in ("s0", "s1"))
    script = cluster.script("two.sh", f"#!/bin/sh\n{steps}\nwait\n")
    job = cluster.sbatch("--gpus=2", "-n2", "-t10", str(script))
    first, second = cluster.held("s0"), cluster.held("s1")
    assert {first.gpu, second.gpu} == {0, 1}
    cluster.busy(first, 90, 10, 300)
    cluster.busy(second, 30, 2, 100)
    owner: dict[str, Held] = {}
    for step in ("0", "1"):
        cluster.wait_sstat(f"{job}.{step}", "TRESUsageInMax", "gres/gpumem=")
        cluster.wait(
            lambda: tres(cluster.sstat(f"{job}.{step}")["TRESUsageInMax"]).get("gres/gpumem") in ("10G", "2G"),
            "its memory is counted",
        )  # fmt: skip
        memory = tres(cluster.sstat(f"{job}.{step}")["TRESUsageInMax"])["gres/gpumem"]
        owner[step] = first if memory == "10G" else second
    assert len(set(owner.values())) == 2
    for name in ("s0", "s1"):
        cluster.go(name)
    cluster.wait_state(job, "COMPLETED")
    rows = cluster.sacct(str(job))
    for step, held in owner.items():
        told = tres(rows[f"{job}.{step}"]["TRESUsageInMax"])
        expected = ("10G", "90", 300) if held is first else ("2G", "30", 100)
        assert (told["gres/gpumem"], told["gres/gpuutil"]) == expected[:2]
        assert int(rows[f"{job}.{step}"]["ConsumedEnergyRaw"]) == expected[2]
    assert rows[f"{job}.batch"]["ConsumedEnergyRaw"] == "0"
    assert rows[str(job)]["ConsumedEnergyRaw"] == "400"


def test_the_node_daemon_is_killed_in_the_middle(cluster: GpuCluster) -> None:
    job = cluster.sbatch("--gpus=1", "-t10", "--wrap", f"exec {cluster.hold} k")
    held = cluster.held("k")
    cluster.busy(held, 60, 5, 100)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "100")
    cluster.kill("n1")
    cluster.busy(held, 40, 3, 300)
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    place = str(cluster.order.index(held.gpu))
    cluster.wait(lambda: (cluster.map / place).exists(), "the map is there again")
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "400")
    cluster.idle(held.gpu)
    cluster.go("k")
    cluster.wait_state(job, "COMPLETED")
    rows = cluster.sacct(str(job))
    told = tres(rows[f"{job}.batch"]["TRESUsageInMax"])
    assert (told["gres/gpumem"], told["gres/gpuutil"], rows[str(job)]["ConsumedEnergyRaw"]) == ("5G", "60", "400")


def test_a_job_that_ends_while_no_daemon_is_there(cluster: GpuCluster) -> None:
    job = cluster.sbatch("--gpus=1", "-t10", "--wrap", f"exec {cluster.hold} e")
    held = cluster.held("e")
    cluster.busy(held, 60, 5, 100)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "100")
    cluster.kill("n1")
    cluster.go("e")
    cluster.wait(lambda: not os.path.exists(f"/proc/{held.pid}"), "it has ended")
    cluster.start_node("n1")
    cluster.wait_state(job, "COMPLETED")
    assert cluster.sacct(str(job))[str(job)]["ConsumedEnergyRaw"] == "100"


def test_a_profile_while_it_runs_and_afterwards(cluster: GpuCluster) -> None:
    """From the cards and processes to the chart, the table, CSV, seff and waste; the daemon is killed in the middle."""
    job = str(cluster.sbatch("--gpus=1", "-t10", "-J", "lazy", "--wrap", f"exec {cluster.hold} p"))
    held = cluster.held("p")
    uuid = str(cluster.fake.keys[f"gpu.{held.gpu}.uuid"])

    def gpu(metric: str, what: str = "max") -> Any:
        return cluster.profile(job).get(uuid, {}).get("metrics", {}).get(metric, {}).get(what)

    cluster.busy(held, 80, 20, 500)
    cluster.wait(lambda: gpu("gpu_utilization_percent") == 80, "it is busy", show=lambda: cluster.profile(job))
    assert gpu("gpu_memory_bytes") == 20 * GIB
    cluster.kill("n1")
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    cluster.idle(held.gpu)
    cluster.wait(lambda: cluster.profile(job).get(uuid, {}).get("idle_s", 0) > 0, "it is idle")
    cluster.go("p")
    cluster.wait_state(int(job), "COMPLETED")
    found = cluster.profile(job)
    assert set(found) == {"", uuid}
    assert (
        found[""]["elapsed_s"] == sorted(set(found[""]["elapsed_s"]))
        and found[""]["metrics"]["memory_bytes"]["max"] > 0
    )
    metrics = found[uuid]["metrics"]
    assert metrics["gpu_utilization_percent"]["max"] == 80  # of before the daemon was killed, too
    assert metrics["gpu_temperature_celsius"]["max"] > 0 and metrics["gpu_power_watts"]["max"] > 0
    assert 0 < found[uuid]["idle_s"] < found[uuid]["known_s"]
    text = cluster.run("penstock", "profile", job).ok().out
    assert f"Step {job}.batch on n1: " in text and "GPU 0  busy" in text and uuid in text and "IDLE" in text
    rows = list(csv.DictReader(cluster.run("penstock", "profile", job, "--csv=-").ok().out.splitlines()))
    assert {row["metric"] for row in rows} >= {"cpu_cores", "memory_bytes", "gpu_utilization_percent"}
    assert max(float(row["max"]) for row in rows if row["metric"] == "gpu_utilization_percent") == 80
    assert cluster.run("penstock", "profile", f"{job}.batch", "--csv", "p.csv").ok().out.startswith("p.csv: ")
    assert "GPU Idle: " in cluster.run("seff", job).ok().out
    waste = json.loads(cluster.run("penstock", "waste", "--by=name", "--json").ok().out)["rows"]
    mine = next(row for row in waste if row["name"] == "lazy")
    assert mine["worst_job"] == int(job) and 0 <= mine["unused_gpu_s"] <= mine["allocated_gpu_s"]
    assert "--wrap" in mine["worst_command"]


def test_waste_over_rest_is_that_of_the_command(cluster: GpuCluster) -> None:
    """The same rows, to the second, with the command line of the worst job."""
    job = cluster.sbatch("--gpus=1", "-t10", "-J", "half", "--wrap", f"exec {cluster.hold} w")
    held = cluster.held("w")
    cluster.busy(held, 40, 20, 500)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "500")
    cluster.idle(held.gpu)
    cluster.go("w")
    cluster.wait_ends(job)
    rest = LiveRest(cluster)
    rest.start()
    for by in ("user", "account", "name"):
        rows = json.loads(cluster.run("penstock", "waste", f"--by={by}", "--json").ok().out)["rows"]
        with rest.by_socket() as client:
            assert client.get(f"/penstock/v1/waste?by={by}").json()["rows"] == rows
    (mine,) = (row for row in rows if row["name"] == "half")
    assert (mine["worst_job"], mine["jobs"]) == (job, 1) and "--wrap" in mine["worst_command"]


def test_who_wants_no_profile_has_none(cluster: GpuCluster) -> None:
    job = str(cluster.sbatch("--gpus=1", "-t10", "--profile=none", "--wrap", f"exec {cluster.hold} n"))
    held = cluster.held("n")
    cluster.busy(held, 80, 20, 500)
    cluster.wait_sstat(f"{job}.batch", "ConsumedEnergyRaw", "500")
    assert "no profile" in cluster.run("penstock", "profile", job).err
    cluster.idle(held.gpu)
    cluster.go("n")
    cluster.wait_state(int(job), "COMPLETED")
    done = cluster.run("penstock", "profile", job)
    assert (done.status, done.out) == (1, "") and "no profile" in done.err


def test_a_job_without_gpus_has_none_of_it(cluster: GpuCluster) -> None:
    job = cluster.sbatch("--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    row = cluster.sacct(str(job))[f"{job}.batch"]
    assert "gpu" not in row["TRESUsageInTot"] and row["ConsumedEnergy"] == ""
    assert "GPU" not in cluster.run("seff", str(job)).ok().out


def test_a_job_that_leaves_its_gpu_idle_is_told(cluster: GpuCluster) -> None:
    job = cluster.sbatch("--gpus=1", "-t10", "--output=idle.out", "--wrap", f"exec {cluster.hold} i")
    held = cluster.held("i")
    place = cluster.order.index(held.gpu)
    cluster.wait(lambda: f"idle: GPU {place} of n1" in cluster.job(job).admin_comment, "it is told")
    cluster.wait_text(cluster.work / "idle.out", f"GPU {place} of n1 has done nothing for ")
    cluster.go("i")
    cluster.wait_state(job, "COMPLETED")
