"""GPUs by name: who has which place, which of them nobody gets, and that all of it survives reboots, reloads, restarts."""

from dataclasses import replace

import pytest

from ctld.core.gpus import inventory as gpus
from ctld.core.records.events import GpuReported, UpdateNodes
from ctld.core.records.gpu import GpuFacts, GpuOpinion
from ctld.core.records.node import Node
from ctld.core.records.violation import Violation
from penstock.values.gpustates import GpuState
from penstock.values.states import JobState, NodeFlag
from tests.core.test_shares import wanted
from tests.core.world import World, make_config, uuids_of


def cards(*letters: str, type_: str = "a100", **more: object) -> tuple[GpuFacts, ...]:
    """What a node finds, in that order."""
    return tuple(GpuFacts(f"GPU-{letter}", i, i, type_, **more) for i, letter in enumerate(letters))  # type: ignore[arg-type]  # keywords of many types


def world_of(found: tuple[GpuFacts, ...], gpus: int = 4, **more: object) -> World:
    """One node that has said what it has."""
    world = World(make_config(nodes=1, cpus=16, mem_mb=64000, gpus=gpus, **more))  # type: ignore[arg-type]  # keywords of many types
    world.register("n1", gpus=found)
    return world


def node_of(world: World) -> Node:
    return world.core.state.nodes["n1"]


def ill(letter: str, state: GpuState = GpuState.DRAINED, many_only: bool = False) -> GpuOpinion:
    return GpuOpinion(f"GPU-{letter}", state, "seen", 1, many_only)


def whose(world: World, job_id: int) -> tuple[str, ...]:
    """Names of the job's GPUs."""
    node, found = node_of(world), []
    for part in world.core.state.jobs[job_id].alloc:
        for _, _, mask in part.gres:
            found += [slot for slot in range(8) if mask >> slot & 1]
    return uuids_of(node, found)


def gpu_jobs(world: World, *counts: int) -> None:
    for count in counts:
        world.submit(wanted((("gpu", "", count),), 600))


def test_a_closed_gpu_is_given_to_nobody_and_the_others_are() -> None:
    world = world_of(cards("a", "b", "c", "d"))
    world.report_gpus("n1", ill("b"), ill("c", GpuState.FAILED))
    gpu_jobs(world, 1, 1, 1)
    assert [whose(world, job_id) for job_id in (1, 2)] == [("GPU-a",), ("GPU-d",)]
    assert world.core.state.jobs[3].state is JobState.PENDING
    world.report_gpus("n1", GpuOpinion("GPU-b"))
    assert whose(world, 3) == ("GPU-b",)


def test_a_gpu_that_is_drained_under_a_job_is_not_free_when_the_job_ends() -> None:
    world = world_of(cards("a", "b"), gpus=2)
    gpu_jobs(world, 2, 2)
    world.report_gpus("n1", ill("a"))
    world.exited(1)
    assert world.core.state.jobs[2].state is JobState.PENDING
    world.report_gpus("n1", GpuOpinion("GPU-a"))
    assert world.core.state.jobs[2].state is JobState.RUNNING


def test_a_job_keeps_its_gpu_when_a_daemon_finds_them_in_another_order() -> None:
    world = world_of(cards("a", "b", "c", "d"))
    gpu_jobs(world, 1, 2)
    before = [whose(world, 1), whose(world, 2)]
    world.disconnect("n1")
    world.register("n1", gpus=cards("d", "c", "b", "a"))
    assert [whose(world, 1), whose(world, 2)] == before
    world.exited(1)
    world.exited(2)
    world.register("n1", gpus=cards("d", "c", "b", "a"))
    assert node_of(world).gpu_slots == ("GPU-d", "GPU-c", "GPU-b", "GPU-a")  # place and index agree again


