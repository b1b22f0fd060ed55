"""A configuration that was changed under a queue: at a reload and at a start, what can be lived with is, the rest is said."""

import dataclasses

import pytest

from ctld.core.records.events import (
    CancelJobs,
    ControlAction,
    ControlJobs,
    CronEntry,
    JobFilter,
    JobSubmission,
    LoadConfig,
    UpdateCrontab,
    UpdateNodes,
)
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import Hold, JobState, NodeFlag, Reason
from tests.core.world import SPEC, World, make_config

GPU = (("gpu", "a100", 1),)


def world_with(**wanted: object) -> World:
    world = World(make_config(nodes=2, cpus=2, gpus=2))
    for name in ("n1", "n2"):
        world.register(name)
    world.submit(JobSubmission(name="a", work_dir=b"/", **wanted))  # type: ignore[arg-type]  # keywords of many types
    return world


def elsewhere(config: Config) -> Config:
    """The same nodes in another partition."""
    return dataclasses.replace(config, partitions=(PartitionConfig("other", ("n1", "n2"), is_default=True),))


def only_n2(config: Config) -> Config:
    """Without the node that has a feature."""
    partitions = (PartitionConfig("debug", ("n2",), is_default=True),)
    return dataclasses.replace(config, nodes=config.nodes[1:], partitions=partitions)


def reload(world: World, config: Config) -> None:
    world.config = config
    world.do(LoadConfig(config, world.reply_to()))


def restart(world: World, config: Config) -> None:
    world.config = config
    world.restart()


@pytest.mark.parametrize("change", [reload, restart])
def test_licenses_that_are_gone_or_fewer(change):
    """Who asks for what is gone waits; what is held of fewer is owed."""
    config = make_config(nodes=1, cpus=8, licenses=(("idl", 2), ("matlab", 2)))
    world = World(config)
    world.register("n1")
    for licenses in ("matlab:2", "matlab:1", "idl"):
        world.submit(JobSubmission(name="a", work_dir=b"/", licenses=licenses, hold=licenses == "idl"))
    jobs = world.core.state.jobs
    assert [jobs[i].state for i in (1, 2, 3)] == [JobState.RUNNING, JobState.PENDING, JobState.PENDING]
    change(world, dataclasses.replace(config, licenses=(("matlab", 1),)))
    if change is restart:
        world.register("n1")
    world.do(ControlJobs(world.actor("ann"), ("3",), ControlAction.RELEASE, world.reply_to()))
    jobs = world.core.state.jobs
    assert world.core.state.free_licenses.tolist() == [-1]
    assert [jobs[i].state for i in (2, 3)] == [JobState.PENDING, JobState.PENDING]
    assert [jobs[i].reason for i in (2, 3)] == [Reason.LICENSES, Reason.BAD_CONSTRAINTS]
    world.exited(1)
    assert world.core.state.jobs[2].state is JobState.RUNNING
    change(world, config)
    if change is restart:
        world.register("n1")
        world.advance(2)
    assert world.core.state.jobs[3].state is JobState.RUNNING


@pytest.mark.parametrize("change", [reload, restart])
@pytest.mark.parametrize("left", [(("matlab", 2),), (("matlab", 2), ("idl", 1))], ids=["gone", "too few"])
def test_a_job_whose_license_is_gone_is_held(change, left):
    """As in Slurm 26.05. One that is held already, and one that asks for something else, stay as they are."""
    config = make_config(nodes=1, cpus=1, licenses=(("idl", 2), ("matlab", 2)))
    world = World(config)
    world.register("n1")
    for licenses, is_held in (("matlab:1", False), ("idl:2", False), ("idl:2", True), ("matlab:2", False)):
        world.submit(JobSubmission(name="a", work_dir=b"/", licenses=licenses, hold=is_held))
    change(world, dataclasses.replace(config, licenses=left))
    reasons = {i: job.reason for i, job in world.core.state.jobs.items()}
    assert reasons[2] is Reason.JOB_HELD_ADMIN and reasons[3] is Reason.JOB_HELD_USER
    assert world.core.state.jobs[4].hold is Hold.NO
    world.advance(1)
    change(world, config)  # it is back: that releases nobody
    if change is restart:
        world.register("n1")
    assert world.core.state.jobs[2].reason is Reason.JOB_HELD_ADMIN
    world.do(ControlJobs(world.actor("ann"), ("2",), ControlAction.RELEASE, world.reply_to()))
    assert world.core.state.jobs[2].hold is Hold.ADMIN
    world.do(ControlJobs(world.actor("root"), ("2",), ControlAction.RELEASE, world.reply_to()))
    assert world.core.state.jobs[2].hold is Hold.NO


