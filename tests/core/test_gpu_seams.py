"""Where parts that know of GPUs meet: none of them leaves a node or a GPU closed when what closed it is over."""

from dataclasses import replace
from typing import Any

import pytest

from ctld.core.records.events import GpuIdle
from penstock.values.config import CgroupConfig
from penstock.values.gpustates import GpuState
from penstock.values.states import NodeFlag
from tests.core.test_gpus import cards, gpu_jobs, ill, node_of, whose, world_of
from tests.core.world import US, World, make_config

NO_DRIVER = "NVML does not answer: no driver"


def test_a_node_that_was_drained_for_its_driver_and_registers_without_gpus_is_whole_when_it_answers() -> None:
    world = World(make_config(nodes=1, cpus=16, mem_mb=64000, gpus=2))
    world.register("n1", gpus=cards("a", "b"))
    world.notice("n1", NO_DRIVER, drain=True)
    world.disconnect("n1")
    world.register("n1", gpus=(), gres=(), gpu_why="no driver")
    node = node_of(world)
    assert node.flags & NodeFlag.INVAL and node.reason == NO_DRIVER
    world.report_gpus("n1", gpus=cards("a", "b"))
    world.notice("n1", NO_DRIVER, clear=True)
    assert (node.flags, node.reason) == (NodeFlag.NONE, "")


def test_a_node_that_is_too_small_in_more_than_its_gpus_stays_so_when_they_are_found() -> None:
    world = World(make_config(nodes=1, cpus=16, mem_mb=64000, gpus=2))
    world.register("n1", gpus=(), gres=(), gpu_why="no driver", cpus=8)
    node = node_of(world)
    world.report_gpus("n1", gpus=cards("a", "b"))
    assert node.flags == NodeFlag.INVAL | NodeFlag.DRAIN and node.reason.startswith("Low CPUs")


def test_a_gpu_that_was_to_be_checked_and_is_divided_by_then_does_not_wait_for_ever() -> None:
    """The program sees whole cards: this one hung while it was divided."""
    world = world_of(cards("a"), gpus=1, gpu_check_program="/check")
    world.report_gpus("n1", ill("a", GpuState.UNRESPONSIVE))
    assert node_of(world).gpus["GPU-a"].must_check
    (whole,) = cards("a", mig_enabled=True)
    world.report_gpus("n1", ill("a", GpuState.HEALTHY), gpus=(whole,))
    assert not node_of(world).gpus["GPU-a"].must_check and not node_of(world).gpus["GPU-a"].is_closed()


def test_without_a_reset_program_nobody_looks_at_what_wants_a_reset() -> None:
    """A look goes over all nodes."""
    world = world_of(cards("a"), gpus=1)
    world.report_gpus("n1", ill("a")._replace(wants_reset=True))
    assert not world.core.state.gpus.care_timer


def test_a_node_with_two_reasons_to_be_drained_opens_when_both_are_over() -> None:
    world = world_of(cards("a"), gpus=1)
    node = node_of(world)
    world.notice("n1", "Kill task failed", drain=True)
    world.notice("n1", NO_DRIVER, drain=True)
    world.notice("n1", NO_DRIVER, drain=True)  # said again
    assert node.reason == f"Kill task failed; {NO_DRIVER}"
    world.notice("n1", "Kill task failed", clear=True)
    assert (node.flags, node.reason) == (NodeFlag.DRAIN, NO_DRIVER)
    world.notice("n1", NO_DRIVER, clear=True)
    assert (node.flags, node.reason) == (NodeFlag.NONE, "")


@pytest.mark.parametrize(("said", "is_returned"), [(None, True), (True, True), (False, False)])
def test_an_idle_gpu_is_taken_back_only_where_the_configuration_keeps_jobs_apart(
    said: bool | None, is_returned: bool
) -> None:
    """The node says what it could do; ConstrainDevices says whether it does."""
    idle: dict[str, Any] = {"gpu_idle_warn_s": 60, "gpu_idle_limit_s": 60, "gpu_idle_action": "return"}
    config = make_config(nodes=1, cpus=16, mem_mb=64000, gpus=2, **idle)
    world = World(replace(config, cgroup=CgroupConfig(constrain_devices=said)))
    world.register("n1", gpus=cards("a", "b"), gpu_constraint="cgroup/v2")
    gpu_jobs(world, 1)
    world.started(1)
    since_us = world.now_us - 60 * US
    world.do(GpuIdle("n1", "spool-n1", 99, world.links["n1"], 1, 0, whose(world, 1), since_us, unused=True))
    world.advance(61)
    assert (whose(world, 1) == ()) is is_returned
