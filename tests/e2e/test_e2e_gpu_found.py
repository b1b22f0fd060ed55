"""How GPUs are found on a whole cluster, with the fake NVML: without a line for them in gres.conf, with a driver that hangs or
is not loaded yet when the node daemon starts, and not at all where AutoDetect=off."""

from pathlib import Path

import pytest
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster

#: Times that a test can wait for; what is healthy takes a fraction of them.
LIMITS = {
    "PENSTOCK_GPU_LIMITS": "start_s=2 slow_s=2 hung_s=6 restart_first_s=0.2 restart_most_s=1 retry_s=0.5 return_s=0.5"
}
CONF = ClusterConf(found_gpus=2, cpus=8, more=("PenstockGpuPollSeconds=1",))


class Found(LiveCluster):
    """One node, whose daemon finds the fake."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml(folder / "n1.state")
        super().__init__(1, CONF)

    def start_node(self, name: str, **env: str):
        return super().start_node(name, **self.fake.env(), **LIMITS, **env)

    def gpus(self) -> list[tuple[str, str]]:
        return [(gpu.uuid, gpu.state) for gpu in self.node("n1").gpus]

    def again(self) -> None:
        """The node's daemon ends and starts."""
        before_us = self.node("n1").noded_start_at_us
        self.kill("n1")
        self.start_node("n1")
        self.wait(lambda: self.node("n1").noded_start_at_us > before_us, "the new daemon has registered")
        self.wait_nodes()

    def wait_asks(self, asks: bool) -> None:
        """Wait until the node has heard whether NVML is to be asked."""
        sign = self.home / "noded/n1/gpu-detect-off"
        self.wait(lambda: sign.exists() != asks, f"the node knows that NVML is {'' if asks else 'not '}asked")


@pytest.fixture
def cluster(tmp_path):
    cluster = Found(tmp_path)
    yield cluster
    print(cluster.logs())
    cluster.close()


def well(cluster: Found) -> list[tuple[str, str]]:
    return [(cluster.fake.uuid(0), "HEALTHY"), (cluster.fake.uuid(1), "HEALTHY")]


def test_gpus_are_found_without_being_configured(cluster: Found) -> None:
    cluster.start()
    node = cluster.node("n1")
    assert (node.gpu_driver, node.cuda_version, node.nvml_version) == ("580.159.04", "13.0", "13.580.159.04")
    assert [(g.uuid, g.index, g.minor, g.type, g.memory_mb, g.capability) for g in node.gpus] == [
        (cluster.fake.uuid(0), 0, 1, "h200", 143771, "9.0"),
        (cluster.fake.uuid(1), 1, 0, "h200", 143771, "9.0"),
    ]
    assert cluster.fake.set_calls() == []


def test_a_driver_that_hangs_holds_up_nobody(cluster: Found) -> None:
    cluster.fake.put({"hang.nvmlInitWithFlags": 1})
    cluster.start()
    node = cluster.node("n1")
    assert not node.gpus or {gpu.state for gpu in node.gpus} != {"HEALTHY"}
    assert node.gpu_why == "NVML did not answer within 2 s (nvmlInit)"
    cluster.fake.put({"hang.nvmlInitWithFlags": None})
    cluster.wait(lambda: cluster.gpus() == well(cluster), "the GPUs are found", show=cluster.gpus)
    cluster.wait(lambda: not cluster.node("n1").gpu_why, "nothing is wrong", show=lambda: cluster.node("n1").gpu_why)
    assert cluster.node("n1").reason == "" and cluster.node("n1").gpu_driver == "580.159.04"
    cluster.wait_state(cluster.sbatch("--gres=gpu:2", "--wrap", "true"), "COMPLETED")


def test_a_driver_that_is_loaded_later(cluster: Found) -> None:
    cluster.fake.put({"fn.nvmlInitWithFlags": 9})
    cluster.start()
    assert cluster.node("n1").gpu_why == "NVML: Driver Not Loaded"
    cluster.fake.put({"fn.nvmlInitWithFlags": None})
    cluster.wait(lambda: cluster.gpus() == well(cluster), "the GPUs are found", show=cluster.gpus)


def test_nvml_is_not_asked_where_it_must_not_be(cluster: Found) -> None:
    gres = cluster.home / "gres.conf"
    gres.write_text("AutoDetect=off\nNodeName=n1 Name=gpu File=/dev/null,/dev/zero\n")
    cluster.start()
    cluster.wait_asks(False)
    cluster.again()
    calls = cluster.fake.calls()
    cluster.again()
    assert cluster.fake.calls() == calls != [], "the first start did not know of it yet"
    gres.write_text("AutoDetect=nvml\n")
    cluster.run("scontrol", "reconfigure").ok()
    cluster.wait_asks(True)
    cluster.again()
    assert cluster.gpus() == well(cluster)