@pytest.mark.parametrize("change", [reload, restart])
@pytest.mark.parametrize(
    ("wanted", "config"),
    [
        ({"nodes_required": "n2"}, make_config(nodes=1, cpus=2, gpus=2)),
        ({"gres_per_node": GPU}, make_config(nodes=2, cpus=2)),
        ({"features": "fast"}, only_n2(make_config(cpus=2))),
        ({"array": "0-500"}, make_config(nodes=2, cpus=2, gpus=2, max_array_size=101)),
    ],
    ids=["node", "gres", "feature", "array"],
)
def test_a_pending_job_outlives_what_it_asked_for(wanted, config, change):
    world = world_with(hold=True, **wanted)
    change(world, config)
    job = world.core.state.jobs[1]
    assert (job.state, job.reason) == (JobState.PENDING, Reason.JOB_HELD_USER)
    assert list(world.core.state.jobs) == [1]


def test_a_released_job_says_that_no_node_can_run_it_and_starts_when_one_can():
    both = make_config(nodes=2, cpus=2, gpus=2)
    world = world_with(hold=True, nodes_required="n2", gres_per_node=GPU)
    reload(world, make_config(nodes=1, cpus=2))
    world.do(ControlJobs(world.actor("ann"), ("1",), ControlAction.RELEASE, world.reply_to()))
    job = world.core.state.jobs[1]
    assert (job.state, job.reason) == (JobState.PENDING, Reason.BAD_CONSTRAINTS)
    reload(world, both)
    world.register("n2")
    job = world.core.state.jobs[1]
    assert (job.state, job.batch_node) == (JobState.RUNNING, "n2")


HELD_BY_JOBS = [
    (
        {"nodes_required": "n2"},
        make_config(nodes=1, cpus=2, gpus=2),
        "node n2 has jobs (1) and is missing from the file",
    ),
    ({"ntasks": 2}, make_config(nodes=2, cpus=1, gpus=2), "node n1: 2 CPUs are allocated, the file has 1"),
    (
        {"mem_per_node_mb": 4000},
        make_config(cpus=2, mem_mb=999, gpus=2),
        "node n1: 4000 MB are allocated, the file has 999",
    ),
    ({"gres_per_node": GPU}, make_config(nodes=2, cpus=2), "node n1: gres/gpu:a100 that jobs hold is missing"),
    ({"hold": True}, elsewhere(make_config(cpus=2, gpus=2)), "partition debug has 1 pending job(s) and is missing"),
    ({}, elsewhere(make_config(cpus=2, gpus=2)), "partition debug has 1 running job(s) and is missing"),
]


@pytest.mark.parametrize(("wanted", "config", "text"), HELD_BY_JOBS)
def test_a_reload_takes_nothing_that_jobs_hold(wanted, config, text):
    world = world_with(**wanted)
    before = world.core.digest()
    (line,) = world.do(LoadConfig(config, world.reply_to()))
    assert line.startswith("refused: ") and text in line
    assert world.core.digest() == before


def for_the_system(cpus: int, mem_mb: int) -> Config:
    """Both nodes with these CPUs and this memory specialized."""
    config = make_config(nodes=2, cpus=2, gpus=2)
    nodes = (dataclasses.replace(one, specialized_cpus=cpus, mem_spec_limit_mb=mem_mb) for one in config.nodes)
    return dataclasses.replace(config, nodes=tuple(nodes))


KEPT_FOR_JOBS = [
    ({"ntasks": 2}, for_the_system(0b10, 0), "n1", "2 CPUs (it has 1)"),
    ({}, for_the_system(0b01, 0), "n1", "CPUs 0"),
    ({"mem_per_node_mb": 4000}, for_the_system(0, 1), "n1", "4000 MB (it has 3999)"),
    ({"nodes_required": "n2"}, make_config(nodes=1, cpus=2, gpus=2), "n2", "the node"),
    ({"ntasks": 2}, make_config(nodes=2, cpus=1, gpus=2), "n1", "2 CPUs (it has 1)"),
    ({"mem_per_node_mb": 4000}, make_config(cpus=2, mem_mb=999, gpus=2), "n1", "4000 MB (it has 999)"),
    ({"gres_per_node": GPU}, make_config(nodes=2, cpus=2), "n1", "gres/gpu"),
    ({"gres_per_node": GPU, "nodes_required": "n2"}, make_config(nodes=1, cpus=2), "n2", "the node"),
]


