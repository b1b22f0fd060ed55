"""Plans that come back late: nobody goes who may not, or need not, go any more."""

import pytest

from ctld.core.records.events import JobSubmission, PlanReady, SubmitJob
from penstock.values.config import PartitionConfig
from penstock.values.states import JobState
from tests.core.world import SPEC, World, make_config


@pytest.fixture
def world() -> World:
    """One node with 4 cpus; job 1 of the low tier runs on 2 of them."""
    partitions = (PartitionConfig("low", ("n1",), is_default=True), PartitionConfig("high", ("n1",), priority_tier=9))
    world = World(
        make_config(
            nodes=1, preempt_type="preempt/partition_prio", preempt_mode=("CANCEL",), partitions=partitions,
            preempt_exempt_time_s=60,
        )
    )  # fmt: skip
    world.register("n1")
    world.submit(JobSubmission(work_dir=b"/tmp", ntasks=2))
    world.started(1)
    return world


def submit_only(world: World, ntasks: int) -> None:
    """A job of the high tier that no pass has seen."""
    wanted = JobSubmission(work_dir=b"/tmp", ntasks=ntasks, partitions=("high",))
    world.core.step(world.now_us, SubmitJob(world.actor("ann"), f"{ntasks:032x}", world.now_us, wanted, SPEC))


def plan(world: World, revision: int) -> None:
    world.core.step(world.now_us, PlanReady(revision, (), (), victims=((2, 1),)))


def state_of(world: World, job_id: int) -> JobState:
    return world.core.state.jobs[job_id].state


def test_one_that_is_exempt_stays(world: World) -> None:
    submit_only(world, 4)
    plan(world, world.core.state.scheduling.revision)
    assert state_of(world, 1) is JobState.RUNNING
    world.settle()
    world.advance(60)  # now the exemption is over, and the pass finds the same victim
    assert state_of(world, 1) is JobState.COMPLETING


@pytest.mark.parametrize("ntasks", [2, 4])
def test_a_stale_plan_makes_nobody_go_for_a_job_that_can_start(world: World, ntasks: int) -> None:
    world.advance(61)
    revision = world.core.state.scheduling.revision
    submit_only(world, ntasks)
    plan(world, revision)
    assert state_of(world, 1) is (JobState.RUNNING if ntasks == 2 else JobState.COMPLETING)
    world.settle()
    assert state_of(world, 2) is (JobState.RUNNING if ntasks == 2 else JobState.PENDING)


def test_a_victim_that_has_ended_or_a_job_that_was_cancelled(world: World) -> None:
    world.advance(61)
    submit_only(world, 4)
    world.core.step(world.now_us, PlanReady(world.core.state.scheduling.revision, (), (), victims=((2, 77), (3, 1))))
    assert state_of(world, 1) is JobState.RUNNING
