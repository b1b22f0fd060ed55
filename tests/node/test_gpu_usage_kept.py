"""The node's side of counting GPUs: a step's end waits for a last look, a restart loses nothing, exporters find the jobs."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from nodedaemon.base.orders import LaunchOrder, TaskOrder
from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.gpumessages import Device, Found, Lifetime, Polled, Process, Sample
from nodedaemon.core.gpuusage import ENERGY_J, GPU_MEM_HELD_KB, GPU_MEM_KB, GPU_UTIL
from nodedaemon.core.messages import StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon import gpu_usage as usage_module
from nodedaemon.daemon.gpu_usage import GpuUsage
from nodedaemon.gpu import kept
from nodedaemon.gpu.jobmap import JobMap
from nodedaemon.launch.site import Site
from nodedaemon.spool.gpufile import NAME, content, read_kept
from nodedaemon.stepd.sampling import CPU_MS, READ_BYTES, RSS_KB, WRITE_BYTES
from penstock.v1 import node_pb2
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

S = 1_000_000
G0, G1, M0 = "GPU-0", "GPU-1", "MIG-0"
BATCH, STEP0 = StepKey(1, 0, BATCH_STEP), StepKey(1, 0, 0)
DEVICES = (
    Device(G0, 0, 0, "h200", 1000, "", ""),
    Device(G1, 1, 1, "h200", 1000, "", ""),
    Device(M0, 1, 1, "1g.18gb", 100, "", "", parent=G1, gpu_instance=7),
)


class StandIn:
    """An agent and its watcher: a poll says what was put here, or nothing forever."""

    def __init__(self, reports: list[node_pb2.Report]) -> None:
        self.found = Found(DEVICES)
        self.watch = self
        self.next: list[Sample] | None = None
        self.owners: dict[int, GpuOwner] = {}
        self.polls = 0
        self.reports = reports
        self.settled = 0
        self.heard_out: list[bool] = []
        self.listener: GpuUsage

    def settle(self) -> None:
        self.settled += 1

    def send_report(self, report: node_pb2.Report) -> None:
        self.reports.append(report)

    def may_set(self, wanted: bool) -> bool:
        return wanted

    async def flush_reports(self, has_failed: bool) -> None:
        self.heard_out.append(has_failed)

    async def lifetimes(self, pids: Any, limit_s: float = 5.0) -> tuple[Lifetime, ...]:
        return tuple(Lifetime(uuid, pid, 99, 1, 777, 1, 0, False) for uuid in pids for pid in pids[uuid])

    async def poll(self, limit_s: float = 5.0) -> Polled | None:
        self.polls += 1
        if self.next is None:
            await asyncio.Event().wait()
        assert self.next is not None
        polled = Polled(max(sample.at_us for sample in self.next), tuple(self.next))
        asyncio.get_running_loop().call_soon(self.listener.polled, polled, self.owners)
        return polled


class World:
    """One node's usage, its spool folder, its clock."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.now_us = 0
        self.posted: list[Any] = []  # StepEnded
        self.reports: list[node_pb2.Report] = []
        self.suspended: set[tuple[int, int]] = set()
        self.site = Site()
        self.site.settings = node_pb2.NodeSettings(gpu=node_pb2.GpuSettings(idle_percent=5, **settings))
        self.steps_fd = os.open(folder, os.O_RDONLY)
        self.start()

    def start(self, *held: tuple[StepKey, tuple[str, ...]]) -> None:
        """As if the daemon had been started (again)."""
        self.agent = StandIn(self.reports)
        self.usage = GpuUsage(
            cast(Any, self.agent), self.steps_fd, self.site, lambda: self.now_us, lambda job: job in self.suspended
        )
        self.agent.listener = self.usage
        for key, uuids in held:
            self.usage.began(key, 1000, uuids)

    def run(self) -> None:
        self.usage.start()
        self.usage.take_settings(self.site.settings.gpu)

    def order(self, key: StepKey, *uuids: str, at_s: int = 0, **more: Any) -> None:
        self.now_us = at_s * S
        (self.folder / str(key)).mkdir()
        self.usage.began(key, 1000, uuids)
        self.usage.ordered(key, LaunchOrder(gpus=list(uuids), **more))

    def sample(self, at_s: int, *samples: Sample, owners: dict[int, GpuOwner] | None = None) -> None:
        self.now_us = at_s * S
        self.usage.polled(Polled(at_s * S, samples), owners or {})

    def told(self) -> dict[int, tuple[int, ...]]:
        (end,) = self.posted
        return {metric[0]: metric[1:] for metric in end.metrics}

    def kept(self, key: StepKey) -> dict[int, int]:
        found = read_kept(f"{key}/{NAME}", self.steps_fd)
        assert found is not None
        metrics: Any = found[1]
        return {metric[0]: metric[1] for metric in metrics}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def sample(uuid: str, at_s: int, util: int | None, mj: int | None, **pids: int) -> Sample:
    processes = tuple(Process(int(pid[1:]), kb) for pid, kb in pids.items())
    return Sample(uuid, at_s * S, util_percent=util, energy_mj=mj, processes=processes)