@pytest.mark.parametrize(("wanted", "config", "name", "lacks"), KEPT_FOR_JOBS)
def test_a_start_keeps_what_jobs_hold_on_a_drained_node(wanted, config, name, lacks):
    world = world_with(**wanted)
    alloc = world.core.state.jobs[1].alloc
    restart(world, config)
    node = world.core.state.nodes[name]
    assert node.flags & NodeFlag.DRAIN and node.reason == f"slurm.conf lacks what jobs hold: {lacks}"
    assert world.core.state.jobs[1].state is JobState.RUNNING and world.core.state.jobs[1].alloc == alloc
    world.config = world.core.state.config
    restart(world, config)  # again: it is a function of the rows and the file
    assert world.core.state.nodes[name].reason == node.reason
    world.settle()
    (line,) = world.do(LoadConfig(config, world.reply_to()))
    assert line.startswith("refused: ")
    world.config = world.core.state.config
    world.register(name)
    world.exited(1)
    assert world.core.state.jobs[1].state is JobState.COMPLETED
    reload(world, config)
    assert world.core.state.config == config and not world.core.state.layout.kept
    assert not any(node.flags & NodeFlag.DRAIN or node.reason for node in world.core.state.node_list)


def test_a_file_that_is_mended_ends_the_drain_while_the_jobs_run():
    world = world_with(ntasks=2)
    full = world.config
    restart(world, make_config(nodes=2, cpus=1, gpus=2))
    partition = world.core.state.config.partitions[0]
    by_hand = dataclasses.replace(world.core.state.config, partitions=(dataclasses.replace(partition, max_time_s=60),))
    world.do(LoadConfig(by_hand, world.reply_to(), by_hand=True))
    assert world.core.state.nodes["n1"].flags & NodeFlag.DRAIN, "scontrol update does not read the file"
    reload(world, full)
    node = world.core.state.nodes["n1"]
    assert not node.flags & NodeFlag.DRAIN and not node.reason
    assert world.core.state.jobs[1].state is JobState.RUNNING


def test_an_administrators_drain_outlives_the_keeping():
    world = world_with(ntasks=2)
    world.do(UpdateNodes(world.actor("root"), ("n1",), {"state": "drain", "reason": "fans"}, world.reply_to()))
    full = world.config
    restart(world, make_config(nodes=2, cpus=1, gpus=2))
    reload(world, full)
    node = world.core.state.nodes["n1"]
    assert node.flags & NodeFlag.DRAIN and node.reason == "fans"


def test_jobs_of_a_partition_that_is_gone_wait_in_it_and_run_on():
    world = world_with()
    world.submit(JobSubmission(name="b", work_dir=b"/", ntasks=4, nodes_min=2))
    restart(world, elsewhere(make_config(cpus=2, gpus=2)))
    jobs = world.core.state.jobs
    assert [jobs[i].state for i in (1, 2)] == [JobState.RUNNING, JobState.PENDING]
    for name in ("n1", "n2"):
        world.register(name)
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.REQUEUE, world.reply_to()))
    world.exited(1)
    world.advance(10)
    assert [(jobs[i].state, jobs[i].reason) for i in (1, 2)] == [(JobState.PENDING, Reason.PARTITION_INACTIVE)] * 2
    (line,) = world.submit(JobSubmission(name="c", work_dir=b"/", partitions=("debug",)))
    assert line.startswith("refused: ")
    world.do(CancelJobs(world.actor("root"), JobFilter(ids=("1", "2"))))
    reload(world, world.config)
    assert list(world.core.state.partitions) == ["other"]


@pytest.mark.parametrize("change", [reload, restart])
def test_a_crontab_is_removed_above_a_lower_limit_of_jobs(change):
    world = World(make_config(nodes=1, scron_parameters=(("enable", ""),)))
    ann = world.actor("ann")
    entries = tuple(CronEntry(JobSubmission(name="a"), SPEC, "0 * * * *", line, line) for line in (1, 2))
    world.do(UpdateCrontab(ann, ann, "0 * * * * a\n" * 2, entries, world.reply_to()))
    world.submit(JobSubmission(name="b", work_dir=b"/", hold=True))
    change(world, dataclasses.replace(world.config, max_job_count=1))
    for text, some in (("0 * * * * a\n", entries[:1]), (None, ())):
        (line,) = world.do(UpdateCrontab(ann, ann, text, some, world.reply_to()))
        assert line.startswith("crontab: ")
    assert [job.job_id for job in world.core.state.jobs.values() if job.state is JobState.PENDING] == [3]


def test_a_start_after_a_resume_that_waits_for_its_cpus():
    """Both jobs have 5 of 4 CPUs until the larger one has ended."""
    world = World(make_config(nodes=1, cpus=4))
    root = world.actor("root")
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/"))
    world.started(1)
    world.do(ControlJobs(root, ("1",), ControlAction.SUSPEND, world.reply_to()))
    world.submit(JobSubmission(name="b", work_dir=b"/", ntasks=4))
    world.do(ControlJobs(root, ("1",), ControlAction.RESUME, world.reply_to()))
    assert world.core.state.nodes["n1"].cpus_alloc == 5
    world.restart()
    node = world.core.state.nodes["n1"]
    assert node.cpus_alloc == 5 and not node.flags & NodeFlag.DRAIN and not world.core.state.layout.kept
    world.register("n1")
    world.exited(2)
    assert world.core.state.jobs[1].state is JobState.RUNNING
