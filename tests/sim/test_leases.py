"""Worlds with partitions longer than leases: jobs stop themselves and run again elsewhere, and never twice at a time.

Also that a controller which does not wait long enough, or a node that renews a lease by what it merely hears, is found.
"""

import msgspec
import pytest

from ctld.core.lifecycle import lease
from sim.checkers import Broken
from sim.simnode import SimNode
from sim.swarm import DEEDS, FAULTS, SwarmOptions, draw
from sim.world import SimWorld

WORDS = ("submit", "resume", "requeue", "submit_array")
FAULT_WORDS = ("part", "half_open", "kill_daemon", "kill_controller", "clock_forward", "power_cycle")


def options(seed: int) -> SwarmOptions:
    """Long jobs, long pauses, long partitions, also while the controller is killed and its clock is set forward."""
    return msgspec.structs.replace(
        draw(seed, 100), lease_s=240, node_fail_policy="requeue", pause_mean_s=30.0, run_max_s=4_000,
        deeds={word: DEEDS[word] for word in WORDS}, faults={word: FAULTS[word] for word in FAULT_WORDS},
    )  # fmt: skip


def play(seed: int) -> list[str]:
    world = SimWorld(seed, options=options(seed))
    world.run()
    return world.timeline.story(last=10**9)


@pytest.mark.parametrize("first", [8, pytest.param(11, marks=pytest.mark.slow)])
def test_worlds_of_leases(first: int) -> None:
    told = [text for seed in range(first, first + 3) for text in play(seed)]
    assert any("stops itself" in text for text in told)


def first_oracle() -> str:
    """Which oracle says no first; "" = none does."""
    for seed in range(7, 47):
        try:
            play(seed)
        except Broken as broken:
            return broken.oracle
    return ""


def test_a_controller_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "dead_after_s", lambda lease_s, grace_s: lease_s // 2)
    assert first_oracle() in ("once", "ended", "capacity")


def test_a_node_that_renews_without_an_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # private: the fault is inside the node, which renews its lease from time to time, also without a stream
    real = SimNode._beat

    def beat(self: SimNode) -> None:
        self._contact(self._timeline.now_us)
        real(self)

    monkeypatch.setattr(SimNode, "_beat", beat)  # private: the same
    assert first_oracle() in ("once", "ended", "capacity")
