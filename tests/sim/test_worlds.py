"""Fault worlds: 20 seeds or more in each run, 2,000 with the slow tests; the same seed is the same world; and a failure is reported.

A seed that fails prints what it takes to look at it again. `penstock sim worlds --seed N --verbose` shows all of it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctld.core.lifecycle import recheck
from ctld.core.passes import queue_recovery
from ctld.core.queue.planning import PlanQuestion, run_plan
from ctld.core.records.events import PlanReady
from sim import simctld, worlds_cli
from sim.checkers import Broken, Checkers
from sim.swarm import DEEDS, FAULTS, GPU_FAULTS, STEP_DEEDS, STORAGE_FAULTS, SUSPENSION_DEEDS, draw
from sim.timeline import Timeline
from sim.world import STEPS, SimWorld

ROOT = Path(__file__).parents[2]
CHUNK = 10
#: Every deed and every fault is drawn, and has its word in a story, in one of these. The test of that plays the first chunk, and
#: as many of the second as it needs.
DRAWN = 40
#: Seeds beyond the first 60 that failed once: a script that had ended in time was ended by its limit (170); oracles that asked
#: for more than a controller without a database, or one that had died before a launch, can do (162, 286), and than is
#: promised of suspended jobs (369, 737, 3312, 3368); what ran before a suspension stayed on CPUs that others had (705, 715, 739); a
#: node that was back let jobs continue before it stopped those that had their CPUs (485, 579); a daemon that died before it
#: signalled a suspended job which was to end never did (873); a node that missed a suspension and its end did not move the job
#: (1065); an allocation that was ended by its limit ended when its last step had, before its suspensions (1395); an oracle
#: that let no user requeue a job that was cancelled and about to end (1318); a job continued on CPUs before another had
#: moved away (2281); a job that waited for its CPUs was to get them after its script was lost (1850); a GPU whose place a job
#: held when it was found got none (1470), or made its node too small (4633); and oracles that knew no end and requeue within a
#: commit (1441), no launch that a suspension overtook (1402), and not how a step that stopped itself ends (2429).
FOUND = (
    162, 170, 286, 369, 485, 579, 705, 715, 737, 739, 873, 1065, 1318, 1395, 1402, 1441, 1470, 1850, 2281, 2429, 3312, 3368,
    4633,
)  # fmt: skip


def play_all(first: int, last: int, steps: int = STEPS) -> None:
    reports = [worlds_cli.play(seed, steps).report for seed in range(first, last + 1)]
    assert not any(reports), "\n\n".join(filter(None, reports))


@pytest.mark.parametrize("first", [pytest.param(CHUNK + 1, marks=pytest.mark.slow), 2 * CHUNK + 1])
def test_worlds(first: int) -> None:
    play_all(first, first + CHUNK - 1)


@pytest.mark.parametrize("seed", FOUND)
def test_worlds_that_found_something(seed: int) -> None:
    play_all(seed, seed)


@pytest.mark.parametrize(
    ("first", "last"), [(2, 3), (213, 213), (381, 381), (488, 488), pytest.param(1, 800, marks=pytest.mark.slow)]
)
def test_worlds_whose_queue_comes_back_in_slices(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with more than 1,000 waiting jobs: after a start, and when a partition is closed or opened."""
    monkeypatch.setattr(recheck, "AT_ONCE", 0)
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 1)
    monkeypatch.setattr(queue_recovery, "SLICE", 1)
    play_all(first, last)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(31, 2001, 97))
def test_more_worlds(first: int) -> None:
    play_all(first, first + 96)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 41, CHUNK))
def test_long_worlds(first: int) -> None:
    play_all(first, first + CHUNK - 1, steps=600)


def test_the_same_seed_is_the_same_world() -> None:
    assert SimWorld(5).run() == SimWorld(5).run()


def test_the_order_of_hashes_does_not_matter() -> None:
    code = "from sim.world import SimWorld; print([SimWorld(seed, 60).run() for seed in (3, 9)])"
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1]


def test_every_deed_and_every_fault_is_drawn_and_really_happens() -> None:
    options = [draw(seed, STEPS) for seed in range(1, DRAWN + 1)]
    assert {word for each in options for word in each.deeds} == set(DEEDS | STEP_DEEDS | SUSPENSION_DEEDS)
    assert {word for each in options for word in each.faults} == set(FAULTS | GPU_FAULTS | STORAGE_FAULTS)
    missing: tuple[str, ...] = (
        "is REQUEUED", "is NODE_FAIL", "is TIMEOUT", "is CANCELLED", "is OUT_OF_MEMORY", "JobLaunchFailure", "loses power",
        "its spool is lost", "the stepd of job", "no room", "injected: failed", "controller dies: commit:after",
        "controller dies: effect", "controller dies: sealed", "clock is set", "is refused", "is cut off", "signal 9",
        "told: step", "no step: ", "scancel", "a client of job", "step -4 starts", "it has no owner", "step 2 starts",
        "a GPU is lost", "a GPU is degraded", "a GPU is well", "all GPUs are repaired",
        "is SUSPENDED", "is stopped on", "continues on", "waits for its cpus", "the database is away", "no database",
        "cannot start: database", "cannot start: injected: away", "its spool has no room",
    )  # fmt: skip
    for seed in range(1, DRAWN + 1):
        world = SimWorld(seed)
        world.run()  # an oracle that says no ends the test here
        story = "\n".join(world.timeline.story(last=10**9))
        missing = tuple(words for words in missing if words not in story)
        if seed >= CHUNK and not missing:
            break
    assert not missing, "no world has ever said this"


@pytest.mark.parametrize("why", ["cancelled", "held"])
def test_an_answer_that_arrives_after_a_requeue_is_about_the_run_before(why: str) -> None:
    """The oracle took it for one about the new run (seed 610)."""
    checkers = Checkers(Timeline(0))
    checkers.again[1] = 1
    checkers.answered_stop(1, why, 0)
    assert not checkers.stopped
    checkers.answered_stop(1, why, 1)
    assert checkers.stopped == {1: (why, frozenset())}


def test_full_passes_come_back_late_and_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [draw(seed, STEPS) for seed in range(1, 201)]
    small = [each.seed for each in options if each.quick_depth == 1 and each.plan_max_us > 1_000_000]
    assert small, "no seed has slow full passes"
    world = SimWorld(small[0])
    answered = []

    def listen(revision: int, question: PlanQuestion) -> PlanReady:
        answered.append(revision < world.ctld.core.state.scheduling.revision)
        return run_plan(revision, question)

    monkeypatch.setattr(simctld, "run_plan", listen)
    world.run()
    assert any(answered), "no full pass has come back to a state that had gone on"


def test_the_command_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert worlds_cli.main(["--seeds", "1-2", "--steps", "20"]) == 0
    assert "2 worlds" in capsys.readouterr().out
    assert worlds_cli.main(["--seed", "1", "--steps", "20", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "controller starts: epoch 1" in out and "seed 1: digest" in out
    assert worlds_cli.main(["--seeds", "9-1"]) == 2


def test_a_failing_seed_prints_what_it_takes_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(self: object, batch: object) -> None:
        raise Broken("books", "made up", 1)

    monkeypatch.setattr("sim.checkers.Checkers.committed", no)
    assert worlds_cli.main(["--seeds", "4-4", "--steps", "33"]) == 1
    out = capsys.readouterr().out
    assert "seed 4: books: made up" in out and "these seeds failed: 4" in out
    assert "penstock sim worlds --seed 4 --steps 33 --verbose" in out
    assert "commit: " in out and "nodes = " in out and "faults: " in out and "controller starts" in out
