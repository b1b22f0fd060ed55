"""CPU time that a node reports is bounded by its threads and by the step's time on the controller's clock."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import Effect, Warn
from ctld.core.records.events import StepExited
from ctld.core.steps.reported import CPU_MS, CPU_TOLERANCE_US, cpu_of
from tests.core.test_node_clocks import running
from tests.core.world import BATCH, US, World, make_config

INT64_MAX = 2**63 - 1
RSS_KB = 2


@pytest.fixture
def world() -> World:
    made = World(make_config(nodes=1, cpus=4))
    made.register("n1")
    return made


def ended(world: World, lasted_us: int, **usage: Any) -> list[str]:
    """The script's end just now; what is logged."""
    job = running(world)
    said: list[str] = []
    emit = world.core.state.emit

    def watched(effect: Effect) -> None:
        if isinstance(effect, Warn):
            said.append(effect.text)
        emit(effect)

    world.core.state.emit = watched  # type: ignore[method-assign]  # what it emits is watched
    world.sequence += 1
    world.running["n1"].clear()
    head = ("n1", job.job_id, 0, BATCH, "spool-n1", world.sequence, world.links["n1"])
    world.do(StepExited(*head, world.now_us - lasted_us, world.now_us, 0, 0, **usage))
    return said


def test_more_than_the_node_has_is_cut_and_logged_once(world: World) -> None:
    metrics = ((CPU_MS, INT64_MAX, INT64_MAX, 0, 5, 1), (RSS_KB, INT64_MAX, 7, 0, 7, 0))
    said = ended(world, 10 * US, user_cpu_us=86_405 * US, system_cpu_us=INT64_MAX, metrics=metrics)
    step = world.core.state.jobs[1].steps[BATCH]
    most_us = 4 * 10 * US + CPU_TOLERANCE_US
    assert (step.user_cpu_us, step.system_cpu_us) == (most_us, 0)
    usage = msgspec.json.decode(step.usage)
    assert usage[str(CPU_MS)] == [most_us // 1000, most_us // 1000, "n1", 0, 5, "n1", 1]
    assert usage[str(RSS_KB)][0] == INT64_MAX
    assert len(said) == 1 and said[0].startswith("node n1 reports ") and "of CPU time for 1." in said[0]


def test_it_is_logged_once_a_node(world: World) -> None:
    ended(world, US, user_cpu_us=INT64_MAX)
    job = world.core.state.jobs[1]
    assert world.core.state.nodes["n1"].cpu_time_doubted and job.steps[BATCH].user_cpu_us == 4 * US + CPU_TOLERANCE_US


def test_what_can_be_true_is_taken_as_it_is(world: World) -> None:
    said = ended(world, 10 * US, user_cpu_us=39 * US, system_cpu_us=US)
    step = world.core.state.jobs[1].steps[BATCH]
    assert (step.user_cpu_us, step.system_cpu_us) == (39 * US, US)
    assert not said


@given(
    st.integers(0, INT64_MAX),
    st.integers(0, INT64_MAX),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(1, 256),
)
def test_the_sum_is_never_more(user_us: int, system_us: int, start_us: int, lasted_us: int, cpus: int) -> None:
    node = World(make_config(nodes=1, cpus=cpus)).core.state.nodes["n1"]
    head = ("n1", 1, 0, BATCH, "spool", 1, 1)
    event = StepExited(*head, start_us, start_us + lasted_us, 0, 0, user_cpu_us=user_us, system_cpu_us=system_us)
    bounded = cpu_of(event, node)
    most_us = cpus * (lasted_us if start_us else 0) + CPU_TOLERANCE_US
    assert bounded.user_cpu_us + bounded.system_cpu_us == min(user_us + system_us, most_us)
    assert bounded.user_cpu_us <= user_us and bounded.system_cpu_us <= system_us
    assert (bounded is event) == (user_us + system_us <= most_us)
