"""The GPU agent by itself: what it remembers, whom it refuses, and that it never chases its own tail."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gpujudge import A, B, device

from nodedaemon.cgroup import NONE
from nodedaemon.core import gpuhealth_words as w
from nodedaemon.core import messages as core
from nodedaemon.core.gpuwords import Found, Hung, Xid
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.agent import GpuAgent, Place, may_have
from nodedaemon.spool import Spool
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.gpustates import GpuState

FOUND = Found((device(A, 0), device(B, 1)))
KEY = StepKey(7, 1, -5)


def run(folder: Path, scenario: Callable[[GpuAgent, list[core.Event]], Any], found: Found = FOUND) -> None:
    """A scenario on an agent whose children are never started."""

    async def main() -> None:
        spool = Spool(str(folder / "spool"), "boot-1", "s1")
        events: list[core.Event] = []
        with ThreadPoolExecutor(1) as executor:
            inventory = node_pb2.Inventory()
            agent = GpuAgent(
                Place(spool, NONE, executor, events.append, lambda: 10**15, inventory, lambda: 60_000_000), found
            )
            try:
                await scenario(agent, events)
            finally:
                await agent.stop()
                spool.close()

    asyncio.run(main())


def reports(events: list[core.Event]) -> list[node_pb2.GpuReport]:
    said = [node_pb2.Report.FromString(event.body) for event in events if isinstance(event, core.Say)]
    return [report.gpus for report in said if report.HasField("gpus")]


async def judged(agent: GpuAgent, *words: Any) -> None:
    """Let the agent take these, as its task does."""
    for word in words:
        agent._judge(word)
        await agent._settle()


def test_a_launch_on_a_broken_gpu_is_refused(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.Event]) -> None:
        assert [gpu.uuid for gpu in agent.resolve((A, B))] == [A, B]
        await judged(agent, Xid(1, 79, A))
        with pytest.raises(BadValue, match=f"GPU_ERROR: XID 79 .{A}."):
            agent.resolve((A,))
        await judged(agent, Hung(1, "f", B))
        with pytest.raises(BadValue, match=f"GPU_ERROR: NVML hung in f on GPU 1 .{B}."):
            agent.resolve((B,))
        with pytest.raises(BadValue, match="GPU_ERROR: GPU-x is not on this node"):
            agent.resolve(("GPU-x",))

    run(tmp_path, scenario)


def test_the_end_of_a_step_waits_until_what_happened_to_its_gpus_is_said(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.Event]) -> None:
        agent._judging = asyncio.create_task(agent._run())
        agent.tell(w.Holds(KEY, 1000, (A,)))
        failing = asyncio.create_task(agent.hear_out(has_failed=True))
        await agent.hear_out(has_failed=False)
        assert not failing.done()  # the driver may have more to say
        agent.take(Xid(1, 119, A))
        await failing
        (report,) = reports(events)
        assert (report.action, report.cause) == (node_pb2.GpuReport.END, f"XID 119 on {A}")

    run(tmp_path, scenario)


def test_one_report_has_the_opinion_and_what_it_means_for_the_job(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.Event]) -> None:
        await judged(agent, w.Holds(KEY, 1000, (A,)), Xid(1, 119, A))
        (report,) = reports(events)
        assert (report.action, report.cause, len(report.jobs)) == (node_pb2.GpuReport.END, f"XID 119 on {A}", 1)
        (health,) = report.health
        assert (health.uuid, health.state, health.reason) == (A, GpuState.DRAINED, "XID 119")
        assert health.wants_reset

    run(tmp_path, scenario)


def test_what_is_thought_outlives_the_daemon(tmp_path: Path) -> None:
    async def first(agent: GpuAgent, events: list[core.Event]) -> None:
        await judged(agent, Xid(1, 79, A))

    async def second(agent: GpuAgent, events: list[core.Event]) -> None:
        inventory = node_pb2.Inventory()
        agent.fill(inventory)
        assert [(gpu.uuid, gpu.health.state) for gpu in inventory.gpus] == [(B, 0), (A, GpuState.FAILED)]
        assert events == []  # the registration says it

    run(tmp_path, first)
    run(tmp_path, second, Found((device(B, 1),)))


def test_who_had_a_gpu_outlives_the_daemon(tmp_path: Path) -> None:
    other = StepKey(8, 1, 0)

    async def first(agent: GpuAgent, events: list[core.Event]) -> None:
        agent.began(KEY, 1000, (A,))
        agent.began(other, 1001, (B,))

    async def second(agent: GpuAgent, events: list[core.Event]) -> None:
        agent.watch.start = lambda *a, **k: None  # type: ignore[method-assign]
        agent.start([KEY], lambda: None)
        assert [held.key for held in agent.holders(A)] == [KEY] and agent.holders(B) == ()
        agent.ended(KEY)
        assert agent.holders(A) == ()

    run(tmp_path, first)
    run(tmp_path, second)


def test_what_cannot_be_killed_is_not_looked_at_all_the_time(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.Event]) -> None:
        looks = 0

        async def poll(limit_s: float = 5.0) -> None:
            nonlocal looks
            looks += 1

        agent.watch.poll = poll  # type: ignore[method-assign, assignment]
        for _ in range(20):
            agent._follow([w.KillProcess(2**22 + 1, 5, 1000, (7, 1), A), w.Look(3_600_000_000)])
        await asyncio.sleep(0)
        assert looks == 0
        timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert len([handle for handle in timers if handle._callback == agent.look]) == 1
        agent._follow([w.Look()])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert looks == 1

    run(tmp_path, scenario)


def test_a_damaged_record_is_taken_as_missing(tmp_path: Path) -> None:
    async def nothing(agent: GpuAgent, events: list[core.Event]) -> None:
        assert agent.opinions() == (w.Opinion(A), w.Opinion(B))

    run(tmp_path, nothing)
    for content in ("", "{", '{"records": {"x": 1}}', "[]"):
        (tmp_path / "spool" / "gpu-health.json").write_text(content)
        (tmp_path / "spool" / "gpu-steps.json").write_text(content)
        run(tmp_path, nothing)


def test_a_node_without_nvml_has_no_agent(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), "boot-1", "s1")
    try:
        assert not may_have(Found(), spool)
        assert not may_have(Found(why="no library", code=12), spool)
        assert may_have(Found(why="no driver", code=9), spool)
        assert may_have(Found(why="NVML did not answer within 10 s (nvmlInit)"), spool)
        assert may_have(Found(nameless=(15,)), spool)
        (tmp_path / "spool" / "gpu-health.json").write_text("{}")
        assert may_have(Found(why="no library", code=12), spool)
    finally:
        spool.close()