def test_the_place_of_a_gpu_that_is_gone_is_not_given_to_another_while_a_job_holds_it() -> None:
    world = world_of(cards("a", "b"), gpus=2)
    gpu_jobs(world, 1)
    world.report_gpus("n1", gpus=cards("b", "x"))
    assert whose(world, 1) == ("GPU-a",)
    assert node_of(world).gpus["GPU-x"].slot == -1
    world.exited(1)
    world.register("n1", gpus=cards("b", "x"))
    assert node_of(world).gpu_slots == ("GPU-b", "GPU-x") and node_of(world).gpu_closed == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gpu_gets_the_place_that_a_job_held_when_that_has_ended(restarts: bool) -> None:
    """Its place stayed closed until the node registered again (fault world 1470)."""
    world = world_of(cards("a", "b"), gpus=2)
    gpu_jobs(world, 1, 1, 1)
    world.report_gpus("n1", gpus=cards("b", "x"))
    if restarts:
        world.restart()
        world.register("n1", gpus=cards("b", "x"))
    world.exited(2)
    assert world.core.state.jobs[3].state is JobState.RUNNING and whose(world, 3) == ("GPU-b",)
    gpu_jobs(world, 1)
    world.exited(1)
    assert node_of(world).gpu_slots == ("GPU-x", "GPU-b") and node_of(world).gpu_closed == 0
    assert whose(world, 4) == ("GPU-x",) and not world.core.state.gpus.relearn_due


def test_a_node_whose_only_gpu_was_replaced_under_a_job_is_not_too_small() -> None:
    """It was INVAL and drained, and stayed so after the job had ended (fault world 4633)."""
    world = world_of(cards("a"), gpus=1)
    gpu_jobs(world, 1, 1)
    world.disconnect("n1")
    world.register("n1", gpus=cards("x"))
    assert not node_of(world).flags & (NodeFlag.INVAL | NodeFlag.DRAIN) and not node_of(world).low
    world.exited(1)
    assert world.core.state.jobs[2].state is JobState.RUNNING and whose(world, 2) == ("GPU-x",)


def test_what_is_known_survives_a_restart() -> None:
    world = world_of(cards("a", "b", "c"))
    world.report_gpus("n1", ill("b", many_only=True), ill("c", GpuState.SUSPECT))
    gpu_jobs(world, 1)
    before = {uuid: gpu for uuid, gpu in node_of(world).gpus.items()}
    masks = (node_of(world).gpu_closed, node_of(world).gpu_single, node_of(world).gpu_suspect)
    assert masks == (0b1000, 0b0010, 0b0100)
    world.restart()
    assert node_of(world).gpus == before
    assert (node_of(world).gpu_closed, node_of(world).gpu_single, node_of(world).gpu_suspect) == masks


def test_a_node_that_leaves_the_file_takes_its_gpus_along() -> None:
    world = World(make_config(nodes=2, cpus=4, gpus=1))
    world.register("n1", gpus=cards("a"))
    world.register("n2", gpus=cards("b"))
    assert set(world.gpus) == {("n1", "GPU-a"), ("n2", "GPU-b")}
    world.reload(["n1"])
    assert set(world.gpus) == {("n1", "GPU-a")}
    world.config = make_config(nodes=2, cpus=4, gpus=1)
    world.config = replace(
        world.config, nodes=world.config.nodes[1:], partitions=(replace(world.config.partitions[0], nodes=("n2",)),)
    )
    world.restart()
    world.register("n2")
    assert not world.gpus


def test_a_reload_gives_places_anew_and_may_not_take_what_a_job_holds() -> None:
    world = world_of(cards("a", "b", "c", "d"))
    gpu_jobs(world, 1, 1)
    world.config = make_config(nodes=1, cpus=16, mem_mb=64000, gpus=1)
    assert "gres/gpu:a100 that jobs hold is missing from the file" in world.reload(["n1"])[0]
    world.exited(2)
    assert world.reload(["n1"])[0] == "done"
    assert node_of(world).gpu_slots == ("GPU-a",) and node_of(world).gpus["GPU-d"].slot == -1
    world.config = make_config(nodes=1, cpus=16, mem_mb=64000, gpus=4)
    assert world.reload(["n1"])[0] == "done"
    assert sorted(node_of(world).gpu_slots) == ["GPU-a", "GPU-b", "GPU-c", "GPU-d"] and whose(world, 1) == ("GPU-a",)


def test_pretended_gpus_and_those_by_files_need_no_names() -> None:
    world = world_of(cards("a", "b"))
    world.register("n1", gpus=(), gres=(), pretended=True)
    assert not node_of(world).gpu_closed
    world.register("n1", gpus=())
    assert node_of(world).gpu_closed == 0b1111  # NVML has failed


