"""The node's page: its families from made samples, its steps from real processes, its settings from the controller."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from livecluster import free_ports
from patience import ANSWER_S
from prometheus_client.parser import text_string_to_metric_families as parse

from ctld.agents.settings import node_settings
from nodedaemon.base import proctree
from nodedaemon.cgroups.cgroup import NONE, Cgroups
from nodedaemon.cgroups.tree import CgroupTree
from nodedaemon.core.gpuhealth_messages import Opinion
from nodedaemon.core.gpumessages import Device, Polled, Sample
from nodedaemon.core.steps import StepKey
from nodedaemon.observe.exporter import NodeExporter, NodeSources
from nodedaemon.observe.gpus import SampledGpu, dcgm_families, gpu_families, user_of
from nodedaemon.observe.machine import machine_families
from nodedaemon.observe.stepusage import StepLabels, StepReader, StepReading, step_families
from nodedaemon.spool.steprecord import Claim, write_claim
from penstock.config import load
from penstock.exporter.exposition import MetricFamily, pieces
from penstock.v1 import node_pb2
from penstock.values.gpustates import GpuState
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from tests.observe.scraping import scrape

KEY = StepKey(7, 0, 0)
DEVICE = Device("GPU-1", 3, 3, "h200", 143771, "NVIDIA H200", "00000000:18:00.0")
LABELS = {KEY: StepLabels("ann", "physics", "gpu")}


def samples(families: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples, as Prometheus' client reads them."""
    found: list[MetricFamily] = list(families)
    text = "".join(pieces(found, False))
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value for family in parse(text) for one in family.samples
    }


def value(families: Any, name: str, **wanted: str) -> float:
    """The one sample of that name whose labels have these values."""
    found = [
        number
        for (known, pairs), number in samples(families).items()
        if known == name and wanted.items() <= dict(pairs).items()
    ]
    assert len(found) == 1, (name, wanted, found)
    return found[0]


