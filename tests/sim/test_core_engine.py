"""Engine `core` makes the same schedule as the replay, job by job: two programs that share no line of policy."""

from dataclasses import replace

import numpy as np
import pytest

from bench import published
from penstock.values.config import Config, NodeConfig, PartitionConfig
from sim.engines import ENGINES
from sim.outcome import Options
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


@pytest.mark.parametrize("groups", [[-1] * 90, [i % 3 - 1 for i in range(90)]])
def test_27_the_users_of_a_log_have_accounts_where_associations_are_enforced(groups: list[int]) -> None:
    """Every job starts, as it does on the same machine that enforces nothing."""
    count = len(groups)
    workload = from_columns(
        "log",
        job_id=np.arange(count),
        submit_s=np.arange(count) * 10,
        run_s=np.full(count, 15),
        requested_s=np.full(count, 60),
        procs=np.full(count, 1),
        user=[i if i % 5 else -1 for i in range(count)],
        group=groups,
    )
    config = Config(
        nodes=(NodeConfig("n1", "n1", "127.0.0.1", 4, real_memory_mb=4000),),
        partitions=(PartitionConfig("all", ("n1",), is_default=True),),
        priority_type="priority/multifactor",
        enforce=("associations", "limits", "qos"),
        select_type_parameters=("CR_CPU",),
    )
    found = [
        ENGINES["core"](workload, Options(4, policy, "batch", config=one))
        for policy in ("easy", "site")
        for one in (config, replace(config, enforce=()))
    ]
    assert all((outcome.start_s >= 0).all() for outcome in found)
    assert np.array_equal(found[0].start_s, found[1].start_s)
