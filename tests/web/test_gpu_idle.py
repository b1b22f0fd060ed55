"""GPUs that a job has and leaves idle, as the node's samples of them say: on the overview, in the picture, on the node's page. Real daemons
and jobs on the fake NVML."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest
from webpages import CHROMIUM, check_looks, save_picture

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
IDLE = (
    "AuthAltTypes=auth/jwt", "PenstockGpuPollSeconds=1", "JobAcctGatherFrequency=1", "PenstockGpuIdleWarn=1", "PrivateData=jobs",
)  # fmt: skip


class GpuCluster(LiveCluster):
    """One node with two GPUs that its daemon finds."""

    def __init__(self) -> None:
        super().__init__(1, ClusterConf(found_gpus=2, more=IDLE))
        self.fake = FakeNvml(self.home / "nvml", changes={f"gpu.{gpu}.temp": 61 for gpu in (0, 1)})

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **self.fake.env(), **env)

    def use(self, percent: int) -> None:
        """What kernels do on both GPUs."""
        self.fake.put({f"gpu.{gpu}.util_gpu": percent for gpu in (0, 1)})

    def wait_idle(self, job: int) -> None:
        """Waits until this job is the only one that is known to leave a GPU idle; 0: until none is."""

        def idle() -> list[int]:
            gpus = json.loads(self.run("penstock", "gpus", "--json").ok().out)["gpus"]
            return [gpu["idle_job_id"] for gpu in gpus if gpu["idle_job_id"]]

        self.wait(lambda: idle() == ([job] if job else []), f"idle GPUs of job {job}", show=idle)


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    with GpuCluster() as cluster:
        rest = LiveRest(cluster, "--web")
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())


def test_a_gpu_that_is_left_idle_needs_attention(web):
    cluster = web.rest.cluster
    cluster.use(0)
    job = cluster.sbatch("-J", "forgets", "--gpus=1", "--wrap", "sleep 600")
    cluster.wait_idle(job)
    page = web.login()
    row = page.get_by_role("listitem").filter(has_text="leaves 1 GPU of n1 idle")
    row.get_by_text("for ").wait_for()
    page.get_by_role("img", name="2 GPUs: 0 allocated, 1 left idle by jobs, 1 idle").wait_for()
    check_looks(page, "overview-idle")
    other = web.login("nobody")  # PrivateData: to whom the job is not named, what it does is not told either
    other.get_by_role("img", name="2 GPUs: 0 allocated, 2 idle").wait_for()
    assert other.get_by_text("leaves 1 GPU").count() == 0
    web.open(page, "nodes", "Nodes")
    page.get_by_role("img", name="2 GPUs on 1 node: 1 left idle, 1 idle.").wait_for()
    check_looks(page, "nodes-idle")
    web.open(page, "nodes/n1", "n1")
    page.get_by_role("cell", name="left idle for ").wait_for()
    save_picture(page, "node-idle")
    cluster.use(90)
    cluster.wait_idle(0)
    page.reload()
    page.get_by_role("cell", name="allocated").wait_for()
    page.get_by_role("cell", name="61 °C").wait_for()  # from the job's profile
    check_looks(page, "node-figures")
    web.open(page, "", "Overview")
    page.get_by_role("img", name="2 GPUs: 1 allocated, 1 idle").wait_for()
    page.get_by_text("Nothing: all nodes").wait_for()