def test_a_gpu_has_the_labels_of_its_step_and_no_values_that_are_unknown():
    sample = Sample(
        "GPU-1",
        1,
        util_percent=75,
        memory_used_kb=2048,
        energy_mj=1500,
        pcie=(5, 16, 5, 16),
        throttle=4,
        sm_clock_mhz=1980,
    )
    view = SampledGpu(DEVICE, sample, 300.5, (StepKey(7, 0, BATCH_STEP), KEY))
    opinions = [Opinion("GPU-1", GpuState.SUSPECT, xids=((13, 2, 5), (31, 1, 4)))]

    def ours() -> Any:
        return gpu_families([view], opinions, LABELS, 2.5)

    job = {
        "job": "7",
        "step": "0",
        "user": "ann",
        "account": "physics",
        "partition": "gpu",
        "uuid": "GPU-1",
        "index": "3",
    }
    assert value(ours(), "penstock_gpu_utilization_percent", **job) == 75
    assert value(ours(), "penstock_gpu_memory_used_bytes", **job) == 2048 * 1024
    assert value(ours(), "penstock_gpu_energy_joules_total", **job) == 1.5
    assert value(ours(), "penstock_gpu_power_watts", **job) == 300.5
    assert value(ours(), "penstock_gpu_sm_clock_hertz", **job) == 1980e6
    assert value(ours(), "penstock_gpu_pcie_width", **job) == 16
    assert value(ours(), "penstock_gpu_sample_age_seconds") == 2.5
    assert value(ours(), "penstock_gpu_health", uuid="GPU-1", health="suspect") == 1
    assert value(ours(), "penstock_gpu_xids", xid="13") == 2
    assert not [name for name, _ in samples(ours()) if "temperature" in name or "memory_clock" in name or "ecc" in name]
    theirs = list(dcgm_families([view], "n1"))
    card = {
        "gpu": "3",
        "UUID": "GPU-1",
        "device": "nvidia3",
        "modelName": "NVIDIA H200",
        "Hostname": "n1",
        "hpc_job": "7",
    }
    assert value(theirs, "DCGM_FI_DEV_GPU_UTIL", **card) == 75
    assert value(theirs, "DCGM_FI_DEV_FB_USED", **card) == 2
    assert value(theirs, "DCGM_FI_DEV_SM_CLOCK", **card) == 1980
    assert value(theirs, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", **card) == 1500


@pytest.mark.parametrize(
    ("holders", "user"),
    [
        ((), None),
        ((StepKey(7, 0, EXTERN_STEP),), None),
        ((StepKey(7, 0, BATCH_STEP), StepKey(7, 0, EXTERN_STEP)), StepKey(7, 0, BATCH_STEP)),
        ((StepKey(7, 0, 1), StepKey(7, 0, BATCH_STEP), KEY), StepKey(7, 0, 1)),
        ((KEY, StepKey(8, 0, 0)), None),
    ],
)
def test_the_user_of_a_gpu_is_the_last_step_of_its_only_job(holders, user):
    assert user_of(holders) == user


def test_the_machine_is_read_as_the_kernel_writes_it(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "stat").write_text("cpu  100 0 200 700 0 0 0 0 0 0\ncpu0 1 2 3\n")
    (tmp_path / "loadavg").write_text("1.50 1.0 0.5 1/100 5\n")
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:  400 kB\nHugePages_Total: 0\n")
    disk = "8 0 sda 5 0 16 4 6 0 32 7 0 2500 0\n"
    (tmp_path / "diskstats").write_text(disk + disk.replace("sda", "loop0"))
    line = "1000 1 0 0 0 0 0 0 2000 2 0 0 0 0 0 0\n"
    (tmp_path / "net/dev").write_text(f"Inter-|\n face |\n  lo: {line}  eth0: {line}")

    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("dtpm", "x")):
        (tmp_path / "powercap" / zone).mkdir(parents=True)
        (tmp_path / "powercap" / zone / "name").write_text(f"{name}\n")
        (tmp_path / "powercap" / zone / "energy_uj").write_text("2500000\n")

    def families() -> Any:
        return machine_families(str(tmp_path), str(tmp_path), str(tmp_path / "powercap"))

    assert value(families(), "penstock_node_cpu_seconds_total", mode="idle") == 700 / os.sysconf("SC_CLK_TCK")
    assert value(families(), "penstock_node_memory_bytes", kind="available") == 400 * 1024
    assert value(families(), "penstock_node_disk_written_bytes_total", device="sda") == 32 * 512
    assert value(families(), "penstock_node_disk_busy_seconds_total") == 2.5
    assert value(families(), "penstock_node_network_sent_bytes_total") == 2000
    assert value(families(), "penstock_node_spool_free_bytes") > 0
    assert sum(name.startswith("penstock_node_energy") for name, _ in samples(families())) == 1
    assert value(families(), "penstock_node_energy_joules_total", domain="package-0", zone="0") == 2.5


def test_what_the_kernel_lacks_is_left_out(tmp_path):
    assert not [name for name, _ in samples(machine_families(str(tmp_path), *[str(tmp_path / "none")] * 2))]


def test_a_steps_usage_is_that_of_the_processes_below_its_supervisor_and_never_falls(tmp_path):
    program = "import subprocess, sys; subprocess.run(['sleep', '1000'])"
    supervisor = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        folder = os.open(tmp_path, os.O_RDONLY)
        (tmp_path / str(KEY)).mkdir()
        claim = Claim("stepd", supervisor.pid, proctree.start_time(supervisor.pid), os.geteuid(), 1, b"c", str(KEY))
        record = os.open(tmp_path / str(KEY), os.O_RDONLY)
        os.close(write_claim(record, claim))
        reader = StepReader(NONE, folder)
        while not (found := reader.read([KEY])[KEY]).mem_bytes:  # 0 between the child's fork and its program
            assert supervisor.poll() is None
        assert found.processes == 1
        text = list(step_families({KEY: found}, LABELS, {}))
        assert value(text, "penstock_step_processes", job="7", step="0", user="ann", account="physics") == 1
        before = found._replace(cpu_us=10**9, written_bytes=10**9)
        reader.last = {KEY: before}
        os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait(ANSWER_S)
        after = reader.read([KEY])[KEY]
        assert (after.processes, after.cpu_us, after.written_bytes, after.mem_bytes) == (0, 10**9, 10**9, 0)
        os.close(folder)
        os.close(record)
    finally:
        if supervisor.poll() is None:
            os.killpg(supervisor.pid, signal.SIGKILL)
            supervisor.wait(ANSWER_S)


