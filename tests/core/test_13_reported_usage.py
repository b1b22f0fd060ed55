"""Usage that a node reports is bounded by what a machine has, and can do in the step's time on the controller's clock."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import Effect, Warn
from ctld.core.records.events import StepExited
from ctld.core.steps.reported import CPU_MS, MOST, RSS_KB, TOLERANCE_US, Most, usage_of
from penstock.v1 import common_pb2
from tests.core.test_node_clocks import running
from tests.core.world import BATCH, US, World, make_config

INT64_MAX = 2**63 - 1
SECONDS = 10
#: The number of each kind of figure: the field of the report that has it too.
FIELDS = {2: "max_rss_kb", 3: "max_vmsize_kb", 5: "disk_read_bytes", 6: "disk_write_bytes"}


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
    most_us = 4 * 10 * US + TOLERANCE_US
    assert (step.user_cpu_us, step.system_cpu_us) == (most_us, 0)
    usage = msgspec.json.decode(step.usage)
    assert usage[str(CPU_MS)] == [most_us // 1000, most_us // 1000, "n1", 0, 5, "n1", 1]
    assert usage[str(RSS_KB)][:2] == [MOST[RSS_KB].at_once, 7]
    assert len(said) == 1 and said[0].startswith("node n1 reports more usage of 1.")
    assert "user_cpu_us=86405000000" in said[0]


def test_it_is_logged_once_a_node(world: World) -> None:
    ended(world, US, user_cpu_us=INT64_MAX)
    job = world.core.state.jobs[1]
    assert world.core.state.nodes["n1"].usage_doubted and job.steps[BATCH].user_cpu_us == 4 * US + TOLERANCE_US


def test_each_kind_of_the_wire_has_a_bound() -> None:
    kinds = set(common_pb2.UsageMetric.Kind.values()) - {common_pb2.UsageMetric.NONE}
    assert {CPU_MS, *MOST} == kinds


@pytest.mark.parametrize("kind", MOST)
def test_no_figure_is_more_than_machines_have(world: World, kind: int) -> None:
    most = MOST[kind].in_time(SECONDS * US)
    field = {FIELDS[kind]: INT64_MAX} if kind in FIELDS else {}
    said = ended(world, SECONDS * US, metrics=((kind, INT64_MAX, INT64_MAX, 3, INT64_MAX, 4),), **field)
    step = world.core.state.jobs[1].steps[BATCH]
    assert msgspec.json.decode(step.usage) == {str(kind): [most, most, "n1", 3, most, "n1", 4]}
    assert all(getattr(step, name) == most for name in field)
    assert len(said) == 1 and said[0].endswith(": cut")


def test_what_is_used_in_time_grows_with_it() -> None:
    assert Most(a_second=7).in_time(0) == 7  # the tolerance
    assert Most(at_once=5, a_second=7).in_time(9 * US) == 75


def test_large_figures_that_machines_have_are_taken(world: World) -> None:
    """Eight GPUs of 1.5 kW each, 2 TB of memory, a stripe of fast disks."""
    metrics = (
        (RSS_KB, 2 << 30, 2 << 30, 0, 5, 1),
        (5, SECONDS * 10**11, SECONDS * 10**11, 0, 0, 1),
        (7, 800, 100, 0, 100, 0),
        (9, SECONDS * 12_000, SECONDS * 1500, 0, SECONDS * 1500, 0),
    )
    said = ended(world, SECONDS * US, metrics=metrics, max_rss_kb=2 << 30, disk_read_bytes=SECONDS * 10**11)
    step = world.core.state.jobs[1].steps[BATCH]
    assert (step.max_rss_kb, step.disk_read_bytes) == (2 << 30, SECONDS * 10**11)
    assert msgspec.json.decode(step.usage)["9"][:2] == [SECONDS * 12_000, SECONDS * 1500]
    assert not said


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
    bounded = usage_of(event, node)
    most_us = cpus * (lasted_us if start_us else 0) + TOLERANCE_US
    assert bounded.user_cpu_us + bounded.system_cpu_us == min(user_us + system_us, most_us)
    assert bounded.user_cpu_us <= user_us and bounded.system_cpu_us <= system_us
    assert (bounded is event) == (user_us + system_us <= most_us)