def test_instances_that_are_gone_are_forgotten_and_cards_are_not() -> None:
    world = world_of(cards("a", "b"), gpus=2)
    world.register("n1", gpus=cards("a") + cards("m", type_="1g.10gb", parent="GPU-b"))
    assert node_of(world).gpus["GPU-b"].is_there is False
    world.register("n1", gpus=cards("a", "b"))
    assert list(node_of(world).gpus) == ["GPU-a", "GPU-b"] and ("n1", "GPU-m") not in world.gpus


def test_the_check_sees_what_is_wrong_with_places_and_columns() -> None:
    world = world_of(cards("a", "b"), gpus=2)
    node, columns = node_of(world), world.core.state.node_columns
    kind = world.core.state.layout.gres_kinds["gpu", "a100"]
    columns.free_gres[0, kind] -= 1
    with pytest.raises(Violation, match="free, counted 2"):
        world.core.check()
    columns.free_gres[0, kind] += 1
    node.gpus["GPU-b"] = node.gpus["GPU-b"]._replace(slot=0)
    with pytest.raises(Violation, match="place 0 has"):
        world.core.check()
    node.gpus["GPU-b"] = node.gpus["GPU-b"]._replace(slot=1, opinion=ill("b"))
    with pytest.raises(Violation, match="closed GPUs are"):
        world.core.check()


def test_types_that_a_node_says_in_full_have_the_configured_name() -> None:
    facts = GpuFacts("GPU-a", type="nvidia_a100-sxm4")
    assert gpus.is_of_type(facts, "a100") and not gpus.is_of_type(facts, "h100") and gpus.is_of_type(facts, "")


def test_a_driver_that_answers_after_the_registration_opens_the_node() -> None:
    world = World(make_config(nodes=1, cpus=16, mem_mb=64000, gpus=2))
    world.register("n1", gpus=(), gres=(), gpu_why="NVML did not answer")
    node = node_of(world)
    assert node.reason == "Low gres/gpu (reported:0 < configured:2): NVML did not answer"
    assert node.flags & (NodeFlag.INVAL | NodeFlag.DRAIN)
    gpu_jobs(world, 2)
    assert world.core.state.jobs[1].state is JobState.PENDING
    world.sequence += 1
    found, versions = cards("a", "b"), ("580.1", "13.0", "13.580.1")
    world.do(
        GpuReported("n1", "spool-n1", world.sequence, world.links["n1"], world.now_us, gpus=found, versions=versions)
    )
    assert (node.reason, node.gpu_why, node.gpu_driver, node.cuda_version) == ("", "", "580.1", "13.0")
    assert not node.flags & (NodeFlag.INVAL | NodeFlag.DRAIN) and whose(world, 1) == ("GPU-a", "GPU-b")


def test_what_an_administrator_has_drained_stays_so_when_its_driver_answers() -> None:
    world = World(make_config(nodes=1, cpus=16, mem_mb=64000, gpus=2))
    world.do(UpdateNodes(world.actor("root"), ("n1",), {"state": "DRAIN", "reason": "fan"}))
    world.register("n1", gpus=(), gres=(), gpu_why="NVML did not answer")
    world.sequence += 1
    world.do(GpuReported("n1", "spool-n1", world.sequence, world.links["n1"], world.now_us, gpus=cards("a", "b")))
    node = node_of(world)
    assert node.reason == "fan" and node.flags & NodeFlag.DRAIN


def test_what_was_said_before_a_registration_and_comes_after_it_is_old() -> None:
    world = world_of(cards("a", "b"), gpus=2)
    world.report_gpus("n1", ill("a"))
    said_us = world.now_us
    world.now_us += 5_000_000
    world.register("n1", gpus=cards("a", "b"), gpu_opinions=(GpuOpinion("GPU-a"),), gpus_at_us=world.now_us)
    assert node_of(world).gpu_closed == 0
    world.sequence += 1
    spooled = GpuReported("n1", "spool-n1", world.sequence, world.links["n1"], said_us, (ill("a"),), gpus=cards("b"))
    world.do(spooled)
    assert (node_of(world).gpu_closed, sorted(node_of(world).gpus)) == (0, ["GPU-a", "GPU-b"])
    world.report_gpus("n1", ill("a"))
    assert node_of(world).gpu_closed == 0b01
