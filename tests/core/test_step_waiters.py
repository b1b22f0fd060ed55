"""Thousands of steps that wait in one job: what they cost everybody else."""

from types import SimpleNamespace

from ctld.core import steps
from ctld.core.step_plan import Unfit
from penstock.values.refusals import Code
from penstock.values.states import JobState


def test_steps_that_wait_and_do_not_fit_are_not_all_planned_at_once(monkeypatch):
    """4096 of them on a job of 1000 nodes took 14 seconds each time that one step of the job ended."""
    planned = []

    def plan(state, job, desk, request):
        planned.append(request)
        raise Unfit(Code.NODES_BUSY)

    monkeypatch.setattr(steps, "_plan", plan)
    wishes = {
        str(number): SimpleNamespace(
            reply_to=number, stopped_at_us=0, event=SimpleNamespace(request=number), unfit=None
        )
        for number in range(1, steps.WAITING_MAX)
    }
    desk = SimpleNamespace(wishes=wishes, next_id=0)
    steps._serve(None, 0, SimpleNamespace(state=JobState.RUNNING), desk)
    assert planned == list(range(1, steps.MISFITS_MAX + 1))  # the first ones, in their order
    assert len(desk.wishes) == steps.WAITING_MAX - 1  # and all keep their places
