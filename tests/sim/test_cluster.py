"""The controller's own core starts every job when the planner-only replay does.

Two programs that share the planner's rules and no code of the life cycle: the core goes through submission, passes,
node reports, ends and purges. The logs are not part of the project (PENSTOCK_TRACES); a workload of our own runs
everywhere.
"""

import functools
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bench import published
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.gres import Gres
from sim.engines import ENGINES
from sim.outcome import Options
from sim.workload import Workload, from_columns, window

POLICIES = ("easy", "easy-sjbf", "fcfs")
ESTIMATES = ("requested", "clairvoyant")
PROCESSORS = 32


def crowded(jobs: int, seed: int) -> Workload:
    """A queue that never gets empty for long; many events of one second, jobs of no length, exact limits."""
    rng = np.random.default_rng(seed)
    run_s = rng.integers(0, 400, jobs)
    return from_columns(
        "crowded",
        job_id=np.arange(1, jobs + 1),
        submit_s=np.sort(rng.integers(0, jobs * 60, jobs)) // 20 * 20,
        run_s=run_s,
        requested_s=np.maximum(1, run_s + np.maximum(0, rng.integers(-200, 600, jobs))),
        procs=np.minimum(PROCESSORS, 2 ** rng.integers(0, 6, jobs) + rng.integers(0, 2, jobs)),
        user=rng.integers(0, 7, jobs),
    )


def same(workload: Workload, options: Options) -> None:
    core, replay = ENGINES["core"](workload, options), ENGINES["replay"](workload, options)
    assert (core.start_s - replay.start_s).tolist() == [0] * len(workload)
    assert (core.end_s - replay.end_s).tolist() == [0] * len(workload)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_the_core_starts_jobs_when_the_replay_does(policy: str, estimate: str) -> None:
    workload = crowded(400, 7)
    same(workload, Options(PROCESSORS, policy, estimate=estimate))
    wait_s = ENGINES["replay"](workload, Options(PROCESSORS, policy)).start_s - workload.submit_s
    assert np.median(wait_s) > 60  # else nothing was tested


@functools.cache
def kth() -> Workload:
    return published.load("KTH-SP2", "sc15")


#: Those of make test: each policy, both estimates and both parts.
CASES = [
    ("easy", "requested", "0:600"), ("easy-sjbf", "clairvoyant", "0:600"), ("fcfs", "requested", "5000:5600"),
]  # fmt: skip
OTHERS = [case for case in product(POLICIES, ESTIMATES, ("0:600", "5000:5600")) if case not in CASES]


@pytest.mark.parametrize(
    ("policy", "estimate", "part"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS)]
)
def test_windows_of_a_log(policy: str, estimate: str, part: str) -> None:
    if not published.is_there("KTH-SP2"):
        pytest.skip(f"no {published.LOGS['KTH-SP2'].file} in {published.TRACES} (PENSTOCK_TRACES)")
    same(window(kth(), part), Options(100, policy, estimate=estimate))


def test_nothing_to_do() -> None:
    none = crowded(5, 1).select(np.zeros(5, np.bool_))
    assert ENGINES["core"](none, Options(PROCESSORS)).start_s.tolist() == []


def test_a_job_that_never_fits_is_named() -> None:
    wide = from_columns("wide", job_id=[4], submit_s=[0], run_s=[5], requested_s=[9], procs=[PROCESSORS + 1], user=[0])
    with pytest.raises(BadValue, match=r"job 4 of the log cannot run on this machine: "):
        ENGINES["core"](wide, Options(PROCESSORS))


def gpu_nodes(**more: object) -> Config:
    """Two nodes with four GPUs each."""
    gpus = (Gres("gpu", "a100", 4),)
    nodes = tuple(NodeConfig(f"n{i}", f"n{i}", "127.0.0.1", 16, real_memory_mb=64_000, gres=gpus) for i in (1, 2))
    partition = PartitionConfig("main", ("n1", "n2"), is_default=True)
    return Config(gres_types=("gpu",), nodes=nodes, partitions=(partition,), **more)  # type: ignore[arg-type]  # keywords of many types


@pytest.mark.parametrize("policy", ["site", "easy", "conservative"])
def test_gpus_nodes_and_memory_of_a_site(policy: str) -> None:
    """With a slurm.conf, jobs ask for the GPUs and the memory that the log knows of, and never get them twice."""
    plain = crowded(200, 3)
    rng = np.random.default_rng(3)
    gpus = rng.choice([0, 1, 2, 4, 8], len(plain))
    nodes = np.where(gpus == 8, 2, 1)
    workload = replace(
        plain, procs=nodes * rng.integers(1, 5, len(plain)), nodes=nodes, gpu_milli=gpus * 1000, mem_mb=nodes * 9_000
    )
    config = gpu_nodes(scheduler_parameters=(("bf_interval", "30"),))
    found = ENGINES["core"](workload, Options(32, policy, config=config))
    assert (found.start_s >= workload.submit_s).all() and (found.end_s > 0).all()
    assert {len(held) for held in found.nodes} == {1, 2}
    for at in np.unique(found.start_s).tolist():
        now = np.flatnonzero((found.start_s <= at) & (found.end_s > at)).tolist()
        for node in (0, 1):
            here = [job for job in now if node in found.nodes[job]]
            assert sum(int(gpus[job]) // int(nodes[job]) for job in here) <= 4
            assert sum(9_000 for _ in here) <= 64_000


def test_a_job_that_no_node_can_run_is_named() -> None:
    workload = replace(crowded(3, 1), gpu_milli=np.array([0, 64_000, 0]))
    with pytest.raises(BadValue, match="job 2 of the log cannot run on this machine: "):
        ENGINES["core"](workload, Options(32, "site", config=gpu_nodes()))
