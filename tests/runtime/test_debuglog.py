"""DebugFlags: what each shows of events and batches, what none shows, and that it costs a comparison without them."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ctld.core.records.effects import Batch
from ctld.core.records.events import CreateStep, Event, JobSubmission, PlanReady, StepProfiled
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from ctld.runtime.debuglog import LINES_MAX, DebugLog
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.messages import (
    AckCommand,
    DeliverSignal,
    Launch,
    LinkDown,
    LinkUp,
    RebootMachine,
    StartStep,
    StepEnded,
)
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.debuglog import NodeDebugLog
from penstock.values.debugflags import EFFECTS, NODE_EFFECTS, find_flag, note, read_flags
from penstock.values.errors import BadValue
from tests.core.world import World, make_config


class WatchedWorld(World):
    """A world whose events and batches a DebugLog sees, as the loop shows them."""

    def __init__(self, flags: str) -> None:
        self.observers: list[Callable[[Batch], None]] = []
        self.debug = DebugLog(self.observers)
        self.debug.configure(read_flags(flags, "DebugFlags"))
        super().__init__(make_config(nodes=2, cpus=4))
        for node in self.config.nodes:
            self.register(node.name)

    def do(self, event: Event) -> list[str]:
        """An event through the loop."""
        if self.debug.event is not None:
            self.debug.event(event)
        return super().do(event)

    def _commit(self, batch: Batch) -> None:
        super()._commit(batch)
        for observe in self.observers:
            observe(batch)


def played(flags: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of a job with a step, and of one that depends on it."""
    spec = SpecRow(b"s", b"#!/bin/sh secret", (b"a=secret",), ())
    with caplog.at_level(logging.INFO, "penstock.ctld"):
        world = WatchedWorld(flags)
        world.submit(JobSubmission(name="secret-name", work_dir=b"/secret"))
        world.submit(JobSubmission(name="b", work_dir=b"/tmp", dependency="afterok:1"))
        world.started(1)
        world.do(CreateStep(world.actor("ann"), 1, "k" * 32, StepRequest(), spec, reply_to=99))
        world.do(StepProfiled("n1", 1, 0, -5, "spool", 1, 1, b"secret"))
        world.exited(1)
        world.do(PlanReady(1, (), ()))
    return [record.getMessage() for record in caplog.records if record.name == "penstock.ctld"]


