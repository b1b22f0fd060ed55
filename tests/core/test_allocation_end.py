"""An allocation lasts until it is released or ended, whenever its steps' ends are reported."""

from ctld.core.records.events import CreateStep, JobSubmission, StepExited
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from penstock.values.jobkind import JobKind
from penstock.values.states import JobState
from tests.core.world import World, make_config


def test_a_step_that_ended_long_before_does_not_end_it_earlier() -> None:
    """With suspensions after the step's end its run time was negative (fault world 1395)."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", kind=int(JobKind.SALLOC), time_limit_s=60))
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, StepRequest(), SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0)
    began_us = world.now_us
    world.advance(60)
    job = world.core.state.jobs[1]
    assert job.state is JobState.COMPLETING
    over_us = world.now_us
    world.advance(5)
    head = "n1", 1, 0, 0, "spool-n1", 1000, world.links["n1"]
    world.do(StepExited(*head, began_us, began_us, 0, 0, ""))  # the node was cut off: it ended at once
    assert (job.state, job.end_at_us) == (JobState.TIMEOUT, over_us)
