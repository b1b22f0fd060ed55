"""Each figure against its definition, on schedules that can be worked out by hand."""

import numpy as np
import pytest

from sim.metrics import Schedule, bounded_slowdown, jain, measure


def schedule(rows: list[tuple[int, int, int, int, int]], processors: int = 4, **more) -> Schedule:
    """Rows of (submit, start, end, processors, user)."""
    submit, start, end, procs, user = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Schedule(submit, start, end, procs, user, {"cpu": (procs, processors)}, **more)


#: waits 0, 100, 0; runs 100, 100, 5; areas 200, 400, 5; user 1 has two jobs
ROWS = [(0, 0, 100, 2, 1), (0, 100, 200, 4, 1), (10, 10, 15, 1, 2)]


def test_figures() -> None:
    found = measure(schedule(ROWS))
    expected = {
        "wait_mean_s": 100 / 3,
        "wait_median_s": 0,
        "wait_p95_s": 90,
        "wait_p99_s": 98,
        "wait_max_s": 100,
        "bsld_mean": (1 + 2 + 1) / 3,
        "bsld_p95": 1.9,
        "bsld_rms": np.sqrt((1 + 4 + 1) / 3),
        "flow_mean_s": (100 + 200 + 5) / 3,
        "flow_area_s": (100 * 200 + 200 * 400 + 5 * 5) / 605,
        "wait_area_s": 100 * 400 / 605,
        "makespan_s": 200,
        "jain_user_bsld": (1.5 + 1) ** 2 / (2 * (1.5**2 + 1)),
        "starved_jobs": 0,
        "starved_share": 0,
        "preemptions": 0,
        "goodput": 1,
        "util_cpu": 605 / 800,
        "util_steady_cpu": (80 * 2 + 80 * 4) / (160 * 4),
    }
    assert found == pytest.approx(expected)


def test_lost_work_and_starvation() -> None:
    found = measure(schedule([(0, 172_801, 172_811, 1, 0), (0, 172_800, 172_810, 1, 0)], preemptions=3, lost_area=20))
    assert (found["starved_jobs"], found["starved_share"], found["preemptions"]) == (1, 0.5, 3)
    assert found["goodput"] == 0.5


def test_slowdown_is_bounded_by_tau_and_by_one() -> None:
    wait_s, run_s = np.array([0, 30, 30]), np.array([5, 5, 0])
    assert bounded_slowdown(wait_s, run_s, 10).tolist() == [1, 3.5, 3]
    assert bounded_slowdown(wait_s, run_s, 60, clipped=False).tolist() == pytest.approx([5 / 60, 35 / 60, 0.5])


def test_jain() -> None:
    assert jain(np.array([2.0, 2.0])) == 1
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert jain(np.array([0.0])) == 1


def test_edges() -> None:
    empty = np.array([], dtype=np.int64)
    assert measure(Schedule(empty, empty, empty, empty, empty, {})) == {}
    found = measure(schedule([(5, 5, 5, 1, 0)]))
    assert (found["util_cpu"], found["goodput"], found["makespan_s"]) == (0, 1, 0)
    assert all(isinstance(value, float) for value in found.values())