def ended(key: StepKey, **more: Any) -> StepEnded:
    return StepEnded(key, 1, 2, **more)


def test_a_step_s_end_waits_for_a_last_look(world: World) -> None:
    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 1_000)]
        world.order(STEP0, G0, tasks=[TaskOrder(6)])
        await asyncio.sleep(0)
        await asyncio.gather(*world.usage.tasks)
        world.now_us = 4 * S
        world.agent.next = [sample(G0, 4, 90, 9_000, p7=50)]
        world.agent.owners = {7: GpuOwner(7, True, 0, (1, 0), 1, STEP0)}
        end = ended(STEP0, metrics=((CPU_MS, 3, 3, 6, 3, 6),), measured=2)
        world.usage.over(end, world.posted.append)
        world.usage.over(end, world.posted.append)  # told twice, as a stepd that lingers is
        assert world.posted == []
        await asyncio.gather(*world.usage.tasks)
        assert world.posted[1:] == [end] and world.agent.polls == 2
        del world.posted[1:]

    asyncio.run(main())
    assert world.told() == {
        CPU_MS: (3, 3, 6, 3, 6), GPU_UTIL: (90, 90, 6, 90, 6), GPU_MEM_KB: (50, 50, 6, 50, 6), ENERGY_J: (8, 8, 6, 8, 6),
        GPU_MEM_HELD_KB: (1024_000, 1024_000, 6, 1024_000, 6),
    }  # fmt: skip
    assert world.posted[0].measured == 2


@pytest.mark.parametrize(
    ("how", "has_failed"),
    [
        ({}, False),
        ({"exit_code": 1}, True),
        ({"exit_signal": signal.SIGABRT}, True),
        ({"exit_signal": signal.SIGTERM}, False),
        ({"exit_signal": signal.SIGKILL}, False),
        ({"failure": "supervisor lost"}, True),
    ],
)
def test_a_step_s_end_is_told_after_what_happened_to_its_gpus(
    world: World, how: dict[str, Any], has_failed: bool
) -> None:
    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 1_000)]
        world.order(STEP0, G0)
        world.usage.over(ended(STEP0, **how), world.posted.append)
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())
    assert world.agent.heard_out == [has_failed] and len(world.posted) == 1


def test_nvml_s_own_accounting_is_asked_where_it_is_on(tmp_path: Path) -> None:
    world = World(tmp_path, accounting_mode=True)

    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 50, 0, p7=60)]
        world.order(BATCH, G0)
        world.sample(1, sample(G0, 1, 50, 0, p7=60), owners={7: GpuOwner(7, True, 0, (1, 0))})
        world.usage.over(ended(BATCH), world.posted.append)
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())
    assert world.told()[GPU_MEM_KB][0] == 777


