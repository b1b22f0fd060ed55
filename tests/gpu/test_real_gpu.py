"""A cluster with a card: found, shown, pinned, shared out, accounted, let go of again; shared/gpu.md section 5.

The same tests run twice. `fake`: in every `make test`, on the fake library, where somebody plays the driver (cards.py).
`real`: with `make test-gpu` on a machine with an NVIDIA GPU; about 4 minutes. They leave the card's settings alone, the node
daemon too (PenstockGpuSettings=read-only), and look afterwards that it was so. Whether jobs are kept from the device files
depends on the machine: it is recorded, and no failure. All numbers go to a JSON file in the folder $OUT.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livecluster import ClusterConf, LiveCluster, logs_if_failed
from patience import END_S

from penstock.values.memory import parse_mb
from tests.gpu.cards import ENERGY_OFF, LOAD_MIB, LOAD_S, Card, card_of

#: What the node daemon logs where the kernel's log is root's: it is about XIDs, but none was seen.
NO_KERNEL_LOG = "XIDs are received from NVML only"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
MIB = 1024  # KiB
#: After its programs are gone, a card is empty within so long.


class GpuCluster(LiveCluster):
    """One node whose daemon finds the card."""

    def __init__(self, card: Card, conf: ClusterConf) -> None:
        self.card = card
        super().__init__(1, conf)

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **{**self.card.env(), **env})

    def submit(self, command: str, *words: str) -> int:
        """A job that runs one command in the card's environment."""
        return self.sbatch(*words, "--output=%j.out", "--wrap", f"exec {command}", **self.card.env())

    def output(self, job_id: int) -> str:
        """What the job has printed."""
        return (self.work / f"{job_id}.out").read_text()

    def seen(self, *words: str) -> dict[str, Any]:
        """What a job sees of GPUs."""
        job_id = self.submit(self.card.sees(), *words)
        self.wait_state(job_id, "COMPLETED", limit_s=END_S)
        found: dict[str, Any] = json.loads(self.output(job_id))
        return found

    def used_mb(self) -> int:
        """Memory in use on the card that the load runs on."""
        return max(gpu["memory_used_kb"] for gpu in self.card.look()["gpus"]) // MIB

    def wait_load(self, job_id: int) -> None:
        """Wait until the job holds its memory."""
        self.wait_state(job_id, "RUNNING", limit_s=END_S)
        self.wait(lambda: self.used_mb() >= LOAD_MIB, "the load holds its memory", END_S, show=self.used_mb)

    def watch_load(self) -> list[int]:
        """Look at the card for as long as the load is to last; what is in use at each look, in KiB."""
        until = time.monotonic() + LOAD_S[self.card.kind]
        found: list[int] = []

        def is_enough() -> bool:
            found.append(max(gpu["memory_used_kb"] for gpu in self.card.look()["gpus"]))
            return time.monotonic() > until

        self.wait(is_enough, "the load has lasted", LOAD_S[self.card.kind] + END_S)
        return found

    def wait_empty(self) -> float:
        """Wait until nobody uses the card; how long that took, in seconds."""
        began = time.monotonic()
        self.wait(lambda: self.used_mb() < LOAD_MIB // 2, "the card is empty", END_S, show=self.used_mb)
        self.wait(lambda: not any(gpu["pids"] for gpu in self.card.look()["gpus"]), "nobody is on it", END_S)
        return time.monotonic() - began


@pytest.fixture(scope="module", params=["fake", pytest.param("real", marks=pytest.mark.realgpu)])
def numbers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What was measured; written down at the end."""
    found: dict[str, Any] = {"card": request.param, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    yield found
    folder = Path(os.environ.get("OUT") or tmp_path_factory.mktemp("out"))
    path = folder / f"gpu-{request.param}.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"\n{path}:\n{path.read_text()}")


@pytest.fixture(scope="module")
def card(numbers: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Card]:
    """The card, as it was found."""
    with card_of(numbers["card"], tmp_path_factory.mktemp("card")) as found:
        before = found.look()
        numbers["driver"] = before["driver"]
        numbers["gpus"] = [
            {key: gpu[key] for key in ("uuid", "name", "minor", "memory_total_mb")} for gpu in before["gpus"]
        ]
        numbers["settings"] = [gpu["settings"] for gpu in before["gpus"]]
        yield found


@pytest.fixture(scope="module")
def running(card: Card) -> Iterator[GpuCluster]:
    count = len(card.look()["gpus"])
    more = ("PenstockGpuSettings=read-only", "PenstockGpuPollSeconds=1", "JobAcctGatherFrequency=1")
    cluster = GpuCluster(card, ClusterConf(found_gpus=count, more=more))
    if card.kind == "real" and os.geteuid() == 0:
        (cluster.home / "cgroup.conf").write_text("ConstrainDevices=yes\n")
    with cluster:
        yield cluster


@pytest.fixture
def cluster(running: GpuCluster, request: pytest.FixtureRequest) -> Iterator[GpuCluster]:
    """The cluster, without jobs; a failed test shows its logs."""
    with logs_if_failed(running, request.session):
        yield running
    running.wait_empty()


def all_gpus(cluster: GpuCluster) -> str:
    return f"--gres=gpu:{cluster.conf.found_gpus}"


def fields(text: str) -> dict[str, str]:
    """`a=1,b=2M`."""
    return dict(item.split("=", 1) for item in text.split(",") if item)


def sacct(cluster: GpuCluster, job_id: int, column: str) -> str:
    """A column of the job's script."""
    done = cluster.run("sacct", "-n", "-P", "-j", f"{job_id}.batch", "-o", column).ok()
    return done.out.strip()


# ---- 1 -------------------------------------------------------------------------------------------------------------


def test_the_node_shows_its_card(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    said = card.look()
    text = cluster.run("scontrol", "-d", "show", "node", "n1").ok().out
    lines = re.findall(r"^ +Gpu=(\d+) UUID=(\S+) Type=(\S+) Memory=(\d+) Health=(\S+)", text, re.MULTILINE)
    wanted = sorted(said["gpus"], key=lambda gpu: gpu["bus_id"])
    assert [(uuid, int(mb), health) for _, uuid, _, mb, health in lines] == [
        (gpu["uuid"], gpu["memory_total_mb"], "HEALTHY") for gpu in wanted
    ]
    assert [int(index) for index, *_ in lines] == list(range(len(wanted)))
    assert [gpu.minor for gpu in cluster.node("n1").gpus] == [gpu["minor"] for gpu in wanted]
    assert f"GpuDriver={said['driver']} " in text
    assert {gpu["recovery_action"] for gpu in wanted} <= {0, None}
    numbers["constraint"] = cluster.node("n1").gpu_constraint


# ---- 2, 3 ----------------------------------------------------------------------------------------------------------


def test_a_job_sees_the_card_that_it_was_given(cluster: GpuCluster, numbers: dict[str, Any]) -> None:
    job_id = cluster.submit(cluster.card.sees(), "--gres=gpu:1")
    cluster.wait_state(job_id, "COMPLETED", limit_s=END_S)
    seen = json.loads(cluster.output(job_id))
    job = cluster.job(job_id)
    environment = seen["environment"]
    assert seen["cuInit"] == 0 and len(seen["uuids"]) == 1
    index = int(environment["SLURM_JOB_GPUS"])
    given = {gpu.index: gpu.uuid for gpu in cluster.node("n1").gpus}[index]
    assert seen["uuids"] == [given], job
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["CUDA_VISIBLE_DEVICES"] and environment["SLURM_GPUS_ON_NODE"] == "1"
    assert "ok" in seen["open"].values() or not seen["open"]
    numbers["with a GPU"] = seen


def test_a_job_without_one_sees_none(cluster: GpuCluster, numbers: dict[str, Any]) -> None:
    seen = cluster.seen()
    assert (seen["cuInit"], seen["uuids"]) == (NO_DEVICE, [])
    if cluster.node("n1").gpu_constraint.startswith("cgroup"):
        assert set(seen["open"].values()) <= {"EPERM"}
    numbers["without"] = seen


# ---- 4 -------------------------------------------------------------------------------------------------------------


def test_two_jobs_are_never_on_one_card(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    first, second = (cluster.submit(card.load(), all_gpus(cluster)) for _ in range(2))
    together: list[list[int]] = []

    def look() -> None:
        together.extend(card.jobs_of(gpu["pids"] or []) for gpu in card.look()["gpus"])

    def is_over(job_id: int) -> bool:
        look()
        return cluster.job(job_id).state == "COMPLETED"

    cluster.wait_load(first)
    look()
    waiting = cluster.job(second)
    assert (waiting.state, waiting.reason) == ("PENDING", "Resources")
    card.release(first)
    cluster.wait(lambda: is_over(first), "the first is over", END_S)
    cluster.wait_load(second)
    look()
    card.release(second)
    cluster.wait(lambda: is_over(second), "both have run", END_S)
    assert {len(jobs) for jobs in together} <= {0, 1}, together
    assert cluster.job(first).end_at_us <= cluster.job(second).start_at_us
    numbers["looks at two jobs"] = {"looks": len(together), "with a process": sum(map(bool, together))}


# ---- 5 -------------------------------------------------------------------------------------------------------------


def test_what_a_job_used_is_accounted(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    before = card.look()
    job_id = cluster.submit(card.load(), "--gres=gpu:1")
    cluster.wait_load(job_id)
    peaks_kb = cluster.watch_load()
    card.release(job_id)
    cluster.wait_state(job_id, "COMPLETED")
    after = card.look()
    uuid = cluster.node("n1").gpus[0].uuid
    counter_j = [
        next(gpu["energy_mj"] for gpu in look["gpus"] if gpu["uuid"] == uuid) / 1000 for look in (before, after)
    ]
    usage = fields(sacct(cluster, job_id, "TRESUsageInMax%300"))
    used_j = int(sacct(cluster, job_id, "ConsumedEnergyRaw"))
    numbers["accounted"] = {
        "TRESUsageInMax": usage, "ConsumedEnergyRaw": used_j, "energy by the counter": counter_j[1] - counter_j[0],
        "peak_mb": max(peaks_kb) // MIB, "AllocTRES": sacct(cluster, job_id, "AllocTRES%200"),
    }  # fmt: skip
    assert int(usage["gres/gpuutil"]) > 80
    used_mb = parse_mb(usage["gres/gpumem"], "gres/gpumem")
    assert LOAD_MIB <= used_mb <= max(peaks_kb) // MIB + 1024
    assert used_j == pytest.approx(counter_j[1] - counter_j[0], rel=ENERGY_OFF[card.kind])
    assert fields(sacct(cluster, job_id, "AllocTRES%200"))["gres/gpu"] == "1"


# ---- 6 -------------------------------------------------------------------------------------------------------------


def test_a_cancelled_job_leaves_nothing_on_the_card(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    job_id = cluster.submit(card.load(), "--gres=gpu:1")
    cluster.wait_load(job_id)
    cluster.run("scancel", str(job_id)).ok()
    numbers["empty after scancel, s"] = round(cluster.wait_empty(), 2)
    cluster.wait_ends(job_id)
    assert cluster.job(job_id).state == "CANCELLED"


def test_a_job_outlives_its_node_daemon(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    job_id = cluster.submit(card.load(), "--gres=gpu:1")
    cluster.wait_load(job_id)
    cluster.kill("n1")
    cluster.start_node("n1")
    cluster.wait_nodes("n1", limit_s=END_S)
    gpu = cluster.node("n1").gpus[0]
    assert (gpu.state, list(gpu.job_ids)) == ("HEALTHY", [job_id])
    cluster.watch_load()
    card.release(job_id)
    cluster.wait_state(job_id, "COMPLETED")
    usage = fields(sacct(cluster, job_id, "TRESUsageInMax%300"))
    numbers["accounted over a restart"] = usage
    assert parse_mb(usage["gres/gpumem"], "gres/gpumem") >= LOAD_MIB


# ---- 7 -------------------------------------------------------------------------------------------------------------


def test_the_card_is_as_it_was(cluster: GpuCluster, card: Card, numbers: dict[str, Any]) -> None:
    """No error was seen, and nothing was set."""
    node = cluster.node("n1")
    assert [(gpu.state, gpu.reason) for gpu in node.gpus] == [("HEALTHY", "")] * len(node.gpus)
    logged = [line for line in cluster.logs().splitlines() if NO_KERNEL_LOG not in line]
    assert "XID" not in "\n".join(logged).upper()
    assert [gpu["settings"] for gpu in card.look()["gpus"]] == numbers["settings"]
    fake = getattr(card, "fake", None)
    assert fake is None or fake.set_calls() == []
