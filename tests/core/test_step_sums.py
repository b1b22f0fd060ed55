"""A step's sums over its nodes, and the times that they report, stay in the range that is stored and believed."""

import msgspec
import pytest

from ctld.core.records.events import CreateStep, JobSubmission, StepExited
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from ctld.core.steps.reported import end_of
from ctld.core.steps.usage import add_usage
from ctld.rpc.jobs.records import step_metrics
from penstock.values.jobkind import JobKind
from penstock.values.numbers import INT64_MAX, within_int64
from tests.core.world import World, make_config

#: What nodes report is bounded before it is added (test_13_reported_usage.py); a step of an older version has any sum.
SUMS = ("user_cpu_us", "system_cpu_us", "disk_read_bytes", "disk_write_bytes")
FAR_US = 1 << 62


def world_with_a_step() -> World:
    world = World(make_config(nodes=2))
    world.register("n1")
    world.register("n2")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=2, kind=int(JobKind.SALLOC)))
    request = StepRequest(ntasks=2)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, request, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0)
    return world


def test_sums_of_two_nodes_saturate() -> None:
    world = world_with_a_step()
    step = world.core.state.jobs[1].steps[0]
    for name in SUMS:
        setattr(step, name, INT64_MAX - 5)
    step.usage = add_usage("", "n2", [(2, INT64_MAX - 5, 5, 0, 5, 0)])
    world.step_exited(1, 0, "n2", **dict.fromkeys(SUMS, 1000), metrics=((2, 1000, 5, 0, 5, 0),))
    assert [getattr(step, name) for name in SUMS] == [INT64_MAX] * len(SUMS)
    assert [metric.total for metric in step_metrics(step.usage)] == [INT64_MAX]


def test_two_figures_of_one_kind_saturate() -> None:
    text = add_usage("", "n1", [(1, INT64_MAX, 2, 0, 2, 0)] * 2)
    assert msgspec.json.decode(text)["1"][0] == INT64_MAX


def test_a_total_of_an_older_version_is_shown_as_the_highest() -> None:
    [metric] = step_metrics('{"1":[18446744073709551614,5,"n1",0,5,"n1",0]}')
    assert metric.total == INT64_MAX


@pytest.mark.parametrize("value", [0, -1, INT64_MAX, -INT64_MAX])
def test_a_number_in_range_is_itself(value: int) -> None:
    assert within_int64(value) == value


def test_the_range_is_symmetric() -> None:
    assert (within_int64(INT64_MAX + 1), within_int64(-INT64_MAX - 1)) == (INT64_MAX, -INT64_MAX)


def exit_at(world: World, start_us: int, end_us: int) -> StepExited:
    return StepExited("n1", 1, 0, 0, "spool-n1", 99, world.links["n1"], start_us, end_us, 0, 0, "")


@pytest.mark.parametrize(("start", "end"), [(FAR_US, FAR_US), (0, FAR_US), (FAR_US, 1)])
def test_times_in_the_future_are_not_believed(start: int, end: int) -> None:
    world = world_with_a_step()
    latest_us = world.now_us
    world.do(exit_at(world, start, end))
    part = world.core.state.jobs[1].steps[0].parts[0]
    assert part.start_at_us <= latest_us and part.end_at_us <= latest_us
    assert part.start_at_us <= part.end_at_us


def test_a_plausible_report_is_taken_as_it_is() -> None:
    world = world_with_a_step()
    event = exit_at(world, world.now_us - 5, world.now_us)
    assert end_of(event, 0, world.now_us) is event


NOW_US = 10**15
HOUR_US = 3600 * 10**6


@pytest.mark.parametrize(
    ("start_us", "end_us", "earliest_us", "expected"),
    [
        pytest.param(NOW_US + HOUR_US, NOW_US + 2 * HOUR_US, 0, (NOW_US - HOUR_US, NOW_US), id="a clock ahead"),
        pytest.param(NOW_US - HOUR_US, NOW_US + 2 * HOUR_US, NOW_US - 3 * HOUR_US, (NOW_US - 3 * HOUR_US, NOW_US),
                     id="a clock ahead, and the start is in the past all the same"),
        pytest.param(NOW_US - HOUR_US, FAR_US, NOW_US - HOUR_US, (NOW_US - HOUR_US, NOW_US), id="it jumped ahead"),
        pytest.param(FAR_US, FAR_US + HOUR_US, NOW_US - 5, (NOW_US - 5, NOW_US), id="not longer than it can have run"),
        pytest.param(FAR_US, NOW_US, NOW_US - 5, (NOW_US, NOW_US), id="it was set back"),
        pytest.param(NOW_US - 9 * HOUR_US, NOW_US - 8 * HOUR_US, NOW_US - 2 * HOUR_US, (NOW_US - 2 * HOUR_US, NOW_US - HOUR_US),
                     id="a clock behind"),
        pytest.param(NOW_US - 9 * HOUR_US, NOW_US - 4 * HOUR_US, NOW_US - 2 * HOUR_US, (NOW_US - 2 * HOUR_US, NOW_US),
                     id="a clock behind, and longer than it can have run"),
        pytest.param(0, FAR_US, NOW_US - 5, (0, NOW_US), id="not started"),
    ],
)  # fmt: skip
def test_times_of_a_wrong_clock(start_us: int, end_us: int, earliest_us: int, expected: tuple[int, int]) -> None:
    event = StepExited("n1", 1, 0, 0, "spool-n1", 99, 1, start_us, end_us, 0, 0, "")
    bounded = end_of(event, earliest_us, NOW_US)
    assert (bounded.start_at_us, bounded.end_at_us) == expected
