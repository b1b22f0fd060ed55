"""The end time of a job that is COMPLETING: when it began to end."""

from ctld.core.records.events import CancelJobs, ClockJumped, ControlAction, ControlJobs, JobFilter, JobSubmission
from ctld.core.records.job import job_row
from ctld.rpc.jobs.jobinfo import end_at, job_info
from penstock.values.states import JobState
from tests.core.world import World, make_config

US = 1_000_000


def world_with_a_job(**fields: object) -> World:
    """One job that runs since ten seconds."""
    world = World(make_config(nodes=1, cpus=2))
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", time_limit_s=3600, **fields))  # type: ignore[arg-type]  # fields of many types
    world.started(1)
    world.advance(10)
    return world


def cancel(world: World) -> None:
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=("1",)), reply_to=world.reply_to()))


def test_a_job_that_is_ending_has_ended_when_it_began_to() -> None:
    world = world_with_a_job()
    job = world.core.state.jobs[1]
    began_us = world.now_us
    cancel(world)
    world.advance(5)
    assert (job.state, job.end_at_us, job.completing_at_us) == (JobState.COMPLETING, 0, began_us)
    info = job_info(job_row(job), True)
    assert (info.end_at_us, info.state, info.end_state) == (began_us, "COMPLETING", "CANCELLED")
    world.restart()
    world.register("n1")
    job = world.core.state.jobs[1]
    assert end_at(job_row(job)) == began_us
    world.do(ClockJumped(7 * US))
    assert end_at(job_row(job)) == began_us + 7 * US
    world.now_us += 7 * US
    world.exited(1, signal=15)
    assert job.state is JobState.CANCELLED  # its resources are released now, and it is charged until now
    assert end_at(job_row(job)) == job.end_at_us == world.now_us


def test_the_next_attempt_has_not_begun_to_end() -> None:
    world = world_with_a_job()
    world.do(ControlJobs(world.actor("opa"), ("1",), ControlAction.REQUEUE, world.reply_to()))
    job = world.core.state.jobs[1]
    assert (job.state, end_at(job_row(job))) == (JobState.COMPLETING, world.now_us)
    world.exited(1, signal=15)
    assert (job.state, job.completing_at_us, end_at(job_row(job))) == (JobState.PENDING, 0, 0)


def test_derived_exit_code() -> None:
    world = world_with_a_job()
    job = world.core.state.jobs[1]
    assert not job_info(job_row(job), True).HasField("derived_exit")
    job.derived_code = 3
    assert job_info(job_row(job), True).derived_exit.code == 3
