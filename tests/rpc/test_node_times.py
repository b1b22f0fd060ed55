"""What a node's times are by the controller's clock, and whose clock is wrong."""

import logging
from types import SimpleNamespace

# Any: stand-ins for the runtime and its state
from typing import Any

import pytest

from ctld.agents.clockwatch import ClockWatch
from ctld.agents.link import NodeLink
from ctld.agents.nodetime import DRIFT, NODES_MIN, REFUSE_US, WARN_US, NodeTime, judged, own_error_us
from ctld.core.nodes.clocks import CLOCK_WRONG
from ctld.core.records.events import NodeClockSeen
from penstock.values.states import NodeFlag

US = 1_000_000
DAY = 86_400 * US
NOW = 1_700_000_000 * US


class Machines:
    """The controller's machine and a node's; `real_us` is the true time, since the controller's machine was started."""

    def __init__(self, node_ahead_us: int = 0) -> None:
        self.real_us = 1000 * US
        self.ahead_us = node_ahead_us
        self.time = NodeTime(lambda: self.real_us)

    @property
    def now_us(self) -> int:
        return NOW + self.real_us

    def node_us(self) -> int:
        return self.now_us + self.ahead_us

    def beat(self, late_us: int = 0) -> None:
        """A heartbeat that took so long."""
        at_us = self.node_us()
        self.real_us += late_us
        self.time.heard(at_us, at_us)

    def ours(self, node_us: int) -> int:
        return self.time.by_our_clock(node_us, self.now_us)


@pytest.mark.parametrize("ahead_us", [0, DAY, -DAY, 3 * US])
@pytest.mark.parametrize("late_s", [0, 20, 60])
def test_an_event_keeps_its_time_however_late_it_is_reported(ahead_us: int, late_s: int) -> None:
    both = Machines(ahead_us)
    both.beat()
    both.real_us += 5 * US
    happened_us, there_us = both.now_us, both.node_us()
    for _ in range(late_s // 5):  # nothing is read meanwhile, heartbeats neither
        both.beat(late_us=5 * US)
    assert 0 <= both.ours(there_us) - happened_us <= (late_s + 5) * US * DRIFT


def test_a_first_message_that_was_late_is_corrected_by_the_next() -> None:
    both = Machines(DAY)
    both.beat(late_us=20 * US)
    happened_us, there_us = both.now_us, both.node_us()
    assert both.ours(there_us) == happened_us  # not in the future, as far as one message shows it
    both.real_us += 5 * US
    both.beat()
    assert both.ours(there_us) == happened_us


def test_the_controllers_clock_may_be_set_meanwhile() -> None:
    both = Machines()
    both.beat()
    there_us = both.node_us()
    both.real_us += 5 * US
    assert both.time.by_our_clock(there_us, both.now_us + DAY) == both.now_us + DAY - 5 * US


@pytest.mark.parametrize("node_us", [1, 2**63 - 1])
def test_any_number_is_a_time_until_now(node_us: int) -> None:
    both = Machines()
    both.time.heard(2**63 - 1, 1)
    both.time.heard(-5, 7)
    assert 1 <= both.ours(node_us) <= both.now_us
    assert both.ours(0) == 0


def test_a_node_of_an_earlier_release_is_taken_at_its_word() -> None:
    silent = NodeTime()
    assert silent.by_our_clock(NOW + DAY, NOW) == NOW + DAY  # within the bounds of steps/reported.py
    assert silent.off_us(NOW) is None
    both = Machines(DAY)
    both.time.heard(both.node_us())
    assert both.time.off_us(both.now_us) is None


@pytest.mark.parametrize("ahead_us", [0, DAY, -DAY])
def test_a_clock_is_compared_also_when_messages_are_late(ahead_us: int) -> None:
    both = Machines(ahead_us)
    both.beat()
    for _ in range(10):
        both.beat(late_us=30 * US)
    assert abs((both.time.off_us(both.now_us) or 0) - ahead_us) <= US


def test_limits_have_some_play() -> None:
    assert [judged(off * US, 0) for off in (0, 2, -2, 3, -3, 60, 61, -61)] == [
        0, 0, 0, WARN_US, WARN_US, WARN_US, REFUSE_US, REFUSE_US,
    ]  # fmt: skip
    assert judged(50 * US, REFUSE_US) == REFUSE_US and judged(40 * US, REFUSE_US) == WARN_US
    assert judged(-1_900_000, WARN_US) == WARN_US and judged(-1_900_000, 0) == 0 and judged(US, WARN_US) == 0


def test_whose_clock_is_wrong() -> None:
    assert own_error_us([DAY] * (NODES_MIN - 1)) == 0
    assert own_error_us([DAY] * NODES_MIN) == DAY
    assert own_error_us([0, 0, 0, DAY, DAY]) == 0
    assert own_error_us([0, 0, DAY, DAY, DAY + US]) == DAY
    assert own_error_us([DAY, -DAY, 3 * US, 100 * US, 7 * DAY]) == 0


class Watched:
    """A watch of some nodes, with what it posts."""

    def __init__(self, *offs: int) -> None:
        self.posted: list[NodeClockSeen] = []
        self.nodes = {f"n{i}": SimpleNamespace(reason="", flags=NodeFlag.NONE) for i in range(len(offs))}
        core = SimpleNamespace(state=SimpleNamespace(nodes=self.nodes))
        runtime: Any = SimpleNamespace(core=core, post=self.posted.append, clock_us=lambda: NOW)
        self.links = {name: NodeLink(name, 1, runtime, runtime) for name in self.nodes}
        for link, off_us in zip(self.links.values(), offs, strict=True):
            link.time = NodeTime(lambda: US)
            link.time.heard(NOW, NOW + off_us)
        self.watch = ClockWatch(runtime, self.links, lambda: NOW)

    def usable(self) -> dict[str, bool]:
        """What a check announces."""
        self.posted.clear()
        self.watch.judge_all()
        return {event.node: event.is_usable for event in self.posted}


def test_a_wrong_clock_is_announced_until_the_node_is_drained_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    some = Watched(0, 10 * US, -DAY)
    assert some.usable() == some.usable() == {"n2": False}
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "node n1: its clock is 10.0 s ahead of this machine's: set it (time synchronisation)"),
        (
            "WARNING",
            "node n2: its clock is 86400.0 s behind this machine's: it takes no jobs until it is set (time synchronisation)",
        ),
    ]
    some.nodes["n2"].reason, some.nodes["n2"].flags = CLOCK_WRONG, NodeFlag.DRAIN
    assert some.usable() == {}
    some.links["n2"].time.heard(NOW, NOW)
    assert some.usable() == {"n2": True}
    assert caplog.records[-1].getMessage() == "node n2: its clock is right again"


def test_most_nodes_are_right(caplog: pytest.LogCaptureFixture) -> None:
    """The clock of the controller's machine was set to yesterday: nodes stay in use, but for one that differs from the
    others."""
    some = Watched(DAY, DAY, DAY + US, 2 * DAY)
    assert some.usable() == {"n3": False}
    assert "most nodes' clocks are 86400.0 s ahead of this machine's" in caplog.text
    assert [link.clock_limit_us for link in some.links.values()] == [0, 0, 0, REFUSE_US]