@pytest.mark.parametrize("is_unified", [True, False])
def test_a_steps_cpu_time_is_that_of_its_group(tmp_path: Path, is_unified: bool) -> None:
    """Also of processes that have ended and that nobody waited for."""
    group = tmp_path / "tree" / ("7.0" if is_unified else str(KEY))
    step = group / "0" if is_unified else group
    step.mkdir(parents=True)
    (step / "cgroup.procs").write_text("")
    if is_unified:
        (step / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    else:
        (step / "cpuacct.usage").write_text("2500000000\n")
    tree = CgroupTree(str(tmp_path / "tree"), ("cpu",) if is_unified else ("cpuacct", "freezer"), is_unified)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert StepReader(Cgroups("v2", (tree,)), folder).read([KEY])[KEY].cpu_us == 2_500_000
    os.close(folder)


class Agent:
    """A GPU agent with one GPU, whose NVML has hung since its last poll."""

    def devices(self) -> tuple[Device, ...]:
        return (DEVICE,)

    def opinions(self) -> tuple[Opinion, ...]:
        return (Opinion("GPU-1", GpuState.UNRESPONSIVE),)

    def steps_using(self, uuid: str) -> tuple[Any, ...]:
        return (GpuUse(KEY),)


class GpuUse(NamedTuple):
    """A step that has the GPU."""

    key: StepKey


def test_private_jobs_are_not_shown(tmp_path: Path) -> None:
    """The machine and its GPUs stay; whose they are goes, also under dcgm's names."""

    async def body() -> None:
        (port,) = free_ports(1)
        folder = os.open(tmp_path, os.O_RDONLY)
        with ThreadPoolExecutor(1) as executor:
            reader = StepReader(NONE, folder)
            sources = NodeSources(
                "n1", str(tmp_path), reader, executor, lambda: [KEY], lambda: 9_000_000, lambda: 9_000_000, None
            )
            agent: Any = Agent()
            exporter = NodeExporter(sources, agent)
            order: Any = SimpleNamespace(user_name="ann", account="physics", partition="gpu")
            exporter.launched(KEY, order)
            exporter.polled(Polled(5_000_000, (Sample("GPU-1", 5_000_000, util_percent=75),)), {})
            for hides in (False, True):
                settings = node_pb2.MetricsSettings(port=port, addr="127.0.0.1", dcgm_names=True, hides_jobs=hides)
                exporter.use(settings)
                await exporter.settled()
                page = await scrape(port, "/metrics")
                shown = {
                    pair for family in page.families().values() for one in family.samples for pair in one.labels.items()
                }
                found = {
                    pair for pair in shown if pair[0] in ("job", "step", "user", "account", "partition", "hpc_job")
                }
                assert {value for _, value in found} == ({""} if hides else {"7", "0", "ann", "physics", "gpu"}), found
                assert {"penstock_node_load1", "penstock_gpu_utilization_percent"} <= page.families().keys()
                assert bool(page.families()["penstock_step_processes"].samples) is not hides
            exporter.stop()
        os.close(folder)

    asyncio.run(body())


def test_labels_of_steps_cost_a_launch_no_look_at_all_steps(tmp_path: Path) -> None:
    """They are kept from the launch to the end, each by itself."""

    def live() -> list[StepKey]:
        raise AssertionError("all steps were asked for")

    async def body() -> None:
        folder = os.open(tmp_path, os.O_RDONLY)
        with ThreadPoolExecutor(1) as executor:
            reader = StepReader(NONE, folder)
            sources = NodeSources("n1", str(tmp_path), reader, executor, live, lambda: 0, lambda: 0, None)
            exporter = NodeExporter(sources, None)
            order: Any = SimpleNamespace(user_name="ann", account="physics", partition="gpu")
            keys = [StepKey(number, 0, BATCH_STEP) for number in range(3)]
            for key in keys:
                exporter.launched(key, order)
            exporter.ended(keys[1])
            exporter.ended(keys[1])
            assert exporter.labels.keys() == {keys[0], keys[2]}
        os.close(folder)

    asyncio.run(body())


class EndingReader(StepReader):
    """Each step ends while it is read."""

    ended: Callable[[StepKey], None]

    def read(self, keys: Iterable[StepKey]) -> dict[StepKey, StepReading]:
        for key in keys:
            self.ended(key)
        return super().read(keys)


def test_a_step_that_ends_during_a_scrape_has_its_labels(tmp_path: Path) -> None:
    """Without them it would be another series."""

    async def body() -> None:
        (port,) = free_ports(1)
        folder = os.open(tmp_path, os.O_RDONLY)
        with ThreadPoolExecutor(1) as executor:
            reader = EndingReader(NONE, folder)
            sources = NodeSources("n1", str(tmp_path), reader, executor, lambda: [KEY], lambda: 0, lambda: 0, None)
            exporter = NodeExporter(sources, None)
            reader.ended = exporter.ended
            order: Any = SimpleNamespace(user_name="ann", account="physics", partition="gpu")
            exporter.launched(KEY, order)
            exporter.use(node_pb2.MetricsSettings(port=port, addr="127.0.0.1"))
            await exporter.settled()
            [sample] = (await scrape(port, "/metrics")).families()["penstock_step_processes"].samples
            assert sample.labels["user"] == "ann" and not exporter.labels
            exporter.stop()
        os.close(folder)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("lines", "hides"),
    [
        ("", False),
        ("PrivateData=jobs\n", True),
        ("PrivateData=users,nodes\n", True),
        ("PrivateData=nodes,reservations,events\n", False),
        ("PrivateData=jobs\nMetricsParameters=ignore_private_data\n", False),
        ("PrivateData=jobs\nPenstockMetricsTokenFile=/etc/penstock/metrics.token\n", False),
    ],
)
def test_the_controller_tells_nodes_what_is_private(tmp_path: Path, lines: str, hides: bool) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        f"ClusterName=c\nSlurmctldHost=h\nMetricsType=metrics/openmetrics\n{lines}NodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    assert node_settings(load(str(path)).config, "n1").metrics.hides_jobs is hides


