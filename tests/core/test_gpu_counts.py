"""GPUs of a job, a task, a CPU: what each node is asked for, and what makes no sense is refused in words."""

from typing import Any

import pytest

from ctld.core.gpus.counts import spread
from ctld.core.records.events import JobSubmission
from ctld.core.records.request import JobRequest
from tests.core.world import World, make_config

CONFIG = make_config(nodes=4, cpus=16, mem_mb=64000, def_mem_per_cpu_mb=0, gpus=4)


def gpus(count: int, type_: str = "") -> tuple[tuple[str, str, int], ...]:
    return (("gpu", type_, count),)


def asked(**fields: Any) -> JobRequest:
    world = World(CONFIG)
    world.register("n1")
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, **fields))
    assert lines[0].startswith("submitted 1"), lines
    return world.core.state.jobs[1].request


@pytest.mark.parametrize(
    ("fields", "expected"),  # nodes, tasks, tasks a node, CPUs a task, GPUs a node, MB a node
    [
        ({"gres_per_job": gpus(8)}, (2, 2, 0, 1, 4, 0)),
        ({"gres_per_job": gpus(4)}, (1, 1, 0, 1, 4, 0)),
        ({"gres_per_job": gpus(4), "nodes_min": 2, "nodes_max": 2}, (2, 2, 0, 1, 2, 0)),
        ({"gres_per_job": gpus(6), "nodes_min": 1, "nodes_max": 3}, (2, 2, 0, 1, 3, 0)),
        ({"gres_per_job": gpus(8), "gres_per_node": gpus(2)}, (4, 4, 0, 1, 2, 0)),
        ({"gres_per_task": gpus(1), "ntasks": 8}, (2, 8, 0, 1, 4, 0)),
        ({"gres_per_task": gpus(2), "ntasks": 2}, (1, 2, 0, 1, 4, 0)),
        ({"gres_per_task": gpus(1), "ntasks": 4, "cpus_per_task": 8}, (2, 4, 0, 8, 2, 0)),
        ({"gres_per_task": gpus(1), "nodes_min": 2, "ntasks_per_node": 2}, (2, 4, 2, 1, 2, 0)),
        ({"gres_per_task": gpus(3)}, (1, 1, 0, 1, 3, 0)),
        ({"gres_per_task": gpus(2), "gres_per_job": gpus(8)}, (2, 4, 0, 1, 4, 0)),
        ({"ntasks_per_gpu": 2, "gres_per_job": gpus(4)}, (1, 8, 0, 1, 4, 0)),
        ({"ntasks_per_gpu": 2, "ntasks": 8}, (1, 8, 0, 1, 4, 0)),
        ({"ntasks_per_gpu": 2, "gres_per_node": gpus(2)}, (1, 4, 4, 1, 2, 0)),
        ({"cpus_per_gpu": 3, "gres_per_node": gpus(2)}, (1, 1, 0, 6, 2, 0)),
        ({"cpus_per_gpu": 3, "gres_per_task": gpus(1), "ntasks": 4}, (1, 4, 0, 3, 4, 0)),
        ({"cpus_per_gpu": 8, "gres_per_job": gpus(4)}, (2, 2, 0, 16, 2, 0)),
        ({"mem_per_gpu_mb": 5000, "gres_per_job": gpus(8)}, (2, 2, 0, 1, 4, 20000)),
    ],
)  # fmt: skip
def test_what_a_node_is_asked_for(fields: dict[str, Any], expected: tuple[int, ...]) -> None:
    request = asked(**fields)
    each = sum(count for name, _, count in request.gres_per_node if name == "gpu")
    found = (request.nodes_min, request.ntasks, request.ntasks_per_node, request.cpus_per_task, each)
    assert (*found, request.mem_per_node_mb) == expected
    assert not request.cpus_per_task_asked or fields.get("cpus_per_task")
    for name in ("gres_per_job", "gres_per_task", "ntasks_per_gpu", "cpus_per_gpu", "mem_per_gpu_mb"):
        assert getattr(request, name) == fields.get(name, getattr(JobRequest(), name))  # shown as it was asked for


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gres_per_job": gpus(1), "nodes_min": 2}, "--gpus=1 is less than the number of nodes, 2"),
        ({"gres_per_job": gpus(8), "gres_per_node": gpus(3)}, "--gpus=8 is not a multiple of --gpus-per-node=3"),
        ({"gres_per_job": gpus(8), "gres_per_node": gpus(4), "nodes_min": 4}, "8 GPUs at 4 a node are 2 nodes, not 4"),
        ({"gres_per_task": gpus(3), "ntasks": 3, "nodes_min": 2}, "each with at most"),
        ({"gres_per_task": gpus(1), "ntasks_per_gpu": 1, "ntasks": 2}, "mutually exclusive"),
        ({"gres_per_task": gpus(2), "gres_per_job": gpus(8), "ntasks": 3}, "--gpus=8 is not --gpus-per-task times 3"),
        ({"ntasks_per_gpu": 2, "ntasks": 3}, "--ntasks=3 is not a multiple of --ntasks-per-gpu=2"),
        ({"mem_per_gpu_mb": 2}, "needs GPUs"),
        ({"ntasks_per_gpu": 1, "ntasks": 3, "gres_per_job": gpus(2)}, "3 tasks at --ntasks-per-gpu=1"),
        ({"cpus_per_gpu": 2, "cpus_per_task": 2, "gres_per_node": gpus(1)}, "mutually exclusive"),
        ({"gres_per_job": gpus(1, "h9000")}, "gpu:h9000"),
        ({"gres_per_job": gpus(1 << 40)}, "gpu:1099511627776"),
        ({"gres_per_job": gpus(64)}, "each with at most"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    world = World(CONFIG)
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, **fields))
    assert words in "\n".join(lines), lines
    assert not world.core.state.jobs