def test_it_does_not_wait_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "LAST_POLL_S", 0.01)

    async def main() -> None:
        world.run()
        world.order(BATCH, G0)
        world.sample(10, sample(G0, 10, 50, 100))
        world.usage.over(ended(BATCH, user_cpu_us=5000, max_rss_kb=9), world.posted.append)
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())
    found = world.told()
    assert {kind: found[kind][0] for kind in (CPU_MS, RSS_KB, READ_BYTES, WRITE_BYTES, GPU_UTIL)} == {
        CPU_MS: 5, RSS_KB: 9, READ_BYTES: 0, WRITE_BYTES: 0, GPU_UTIL: 50,
    }  # fmt: skip
    assert world.posted[0].measured == 1


def test_other_ends_pass_at_once(world: World) -> None:
    """Of a step without GPUs, of one that never started, of a job's holder that did nothing."""

    async def main() -> None:
        world.run()
        extern = StepKey(1, 0, EXTERN_STEP)
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(extern, G0)
        world.order(BATCH, G0)
        ends = [ended(StepKey(9, 0, 0)), StepEnded(BATCH, 0, 2, failure="no"), ended(extern)]
        for end in ends:
            world.usage.over(end, world.posted.append)
        assert [end.key for end in world.posted] == [end.key for end in ends]
        assert world.posted[0] is ends[0] and world.posted[2] is ends[2]
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())


def test_a_step_that_could_not_be_ordered_holds_nothing(world: World) -> None:
    """Its end came before it was known to have begun."""

    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.usage.over(StepEnded(BATCH, 0, 2, failure="no room"), world.posted.append)
        world.order(BATCH, G0)
        world.usage.ended(BATCH)
        before = world.usage.per_process()
        world.order(STEP0, G0)
        assert world.usage.per_process() == before == ()
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())
    assert [end.key for end in world.posted] == [BATCH]


def test_a_restart_loses_nothing(world: World) -> None:
    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(BATCH, G0)
        await asyncio.sleep(0)
        await asyncio.gather(*world.usage.tasks)
        world.sample(10, sample(G0, 10, 80, 10_000, p7=60), owners={7: GpuOwner(7, True, 0, (1, 0))})
        assert world.kept(BATCH) == {GPU_UTIL: 80, GPU_MEM_KB: 60, ENERGY_J: 10, GPU_MEM_HELD_KB: 1024_000}
        world.usage.stop()
        world.start((BATCH, (G0,)))
        world.run()
        world.sample(20, sample(G0, 20, 40, 15_000))
        assert world.kept(BATCH) == {GPU_UTIL: 60, GPU_MEM_KB: 60, ENERGY_J: 15, GPU_MEM_HELD_KB: 1024_000}

    asyncio.run(main())


def test_a_step_that_ended_meanwhile_has_what_was_kept(world: World) -> None:
    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(BATCH, G0)
        await asyncio.gather(*world.usage.tasks)
        world.sample(10, sample(G0, 10, 80, 10_000))
        world.usage.stop()
        world.start()
        world.usage.over(ended(BATCH), world.posted.append)  # before the new daemon's agent runs

    asyncio.run(main())
    assert world.told()[ENERGY_J][0] == 10


def test_a_file_that_is_damaged_is_no_file(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (world.folder / str(BATCH)).mkdir()
        kept.save(world.steps_fd, f"{BATCH}/{NAME}", content(b"\x93nonsense", []))
        world.usage.began(BATCH, 1000, (G0,))
        world.run()
        world.sample(10, sample(G0, 10, 80, 0))
        assert world.kept(BATCH)[GPU_UTIL] == 80

    asyncio.run(main())
    assert "cannot be read" in caplog.text
    (world.folder / str(BATCH) / NAME).write_bytes(b"\0" * 9)
    assert read_kept(f"{BATCH}/{NAME}", world.steps_fd) is None


def test_gpus_are_looked_at_more_often_while_a_job_has_one(world: World) -> None:
    async def main() -> None:
        world.run()
        world.site.settings.acct_gather_frequency_s = 3
        assert world.usage.poll_s(10) == 10
        world.agent.next = [sample(G0, 0, 0, 0)]
        before = world.agent.settled
        world.order(BATCH, G0)
        assert (world.usage.poll_s(10), world.usage.poll_s(2), world.agent.settled) == (3, 2, before + 1)
        assert world.usage.per_process() == ()
        world.order(STEP0, G0)
        assert world.usage.per_process() == (G0,)
        world.site.settings.acct_gather_frequency_s = 0
        assert world.usage.poll_s(10) == 10
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())


