"""What a job has on each of its nodes: whole nodes, and GPUs that do not divide.

The answers are those of Slurm (22.05, select/cons_tres, CR_Core_Memory, DefMemPerCPU=100) on two nodes of 4 CPUs, 8000 MB and
2 GPUs each.
"""

from dataclasses import replace
from typing import Any

import pytest

from ctld.agents.launch import facts_of, ntasks_total
from ctld.core.records.events import JobSubmission
from ctld.core.records.job import Job, job_row
from ctld.core.records.request import NodeAlloc
from penstock.values.config import Config
from tests.core.world import World, make_config

CONFIG = make_config(nodes=2, cpus=4, mem_mb=8000, def_mem_per_cpu_mb=100, gpus=2)
TWO_NODES = {"nodes_min": 2, "nodes_max": 2}
ONE_NODE: dict[str, Any] = {"nodes_min": 1, "nodes_max": 1}


def gpus(count: int) -> tuple[tuple[str, str, int], ...]:
    return (("gpu", "", count),)


def started(config: Config = CONFIG, **fields: Any) -> Job:
    world = World(config)
    for name in config.partitions[0].nodes:
        world.register(name)
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, **fields))
    assert lines[0].startswith("submitted 1"), lines
    job: Job = world.core.state.jobs[1]
    assert job.alloc, lines
    return job


def of(part: NodeAlloc) -> tuple[int, int, int, int]:
    """(tasks, CPUs, MB, GPUs)."""
    return part.tasks, part.cpus, part.mem_mb, sum(mask.bit_count() for name, _, mask in part.gres if name == "gpu")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (ONE_NODE, [(1, 4, 400, 2)]),
        ({**ONE_NODE, "mem_per_node_mb": 500}, [(1, 4, 500, 2)]),
        ({**ONE_NODE, "mem_per_cpu_mb": 200}, [(1, 4, 800, 2)]),
        ({**ONE_NODE, "mem_per_node_mb": 0}, [(1, 4, 8000, 2)]),
        ({**TWO_NODES, "ntasks": 3}, [(2, 4, 400, 2), (1, 4, 400, 2)]),
        ({"ntasks": 2, "cpus_per_task": 2}, [(2, 4, 400, 2)]),
        ({**ONE_NODE, "gres_per_job": gpus(1)}, [(1, 4, 400, 2)]),
        ({**ONE_NODE, "gres_per_node": gpus(1)}, [(1, 4, 400, 2)]),
        ({**ONE_NODE, "ntasks_per_node": 2}, [(2, 4, 400, 2)]),
        ({"ntasks": 3, "gres_per_task": gpus(1)}, [(2, 4, 400, 2), (1, 4, 400, 2)]),
        ({**ONE_NODE, "gres_per_job": gpus(1), "mem_per_gpu_mb": 500}, [(1, 4, 1000, 2)]),
    ],
)  # fmt: skip
def test_23_an_exclusive_job_has_all_of_its_nodes(
    fields: dict[str, Any], expected: list[tuple[int, int, int, int]]
) -> None:
    assert [of(part) for part in started(exclusive=True, **fields).alloc] == expected


def test_a_partition_may_give_whole_nodes() -> None:
    whole = replace(CONFIG.partitions[0], over_subscribe="EXCLUSIVE")
    config = replace(CONFIG, partitions=(whole,))
    assert [of(part) for part in started(config, ntasks=1).alloc] == [(1, 4, 400, 2)]


def test_without_a_default_an_exclusive_job_has_all_memory() -> None:
    config = make_config(nodes=1, cpus=4, mem_mb=8000, def_mem_per_cpu_mb=0, gpus=2)
    assert [of(part) for part in started(config, exclusive=True).alloc] == [(1, 4, 8000, 2)]


