"""The tables are complete, illegal moves change nothing, and neither hash seed nor order of sets decides anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctld.core.dispatch import HANDLERS, TIMERS
from ctld.core.lifecycle import job_life
from ctld.core.records.effects import Effect
from ctld.core.records.events import Event, JobSubmission, LaunchRefused
from ctld.core.state.timers import Timer
from ctld.core.steps import life as step_life
from penstock.values import reasons
from penstock.values.refusals import TEXT, Code
from penstock.values.states import COMPACT_STATE, END_STATES, JobState, Reason
from tests.core.world import World, make_config

ROOT = Path(__file__).resolve().parents[2]
#: States of records in accounting only: a job is never in one of them.
OF_RECORDS = {JobState.REQUEUED, JobState.RESIZING}


def test_every_state_has_a_row_and_a_word() -> None:
    assert set(job_life.TRANSITIONS) == set(JobState) == set(COMPACT_STATE)
    assert set(step_life.TRANSITIONS) == set(JobState) - {JobState.PENDING, JobState.COMPLETING, JobState.SUSPENDED}


def test_end_states_are_final_but_for_a_requeue() -> None:
    assert not any(step_life.TRANSITIONS[s] for s in END_STATES)
    assert {job_life.TRANSITIONS[s] for s in END_STATES - OF_RECORDS} == {frozenset({JobState.PENDING})}


def test_every_state_can_be_reached_and_left() -> None:
    reached = {JobState.PENDING}
    for _ in JobState:
        reached |= {to for state in reached for to in job_life.TRANSITIONS[state]}
    assert reached == set(JobState) - OF_RECORDS


def test_every_reason_is_explained_and_every_refusal_has_words() -> None:
    assert set(reasons.TEXT) == set(Reason)
    assert set(TEXT) == set(Code)


def test_every_event_has_a_handler_and_every_timer_too() -> None:
    assert set(HANDLERS) == set(Event.__subclasses__())
    assert set(TIMERS) == set(Timer)
    assert all(cls.__struct_config__.frozen for cls in Effect.__subclasses__())


@pytest.mark.parametrize("to", sorted(set(JobState) - job_life.TRANSITIONS[JobState.PENDING]))
def test_an_illegal_move_changes_nothing(to: JobState) -> None:
    world = World(make_config())
    world.submit(JobSubmission(name="a", work_dir=b"/"))
    before = world.core.digest()
    with pytest.raises(job_life.IllegalMove):
        job_life.move(world.core.state, world.core.state.jobs[1], to)
    assert world.core.digest() == before
    world.core.check()


def test_a_refused_launch_holds_the_job() -> None:
    world = World(make_config())
    world.register("n1")
    world.submit(JobSubmission(name="a", work_dir=b"/"))
    world.running["n1"].clear()
    world.do(LaunchRefused("n1", 1, 0, -5, "spool full"))
    job = world.core.state.jobs[1]
    assert (job.state, job.reason, job.attempt) == (JobState.PENDING, Reason.LAUNCH_FAILED_REQUEUED_HELD, 1)
    assert world.jobs[1, 0].state is JobState.REQUEUED
    assert world.core.state.nodes["n1"].cpus_alloc == 0


def test_a_full_pass_starts_what_the_quick_pass_does_not_reach() -> None:
    """More rows than QUICK_DEPTH wait for a drained node; behind them is one that fits elsewhere."""
    world = World(make_config(nodes=2, cpus=1))
    world.register("n1")
    for _ in range(300):
        world.submit(JobSubmission(name="a", work_dir=b"/", nodes_required="n2"))
    lines = world.submit(JobSubmission(name="b", work_dir=b"/", nodes_required="n1"))
    lines += world.advance(2)
    assert "full pass" in lines and any(line.startswith("launch 301.0 on n1") for line in lines)


_PROGRAM = """
from tests.core.test_properties import OPERATIONS, tell
story = [((i * 7) % len(OPERATIONS), (i * 13) % 61, (i * 29) % 61) for i in range(150)]
print(tell(story).core.digest())
"""


def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT}/tests/support"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1 and digests.pop().strip()
