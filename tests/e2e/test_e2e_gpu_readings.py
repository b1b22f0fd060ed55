"""What GPUs do now, from the card to `penstock gpus` and the REST interface: real daemons on the fake NVML, without a job."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fakenvml import FakeNvml
from livecluster import QUICK_BEATS, ClusterConf, LiveCluster
from liverest import LiveRest

READINGS = "/penstock/v1/gpus/readings"
CONF = ClusterConf(found_gpus=2, constants=QUICK_BEATS, more=("AuthAltTypes=auth/jwt", "PenstockGpuPollSeconds=1"))
#: A card that works, and one without a counter of energy and without ECC.
CARDS = {
    "gpu.0.util_gpu": 97, "gpu.0.energy_t0_ms": 1, "gpu.0.power_mw": 650_000, "gpu.0.temp": 71, "gpu.0.ecc_cor_vol": 12,
    "gpu.0.mem_used": 600 << 20, "gpu.1.energy_mj": None, "gpu.1.ecc": 0, "gpu.1.temp": 31,
}  # fmt: skip


class GpuCluster(LiveCluster):
    """One node with two GPUs that its daemon finds."""

    def __init__(self) -> None:
        super().__init__(1, CONF)
        self.fake = FakeNvml(self.home / "nvml")
        self.fake.put(CARDS)

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **self.fake.env(), **env)

    def objects(self) -> dict[str, Any]:
        """The GPUs of `penstock gpus --json`, by UUID."""
        return {gpu["uuid"]: gpu for gpu in json.loads(self.run("penstock", "gpus", "--json").ok().out)["gpus"]}


@pytest.fixture
def cluster() -> Iterator[GpuCluster]:
    with GpuCluster() as cluster:
        try:
            yield cluster
        finally:
            print(cluster.logs())


def test_from_the_card_to_the_answer(cluster: GpuCluster) -> None:
    first, second = (cluster.fake.uuid(index) for index in (0, 1))
    rest = LiveRest(cluster)
    rest.start()
    with rest.as_user("nobody") as client:

        def readings() -> dict[str, Any]:
            answer = client.get(READINGS).json()
            assert not answer["errors"]
            return {one["uuid"]: one for one in answer["readings"]}

        def is_measured() -> bool:
            """Between two samples that came when they should: what makes one late makes this mean wrong."""
            return 600 <= (readings().get(first, {}).get("power_w") or 0) <= 700

        cluster.wait(is_measured, "the power is known", show=readings)
        found = readings()
        assert found[first].pop("at_us") > 1_600_000_000_000_000 and found[first].pop("power_w") > 0
        assert found[first] == {
            "node": "n1", "uuid": first, "index": 0, "utilization_percent": 97, "memory_used_mb": 600, "temperature_c": 71,
            "ecc_corrected": 12, "ecc_uncorrected": 0,
        }  # fmt: skip
        assert (found[second]["power_w"], found[second]["ecc_corrected"], found[second]["temperature_c"]) == (
            None,
            None,
            31,
        )
        assert client.get(f"{READINGS}?nodes=n9").json()["readings"] == []
        cluster.fake.put({"gpu.0.temp": 84, "gpu.1.lost": 1})
        cluster.wait(lambda: readings()[first]["temperature_c"] == 84, "what has changed is told", show=readings)
        cluster.wait(lambda: second not in readings(), "a GPU that is lost does nothing", show=readings)
        cluster.fake.put({"gpu.1.lost": None})
        cluster.wait(lambda: second in readings(), "it is back", show=readings)
    shown = cluster.run("penstock", "gpus").ok().out.splitlines()
    head, line = shown[0].split(), next(line for line in shown if f" {first[:12]} " in line).split()
    assert dict(zip(head, line, strict=False))["UTIL"] == "97%" and "84C" in line and "12/0" in line
    assert cluster.objects()[first]["reading"]["temperature_c"] == 84
    cluster.kill("n1")
    cluster.wait(lambda: cluster.objects()[first]["reading"] is None, "readings end with the node's stream")
