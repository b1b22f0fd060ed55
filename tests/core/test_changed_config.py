"""A configuration that was changed under a queue: at a reload and at a start, what can be lived with is, the rest is said."""

import dataclasses

import pytest

from ctld.core.records.events import ControlAction, ControlJobs, JobSubmission, LoadConfig
from ctld.core.recover import ConfigConflict
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import JobState, Reason
from tests.core.world import World, make_config

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
]


@pytest.mark.parametrize(("wanted", "config", "text"), HELD_BY_JOBS)
def test_what_jobs_hold_may_not_vanish(wanted, config, text):
    world = world_with(**wanted)
    before = world.core.digest()
    (line,) = world.do(LoadConfig(config, world.reply_to()))
    assert line.startswith("refused: ") and text in line
    assert world.core.digest() == before
    world.config = config
    with pytest.raises(ConfigConflict) as raised:
        world.restart()
    assert text in str(raised.value)