def test_the_endpoint_follows_the_settings_and_needs_no_nvml(tmp_path, caplog):
    async def body() -> None:
        first, second = free_ports(2)
        folder = os.open(tmp_path, os.O_RDONLY)
        with ThreadPoolExecutor(1) as executor:
            reader = StepReader(NONE, folder)
            sources = NodeSources(
                "n1", str(tmp_path), reader, executor, lambda: [KEY], lambda: 9_000_000, lambda: 9_000_000, None
            )
            agent: Any = Agent()
            exporter = NodeExporter(sources, agent)
            exporter.polled(Polled(4_000_000, (Sample("GPU-1", 4_000_000, energy_mj=1000),)), {})
            exporter.polled(Polled(5_000_000, (Sample("GPU-1", 5_000_000, energy_mj=401_000),)), {})
            await use(exporter, node_pb2.MetricsSettings(port=first, addr="127.0.0.1", dcgm_names=True))
            page = await scrape(first, "/metrics")
            assert page.value("penstock_gpu_sample_age_seconds") == 4
            assert "DCGM_FI_DEV_POWER_USAGE" in page.families()
            await use(exporter, node_pb2.MetricsSettings(port=second, addr="127.0.0.1"))
            assert "DCGM_FI_DEV_POWER_USAGE" not in (await scrape(second, "/metrics")).families()
            with pytest.raises(ConnectionError):
                await scrape(first, "/metrics")
            await use(exporter, node_pb2.MetricsSettings())
            with pytest.raises(ConnectionError):
                await scrape(second, "/metrics")
            await use(exporter, node_pb2.MetricsSettings(port=first, addr="127.0.0.1", token_file=str(tmp_path / "no")))
            with pytest.raises(ConnectionError):
                await scrape(first, "/metrics")
            exporter.stop()
        os.close(folder)

    async def use(exporter: NodeExporter, settings: node_pb2.MetricsSettings) -> None:
        exporter.use(settings)
        await exporter.settled()

    asyncio.run(body())
    assert "no metrics" in caplog.text and "metrics token cannot be read" in caplog.text


def test_a_taken_port_is_said_and_nothing_else_happens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        folder = os.open(tmp_path, os.O_RDONLY)
        with ThreadPoolExecutor(1) as executor:
            sources = NodeSources(
                "n1", str(tmp_path), StepReader(NONE, folder), executor, list, lambda: 1, lambda: 1, None
            )
            exporter = NodeExporter(sources, None)
            exporter.use(node_pb2.MetricsSettings(port=port, addr="127.0.0.1"))
            await exporter.settled()
            exporter.stop()
        os.close(folder)
        server.close()

    asyncio.run(body())
    assert "Address already in use; --metrics-port chooses another port" in caplog.text
