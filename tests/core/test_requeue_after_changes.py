"""A job that is requeued after what it names has gone: refused with the name, or it waits with a reason."""

import dataclasses

import pytest

from ctld.core.records.events import ControlAction, ControlJobs, JobSubmission, LoadConfig
from penstock.values.config import PartitionConfig
from penstock.values.states import JobState
from tests.core.world import World, make_config

OTHER = (PartitionConfig("other", ("n1", "n2"), is_default=True),)


def begun(**wanted: object) -> World:
    world = World(make_config(nodes=2, cpus=2))
    for name in ("n1", "n2"):
        world.register(name)
    world.submit(JobSubmission(name="a", work_dir=b"/", **wanted))  # type: ignore[arg-type]  # keywords of many types
    return world


@pytest.mark.parametrize("action", [ControlAction.REQUEUE, ControlAction.REQUEUE_HOLD, ControlAction.REQUEUE_SPECIAL])
def test_an_ended_job_is_not_requeued_into_a_partition_that_is_gone(action: ControlAction) -> None:
    world = begun()
    world.exited(1)
    world.config = dataclasses.replace(world.config, partitions=OTHER)
    assert "done" in world.do(LoadConfig(world.config, world.reply_to()))
    before = world.core.digest()
    (line,) = world.do(ControlJobs(world.actor("ann"), ("1",), action, world.reply_to()))
    assert line == "1: Invalid partition name specified: debug"
    assert world.core.digest() == before and world.core.state.jobs[1].state is JobState.COMPLETED
