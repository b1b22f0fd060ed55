"""The compiled replay against its oracle, and what both must do on cases that a reader can follow."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import ANSWER_S

import _fastsched
from _fastsched import replay_contract as words
from _fastsched import replay_reference
from _fastsched.replay import replay as compiled
from _fastsched.replay_contract import POLICIES, ReplayPolicy

ROOT = Path(__file__).parents[2]


#: Submit times, run times, estimates, processors, users.
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def columns(jobs: list[tuple[int, int, int, int, int]]) -> Columns:
    """Jobs of (submit, run, estimate, procs, user), by submit time."""
    table = np.array(sorted(jobs, key=lambda job: job[0]), dtype=np.int64).reshape(-1, 5)
    submit_s, run_s, estimate_s = (np.ascontiguousarray(table[:, k]) for k in range(3))
    narrow = table[:, 3:].astype(np.int32)
    return submit_s, run_s, estimate_s, narrow[:, 0].copy(), narrow[:, 1].copy()


def both(jobs, processors: int, policy: ReplayPolicy, mode: int) -> list[int]:
    """Start times, on which both forms agree."""
    told = replay_reference.replay(*columns(jobs), processors, policy, mode).tolist()
    assert compiled(*columns(jobs), processors, policy, mode).tolist() == told
    return told


times = st.integers(0, 40) | st.integers(0, 4000)
job = st.tuples(times, times, times.map(lambda s: s + 1), st.integers(1, 8), st.integers(0, 3))
workloads = st.lists(job, max_size=40)
policies = st.sampled_from(list(POLICIES.values())) | st.builds(
    ReplayPolicy,
    order=st.sampled_from(sorted(words.ORDERS.values())),
    backfill=st.sampled_from([words.NONE, words.EASY]),
    candidates=st.sampled_from(sorted(words.ORDERS.values())),
    predictor=st.sampled_from(sorted(words.PREDICTORS.values())),
    ranker=st.sampled_from(sorted(words.PREDICTORS.values())),
    submit_must_fit=st.booleans(),
    aged_factor=st.integers(0, 3) | st.integers(0, words.AGED_FACTOR_MAX),
    aged_max_s=st.integers(0, 2000) | st.integers(0, words.AGED_S_MAX),
)
modes = st.sampled_from(sorted(words.MODES.values()))


def fitting(jobs, policy: ReplayPolicy):
    """Conservative backfill needs estimates that hold."""
    if policy.backfill != words.CONSERVATIVE:
        return jobs
    return [(s, run, max(run, estimate), procs, user) for s, run, estimate, procs, user in jobs]


@given(workloads, policies, modes)
def test_compiled_and_oracle_agree(jobs, policy, mode) -> None:
    both(fitting(jobs, policy), 8, policy, mode)


@given(workloads, modes)
def test_conservative_agrees(jobs, mode) -> None:
    jobs = jobs[:25]  # the oracle is slow
    both(fitting(jobs, POLICIES["conservative"]), 8, POLICIES["conservative"], mode)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), policies, modes)
def test_deep_queues_agree(seed, policy, mode) -> None:
    """So many jobs at a time that blocks are split and joined."""
    random = np.random.default_rng(seed)
    n = 40 if policy.backfill == words.CONSERVATIVE else 200
    rows = zip(
        *(random.integers(low, high, n) for low, high in [(0, 50), (0, 60), (1, 90), (1, 9), (0, 5)]), strict=True
    )
    both(fitting([tuple(map(int, row)) for row in rows], policy), 8, policy, mode)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from((12, 64)), modes)
def test_conservative_agrees_where_jobs_differ_in_size_and_end_early(seed, processors, mode) -> None:
    """Many moves: bounds of each width and length are raised and fall again."""
    random = np.random.default_rng(seed)
    n = 45  # the oracle is slow
    run_s = random.lognormal(4, 2, n).astype(int) + 1
    estimate_s = run_s * random.integers(1, 10, n)
    widths = np.minimum(random.choice([1, 1, 2, 3, 4, 7, 8, 13, 32, 64], n), processors)
    rows = zip(random.integers(0, 60, n), run_s, estimate_s, widths, np.zeros(n), strict=True)
    both([tuple(map(int, row)) for row in rows], processors, POLICIES["conservative"], mode)


@given(workloads, policies, modes)
def test_no_processor_is_given_twice(jobs, policy, mode) -> None:
    """Where no estimate is outlived, and where ends come before starts of the same second."""
    jobs = [(s, max(run, 1), max(run, estimate), procs, user) for s, run, estimate, procs, user in jobs]
    submit_s, run_s, estimate_s, procs, user = columns(jobs)
    start_s = compiled(submit_s, run_s, estimate_s, procs, user, 8, policy._replace(predictor=words.GIVEN), mode)
    assert (start_s >= submit_s).all()
    for moment in start_s.tolist():
        assert procs[(start_s <= moment) & (moment < start_s + run_s)].sum() <= 8


@given(workloads, modes)
def test_without_backfill_starts_are_in_order(jobs, mode) -> None:
    start_s = compiled(*columns(jobs), 8, POLICIES["fcfs"], mode)
    assert (np.diff(start_s) >= 0).all()


#: Two processors of four are taken until 100; a job of four waits; a short and a long job come behind.
STORY = [(0, 100, 100, 2, 0), (1, 50, 50, 4, 0), (2, 90, 90, 2, 0), (3, 200, 200, 2, 0)]


@pytest.mark.parametrize("mode", list(words.MODES.values()))
@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("fcfs", [0, 100, 150, 150]),
        ("sjf", [0, 100, 2, 150]),
        ("easy", [0, 100, 2, 150]),
        ("easy-sjbf", [0, 100, 2, 150]),
        ("easypp", [0, 100, 2, 150]),
        ("conservative", [0, 100, 2, 150]),
        ("learned", [0, 100, 2, 150]),
    ],
)
def test_a_short_story(name: str, starts: list[int], mode: int) -> None:
    if name == "sjf":  # the head is the shortest, so the four processors do not hold anybody up at first
        starts = [0, 100, 150, 150]
    assert both(STORY, 4, POLICIES[name], mode) == starts


def test_easy_delays_who_is_not_head_and_conservative_does_not() -> None:
    jobs = [(0, 100, 100, 3, 0), (1, 10, 10, 4, 0), (2, 100, 100, 2, 0), (3, 150, 150, 1, 0)]
    assert both(jobs, 4, POLICIES["easy"], words.EVENT) == [0, 100, 110, 110]
    jobs = [(0, 100, 100, 3, 0), (1, 10, 10, 3, 0), (2, 100, 100, 4, 0), (3, 150, 150, 1, 0)]
    assert both(jobs, 4, POLICIES["easy"], words.EVENT) == [0, 100, 153, 3]
    assert both(jobs, 4, POLICIES["conservative"], words.EVENT) == [0, 100, 110, 210]


def test_an_early_end_moves_reservations_forward() -> None:
    jobs = [(0, 10, 100, 4, 0), (1, 20, 20, 4, 0), (2, 20, 20, 2, 0)]
    for mode in words.MODES.values():
        assert both(jobs, 4, POLICIES["conservative"], mode) == [0, 10, 30]


def test_predictions_come_from_the_last_two_jobs_of_the_user() -> None:
    """The third job asks for 1000 s, is believed to take 10, and is backfilled; for another user it is not."""
    past = [(0, 10, 1000, 1, 0), (0, 10, 1000, 1, 0), (20, 100, 100, 3, 1), (21, 50, 50, 4, 1)]
    policy = POLICIES["easypp"]
    assert both([*past, (22, 10, 1000, 1, 0)], 4, policy, words.EVENT)[-2:] == [120, 22]
    assert both([*past, (22, 10, 1000, 1, 2)], 4, policy, words.EVENT)[-2:] == [120, 170]


def test_similar_jobs_tell_more_than_the_last_two() -> None:
    """The user's jobs of 1000 s and one processor took 10 s, the later ones of 999 s took 500. A new job of 1000 s is first,
    one of 999 s last; another user's 300 s are between."""
    past = [(0, 10, 1000, 1, 0), (0, 10, 1000, 1, 0), (20, 500, 999, 1, 0), (20, 500, 999, 1, 0), (600, 100, 100, 4, 1)]
    policy = ReplayPolicy(order=words.SHORTEST, ranker=words.SIMILAR)
    new = [(601, 300, 300, 4, 2), (602, 10, 999, 1, 0), (603, 10, 1000, 1, 0)]
    assert both([*past, *new], 4, policy, words.BATCH)[-3:] == [710, 1010, 700]
    assert both([*past, *new], 4, policy._replace(ranker=words.LAST_TWO), words.BATCH)[-3:] == [700, 1000, 1000]


