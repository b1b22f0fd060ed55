"""The GPU agent by itself: what it remembers, whom it refuses, and that it never chases its own tail."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gpujudge import A, B, device

from nodedaemon.cgroups.cgroup import NONE
from nodedaemon.core import gpuhealth_messages as w
from nodedaemon.core import messages as core
from nodedaemon.core.gpuhealth import HealthMachine
from nodedaemon.core.gpumessages import Found, Hung, Xid
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.agent import AgentContext, GpuAgent, may_have
from nodedaemon.spool.spool import Spool
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.gpustates import GpuState

FOUND = Found((device(A, 0), device(B, 1)))
KEY = StepKey(7, 1, -5)


def run(folder: Path, scenario: Callable[[GpuAgent, list[core.NodeCoreEvent]], Any], found: Found = FOUND) -> None:
    """A scenario on an agent that was started, but for its children."""

    async def main() -> None:
        spool = Spool(str(folder / "spool"), "boot-1", "s1")
        events: list[core.NodeCoreEvent] = []
        with ThreadPoolExecutor(1) as executor:
            inventory = node_pb2.Inventory()
            agent = GpuAgent(
                AgentContext(spool, NONE, executor, events.append, lambda: 10**15, inventory, lambda: 60_000_000), found
            )
            agent.watch.start = lambda *a, **k: None  # type: ignore[method-assign]  # the tests need no children
            agent.start([KEY], lambda: None)
            await agent.flush_reports(has_failed=False)
            try:
                await scenario(agent, events)
            finally:
                await agent.stop()
                spool.close()

    asyncio.run(main())


def reports(events: list[core.NodeCoreEvent]) -> list[node_pb2.GpuReport]:
    said = [node_pb2.Report.FromString(event.body) for event in events if isinstance(event, core.ForwardReport)]
    return [report.gpus for report in said if report.HasField("gpus")]


async def judged(agent: GpuAgent, *words: Any) -> None:
    """Tell the agent these, and wait until it has judged them."""
    for word in words:
        if isinstance(word, w.StepGpus):
            agent.queue_event(word)
        else:
            agent.take(word)
    await agent.flush_reports(has_failed=False)


def test_a_launch_on_a_broken_gpu_is_refused(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
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
    async def scenario(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        agent.queue_event(w.StepGpus(KEY, 1000, (A,)))
        failing = asyncio.create_task(agent.flush_reports(has_failed=True))
        await agent.flush_reports(has_failed=False)
        assert not failing.done()  # the driver may have more to say
        agent.take(Xid(1, 119, A))
        await failing
        (report,) = reports(events)
        assert (report.action, report.cause) == (node_pb2.GpuReport.END, f"XID 119 on {A}")

    run(tmp_path, scenario)


def test_one_report_has_the_opinion_and_what_it_means_for_the_job(tmp_path: Path) -> None:
    async def scenario(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        await judged(agent, w.StepGpus(KEY, 1000, (A,)), Xid(1, 119, A))
        (report,) = reports(events)
        assert (report.action, report.cause, len(report.jobs)) == (node_pb2.GpuReport.END, f"XID 119 on {A}", 1)
        (health,) = report.health
        assert (health.uuid, health.state, health.reason) == (A, GpuState.DRAINED, "XID 119")
        assert health.wants_reset

    run(tmp_path, scenario)


def test_what_is_thought_outlives_the_daemon(tmp_path: Path) -> None:
    async def first(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        await judged(agent, Xid(1, 79, A))

    async def second(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        inventory = node_pb2.Inventory()
        agent.fill(inventory)
        assert [(gpu.uuid, gpu.health.state) for gpu in inventory.gpus] == [(B, 0), (A, GpuState.FAILED)]
        assert events == []  # the registration says it

    run(tmp_path, first)
    run(tmp_path, second, Found((device(B, 1),)))


def test_who_had_a_gpu_outlives_the_daemon(tmp_path: Path) -> None:
    other = StepKey(8, 1, 0)

    async def first(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        agent.began(KEY, 1000, (A,))
        agent.began(other, 1001, (B,))

    async def second(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        assert [held.key for held in agent.steps_using(A)] == [KEY] and agent.steps_using(B) == ()
        agent.ended(KEY)
        assert agent.steps_using(A) == ()

    run(tmp_path, first)
    run(tmp_path, second)


def test_what_cannot_be_killed_is_not_looked_at_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[w.HealthOutput] = []
    monkeypatch.setattr(HealthMachine, "seal", lambda self: outputs)

    async def scenario(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
        looks = 0

        async def poll(limit_s: float = 5.0) -> None:
            nonlocal looks
            looks += 1

        agent.watch.poll = poll  # type: ignore[method-assign]  # it counts how often it is asked
        timers: list[float] = []
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def counted(delay_s: float, *rest: Any) -> asyncio.TimerHandle:
            timers.append(delay_s)
            return call_later(delay_s, *rest)

        monkeypatch.setattr(loop, "call_later", counted)
        outputs[:] = [w.KillProcess(2**22 + 1, 5, 1000, (7, 1), A), w.PollRequest(3_600_000_000)]
        await judged(agent, *[Xid(1, 31, A)] * 20)
        await asyncio.sleep(0)
        assert looks == 0
        assert timers == [3600.0]
        outputs[:] = [w.PollRequest()]
        await judged(agent, Xid(1, 31, A))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert looks == 1

    run(tmp_path, scenario)


def test_a_damaged_record_is_taken_as_missing(tmp_path: Path) -> None:
    async def nothing(agent: GpuAgent, events: list[core.NodeCoreEvent]) -> None:
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
