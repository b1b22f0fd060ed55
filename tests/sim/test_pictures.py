"""What is drawn, as numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.engines import Options, replay
from sim.metrics import Schedule
from sim.pictures import binned, placed, steps
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
