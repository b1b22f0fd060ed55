"""Engine `core` makes the same schedule as the replay, job by job: two programs that share no line of policy."""

import numpy as np
import pytest

from bench import published
from sim.engines import ENGINES, Options
from sim.workload import Workload, from_columns, window

POLICIES = ("fcfs", "easy", "easy-sjbf", "learned")


def assert_alike(workload: Workload, processors: int, policy: str) -> None:
    options = Options(processors, policy, "batch")
    replay, core = (ENGINES[name](workload, options) for name in ("replay", "core"))
    assert np.array_equal(core.start_s, replay.start_s)
    assert np.array_equal(core.end_s, replay.end_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_random_workload(policy: str) -> None:
    """Users who ask for the same again and again, and a queue most of the time."""
    random = np.random.default_rng(7)
    count = 300
    requested_s = random.choice([60, 600, 3600, 36_000], count)
    workload = from_columns(
        "random",
        job_id=np.arange(count),
        submit_s=np.sort(random.integers(0, 40_000, count)),
        run_s=np.maximum(1, requested_s // random.integers(1, 50, count)),
        requested_s=requested_s,
        procs=random.integers(1, 17, count),
        user=random.integers(-1, 6, count),
    )
    assert_alike(workload, 16, policy)


@pytest.mark.parametrize("policy", ["easy", "learned"])
def test_a_window_of_a_log(policy: str) -> None:
    if not published.is_there("KTH-SP2"):
        pytest.skip(f"no {published.LOGS['KTH-SP2'].file} in {published.TRACES} (PENSTOCK_TRACES)")
    workload = window(published.load("KTH-SP2", "sc15"), "2000:3000")
    assert_alike(workload, published.LOGS["KTH-SP2"].processors, policy)
