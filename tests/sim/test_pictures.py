"""What is drawn, as numbers."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engines import replay
from sim.metrics import Schedule
from sim.outcome import Options
from sim.pictures import Drawing, DrawnMachine, binned, draw, on_nodes, placed, steps, used, waits
from sim.workload import from_columns


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def schedule(starts, ends, procs) -> Schedule:
    return Schedule(starts, starts, ends, procs, procs, {})


def test_steps() -> None:
    times, sums = steps(array(0, 5, 5), array(10, 5, 20), array(2, 7, 1))
    assert (times.tolist(), sums.tolist()) == ([0, 5, 10, 20], [2, 3, 1, 0])


def test_bins_keep_the_area() -> None:
    middles, means = binned(steps(array(0, 5), array(10, 20), array(2, 4)), 4)
    assert (middles.tolist(), means.tolist()) == ([2.5, 7.5, 12.5, 17.5], [2, 6, 4, 4])


def test_a_job_gets_the_lowest_free_processors_in_pieces() -> None:
    bars = placed(schedule(array(0, 0, 0, 10), array(10, 30, 10, 20), array(1, 1, 2, 3)), 4)
    assert [(bar.job, bar.first, bar.width) for bar in bars] == [(0, 0, 1), (1, 1, 1), (2, 2, 2), (3, 0, 1), (3, 2, 2)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(1, 8)), min_size=1, max_size=40))
def test_no_processor_is_drawn_twice(jobs) -> None:
    submit, run, procs = zip(*jobs, strict=True)
    workload = from_columns(
        "w", job_id=range(len(jobs)), submit_s=submit, run_s=run, requested_s=np.maximum(run, 1), procs=procs
    )
    options = Options(8)
    found = replay(workload, options).schedule(workload, options)
    bars = placed(found, 8)
    assert all(sum(b.width for b in bars if b.job == job) == width for job, width in enumerate(workload.procs))
    for k, one in enumerate(bars):
        assert one.first >= 0 and one.first + one.width <= 8
        for other in bars[:k]:
            apart_in_time = one.end_s <= other.start_s or other.end_s <= one.start_s
            assert apart_in_time or one.first + one.width <= other.first or other.first + other.width <= one.first


#: Three jobs on two nodes of four CPUs and two GPUs: one on both, then one on each.
SCHEDULE = Schedule(
    array(0, 0, 5), array(0, 100, 100), array(100, 200, 150), array(8, 2, 4), array(0, 0, 0),
    {"cpu": (array(8, 2, 4), 8), "gres/gpu": (array(4000, 500, 1000), 4000)},
)  # fmt: skip
NODES = ((0, 1), (1,), (0,))


def test_jobs_are_drawn_on_their_nodes() -> None:
    bars = on_nodes(Drawing(SCHEDULE, NODES), [4, 4], SCHEDULE.procs)
    assert [(bar.job, bar.first, bar.width, bar.start_s) for bar in bars] == [
        (0, 0, 4, 0),
        (2, 0, 4, 100),
        (0, 4, 4, 0),
        (1, 4, 2, 100),
    ]


def test_the_use_of_each_resource_and_the_waits() -> None:
    assert used(SCHEDULE, "cpu")[1][0] == 1.0
    assert used(SCHEDULE, "gres/gpu")[1][-1] == 0.125
    seconds, share = waits(SCHEDULE)
    assert (seconds.tolist(), [round(float(y), 2) for y in share]) == ([1, 1, 95, 100], [0.33, 0.33, 0.67, 1])


def test_panels_and_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs and GPUs have panels; every axis begins at 0, that of waits is logarithmic; nodes have their names."""
    pytest.importorskip("matplotlib")
    seen = {}
    monkeypatch.setattr("sim.pictures.save", lambda pyplot, figure, path: seen.update({path.stem: figure.axes}) or path)
    draw(tmp_path, "t", DrawnMachine(8, (("n1", 4, 2), ("n2", 4, 2))), {"easy": Drawing(SCHEDULE, NODES)})
    assert {name: len(axes) for name, axes in seen.items()} == {
        "utilisation": 2,
        "queue": 1,
        "waits": 1,
        "chart-easy": 2,
    }
    for name, panels in seen.items():
        for axes in panels:
            assert axes.get_ylim()[0] == 0
            assert axes.get_xlim()[0] == (1 if name == "waits" else 0)
    assert seen["waits"][0].get_xscale() == "log"
    assert [axes.get_ylabel() for axes in seen["chart-easy"]] == ["CPUs of nodes", "GPUs of nodes"]
    assert [text.get_text() for text in seen["chart-easy"][0].get_yticklabels()] == ["n1", "n2"]
    draw(tmp_path, "t", DrawnMachine(8), {"easy": Drawing(SCHEDULE)})
    assert [axes.get_ylabel() for axes in seen["chart-easy"]] == ["processors (not real ones)"]