def test_an_aged_place_is_the_submission_and_a_bounded_handicap() -> None:
    """Job 1 is put back by 5 x 100 s: behind who comes 100 s later and is short, in front of who comes 600 s later. With a
    bound of 90 s nobody who comes 100 s later passes it."""
    jobs = [(0, 1000, 1000, 4, 0), (1, 100, 100, 4, 1), (101, 10, 10, 4, 2), (601, 10, 10, 4, 3)]
    policy = POLICIES["learned"]
    assert both(jobs, 4, policy, words.BATCH) == [0, 1010, 1000, 1110]
    assert both(jobs, 4, policy._replace(aged_max_s=90), words.BATCH) == [0, 1000, 1100, 1110]
    assert both(jobs, 4, policy._replace(aged_factor=0), words.BATCH) == [0, 1000, 1100, 1110]
    assert both(jobs, 4, policy._replace(aged_factor=20), words.BATCH) == [0, 1020, 1000, 1010]


@given(workloads, modes, st.integers(0, 300))
def test_heads_are_not_passed_by_who_comes_later_than_the_bound(jobs, mode, bound_s) -> None:
    policy = ReplayPolicy(order=words.AGED, ranker=words.SIMILAR, aged_max_s=bound_s)  # without backfill
    submit_s, run_s, estimate_s, procs, user = columns(jobs)
    start_s = compiled(submit_s, run_s, estimate_s, procs, user, 8, policy, mode)
    for k, at_s in enumerate(start_s.tolist()):
        assert (start_s[submit_s > submit_s[k] + bound_s] >= at_s).all()


