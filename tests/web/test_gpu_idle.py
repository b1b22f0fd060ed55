"""What GPUs do now, and those that a job has and leaves idle, as the node's samples of them say: on the overview, in the picture, on
the node's page. Real daemons and jobs on the fake NVML."""

import json
import re
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
#: One card takes more than any does, so that what a busy machine adds or takes changes no colour; the other has no counter of energy.
CARDS = {
    "gpu.0.energy_t0_ms": 1, "gpu.0.power_mw": 2_000_000, "gpu.0.temp": 71, "gpu.0.ecc_cor_vol": 12,
    "gpu.0.mem_used": 600 << 20, "gpu.1.energy_mj": None, "gpu.1.temp": 31,
}  # fmt: skip


class GpuCluster(LiveCluster):
    """One node with two GPUs that its daemon finds."""

    def __init__(self) -> None:
        super().__init__(1, ClusterConf(found_gpus=2, more=IDLE))
        self.fake = FakeNvml(self.home / "nvml", changes=CARDS)

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **self.fake.env(), **env)

    def use(self, percent: int) -> None:
        """What kernels do on both GPUs."""
        self.fake.put({f"gpu.{gpu}.util_gpu": percent for gpu in (0, 1)})

    def wait_readings(self, percent: int) -> None:
        """Waits until the controller knows that kernels do this, and the power of a card."""

        def known() -> list[Any]:
            gpus = json.loads(self.run("penstock", "gpus", "--json").ok().out)["gpus"]
            return [gpu["reading"] for gpu in gpus]

        def is_known() -> bool:
            found = known()
            return (
                None not in found
                and any(one["power_w"] for one in found)
                and found[0]["utilization_percent"] == percent
            )

        self.wait(is_known, f"what GPUs do: {percent} %", show=known)

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
    web.open(page, "", "Overview")
    page.get_by_role("img", name="2 GPUs: 1 allocated, 1 idle").wait_for()
    page.get_by_text("Nothing: all nodes").wait_for()


def test_what_gpus_do_now(web):
    """Of all, those without a job too; for every user who may see nodes."""
    cluster = web.rest.cluster
    cluster.use(90)
    cluster.wait_readings(90)
    page = web.opened("nodes", "Nodes", "nobody")
    page.get_by_label("Colour by").select_option("power")
    picture = page.get_by_role("img", name="2 GPUs on 1 node: 1 550 W and more, 1 not known.")
    picture.wait_for()
    page.get_by_text("400 W to 550 W").wait_for()  # the legend has units
    picture.hover(position={"x": 8, "y": 22})
    page.get_by_text(re.compile(r"n1, GPU 0 \(h200\): idle, [\d,]+ W")).wait_for()
    check_looks(page, "nodes-power")
    page.get_by_label("Colour by").select_option("utilization")
    page.get_by_role("img", name="2 GPUs on 1 node: 2 75 % and more.").wait_for()
    assert "colour=utilization" in page.url
    save_picture(page, "nodes-utilization")
    web.open(page, "nodes/n1", "n1")
    for text in ("90 %", "71 °C", "31 °C", "12 corrected, 0 uncorrected", "none", "600 MiB"):
        page.get_by_role("cell", name=text, exact=True).first.wait_for()
    check_looks(page, "node-figures")


def test_gpus_that_jobs_have_and_use_are_busy(web):
    cluster = web.rest.cluster
    cluster.use(90)
    cluster.wait_readings(90)
    job = cluster.sbatch("-J", "train", "--gpus=1", "--wrap", "sleep 600")
    cluster.wait_state(job, "RUNNING")
    page = web.login()
    page.get_by_text("1 busy of 1 that jobs have").wait_for()
    check_looks(page, "overview-busy")
    cluster.use(3)
    cluster.wait_readings(3)
    page.reload()
    page.get_by_text("0 busy of 1 that jobs have").wait_for()


def test_a_nodes_page_that_is_open_follows_its_gpus(web):
    cluster = web.rest.cluster
    cluster.use(90)
    cluster.wait_readings(90)
    page = web.opened("nodes/n1", "n1")
    page.get_by_role("cell", name="90 %", exact=True).first.wait_for()
    cluster.use(40)
    page.get_by_role("cell", name="40 %", exact=True).first.wait_for()  # without a reload, and without an event


def test_the_table_of_jobs_has_what_running_jobs_use(web):
    """One request for all rows in sight, and none where no such column is shown. To others than the job's user it is not told."""
    cluster = web.rest.cluster
    cluster.use(70)
    cluster.wait_readings(70)
    job = cluster.sbatch("-J", "train", "--gpus=1", "--wrap", "sleep 600")
    small = cluster.sbatch("-J", "small", "--wrap", "sleep 600")
    waits = cluster.sbatch("-J", "waits", "--hold", "--wrap", "sleep 600")
    for one in (job, small):
        cluster.wait_state(one, "RUNNING")
    page = web.login()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/jobs/use" in request.url else None)
    web.open(page, "jobs", "Jobs")
    page.get_by_role("link", name=str(waits), exact=True).wait_for()
    assert asked == []
    page.get_by_text("Columns", exact=True).click()
    for title in (
        "CPU time so far",
        "CPU use so far",
        "Memory, most so far",
        "GPU use now",
        "GPU memory now",
        "GPU power now",
    ):
        page.get_by_label(title).check()
    page.get_by_text("Columns", exact=True).click()
    row = page.get_by_role("row").filter(has_text="train")
    row.get_by_role("cell", name="70 %", exact=True).wait_for()
    row.get_by_role("cell", name=re.compile(r"[\d.]+ [KM]iB")).first.wait_for()
    assert {url.partition("jobs=")[2] for url in asked[-1:]} == {f"{small}%2C{job}"}
    assert page.get_by_role("row").filter(has_text="waits").get_by_text("–").count() == 0
    web.open(page, "jobs?cols=id,name,state,cpuused,cpuuse,memused,gpuuse,gpumem,gpupower", "Jobs")
    row.get_by_role("cell", name="70 %", exact=True).wait_for()
    check_looks(page, "jobs-use")
