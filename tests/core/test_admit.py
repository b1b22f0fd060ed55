"""What a partition lets in, and what the configuration says for jobs and nodes that say nothing."""

import dataclasses
from typing import Any

import pytest

from ctld.core.records.events import JobSubmission, LoadConfig
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import JobState, NodeFlag, Reason
from tests.core.world import World, make_config


def partitioned(how: str = "NO", nodes: int = 3, **second: Any) -> World:
    """`main`, which takes everything, and `tight`."""
    names = tuple(f"n{i}" for i in range(1, nodes + 1))
    partitions = (PartitionConfig("main", names, is_default=True), PartitionConfig("tight", names, **second))
    return ready(make_config(nodes=nodes, partitions=partitions, enforce_part_limits=how))


def ready(config: Config) -> World:
    world = World(config)
    for node in config.nodes:
        world.register(node.name)
    return world


def submit(world: World, partitions: str = "tight", **wanted: Any) -> str:
    """The answer."""
    job = JobSubmission(name="a", work_dir=b"/", partitions=tuple(partitions.split(",")), **wanted)
    return "\n".join(world.submit(job))


TOO_LONG: dict[str, Any] = {"time_limit_s": 7200}
TOO_MANY: dict[str, Any] = {"nodes_min": 3, "ntasks": 3}


@pytest.mark.parametrize(
    ("wanted", "reason", "text"),
    [
        (TOO_LONG, Reason.PARTITION_TIME_LIMIT, "Requested time limit is invalid (missing or exceeds some limit)"),
        (TOO_MANY, Reason.PARTITION_NODE_LIMIT, "Node count specification invalid"),
    ],
)
def test_limits_wait_or_refuse(wanted: dict[str, Any], reason: Reason, text: str) -> None:
    limits = {"max_time_s": 3600, "max_nodes": 2}
    world = partitioned("NO", **limits)
    submit(world, **wanted)
    assert world.core.state.jobs[1].reason is reason
    for how, both in (("ALL", text), ("ANY", "")):
        world = partitioned(how, **limits)
        assert text in submit(world, **wanted)
        assert both in submit(world, "main,tight", **wanted)
        assert len(world.core.state.jobs) == (how == "ANY")


def test_a_shorter_time_that_would_do_is_no_break_of_the_limit() -> None:
    world = partitioned("ALL", max_time_s=3600)
    submit(world, time_limit_s=7200, time_min_s=600)
    assert len(world.core.state.jobs) == 1


@pytest.mark.parametrize(
    ("lists", "good", "bad", "text"),
    [
        (
            {"allow_accounts": ("Physics",)},
            {"account": "physics"},
            {},
            "Invalid account or account/partition combination",
        ),
        ({"deny_accounts": ("guests",)}, {}, {"account": "guests"}, "account guests is not let in"),
        ({"deny_accounts": ("default",)}, {"account": "x"}, {}, "Invalid account or account/partition combination"),
        ({"deny_qos": ("normal",)}, None, {}, "Invalid qos specification"),
        ({"allow_qos": ("normal",), "deny_qos": ("normal",)}, {}, None, ""),
        ({"alloc_nodes": ("login1",)}, {"submit_host": "login1.example"}, {"submit_host": "elsewhere"}, "AllocNodes"),
        ({"req_resv": True}, None, {}, "it takes jobs in a reservation only"),
    ],
)
def test_lists(lists: dict[str, Any], good: dict[str, str] | None, bad: dict[str, str] | None, text: str) -> None:
    world = partitioned(**lists)
    if good is not None:
        submit(world, **good)
        assert [job.state for job in world.core.state.jobs.values()] == [JobState.RUNNING]
    if bad is not None:
        before = len(world.core.state.jobs)
        assert text in submit(world, **bad)
        assert len(world.core.state.jobs) == before
        submit(world, "tight,main", **bad)  # the other one takes it
        assert [job.partition for job in world.core.state.jobs.values()][before:] == ["main"]


def test_a_list_that_is_changed_keeps_jobs_waiting_and_lets_them_go() -> None:
    world = partitioned()
    submit(world, account="guests", hold=True)
    world.core.state.jobs[1].hold = type(world.core.state.jobs[1].hold)(0)
    config = world.config
    tight = dataclasses.replace(config.partitions[1], deny_accounts=("guests",))
    world.do(LoadConfig(dataclasses.replace(config, partitions=(config.partitions[0], tight)), world.reply_to()))
    assert world.core.state.jobs[1].reason is Reason.ACCOUNT_NOT_ALLOWED
    world.do(LoadConfig(config, world.reply_to()))
    assert world.core.state.jobs[1].state is JobState.RUNNING


