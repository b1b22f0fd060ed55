"""A request key is its user's: another user who has read it gets neither the job's id nor stands in its way."""

import pytest

from ctld.core.records.events import JobSubmission
from tests.core.world import World, make_config

KEY = "0" * 32
JOB = JobSubmission(name="a", work_dir=b"/")


def begun() -> World:
    world = World(make_config(nodes=1, min_job_age_s=2))
    world.register("n1")
    return world


def forgotten(world: World) -> None:
    """The job has ended, and the core no longer holds it; its key is young."""
    world.exited(1)
    world.advance(10)
    assert 1 not in world.core.state.jobs


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_key_of_another_user_is_a_new_one(is_forgotten: bool, restarts: bool) -> None:
    world = begun()
    assert world.submit(JOB, "ann", KEY)[0] == "submitted 1"
    if is_forgotten:
        forgotten(world)
    if restarts:
        world.restart()
    assert world.submit(JOB, "bob", KEY)[0] == "submitted 2"
    assert [world.core.state.jobs[2].user_name, world.core.state.next_job_id] == ["bob", 3]
    if restarts:
        world.restart()
    assert world.submit(JOB, "ann", KEY) == ["submitted 1"]
    assert world.submit(JOB, "bob", KEY) == ["submitted 2"]
    assert world.core.state.next_job_id == 3


def test_a_key_is_dropped_with_its_time() -> None:
    world = begun()
    world.submit(JOB, "ann", KEY)
    world.submit(JOB, "bob", KEY)
    forgotten(world)
    world.advance(700)
    world.submit(JOB, "ann", "1" * 32)
    assert list(world.core.state.submissions.keys) == [(1001, "1" * 32)]
