"""Issue 14, number 3 (a stolen node): what a node reports counts for what that node had in its hands, and for nothing else.

The attack: an attacker with the key of n2 reports failed GPUs, notices and ends of jobs that run on n1, or that run nowhere.
"""

import pytest

from ctld.core.records.events import GpuReported, JobSubmission
from ctld.core.records.gpu import GpuAction
from penstock.values.states import JobState
from tests.core.world import World, make_config

TEXT = "forged by n2"


def planted() -> World:
    """Job 1 runs on n1, 2 waits, 3 has ended on n1."""
    world = World(make_config(nodes=2, cpus=4))
    world.register("n1")
    world.register("n2")
    world.submit(JobSubmission(name="runs", work_dir=b"/tmp", nodes_required="n1"))
    world.submit(JobSubmission(name="waits", work_dir=b"/tmp", begin_at_us=world.now_us * 2))
    world.submit(JobSubmission(name="ended", work_dir=b"/tmp", nodes_required="n1"))
    world.started(1)
    world.started(3)
    world.exited(3)
    return world


def seen(world: World) -> list[object]:
    jobs = world.core.state.jobs
    return [
        (j.job_id, j.state, j.attempt, j.reason, j.reason_detail, j.admin_comment, j.failed_node, j.request)
        for j in jobs.values()
    ]


@pytest.mark.parametrize("action", list(GpuAction))
@pytest.mark.parametrize("attempt", [0, 1, 7])
def test_03_a_node_says_nothing_of_gpus_of_jobs_elsewhere(action: GpuAction, attempt: int) -> None:
    world = planted()
    before, lines = seen(world), len(world.history)
    world.sequence += 1
    jobs = tuple((job_id, attempt) for job_id in (1, 2, 3))
    world.do(GpuReported("n2", "spool-n2", world.sequence, world.links["n2"], world.now_us, (), action, jobs, TEXT))
    assert seen(world) == before and world.core.state.jobs[1].state is JobState.RUNNING
    assert len(world.history) == lines


def test_03_a_node_s_notice_is_no_line_in_the_story_of_a_job_elsewhere() -> None:
    world = planted()
    lines = len(world.history)
    for job_id in (1, 2, 3):
        world.notice("n2", TEXT, job_id)
    assert len(world.history) == lines
    world.notice("n1", "its own", 1)
    assert len(world.history) == lines + 1