def test_memory_for_more_cpus_than_the_node_has_memory_for_is_refused() -> None:
    world = World(CONFIG)
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", exclusive=True, mem_per_cpu_mb=3000, **ONE_NODE))
    assert not world.core.state.jobs, lines


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ntasks": 3, "gres_per_task": gpus(1)}, [(2, 2, 200, 2), (1, 1, 100, 1)]),
        ({**TWO_NODES, "ntasks": 3, "gres_per_task": gpus(1)}, [(2, 2, 200, 2), (1, 1, 100, 1)]),
        ({"ntasks": 2, "gres_per_task": gpus(2)}, [(1, 1, 100, 2), (1, 1, 100, 2)]),
        ({"ntasks": 3, "gres_per_job": gpus(3)}, [(2, 2, 200, 2), (1, 1, 100, 1)]),
        ({"gres_per_job": gpus(3)}, [(1, 1, 100, 2), (1, 1, 100, 1)]),
        ({**TWO_NODES, "gres_per_job": gpus(3)}, [(1, 1, 100, 2), (1, 1, 100, 1)]),
        ({**TWO_NODES, "ntasks": 2, "gres_per_job": gpus(3)}, [(1, 1, 100, 2), (1, 1, 100, 1)]),
        ({"ntasks": 5, "gres_per_job": gpus(3)}, [(4, 4, 400, 2), (1, 1, 100, 1)]),
        ({"ntasks": 6, "gres_per_job": gpus(3)}, [(4, 4, 400, 2), (2, 2, 200, 1)]),
        ({"ntasks": 7, "gres_per_job": gpus(3)}, [(4, 4, 400, 2), (3, 3, 300, 1)]),
        ({"ntasks": 3, "gres_per_job": gpus(4)}, [(2, 2, 200, 2), (1, 1, 100, 2)]),
        ({**TWO_NODES, "ntasks": 5, "gres_per_job": gpus(2)}, [(4, 4, 400, 1), (1, 1, 100, 1)]),
        ({"gres_per_job": gpus(3), "gres_per_task": gpus(1)}, [(2, 2, 200, 2), (1, 1, 100, 1)]),
        ({"ntasks": 3, "ntasks_per_gpu": 1}, [(2, 2, 200, 2), (1, 1, 100, 1)]),
        ({"ntasks": 4, "ntasks_per_gpu": 2}, [(4, 4, 400, 2)]),
        ({"ntasks": 6, "ntasks_per_gpu": 2}, [(4, 4, 400, 2), (2, 2, 200, 1)]),
        ({"gres_per_job": gpus(3), "ntasks_per_gpu": 2}, [(4, 4, 400, 2), (2, 2, 200, 1)]),
        ({"gres_per_job": gpus(3), "cpus_per_gpu": 2}, [(1, 4, 400, 2), (1, 2, 200, 1)]),
        ({**TWO_NODES, "ntasks": 2, "gres_per_job": gpus(3), "cpus_per_gpu": 1}, [(1, 2, 200, 2), (1, 1, 100, 1)]),
        ({"gres_per_job": gpus(3), "mem_per_gpu_mb": 100}, [(1, 1, 200, 2), (1, 1, 100, 1)]),
        ({"overcommit": True, "ntasks": 4, "gres_per_task": gpus(1)}, [(2, 1, 100, 2), (2, 1, 100, 2)]),
        ({"overcommit": True, "ntasks": 3, "gres_per_task": gpus(1)}, [(2, 1, 100, 2), (1, 1, 100, 1)]),
        ({"overcommit": True, "ntasks_per_node": 2, "ntasks": 4, "gres_per_task": gpus(1)}, [(2, 1, 100, 2), (2, 1, 100, 2)]),
        ({"overcommit": True, "gres_per_job": gpus(4), "gres_per_task": gpus(1)}, [(2, 1, 100, 2), (2, 1, 100, 2)]),
    ],
)  # fmt: skip
def test_24_gpus_that_do_not_divide(fields: dict[str, Any], expected: list[tuple[int, int, int, int]]) -> None:
    job = started(**fields)
    assert [of(part) for part in job.alloc] == expected
    given = sum(gpus for _, _, _, gpus in expected)
    assert f"gres/gpu={given}" in job.tres_req
    assert f"gres/gpu={given}" in job.tres_alloc


@pytest.mark.parametrize(
    "fields",
    [
        {"gres_per_job": gpus(5)},
        {"ntasks": 5, "gres_per_task": gpus(1)},
        {**ONE_NODE, "ntasks": 3, "gres_per_task": gpus(1)},
        {**ONE_NODE, "gres_per_job": gpus(3)},
        {**TWO_NODES, "gres_per_job": gpus(1)},
        {"ntasks": 5, "ntasks_per_gpu": 2},
    ],
)
def test_more_than_there_is_or_too_few_are_refused(fields: dict[str, Any]) -> None:
    world = World(CONFIG)
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", **fields))
    assert not world.core.state.jobs, lines


def test_nodes_of_different_sizes_share_what_does_not_divide() -> None:
    """Of the GPUs that the larger part does not take the next job has its own at once."""
    world = World(CONFIG)
    for name in ("n1", "n2"):
        world.register(name)
    world.submit(JobSubmission(name="j", work_dir=b"/", ntasks=3, gres_per_task=gpus(1)))
    world.submit(JobSubmission(name="j", work_dir=b"/", gres_per_node=gpus(1)))
    assert [part.node for part in world.core.state.jobs[2].alloc] == ["n2"]


def test_one_thread_of_each_core_is_told_and_given_memory() -> None:
    """--threads-per-core=1 on cores of two threads: whole cores are held, half of their CPUs work."""
    node = replace(CONFIG.nodes[0], cpus=8, sockets=1, cores_per_socket=4, threads_per_core=2)
    world = World(replace(CONFIG, nodes=(node,), partitions=(replace(CONFIG.partitions[0], nodes=("n1",)),)))
    world.register("n1", sockets=1, cores_per_socket=4, threads_per_core=2)
    world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, ntasks=3, threads_per_core=1))
    job = world.core.state.jobs[1]
    assert [of(part) for part in job.alloc] == [(3, 6, 300, 0)]
    assert world.launched_with[1, 0].cpus_used == (3,)
    assert [(run.cpus, run.tasks) for run in facts_of(world.launched_with[1, 0], "c").node_runs] == [(3, 3)]


@pytest.mark.parametrize(
    ("fields", "ntasks"),
    [
        ({"ntasks_per_node": 2, "gres_per_job": gpus(4)}, 2),  # nodes that nobody counted
        ({"ntasks_per_node": 2, "gres_per_job": gpus(4), **TWO_NODES}, 0),  # two for each node
        ({"ntasks": 3, "gres_per_job": gpus(4)}, 3),
    ],
)  # fmt: skip
def test_tasks_that_a_job_is_told_of(fields: dict[str, Any], ntasks: int) -> None:
    assert ntasks_total(job_row(started(**fields))) == ntasks
