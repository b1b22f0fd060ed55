"""Thousands of steps that wait in one job: what they cost everybody else."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

from ctld.core.jobs import het
from ctld.core.records.step import Unfit
from ctld.core.steps import creation
from penstock.values.config import Config
from penstock.values.refusals import Code
from penstock.values.states import JobState


def test_steps_that_wait_and_do_not_fit_are_not_all_planned_at_once(monkeypatch):
    """4096 of them on a job of 1000 nodes took 14 seconds each time that one step of the job ended."""
    planned = []

    def plan(alloc, request, *rest):
        planned.append(request)
        raise Unfit(Code.NODES_BUSY)

    monkeypatch.setattr(creation, "plan_step", plan)
    monkeypatch.setattr(creation, "implied_gres", lambda state, job: ())
    monkeypatch.setattr(het, "is_up", lambda state, job: False)  # nobody waits for its start
    pending = {
        str(number): SimpleNamespace(
            reply_to=number, stopped_at_us=0, event=SimpleNamespace(request=number), unfit=None
        )
        for number in range(1, creation.WAITING_MAX)
    }
    table: Any = SimpleNamespace(pending=pending, next_id=0, used={})
    request = SimpleNamespace(core_spec=None, thread_spec=None)
    running: Any = SimpleNamespace(state=JobState.RUNNING, job_id=1, alloc=(), request=request)
    state: Any = SimpleNamespace(
        jobs={1: running},
        resizes={},
        steps=SimpleNamespace(due=OrderedDict({1: None}), by_job={1: table}),
        config=Config(),
    )
    creation.serve_due(state, 0)
    assert planned == list(range(1, creation.UNPLACED_MAX + 1))  # the first ones, in their order
    assert len(table.pending) == creation.WAITING_MAX - 1  # and all keep their places