def test_who_asks_for_nothing_of_it_pays_nothing() -> None:
    world = World(CONFIG)
    wanted = JobSubmission(gres_per_node=gpus(2), ntasks=3)
    assert spread(world.core.state, world.core.state.partition_list[0], wanted, 0) is wanted


def test_overcommit_takes_cpus_for_one_task_a_node() -> None:
    request = asked(overcommit=True, ntasks=40, cpus_per_task=2)
    assert (request.ntasks, request.ntasks_over, request.nodes_min, request.nodes_max) == (1, 40, 1, 1)
    request = asked(overcommit=True, ntasks=40, nodes_min=2)
    assert (request.ntasks, request.ntasks_over, request.nodes_min, request.nodes_max) == (2, 40, 2, 2)
    request = asked(overcommit=True, ntasks=40, cpus_per_task=2, gres_per_job=gpus(2))
    assert (request.nodes_min, request.nodes_max) == (1, 1), "GPUs of an overcommitted job do not follow its tasks"
    request = asked(overcommit=True, ntasks=1)
    assert (request.ntasks, request.ntasks_over) == (1, 0)


def test_nodes_are_filled_whatever_the_distribution_of_ranks() -> None:
    for distribution, tasks in (("", [3, 1]), ("block", [3, 1]), ("cyclic:block", [3, 1])):
        world = World(CONFIG)
        world.register("n1")
        world.register("n2")
        world.submit(
            JobSubmission(name="j", work_dir=b"/", ntasks=4, nodes_min=2, nodes_max=2, distribution=distribution)
        )
        assert [part.tasks for part in world.core.state.jobs[1].alloc] == tasks, distribution


def parts(*running: JobSubmission, **fields: Any) -> list[tuple[str, int, int]]:
    """(node, tasks, GPUs) of a job that starts beside others."""
    world = World(CONFIG)
    for name in ("n1", "n2"):
        world.register(name)
    common: dict[str, Any] = {"work_dir": b"/", "time_limit_s": 600, "mem_per_node_mb": 100}
    for other in running:
        world.submit(other)
    world.submit(JobSubmission(name="j", **common, **fields))
    job = world.core.state.jobs[len(running) + 1]
    return [(p.node, p.tasks, sum(mask.bit_count() for _, _, mask in p.gres)) for p in job.alloc]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"gres_per_job": gpus(5)}, [("n1", 1, 4), ("n2", 1, 1)]),
        ({"gres_per_job": gpus(4), "nodes_min": 2, "nodes_max": 2}, [("n1", 1, 3), ("n2", 1, 1)]),
        ({"gres_per_task": gpus(1), "ntasks": 6}, [("n1", 4, 4), ("n2", 2, 2)]),
        ({"gres_per_task": gpus(2), "ntasks": 3}, [("n1", 2, 4), ("n2", 1, 2)]),
        ({"ntasks_per_gpu": 1, "gres_per_job": gpus(4), "nodes_min": 2, "nodes_max": 2}, [("n1", 2, 2), ("n2", 2, 2)]),
    ],
)  # fmt: skip
def test_the_first_nodes_have_as_many_as_they_can(fields: dict[str, Any], expected: list[tuple[str, int, int]]) -> None:
    assert parts(**fields) == expected


def test_equal_parts_where_these_start_sooner() -> None:
    busy = JobSubmission(
        name="b", work_dir=b"/", time_limit_s=600, mem_per_node_mb=100, gres_per_node=gpus(1), nodes_min=2, nodes_max=2
    )
    assert parts(busy, gres_per_job=gpus(6), nodes_min=2, nodes_max=2) == [("n1", 1, 3), ("n2", 1, 3)]
    assert parts(busy, gres_per_task=gpus(1), ntasks=6) == [("n1", 3, 3), ("n2", 3, 3)]