def test_the_alternate_stands_in() -> None:
    names = ("n1", "n2")
    partitions = (
        PartitionConfig("a", names, is_default=True, state="DRAIN", alternate="b"),
        PartitionConfig("b", names, state="INACTIVE", alternate="c"),
        PartitionConfig("c", names),
        PartitionConfig("x", names, state="DRAIN", alternate="y"),
        PartitionConfig("y", names, state="DRAIN", alternate="x"),
    )
    world = ready(make_config(nodes=2, partitions=partitions))
    submit(world, "a")
    assert world.core.state.jobs[1].partition == "c"
    assert "partition" in submit(world, "x") and len(world.core.state.jobs) == 1


def test_gpus_bring_their_cpus_and_memory() -> None:
    world = ready(make_config(nodes=1, cpus=8, gpus=2, def_cpu_per_gpu=3, def_mem_per_gpu_mb=700, gpu_freq_def="high"))
    gpus = (("gpu", "a100", 2),)
    submit(world, "debug", gres_per_node=gpus)
    request = world.core.state.jobs[1].request
    assert (request.cpus_per_gpu, request.mem_per_gpu_mb, request.gpu_freq) == (3, 700, "high")
    assert world.core.state.jobs[1].alloc[0].cpus == 6
    submit(world, "debug", gres_per_node=gpus, cpus_per_task=1, mem_per_node_mb=100)
    request = world.core.state.jobs[2].request
    assert (request.cpus_per_gpu, request.mem_per_gpu_mb, request.mem_per_node_mb) == (0, None, 100)
    submit(world, "debug")
    assert world.core.state.jobs[3].request.cpus_per_gpu == 0


@pytest.mark.parametrize(
    ("settings", "asked", "kept"),
    [
        ({}, False, ("CORE", "NOFILE")),
        ({"propagate_resource_limits": "NOFILE,STACK"}, False, ("NOFILE",)),
        ({"propagate_resource_limits": "NONE"}, False, ()),
        ({"propagate_resource_limits_except": "NOFILE"}, False, ("CORE",)),
        ({"propagate_resource_limits_except": "ALL"}, False, ()),
        ({"propagate_resource_limits": "NONE"}, True, ("CORE", "NOFILE")),
    ],
)
def test_limits_that_go_with_a_job(settings: dict[str, Any], asked: bool, kept: tuple[str, ...]) -> None:
    world = ready(make_config(nodes=1, **settings))
    submit(world, "debug", rlimits=(("CORE", 0), ("NOFILE", 1024)), propagate_asked=asked)
    assert tuple(name for name, _ in world.core.state.jobs[1].request.rlimits) == kept


def test_files_and_dependencies_of_jobs_that_do_not_say() -> None:
    words = (("kill_invalid_depend", ""),)
    world = ready(make_config(nodes=1, job_file_append=True, dependency_parameters=words))
    submit(world, "debug")
    submit(world, "debug", open_truncate=True)
    requests = [job.request for job in world.core.state.jobs.values()]
    assert [request.open_append for request in requests] == [True, False]
    assert requests[0].kill_on_invalid_dep


@pytest.mark.parametrize(
    ("settings", "memory_mb", "drained"),
    [
        ({}, 3999, True),
        ({"slurmctld_parameters": (("node_reg_mem_percent", "75"),)}, 3000, False),
        ({"slurmctld_parameters": (("node_reg_mem_percent", "75"),)}, 2999, True),
        ({"slurmctld_parameters": (("node_reg_mem_percent", "x"),)}, 3999, True),
        ({"slurmd_parameters": (("config_overrides", ""),)}, 1, False),
    ],
)
def test_a_node_with_less_memory(settings: dict[str, Any], memory_mb: int, drained: bool) -> None:
    world = World(make_config(nodes=1, mem_mb=4000, **settings))
    world.register("n1", real_memory_mb=memory_mb)
    assert bool(world.core.state.nodes["n1"].flags & NodeFlag.DRAIN) is drained


def test_what_an_administrator_changed_of_a_partition_may_be_kept() -> None:
    config = make_config(nodes=1)
    down = dataclasses.replace(config, partitions=(dataclasses.replace(config.partitions[0], state="DOWN"),))
    for flags, state in (((), "DOWN"), ((("KeepPartState", ""),), "UP")):
        world = ready(dataclasses.replace(config, reconfig_flags=flags))
        world.do(LoadConfig(dataclasses.replace(down, reconfig_flags=flags), world.reply_to()))
        assert world.core.state.partitions["debug"].state == state
