"""Times that a node reports lie between the step's launch and now, by the controller's clock, whatever the node's says."""

import pytest

from ctld.core.nodes.clocks import CLOCK_WRONG
from ctld.core.records.events import JobSubmission, NodeClockSeen, StepExited, StepStarted
from ctld.core.records.job import Job
from penstock.values.states import JobState, NodeFlag
from tests.core.world import BATCH, US, World, make_config

DAY = 86_400 * US


def running(world: World) -> Job:
    """A job that was allocated its node 20 s ago."""
    world.submit(JobSubmission(name="j", work_dir=b"/"))
    world.advance(20)
    [job] = world.core.state.jobs.values()
    assert job.state is JobState.RUNNING and world.now_us - job.start_at_us == 20 * US
    return job


def report(world: World, job: Job, start_us: int, end_us: int) -> None:
    """Its script's end, with these times."""
    world.sequence += 1
    world.running["n1"].clear()
    head = ("n1", job.job_id, 0, BATCH, "spool-n1", world.sequence, world.links["n1"])
    world.do(StepExited(*head, start_us, end_us, 0, 0))


def started(world: World, job: Job, at_us: int) -> None:
    """Its script's start, with that time."""
    world.sequence += 1
    world.do(StepStarted("n1", job.job_id, 0, BATCH, at_us, "spool-n1", world.sequence, world.links["n1"]))


@pytest.fixture
def world() -> World:
    made = World(make_config(nodes=1, cpus=1))
    made.register("n1")
    return made


@pytest.mark.parametrize("off_us", [0, DAY, -DAY, 30 * US, -30 * US, 2**62])
@pytest.mark.parametrize("lasted_us", [0, 5 * US])
def test_a_step_lasts_as_long_as_it_did_and_is_charged_for_no_more(world: World, off_us: int, lasted_us: int) -> None:
    job = running(world)
    began_us = world.now_us - 10 * US
    report(world, job, began_us + off_us, began_us + off_us + lasted_us)
    step = job.steps[BATCH]
    assert job.state is JobState.COMPLETED
    assert step.end_at_us - step.start_at_us == lasted_us
    assert job.start_at_us <= step.start_at_us <= step.end_at_us == job.end_at_us <= world.now_us
    if not off_us:
        assert step.start_at_us == began_us


@pytest.mark.parametrize("jump_us", [DAY, -DAY])
def test_a_clock_that_was_set_while_the_step_ran_does_not_make_it_longer_than_its_job(
    world: World, jump_us: int
) -> None:
    job = running(world)
    report(world, job, world.now_us - 10 * US, world.now_us + jump_us)
    step = job.steps[BATCH]
    assert job.start_at_us <= step.start_at_us <= step.end_at_us == job.end_at_us <= world.now_us


@pytest.mark.parametrize(("off_us", "wanted_us"), [(0, -10 * US), (DAY, 0), (-DAY, -20 * US)])
def test_a_start_is_not_before_the_launch_and_not_in_the_future(world: World, off_us: int, wanted_us: int) -> None:
    job = running(world)
    started(world, job, world.now_us - 10 * US + off_us)
    assert job.steps[BATCH].start_at_us - world.now_us == wanted_us


def test_what_is_reported_late_keeps_its_time(world: World) -> None:
    """The controller was busy for 20 s: with its database, say."""
    job = running(world)
    launched_us = job.start_at_us
    report_of = launched_us + US // 100
    started(world, job, report_of)
    assert (job.steps[BATCH].start_at_us, job.start_at_us) == (report_of, launched_us)
    world.advance(20)
    report(world, job, report_of, launched_us + 2 * US)
    assert (job.steps[BATCH].start_at_us, job.end_at_us) == (report_of, launched_us + 2 * US)
    assert job.start_at_us == launched_us


def test_an_end_without_a_start_is_not_in_the_future(world: World) -> None:
    job = running(world)
    report(world, job, 0, world.now_us + DAY)
    assert job.steps[BATCH].end_at_us == world.now_us


def seen(world: World, is_usable: bool, link_id: int = 0) -> None:
    world.do(NodeClockSeen("n1", link_id or world.links["n1"], DAY, is_usable))


def test_a_node_with_a_wrong_clock_takes_no_jobs_until_it_is_right(world: World) -> None:
    seen(world, False)
    node = world.core.state.nodes["n1"]
    assert (node.flags, node.reason) == (NodeFlag.DRAIN, CLOCK_WRONG)
    world.submit(JobSubmission(name="j", work_dir=b"/"))
    world.advance(3600)
    [job] = world.core.state.jobs.values()
    assert job.state is JobState.PENDING
    world.restart()
    world.register("n1")
    assert world.core.state.nodes["n1"].reason == CLOCK_WRONG
    seen(world, True)
    node = world.core.state.nodes["n1"]
    assert (node.flags, node.reason) == (NodeFlag.NONE, "")
    world.advance(60)
    assert world.core.state.jobs[job.job_id].state is JobState.RUNNING


def test_other_reasons_stay(world: World) -> None:
    world.notice("n1", "Kill task failed", drain=True)
    seen(world, False)
    seen(world, False)
    node = world.core.state.nodes["n1"]
    assert node.reason == f"Kill task failed; {CLOCK_WRONG}"
    seen(world, True)
    seen(world, True)
    assert (node.flags, node.reason) == (NodeFlag.DRAIN, "Kill task failed")
    seen(world, False, link_id=77)  # of a stream that is over
    assert node.reason == "Kill task failed"
