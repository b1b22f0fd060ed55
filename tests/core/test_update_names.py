"""scontrol update jobname= user=: which jobs are meant by a name. And scancel -u OTHER."""

from typing import Any

from ctld.core.records.events import CancelJobs, JobFilter, JobSubmission, UpdateJobs
from penstock.values.states import ACTIVE_STATES
from tests.core.world import USERS, World, make_config

ACTIVE = tuple(sorted(int(state) for state in ACTIVE_STATES))


def _world(**settings: Any) -> World:
    world = World(make_config(**settings))
    for user, name in (("ann", "a"), ("bob", "a"), ("ann", "a"), ("ann", "b")):
        world.submit(JobSubmission(name=name, hold=True), user)
    return world


def _update(world: World, user: str, **which: tuple[object, ...]) -> list[str]:
    chosen = JobFilter(states=ACTIVE, **which)  # type: ignore[arg-type]  # keywords of many types
    return world.do(UpdateJobs(world.actor(user), (), {"comment": "x"}, {}, world.reply_to(), chosen))


def _changed(world: World) -> list[int]:
    return [job_id for job_id, job in world.core.state.jobs.items() if job.request.comment == "x"]


def test_a_name_means_all_jobs_that_one_may_change() -> None:
    world = _world()
    assert _update(world, "ann", names=("a",)) == ["1: ok; 3: ok"]
    assert _changed(world) == [1, 3]
    world = _world()
    assert _update(world, "root", names=("a",)) == ["1: ok; 2: ok; 3: ok"]
    assert _update(world, "root", names=("a",), uids=(USERS["bob"],)) == ["2: ok"]


def test_a_name_that_nobody_has() -> None:
    world = _world()
    for which in ({"names": ("zzz",)}, {"names": ("a",), "uids": (USERS["bob"],)}):
        assert _update(world, "ann", **which) == ["refused: Invalid job id specified"]
    assert not _changed(world)


def test_jobs_of_others_are_not_cancelled_and_that_is_said() -> None:
    world = _world()
    event = CancelJobs(world.actor("ann"), JobFilter(uids=(USERS["bob"],)), reply_to=world.reply_to())
    assert world.do(event) == ["2: Access/permission denied"]
    event = CancelJobs(world.actor("ann"), JobFilter(names=("a",)), reply_to=world.reply_to())
    assert world.do(event) == ["1: ok; 3: ok"]  # without -u the caller's own are meant


def test_private_jobs_are_not_named_to_others() -> None:
    world = _world(private_data=("jobs",))
    which = JobFilter(uids=(USERS["bob"],))
    assert world.do(CancelJobs(world.actor("ann"), which, reply_to=world.reply_to())) == ["nothing matched"]
    assert world.do(CancelJobs(world.actor("root"), which, reply_to=world.reply_to())) == ["2: ok"]