@pytest.mark.parametrize(
    ("flag", "wanted"),
    [
        ("agent", r"job 1: LaunchStep node=n1"),
        ("Backfill", r"pass 1 is done: 0 starts"),
        ("Dependency", r"job 2: waits for afterok:1"),
        ("Network", r"NodeRegistered node=n1 link_id="),
        ("Priority", r"job 2: priority \d+, nice 0, QOS \w+"),
        ("Profile", r"job 1: StepProfiled node=n1 .*step_id=-5 .*bytes=6"),
        ("Protocol", r"job 1: StepExited node=n1"),
        ("SelectType", r"job 1: n1 cpus=1 mask=\S+ mem_mb=\d+ tasks=1"),
        ("Steps", r"job 1: CreateStep uid=\d+"),
        ("TraceJobs", r"job 1: attempt 0 COMPLETING reason=NONE"),
    ],
)
def test_a_flag_logs_its_subsystem_and_no_other(flag: str, wanted: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = played(flag, caplog)
    begin = f"DebugFlags={find_flag(flag)}: "
    assert [line for line in lines if re.search(wanted, line)], lines
    assert all(line.startswith(begin) for line in lines) and not any("secret" in line for line in lines)


def test_all_flags_together_say_nothing_of_users_texts(caplog: pytest.LogCaptureFixture) -> None:
    lines = played(",".join(EFFECTS), caplog)
    assert len(lines) > 20 and not any("secret" in line for line in lines)


def test_without_flags_nothing_is_watched(caplog: pytest.LogCaptureFixture) -> None:
    assert played("", caplog) == [] == played("BackfillMap,gang", caplog)
    observers: list[Callable[[Batch], None]] = []
    debug = DebugLog(observers)
    debug.change(["AuditRPCs", "Steps"], [])
    assert debug.call is not None and debug.event is not None and len(observers) == 1
    debug.change(["Steps"], ["AuditRPCs"])
    assert debug.flags == ("Steps",) and debug.call is None and len(observers) == 1
    debug.configure(("Gres",))
    assert debug.flags == ("Gres",) and len(observers) == 1
    debug.change([], ["Gres"])
    assert (debug.flags, debug.event, debug.call, observers) == ((), None, None, [])


def test_answered_calls_are_logged_with_their_callers(caplog: pytest.LogCaptureFixture) -> None:
    debug = DebugLog([])
    debug.change(["AuditRPCs"], [])
    assert debug.call is not None
    with caplog.at_level(logging.INFO, "penstock.ctld"):
        for uid in (7, -1, None):
            debug.call("SubmitJob", uid, "OK", 120)
    callers = ("uid 7", "a node", "an unknown caller")
    assert caplog.messages == [f"DebugFlags=AuditRPCs: SubmitJob of {who}: OK after 120 us" for who in callers]


def test_a_large_batch_has_a_limit_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    world = WatchedWorld("TraceJobs")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp"))
    rows = [*world.jobs.values()] * (LINES_MAX + 5)
    with caplog.at_level(logging.INFO, "penstock.ctld"):
        [observe] = world.observers
        observe(Batch(1, rows, [], [], [], [], [], [], 1, 1, [], []))
    assert len(caplog.messages) == LINES_MAX + 1 and caplog.messages[-1].endswith("and 5 more of this batch")


def test_the_configuration_reads_flags_in_any_case() -> None:
    assert read_flags("backfill, GRES,Backfill,cpu_bind", "DebugFlags") == ("Backfill", "Gres", "CPU_Bind")
    assert note("Backfill,gres") == "" and note("cpu_bind,Gres").startswith("CPU_Bind: no effect")
    with pytest.raises(BadValue, match="no debug flag 'nosuch'"):
        read_flags("Gres,nosuch", "DebugFlags")


def test_the_documentation_lists_the_flags() -> None:
    text = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
    assert all(f"| `{flag}` | {what} |\n" in text for flag, what in (*EFFECTS.items(), *NODE_EFFECTS.items()))


def test_a_node_daemons_flags_show_events_and_effects(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of a user's is in their lines, a turn has a bound, and a flag that is removed shows nothing more."""
    key = StepKey(12, 1, -5)
    order = LaunchOrder(key=str(key), user_id=1, group_id=1, user_name="secret", script=b"secret", work_dir=b"/secret",
                        std_out=b"secret", gpus=["GPU-1"])  # fmt: skip
    command = Launch(3, 7, 1, key, order)
    effects = [AckCommand(3, 7), StartStep(key, order), DeliverSignal(key, (15,), 1, "secret"), RebootMachine("kernel")]
    debug = NodeDebugLog()
    with caplog.at_level(logging.INFO, "penstock.noded"):
        debug.see([command, *effects])
        assert not caplog.records, "no flag is set"
        debug.use(["Backfill", *NODE_EFFECTS])
        debug.see([LinkUp(3, 1, 0), command])
        debug.see(effects)
        debug.see([StepEnded(key, 1, 2, exit_code=3)])
        debug.use(["Network"])
        debug.see(effects)
        debug.see([LinkDown(3)] * (LINES_MAX + 5))
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:10] == [
        "DebugFlags: Agent,Gres,Network,Power,Protocol,Steps",
        "DebugFlags=Network: LinkUp link=3 epoch=1",
        "DebugFlags=Agent: step 12.1.-5: Launch link=3 sequence=7 epoch=1",
        "DebugFlags=Agent: AckCommand link=3 sequence=7",
        "DebugFlags=Gres: step 12.1.-5: has GPU-1",
        "DebugFlags=Steps: step 12.1.-5: StartStep",
        "DebugFlags=Steps: step 12.1.-5: DeliverSignal signals=15 scope=1",
        "DebugFlags=Power: RebootMachine reason=kernel",
        "DebugFlags=Steps: step 12.1.-5: StepEnded exit_code=3 exit_signal=0",
        "DebugFlags: Network",
    ]
    assert (
        lines[10] == "DebugFlags=Network: LinkDown link=3"
        and lines[-1] == "DebugFlags=Network: and 5 more of this turn"
    )
    assert len(lines) == 10 + LINES_MAX + 1 and "secret" not in "".join(lines)
