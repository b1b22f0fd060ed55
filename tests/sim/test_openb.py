"""The published GPU study, reproduced: end states, curves, arrivals; and steer is better on every list.

The lists are not part of the project: the folder PENSTOCK_TRACES, else shared/traces beside the project's folder. All
policies, lists and seeds: `python -m bench.openbbench`.
"""

import functools

import numpy as np
import pytest

from _fastsched.fragment_contract import POLICIES
from bench import openbbench
from sim.gorand import GoRand
from sim.openb import OpenbOutcome, OpenbWorkload, arrivals_of, make_workload, recorded_arrivals, replay, summarise
from sim.openb_files import read_openb_nodes, read_openb_pods

needs_lists = pytest.mark.skipif(
    not openbbench.lists_there(), reason=f"no lists of openb in {openbbench.TRACES} (PENSTOCK_TRACES)"
)
#: Seeds that nothing was tuned on, nor published.
OTHER_SEEDS = (7, 1234)


@functools.cache
def workload_of(name: str) -> OpenbWorkload:
    return openbbench.read_workload(name)[0]


@functools.cache
def curves_of(kind: str) -> openbbench.Curves:
    return openbbench.read_curves(kind)


def outcome(name: str, policy: str, seed: int) -> OpenbOutcome:
    workload = workload_of(name)
    arrivals = arrivals_of(workload, seed)
    return summarise(workload, arrivals, policy, seed, replay(workload, arrivals, policy))


@needs_lists
@pytest.mark.parametrize("policy", openbbench.EXACT)
def test_end_states_and_curves_of_seed_42_with_the_recorded_order(policy: str) -> None:
    workload = workload_of("default")
    arrivals = recorded_arrivals(workload, openbbench.sequences(), 42)
    found = summarise(workload, arrivals, policy, 42, replay(workload, arrivals, policy))
    state = (found.failed_pods, found.allocated_gpu_milli, found.allocated_cpu_milli, found.gpus_touched)
    assert (*state, round(found.fragmentation_milli, 1)) == openbbench.END_STATES[policy]
    assert found.pods == 10_866
    key = ("default", policy, 42)
    assert openbbench.difference(found.allocated_curve, curves_of("allo")[key]) <= openbbench.TOLERANCE
    assert openbbench.difference(found.fragmentation_curve, curves_of("frag")[key]) <= openbbench.TOLERANCE


@needs_lists
@pytest.mark.parametrize(("name", "seed"), [("gpushare40", 43), ("gpuspec33", 44), ("multigpu20", 45)])
def test_fgd_on_the_other_lists_to_the_digit(name: str, seed: int) -> None:
    """On the last two this holds only because exact ties are rounded as in the study's floating point."""
    found, key = outcome(name, "fgd", seed), (name, "fgd", seed)
    assert openbbench.difference(found.allocated_curve, curves_of("allo")[key]) <= openbbench.TOLERANCE
    assert openbbench.difference(found.fragmentation_curve, curves_of("frag")[key]) <= openbbench.TOLERANCE


@needs_lists
def test_random_is_near_the_published_mean() -> None:
    found = [outcome("default", "random", seed).allocated_curve[100] for seed in range(42, 46)]
    theirs = [curves_of("allo")["default", "random", seed][100] for seed in range(42, 52)]
    assert abs(np.mean(found) - np.mean(theirs)) < 0.6


@needs_lists
def test_the_generator_gives_the_recorded_orders() -> None:
    workload = workload_of("default")
    for seed in (42, 51):
        ours, recorded = arrivals_of(workload, seed), recorded_arrivals(workload, openbbench.sequences(), seed)
        assert np.array_equal(ours.pods, recorded.pods)
        assert np.array_equal(ours.rank, recorded.rank)


@needs_lists
@pytest.mark.parametrize("name", openbbench.WORKLOADS)
def test_steer_allocates_more_than_fgd(name: str) -> None:
    margin = 0.15
    for seed in (42, *OTHER_SEEDS):
        fgd, steer = outcome(name, "fgd", seed).allocated_curve, outcome(name, "steer", seed).allocated_curve
        assert steer[100] > fgd[100] + margin
        assert steer[130] > fgd[130] + margin
        assert steer[90] > fgd[90] - 0.1


@needs_lists
@pytest.mark.parametrize("times", [1, 2, 4])
def test_steer_is_nowhere_below_fgd_with_many_jobs_of_several_gpus(times: int) -> None:
    """Jobs of 8 GPUs and 120 CPUs fit on 39 nodes only, whose CPUs attract jobs that take parts of GPUs."""
    nodes = read_openb_nodes(str(openbbench.TRACES / "openb" / "openb_node_list_gpu_node.csv.gz"))
    pods = read_openb_pods(str(openbbench.list_of("multigpu20")))
    workload = make_workload(nodes, [pod for pod in pods for _ in range(times if pod.gpus > 1 else 1)])
    curves = []
    for policy in ("steer", "fgd"):
        runs = [(arrivals_of(workload, seed), seed) for seed in (42, *OTHER_SEEDS)]
        found = [summarise(workload, a, policy, seed, replay(workload, a, policy)) for a, seed in runs]
        curves.append(np.mean([one.allocated_curve for one in found], axis=0))
    steer, fgd = curves
    assert openbbench.behind_fgd(steer, fgd)[0] <= openbbench.STEER_TOLERANCE
    assert steer[100] > fgd[100] and steer[130] > fgd[130]


@needs_lists
def test_steer_on_the_default_list() -> None:
    """The study's best is 95.23 % with a deviation of 0.10 over its seeds."""
    found = [outcome("default", "steer", seed).allocated_curve[100] for seed in range(42, 52)]
    assert np.mean(found) > 95.9 and min(found) > 95.8


def test_the_generator_is_gos() -> None:
    """First numbers of rand.Seed(1) in Go, as its own documentation and countless programs show them."""
    chance = GoRand(1)
    assert [chance.intn(100) for _ in range(5)] == [81, 87, 47, 59, 81]
    assert GoRand(1).int63() == 5_577_006_791_947_779_410


def test_the_policies_have_names() -> None:
    assert POLICIES == ("random", "dotprod", "clustering", "packing", "bestfit", "fgd", "steer")
