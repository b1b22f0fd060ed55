"""Suspend and resume: the machine's rules, and real processes that stand still, go on, and end while they stand still."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from nodedaemon.base.topology_info import read_topology
from nodedaemon.core import messages as m
from nodedaemon.core.machine import SCOPE_ALL, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, NodeMachine
from nodedaemon.core.steps import ANY_CPUS, CpuSets
from penstock.v1 import common_pb2, node_pb2
from tests.node.fakectl import cluster, eventually, lines, make_key
from tests.node.test_node_core import KEY, SECOND_US, Feed, connected


def stop(feed: Feed, suspended: bool = True, grace_s: int = 2, now_us: int = SECOND_US) -> list[m.NodeEffect]:
    return feed(m.SuspendSteps(*feed.head(None), KEY, suspended, grace_s * SECOND_US), now_us)


def signals(effects: list[m.NodeEffect]) -> list[tuple[int, ...]]:
    assert all(e.scope == SCOPE_ALL for e in effects if isinstance(e, m.DeliverSignal))
    return [e.signals for e in effects if isinstance(e, m.DeliverSignal)]


def refusals(effects: list[m.NodeEffect]) -> list[str]:
    return [e.refused for e in effects if isinstance(e, m.AckCommand)]


def running() -> Feed:
    feed = Feed(connected())
    feed.launch()
    feed.began()
    return feed


def test_tstp_then_stop_then_cont() -> None:
    feed = running()
    assert signals(stop(feed)) == [(SIGTSTP,)]
    assert signals(stop(feed)) == []  # again says nothing new
    assert feed.machine.next_deadline() == 3 * SECOND_US
    assert signals(feed(m.TimerDue(), 3 * SECOND_US)) == [(SIGSTOP,)]
    assert feed.machine.next_deadline() is None
    assert signals(stop(feed, suspended=False)) == [(SIGCONT,)]
    assert signals(stop(feed, suspended=False)) == []


def test_a_resume_within_the_grace_takes_the_stop_back() -> None:
    feed = running()
    stop(feed)
    stop(feed, suspended=False)
    assert feed.machine.next_deadline() is None
    assert signals(feed(m.TimerDue(), 9 * SECOND_US)) == []


def test_a_step_that_begins_while_it_is_suspended_stops_at_once() -> None:
    feed = Feed(connected())
    feed.launch()
    assert signals(stop(feed)) == []
    assert signals(feed.began()) == [(SIGSTOP,)]


def test_nobody_lets_a_suspended_step_go_on_by_a_signal() -> None:
    feed = running()
    stop(feed)
    assert refusals(feed.signal(signum=SIGCONT)) == ["step 7.1.-5 is suspended"]


def test_a_suspended_step_that_is_told_to_end_gets_cont_first_and_no_stop() -> None:
    feed = running()
    stop(feed)
    assert signals(feed.terminate(now_us=SECOND_US)) == [(SIGCONT, SIGTERM)]
    assert signals(feed(m.TimerDue(), 4 * SECOND_US)) == []
    assert signals(stop(feed)) == []  # it is on its way out


def test_what_is_not_here_cannot_be_suspended() -> None:
    assert refusals(stop(Feed(connected()))) == ["step 7.1.-5 is not here"]


def test_a_restarted_daemon_stops_it_again() -> None:
    machine = connected()
    records: list[m.AnyRecord] = [m.SpoolCreated("spool"), m.BootSeen("boot")]
    for event in (
        m.Launch(1, 1, 3, KEY, "order"),
        m.StepBegan(KEY, 5, 99),
        m.SuspendSteps(1, 2, 3, KEY, True, 2 * SECOND_US),
    ):
        machine.step(SECOND_US, event)
        records += machine.seal().records
    for written in (records, list(machine.snapshot())):
        other = NodeMachine()
        other.replay(written)
        assert other.steps[KEY].suspended
        other.step(5 * SECOND_US, m.TimerDue())
        assert signals(list(other.seal().effects)) == [(SIGSTOP,)]


def test_who_missed_a_suspension_and_its_end_moves_once() -> None:
    feed = running()
    for expected in ([(SIGCONT,)], []):
        resume = m.SuspendSteps(*feed.head(None), KEY, False, 0, CpuSets("c", "f"))
        assert signals(feed(resume)) == expected
    assert feed.machine.steps[KEY].cpus == CpuSets("c", "f")


@pytest.mark.parametrize("resumed", [False, True])
def test_a_step_that_was_suspended_ends_though_the_daemon_dies_before_it_signals(resumed: bool) -> None:
    """It never ended (fault world 873): the deadline of a stop that was due no more hid that of SIGKILL. And it is asked to
    end, which it may not have been."""
    machine = connected()
    records: list[m.AnyRecord] = [m.SpoolCreated("spool"), m.BootSeen("boot")]
    orders: list[m.NodeCoreEvent] = [m.Launch(1, 1, 3, KEY, "order"), m.StepBegan(KEY, 5, 99)]
    orders += [m.SuspendSteps(1, 2, 3, KEY, True, 0)]
    orders += [m.SuspendSteps(1, 3, 3, KEY, False, 0, CpuSets("c", "f"))] if resumed else []
    for event in (*orders, m.Terminate(1, 4, 3, KEY, 30 * SECOND_US, "")):
        machine.step(SECOND_US, event)
        records += machine.seal().records
    for written in (records, list(machine.snapshot())):
        other = NodeMachine()
        other.replay(written)
        assert not other.steps[KEY].suspended
        other.step(2 * SECOND_US, m.LinkUp(2, 3, 60 * SECOND_US))
        other.step(2 * SECOND_US, m.Terminate(2, 1, 3, KEY, 40 * SECOND_US, ""))  # once more, as at each registration
        other.seal()
        for at_s, sent in ((2, (SIGCONT, SIGTERM)), (31, (SIGKILL,))):
            deadline_us = other.next_deadline()
            assert deadline_us is not None and deadline_us <= at_s * SECOND_US
            other.step(at_s * SECOND_US, m.TimerDue())
            assert signals(list(other.seal().effects)) == [sent]


def test_a_resumed_step_is_told_its_cpus_also_when_it_was_still_starting_or_the_daemon_died_meanwhile() -> None:
    cpus = CpuSets("c", "f")
    machine = connected()
    records: list[m.AnyRecord] = []
    told: list[tuple[tuple[int, ...], CpuSets]] = []
    for event in (
        m.Launch(1, 1, 3, KEY, "order"),
        m.SuspendSteps(1, 2, 3, KEY, True, 2 * SECOND_US),
        m.SuspendSteps(1, 3, 3, KEY, False, 0, cpus),
        m.StepBegan(KEY, 5, 99),
        m.SuspendSteps(1, 4, 3, KEY, True, 0),
        m.SuspendSteps(1, 5, 3, KEY, False, 0, cpus),
    ):
        machine.step(SECOND_US, event)
        batch = machine.seal()
        records += batch.records
        told += [(e.signals, e.cpus) for e in batch.effects if isinstance(e, m.DeliverSignal)]
    assert told == [((SIGCONT,), cpus), ((SIGTSTP,), ANY_CPUS), ((SIGCONT,), cpus)]
    for written in ([m.SpoolCreated("spool"), m.BootSeen("boot"), *records], list(machine.snapshot())):
        other = NodeMachine()
        other.replay(written)
        other.step(5 * SECOND_US, m.TimerDue())
        effects = [e for e in other.seal().effects if isinstance(e, m.DeliverSignal)]
        assert [(e.signals, e.cpus) for e in effects] == [((SIGCONT,), cpus)]


# ---- real processes --------------------------------------------------------------------------------------------------


def states(pids: list[int]) -> str:
    """The letters of /proc/PID/stat. A frozen process is D or S, a stopped one T."""
    return "".join(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for pid in pids)


def suspend(controller, job_id: int, suspended: bool, grace_ms: int = 0, cpus: bytes = b"") -> int:
    order = node_pb2.SuspendStep(
        key=make_key(job_id), suspended=suspended, grace_ms=grace_ms, cpu_ids=cpus, job_cpu_ids=cpus
    )
    return controller.command(suspend=order)


#: Two processes that count as long as they run; the child has a session of its own.
COUNTING = """
setsid sh -c 'echo $$ > child; while :; do echo c >> ticks; sleep 0.05; done' &
echo $$ > parent
while :; do echo p >> ticks; sleep 0.05; done
"""


async def begun(tmp_path) -> list[int]:
    await eventually(lambda: {"c", "p"} <= set(lines(tmp_path / "ticks")))
    await eventually(lambda: all(lines(tmp_path / name) for name in ("parent", "child")))  # made before it is written
    return [int((tmp_path / name).read_text()) for name in ("parent", "child")]


async def stand_still(tmp_path, pids: list[int]) -> int:
    """All of them are stopped; how much was counted until then."""
    await eventually(lambda: states(pids) in ("TT", "DD", "TD", "DT"))
    return len(lines(tmp_path / "ticks"))


def test_all_processes_stand_still_go_on_and_end(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.launch(1, COUNTING, work_dir=str(tmp_path).encode())
            pids = await begun(tmp_path)
            assert await controller.acked(suspend(controller, 1, True)) == ""
            counted = await stand_still(tmp_path, pids)
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            (held,) = controller.registrations[1].held
            assert held.suspended
            assert len(lines(tmp_path / "ticks")) == counted
            suspend(controller, 1, False)
            await eventually(lambda: len(lines(tmp_path / "ticks")) > counted + 2)
            suspend(controller, 1, True, grace_ms=50)
            await stand_still(tmp_path, pids)
            controller.terminate(1, grace_ms=20_000)
            end = await controller.exited(1)
            assert end.exit.signal == SIGTERM
            assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)

    asyncio.run(scenario())


def test_a_suspended_step_that_ignores_sigterm_is_killed(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "trap '' TERM; echo p >> ticks; echo c >> ticks; echo $$ > parent; echo $$ > child; sleep 1000"
            controller.launch(1, script, work_dir=str(tmp_path).encode())
            pids = await begun(tmp_path)
            suspend(controller, 1, True)
            await stand_still(tmp_path, pids)
            controller.terminate(1, grace_ms=100)
            assert (await controller.exited(1)).exit.signal == 9

    asyncio.run(scenario())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it takes two CPUs")
@pytest.mark.parametrize("constrain_cores", [False, True])  # by control groups where there are some
def test_all_threads_move_to_the_cpus_that_the_job_has_now(tmp_path, constrain_cores):
    """The script's process with a thread, and one in a session of its own with the processes that it starts."""
    first, second = [cpu.kernel for cpu in read_topology(os.sched_getaffinity(0)).cpus][:2]
    script = f"""
echo $$ > parent
setsid sh -c 'echo $$ > child; while :; do echo c >> ticks; sleep 0.05; done' &
exec {sys.executable} -c '
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
open("ticks", "a").write("p\\n")
time.sleep(1000)'
"""

    def bound(pids: list[int]) -> list[set[int]]:
        threads = [int(name) for pid in pids for name in os.listdir(f"/proc/{pid}/task")]
        return [os.sched_getaffinity(thread) for thread in threads]

    async def scenario():
        settings = node_pb2.NodeSettings(task_plugin="task/affinity")
        settings.cgroup.constrain_cores = constrain_cores
        async with cluster(tmp_path, "--cpus=", settings=settings) as (controller, _):
            part = common_pb2.NodeAllocation(node="n1", cpus=1, cpu_ids=b"\x01")
            controller.launch(1, script, work_dir=str(tmp_path).encode(), allocation=part)
            pids = await begun(tmp_path)
            assert bound(pids) == [{first}] * 3
            suspend(controller, 1, True)
            await eventually(lambda: set(states(pids)) <= {"T", "D"})
            assert await controller.acked(suspend(controller, 1, False, cpus=b"\x02")) == ""
            await eventually(lambda: bound(pids) == [{second}] * 3)
            controller.terminate(1, grace_ms=20_000)
            await controller.exited(1)

    asyncio.run(scenario())
