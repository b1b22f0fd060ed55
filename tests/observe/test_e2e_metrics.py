"""Metrics of a whole cluster: a job on a GPU of the fake NVML, as the controller's and the node's pages show it."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from livecluster import free_ports

from tests.e2e.test_e2e_gpu_usage import GpuCluster
from tests.observe.scraping import ScrapedPage, scrape

GIB = 1 << 30


class MeasuredCluster(GpuCluster):
    """One node with two GPUs, and metrics."""

    def __init__(self) -> None:
        self.metrics, self.node_metrics = free_ports(2)
        super().__init__()

    def conf_text(self, *more: str) -> str:
        return super().conf_text(
            "MetricsType=metrics/openmetrics", f"PenstockMetricsPort={self.metrics}",
            f"PenstockMetricsNodePort={self.node_metrics}", "PenstockMetricsDcgmNames=YES", *more,
        )  # fmt: skip

    def of_node(self) -> ScrapedPage:
        """The node's page."""
        return asyncio.run(scrape(self.node_metrics, "/metrics"))

    def of_controller(self, name: str) -> ScrapedPage:
        """One of the controller's pages."""
        return asyncio.run(scrape(self.metrics, f"/metrics/{name}"))

    def shows(self, name: str, number: float, **labels: str) -> bool:
        """Whether the node shows a sample with that value and, among others, these labels."""
        return any(
            sample.name == name and sample.value == number and labels.items() <= sample.labels.items()
            for family in self.of_node().families().values()
            for sample in family.samples
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeasuredCluster]:
    cluster = MeasuredCluster()
    try:
        cluster.start_controller()
        cluster.start_node("n1")
        cluster.wait_nodes()
        yield cluster
    finally:
        cluster.close()


def test_a_job_on_a_gpu_is_in_both_pages(cluster: MeasuredCluster) -> None:
    job = cluster.sbatch("--gpus=1", "-t10", "--wrap", f"exec {cluster.hold} a")
    held = cluster.held("a")
    cluster.busy(held, 80, 20, 500)
    account = "root" if os.geteuid() == 0 else "default"
    labels = {"job": str(job), "step": "batch", "partition": "main", "account": account}
    uuid = str(cluster.fake.keys[f"gpu.{held.gpu}.uuid"])
    cluster.wait(
        lambda: cluster.shows("penstock_gpu_utilization_percent", 80, uuid=uuid, **labels), "the GPU's load is shown",
        show=lambda: cluster.of_node().body,
    )  # fmt: skip
    assert cluster.shows("DCGM_FI_DEV_GPU_UTIL", 80, UUID=uuid, hpc_job=str(job))
    node = cluster.of_node()
    for family in ("penstock_step_memory_bytes", "penstock_step_processes"):
        assert [s.value > 0 for s in node.families()[family].samples if labels.items() <= s.labels.items()] == [True]
    own = cluster.of_controller("penstock")
    assert own.value("penstock_account_gpus_allocated", account=account) == 1
    assert own.value("penstock_gpus", type=gpu_type(own), health="healthy") == 2
    assert own.value("penstock_gpu_seconds_total", state="allocated") > 0
    assert cluster.of_controller("nodes").value("slurm_node_gpus_alloc", node="n1") == 1
    assert cluster.of_controller("jobs").value("slurm_jobs_gpus_alloc") == 1
    cluster.go("a")
    cluster.wait_state(job, "COMPLETED")
    cluster.wait(lambda: cluster.shows("penstock_gpu_utilization_percent", 80, uuid=uuid, job=""), "the GPU has no job")
    assert not [
        s for s in cluster.of_node().families()["penstock_step_processes"].samples if s.labels["job"] == str(job)
    ]


def gpu_type(page: ScrapedPage) -> str:
    """The type of the cluster's GPUs."""
    return str(page.families()["penstock_gpus"].samples[0].labels["type"])


def test_the_configuration_is_shown_and_a_reload_moves_the_nodes_endpoint(cluster: MeasuredCluster) -> None:
    shown = cluster.run("scontrol", "show", "config").ok().out
    assert f"PenstockMetricsPort     = {cluster.metrics}" in shown and "metrics/openmetrics" in shown
    (other,) = free_ports(1)
    cluster.node_metrics, old = other, cluster.node_metrics
    cluster.slurm_conf.write_text(cluster.conf_text())
    cluster.run("scontrol", "reconfigure").ok()
    cluster.wait(lambda: f":{other}/metrics" in cluster.logs(), "the node listens on the other port")
    assert cluster.of_node().status == 200
    with pytest.raises(ConnectionError):
        asyncio.run(scrape(old, "/metrics"))
    cluster.slurm_conf.write_text(cluster.conf_text().replace(str(cluster.metrics), str(old)))
    refused = cluster.run("scontrol", "reconfigure")
    assert refused.status == 1 and "PenstockMetricsPort cannot change while the controller runs" in refused.err