def test_an_outlived_prediction_grows_by_steps_of_the_table() -> None:
    """Believed to take 10 s it takes 500: its expected end moves to 70, 310, 910 s after its start at 21. That alone is no
    reason to look, so who fits then starts at the next submission."""
    past = [(0, 10, 5000, 4, 0), (10, 10, 5000, 4, 0), (21, 500, 5000, 3, 0), (22, 50, 50, 4, 1)]
    jobs = [*past, (50, 1, 41, 1, 2), (100, 1, 231, 1, 3), (101, 1, 231, 1, 4), (340, 1, 591, 1, 5)]
    assert both(jobs, 4, POLICIES["easypp"], words.EVENT)[2:] == [21, 521, 50, 100, 340, 571]


def test_bad_input_is_refused_with_the_number_of_the_job() -> None:
    fine = (0, 10, 10, 1, 0)
    cases = {
        "job number 1 has a negative run time": [fine, (0, -1, 10, 1, 0)],
        "job number 1 has an estimate below 1 s": [fine, (0, 10, 0, 1, 0)],
        "job number 0 does not fit into 4 processors": [(0, 10, 10, 5, 0)],
        "job number 0 has a negative user number": [(0, 10, 10, 1, -1)],
        "times are too large to be added up": [(0, 2**62, 10, 1, 0)],
    }
    for form in (compiled, replay_reference.replay):
        for said, jobs in cases.items():
            with pytest.raises(ValueError, match=said):
                form(*columns(jobs), 4, POLICIES["easy"], words.EVENT)
        with pytest.raises(ValueError, match="outlives its estimate"):
            form(*columns([(0, 11, 10, 1, 0)]), 4, POLICIES["conservative"], words.EVENT)
        with pytest.raises(ValueError, match="no predictor"):
            form(*columns([fine]), 4, POLICIES["conservative"]._replace(predictor=words.LAST_TWO), words.EVENT)
        with pytest.raises(ValueError, match="aged_factor is 0 to 1000, aged_max_s 0 to 1000000000"):
            form(*columns([fine]), 4, ReplayPolicy(order=words.AGED, aged_max_s=-1), words.EVENT)
        with pytest.raises(ValueError, match="not a policy"):
            form(*columns([fine]), 4, ReplayPolicy(order=99), words.EVENT)
        with pytest.raises(ValueError, match="before the job in front of it"):
            first, *rest = (column[::-1].copy() for column in columns([fine, (5, 1, 1, 1, 0)]))
            form(first, rest[0], rest[1], rest[2], rest[3], 4, POLICIES["easy"], words.EVENT)


def test_no_jobs_are_no_trouble() -> None:
    for policy in POLICIES.values():
        assert both([], 4, policy, words.BATCH) == []


def test_estimates_beyond_the_table_of_corrections_end() -> None:
    """A job that runs for years on an estimate of a second."""
    assert both([(0, 10**8, 1, 1, 0), (1, 5, 5, 4, 0)], 4, POLICIES["easy"], words.EVENT) == [0, 10**8]


def test_both_forms_have_the_same_arguments_and_the_compiled_one_is_picked() -> None:
    names = list(inspect.signature(replay_reference.replay).parameters)
    assert list(inspect.signature(compiled).parameters) == names
    assert _fastsched.REPLAY_COMPILED
    assert _fastsched.replay is compiled


def test_the_oracle_is_picked_where_nothing_was_built() -> None:
    code = (
        "import sys; sys.modules['_fastsched.replay'] = None\n"
        "import _fastsched; print(_fastsched.REPLAY_COMPILED, _fastsched.replay.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S)
    assert (done.stdout, done.stderr, done.returncode) == ("False _fastsched.replay_reference\n", "", 0)
