"""Where jobs with a GPU or a part of one start with PENSTOCK_FGD and PENSTOCK_STEER, through the whole core."""

import random
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from _fastsched.contract import FOREVER
from ctld.core.queue import gpu_sharing
from ctld.core.queue.gpu_sharing import ExpectedUse
from ctld.core.records.events import Actor, CancelJobs, JobFilter, JobSubmission, Role
from ctld.core.state.gpu_mix import Mix
from penstock.values.config import Config
from penstock.values.gres import Gres
from penstock.values.states import ALLOCATED_STATES
from tests.core.world import World, make_config

ROOT = Actor(0, 0, "root", "root", ("root",), Role.ADMINISTRATOR)


def config_of(words: tuple[str, ...], nodes: int) -> Config:
    """Nodes of two GPU models, with few and with many CPUs."""
    plain = make_config(
        nodes=nodes, cpus=64, mem_mb=480_000, gpus=4, shards=40, select_type_parameters=("CR_CORE_MEMORY", *words)
    )
    made = []
    for i, node in enumerate(plain.nodes):
        model = "h100" if i % 2 else "a100"
        gres = (Gres("gpu", model, 4), Gres("shard", model, 40))
        made.append(replace(node, cpus=16 if i % 4 < 2 else 96, gres=gres))
    return replace(plain, nodes=tuple(made))


def job(gres: tuple[str, str, int], limit_s: int = 10**7, **more: Any) -> JobSubmission:
    """One task."""
    return JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=(gres,), time_limit_s=limit_s, **more)


def filled(words: tuple[str, ...], seed: int, nodes: int = 24) -> float:
    """Part of all GPUs that is given out when 1.1 times as much was asked for; what does not fit at once is lost."""
    draw, world = random.Random(seed), World(config_of(words, nodes))
    check = world.core.check
    with mock.patch.object(world.core, "check"):  # once at the end: each step would be slow
        for node in world.config.nodes:
            world.register(node.name)
        asked = 0
        while asked < 44 * nodes:
            name, count = draw.choices(
                [("shard", 3), ("shard", 5), ("shard", 7), ("shard", 2), ("gpu", 1), ("gpu", 2), ("gpu", 4)],
                [15, 30, 15, 5, 20, 5, 5],
            )[0]
            model = draw.choice(["", "", "", "h100"])
            cpus = draw.choice([1, 2, 4, 6]) if name == "shard" else draw.choice([4, 8, 12]) * count
            asked += count if name == "shard" else 10 * count
            world.now_us += 20_000_000
            lines = world.submit(job((name, model, count), cpus_per_task=cpus))
            if lines[0].startswith("submitted") and not any(line.startswith("launch") for line in lines):
                ids = (lines[0].split()[1],)
                world.do(CancelJobs(ROOT, JobFilter(ids=ids), reply_to=world.reply_to()))
    check()
    parts = [part for held in world.core.state.jobs.values() if held.state in ALLOCATED_STATES for part in held.alloc]
    given = sum(mask.bit_count() * 10 for part in parts for _, _, mask in part.gres)
    return (given + sum(share.units for part in parts for share in part.shares)) / (40 * nodes)


def test_fragmentation_descent_packs_better_than_the_first_fit() -> None:
    """Mean of two seeds: 85 % allocated by the first node that fits, 89 % with FGD, 91 % with steer."""
    first, fgd, steer = (
        sum(filled(words, seed) for seed in (0, 1)) / 2 for words in ((), ("PENSTOCK_FGD",), ("PENSTOCK_STEER",))
    )
    assert first + 0.02 < fgd < steer, (first, fgd, steer)


@pytest.fixture
def two_nodes() -> World:
    """Two nodes of two GPUs, FGD; a job with a share on n1 for 10 minutes, and one that waits for both GPUs of n1."""
    world = World(make_config(nodes=2, cpus=16, gpus=2, shards=8, select_type_parameters=("CR_CORE", "PENSTOCK_FGD")))
    for node in ("n1", "n2"):
        world.register(node)
    world.submit(job(("shard", "", 2), 600))
    world.submit(job(("gpu", "", 2), 600, nodes_required="n1"))
    assert [world.core.state.jobs[i].state.name for i in (1, 2)] == ["RUNNING", "PENDING"]
    return world


def node_of(world: World, job_id: int) -> str:
    """Where it runs."""
    return world.core.state.jobs[job_id].alloc[0].node


def test_a_start_is_not_moved_under_an_expected_one(two_nodes: World) -> None:
    """What ends in time goes beside the first job, what does not goes to the other node."""
    two_nodes.submit(job(("shard", "", 2), 1200))
    two_nodes.submit(job(("shard", "", 2), 300))
    assert (node_of(two_nodes, 3), node_of(two_nodes, 4)) == ("n2", "n1")


def test_that_test_can_fail(two_nodes: World) -> None:
    """Without the holds the same start would be moved to n1."""
    moved = []

    def noted(self: ExpectedUse, position: int, until_s: int) -> object:
        moved.append(unclaimed(self, position, until_s))
        return moved[-1]

    unclaimed = ExpectedUse.unclaimed
    with mock.patch.object(ExpectedUse, "unclaimed", noted):
        two_nodes.submit(job(("shard", "", 2), 1200))
    assert [list(free) for free in moved] == [[False, True]]


def test_waiting_copies_of_unknown_nodes_keep_all_starts_where_they_are() -> None:
    """Of an array only the first waiting task's nodes are known."""
    forecast = mock.Mock()
    forecast.lower_expected_starts.return_value = 1000
    holds = ExpectedUse(forecast, 2)
    assert holds.unclaimed(3, 1001) is None
    assert list(holds.unclaimed(3, 1000)) == [True, True]
    assert forecast.lower_expected_starts.call_count == 1
    assert ExpectedUse(None, 2).unclaimed(0, 1) is None
    assert set(forecast.lower_expected_starts.call_args.args[2]) == {FOREVER}  # no node is known to be taken


def test_the_mix_is_learned_now_and_then(two_nodes: World) -> None:
    """Older counts weigh half; tables are rebuilt when the mix has changed by more than a twentieth."""
    state = two_nodes.core.state
    mix = state.gpus.mix
    assert isinstance(mix, Mix)
    assert mix.counts == {(1000, 1, 500, 1): 2}  # of the first start; the period is not over
    gpu_sharing.learn(state, mix, state.now_us)
    assert mix.counts == {(1000, 1, 500, 1): 3, (1000, 2, 1000, 1): 2}
    tables = mix.tables
    gpu_sharing.learn(state, mix, state.now_us)
    assert mix.counts == {(1000, 1, 500, 1): 3, (1000, 2, 1000, 1): 3}
    assert mix.tables is not tables
    tables = mix.tables
    gpu_sharing.learn(state, mix, state.now_us)
    assert mix.tables is tables


def test_without_the_words_or_without_shares_nothing_is_chosen() -> None:
    """Then no start costs anything."""
    for gpus, shards, words in ((2, 8, ()), (2, 0, ("PENSTOCK_FGD",))):
        world = World(make_config(nodes=1, gpus=gpus, shards=shards, select_type_parameters=("CR_CPU", *words)))
        assert world.core.state.gpus.mix is None