def test_an_idle_job_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path, idle_warn_s=60)

    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(BATCH, G0)
        await asyncio.gather(*world.usage.tasks)
        for at_s in (10, 70, 80):
            world.sample(at_s, sample(G0, at_s, 0, 0))
        world.usage.stop()
        world.start((BATCH, (G0,)))
        world.run()
        world.sample(90, sample(G0, 90, 0, 0))
        assert len(world.reports) == 1  # told already
        world.suspended.add((1, 0))
        world.sample(100, sample(G0, 100, 0, 0))
        world.suspended.clear()
        world.sample(110, sample(G0, 110, 0, 0))

    asyncio.run(main())
    first, last = (report.gpu_idle for report in world.reports)
    assert (list(first.uuid), first.since_us, first.over, first.unused) == ([G0], 10 * S, False, True)
    assert (first.key.job_id, first.key.step_id, last.over) == (1, BATCH_STEP, True)


def test_an_mps_server_is_the_job_s_that_it_serves(world: World) -> None:
    """Of two jobs of that user it is nobody's in particular."""
    owners = {9: GpuOwner(9, True, 1000)}

    async def main() -> None:
        world.run()
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(BATCH, G0, gpu_shares=[[25, 100]])
        await asyncio.gather(*world.usage.tasks)
        world.sample(10, sample(G0, 10, 40, 4_000, p9=30), owners=owners)
        assert (world.kept(BATCH)[GPU_MEM_KB], world.kept(BATCH)[ENERGY_J]) == (30, 1)
        world.order(StepKey(2, 0, BATCH_STEP), G0, gpu_shares=[[25, 100]])
        world.sample(20, sample(G0, 20, 40, 8_000, p9=90), owners=owners)
        assert world.kept(BATCH)[GPU_MEM_KB] == 30
        world.sample(30, sample(G0, 30, 40, 9_000, p9=90), owners={9: GpuOwner(9, True, 1001)})
        assert world.kept(BATCH)[GPU_MEM_KB] == 30
        await asyncio.gather(*world.usage.tasks)

    asyncio.run(main())


def test_exporters_find_the_jobs(tmp_path: Path) -> None:
    folder = tmp_path / "map"
    folder.mkdir()
    for name in ("0", "1.7", "3.penstock-new"):
        (folder / name).write_text("99\n")
    (folder / "README").write_text("not ours")
    (tmp_path / "steps").mkdir()
    world = World(tmp_path / "steps", job_map_dir=str(folder))

    def shown() -> dict[str, str]:
        return {path.name: path.read_text() for path in folder.iterdir() if path.name != "README"}

    async def main() -> None:
        world.run()
        assert shown() == {}
        world.agent.next = [sample(G0, 0, 0, 0)]
        world.order(BATCH, G0, M0, gpu_shares=[[1, 4], [1, 1]])
        world.order(StepKey(5, 0, BATCH_STEP), G0, gpu_shares=[[2, 4]])
        assert shown() == {"0": "1\n5\n", "1.7": "1\n"}
        await asyncio.gather(*world.usage.tasks)
        world.usage.returned(BATCH, (M0,))
        assert shown() == {"0": "1\n5\n"}
        world.usage.over(ended(BATCH), world.posted.append)
        await asyncio.gather(*world.usage.tasks)
        assert shown() == {"0": "5\n"}
        world.usage.take_settings(node_pb2.GpuSettings())
        assert shown() == {}

    asyncio.run(main())
    assert (folder / "README").exists()


def test_a_folder_that_is_not_there_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs = JobMap()
    jobs.use(str(tmp_path / "missing"))
    jobs.show({"0": [1]})
    jobs.show({"0": [2]})
    assert caplog.text.count("PenstockGpuJobMapDir=") == 1
