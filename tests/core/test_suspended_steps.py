"""Steps of a job that was suspended while one of their nodes had not had its launch (fault world 12)."""

import pytest

from ctld.core.records.events import CancelJobs, ControlAction, ControlJobs, CreateStep, JobFilter, JobSubmission
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from penstock.values.jobkind import JobKind
from penstock.values.states import JobState, Suspend
from tests.core.world import World, make_config

STEP = (1, 0, 0)


def suspended_before_n2_has_its_part(restarts: bool) -> World:
    """A step on two nodes: n1 runs its part, and the launch for n2 is lost, which comes back while the job is suspended."""
    world = World(make_config(nodes=2))
    for name in ("n1", "n2"):
        world.register(name)
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=2, kind=int(JobKind.SALLOC)))
    del world.links["n2"]  # nobody has noticed it yet
    request = StepRequest(ntasks=2)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, request, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0, "n1")
    assert STEP in world.srun["n1"] and STEP not in world.srun["n2"]
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.SUSPEND, world.reply_to()))
    if restarts:
        world.restart()
        world.register("n1")
    world.register("n2")
    assert STEP not in world.srun["n2"]
    return world


def resume(world: World) -> list[str]:
    return world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.RESUME, world.reply_to()))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_part_that_was_not_launched_is_when_the_job_is_resumed(restarts: bool) -> None:
    """It waited forever: the step had begun on its other node."""
    world = suspended_before_n2_has_its_part(restarts)
    [launch] = [line for line in resume(world) if line.startswith("launch")]
    assert launch.startswith("launch 1.0 on n2 [1cpu/") and launch.endswith(" ranks 1]")
    world.step_started(1, 0, "n2")
    world.step_exited(1, 0)
    assert world.core.state.jobs[1].steps[0].state is JobState.COMPLETED


def test_a_part_of_a_step_that_was_cancelled_meanwhile_is_not() -> None:
    world = suspended_before_n2_has_its_part(False)
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=("1.0",)), reply_to=world.reply_to()))
    assert not [line for line in resume(world) if line.startswith("launch")]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_missed_a_suspension_and_its_end_learns_where_the_job_runs_now(restarts: bool) -> None:
    """It ran on beside the job that had got its CPUs (fault world 1065)."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", ntasks=2))
    world.started(1)
    del world.links["n1"]  # nobody has noticed it yet
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.SUSPEND, world.reply_to()))
    world.submit(JobSubmission(name="b", work_dir=b"/tmp", ntasks=2))
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.RESUME, world.reply_to()))
    jobs = world.core.state.jobs
    assert [jobs[number].alloc[0].cpu_ids for number in (1, 2)] == [0b1100, 0b0011]
    if restarts:
        world.restart()
    orders = [line for line in world.register("n1") if line.startswith(("resume", "launch"))]
    assert orders == ["resume 1 on n1, cpus 2-3", "launch 2.0 on n1 [n1:2cpu/2task]"]


def control(world: World, job_id: int, action: ControlAction) -> list[str]:
    return world.do(ControlJobs(world.actor("root"), (str(job_id),), action, world.reply_to()))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_that_moves_has_left_its_cpus_before_another_continues_on_them(restarts: bool) -> None:
    """Both had been suspended, of which the node knew one (fault world 2281)."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", ntasks=2))
    world.started(1)
    control(world, 1, ControlAction.SUSPEND)
    world.submit(JobSubmission(name="b", work_dir=b"/tmp", ntasks=2))
    world.started(2)
    jobs = world.core.state.jobs
    assert jobs[2].alloc[0].cpu_ids == 0b0011  # as job 1 had before
    del world.links["n1"]  # nobody has noticed it yet
    control(world, 2, ControlAction.SUSPEND)
    control(world, 1, ControlAction.RESUME)
    control(world, 2, ControlAction.RESUME)
    if restarts:
        world.restart()
    orders = [line for line in world.register("n1") if line.startswith("resume")]
    assert orders == ["resume 2 on n1, cpus 2-3", "resume 1 on n1"]


def test_a_job_that_is_to_end_does_not_wait_for_its_cpus_any_more() -> None:
    """Its script was lost while another step lived, and as it got its CPUs the controller ended (fault world 1850)."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", ntasks=2))
    world.started(1)
    request = StepRequest(ntasks=1)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, request, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0, "n1")
    control(world, 1, ControlAction.SUSPEND)
    since_us = world.now_us
    world.submit(JobSubmission(name="b", work_dir=b"/tmp", ntasks=4))
    world.started(2)
    control(world, 1, ControlAction.RESUME)
    job = world.core.state.jobs[1]
    assert (job.state, job.suspended_by) == (JobState.SUSPENDED, Suspend.RESUMING)
    world.running["n1"].pop((1, 0))
    world.advance(60)
    world.register("n1")
    assert job.state is JobState.COMPLETING and job.suspended_us == world.now_us - since_us
    world.exited(2)
    world.step_exited(1, 0)
    assert world.core.state.jobs[1].attempt == 1  # it was requeued
