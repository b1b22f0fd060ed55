"""Tasks by node of an allocation that has more CPUs than its tasks ask for, or fewer."""

from ctld.core.demand.task_distribution import distribute_cyclically
from ctld.core.records.events import JobSubmission
from tests.core.world import World, make_config


def tasks(**wanted: object) -> list[int]:
    world = World(make_config(nodes=2, cpus=8))
    world.register("n1")
    world.register("n2")
    world.submit(JobSubmission(name="j", work_dir=b"/", **wanted))  # type: ignore[arg-type]  # keywords of many types
    return [part.tasks for part in world.core.state.jobs[1].alloc]


def test_whole_nodes_have_tasks_in_turns() -> None:
    assert tasks(ntasks=10, exclusive=True) == [5, 5]
    assert tasks(ntasks=10) == [8, 2]
    assert tasks(ntasks=5, nodes_min=2, nodes_max=2, exclusive=True) == [3, 2]


def test_tasks_beyond_the_cpus_are_dealt_too() -> None:
    assert tasks(ntasks=5, overcommit=True) == [5]
    assert tasks(ntasks=5, overcommit=True, spread_job=True) == [3, 2]
    assert tasks(ntasks=12, nodes_min=2, nodes_max=2, overcommit=True) == [6, 6]
    assert tasks(ntasks=6, ntasks_per_node=4, overcommit=True) == [4, 4]


def test_each_node_has_room_for_its_tasks_per_node() -> None:
    assert tasks(ntasks=5, ntasks_per_node=3) == [3, 3]


def test_a_range_of_nodes_is_as_many_as_can_be() -> None:
    assert tasks(ntasks=3, nodes_min=1, nodes_max=2) == [2, 1]
    assert tasks(ntasks=3, nodes_min=1, nodes_max=2, use_min_nodes=True) == [3]
    assert tasks(ntasks_per_node=2, nodes_min=1, nodes_max=2) == [2, 2]


def test_turns_end_where_there_is_no_room() -> None:
    assert distribute_cyclically([16, 2], 17) == [15, 2]
    assert distribute_cyclically([2, 2], 3) == [2, 1]
