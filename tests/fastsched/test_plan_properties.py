"""What holds for every input: the compiled planner agrees with its oracle, and both keep the rules.

The laws that speak of a plan alone are in plan_checker.py and share no code with either planner.
"""

import hashlib
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from patience import ANSWER_S

from _fastsched import contract
from _fastsched.contract import FOREVER, NOT_TESTED, PREEMPTING, STARTED, PlanInput, PlanResult
from tests.fastsched.plan_checker import check, takes, value
from tests.fastsched.planner_cases import FEATURES, PLAIN, Case, a_case, cases
from tests.fastsched.planner_input import NOW_S, Planner, Run, planner, plans, starts, victims

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("PENSTOCK_HYPOTHESIS") == "full"
#: How many times the examples of the profile a property looks at: a case has a hundred choices.
MANY = settings(max_examples=settings().max_examples * 2)
SEEDS = 20_000 if FULL else 300


#: What holds for the compiled planner holds for the oracle, as both give the same plans for the same kinds of cases.
@pytest.fixture(
    scope="module", params=["_fastsched.plan", pytest.param("_fastsched.reference", marks=pytest.mark.slow)]
)
def plan(request: pytest.FixtureRequest) -> Planner:
    return planner(request.param)


@pytest.fixture(scope="module")
def reference() -> Planner:
    return planner("_fastsched.reference")


@pytest.fixture(scope="module")
def compiled() -> Planner:
    return planner("_fastsched.plan")


def assert_same(a: PlanResult, b: PlanResult, case: Case) -> None:
    left: Any
    right: Any
    for name, left, right in zip(PlanResult._fields, a, b, strict=True):
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=f"{name} of {case}")


# --- two planners, one answer


@given(case=cases())
@MANY
def test_compiled_and_reference_agree(compiled: Planner, reference: Planner, case: Case) -> None:
    assert_same(compiled(case.build()), reference(case.build()), case)


@given(case=cases(features=PLAIN))
@MANY
def test_compiled_and_reference_agree_on_plain_rows(compiled: Planner, reference: Planner, case: Case) -> None:
    assert_same(compiled(case.build()), reference(case.build()), case)


@given(case=cases(rows=(8, 12)))
@settings(max_examples=settings().max_examples)
def test_compiled_and_reference_agree_on_long_queues(compiled: Planner, reference: Planner, case: Case) -> None:
    assert_same(compiled(case.build()), reference(case.build()), case)


def test_compiled_and_reference_agree_on_many_seeds(compiled: Planner, reference: Planner) -> None:
    mixes = [FEATURES, PLAIN] + [[*FEATURES, *some * 6] for some in (
        ["preempts"], ["groups", "segment", "switches"], ["resv", "licenses", "exclusive"], ["copies", "time_min"],
        ["exclusive", "switches", "preempts"],
    )]  # fmt: skip
    for seed in range(SEEDS):
        case = a_case(random.Random(seed).choice, mixes[seed % len(mixes)], rows=(3, 6, 9))
        assert_same(compiled(case.build()), reference(case.build()), case)


@pytest.mark.parametrize("seed", range(40 if FULL else 6))
def test_compiled_and_reference_agree_on_a_busy_cluster(compiled: Planner, reference: Planner, seed: int) -> None:
    """More than 64 nodes, and a queue that no small case has."""
    pick = random.Random(seed).choice
    case = a_case(pick, FEATURES, (12,))
    times = 1 + 70 // max(1, len(case.nodes))
    n = len(case.nodes)
    nodes = case.nodes * times
    rows = [{**row, "nodes": [x for x in range(len(nodes)) if pick((True, False))]} for row in case.rows]
    running = [
        Run({node + n * copy: what for node, what in run.on.items()}, run.end_s + copy % 5, run.user, run.exclusive)
        for run in case.running
        for copy in range(times)
        if pick((True, True, False))
    ]
    order = list(range(len(nodes)))
    busy = case.but(nodes=nodes, rows=rows, running=running, order=order)
    assert_same(compiled(busy.build()), reference(busy.build()), busy)


def columns_of(made: PlanInput) -> list[np.ndarray]:
    tables = [*made.nodes, *made.running, *made.reservations, *made.jobs, *made[4:]]
    return [np.array(column) for column in tables if isinstance(column, np.ndarray)]


@given(case=cases())
def test_the_input_stays_as_it_was(plan: Planner, case: Case) -> None:
    made = case.build()
    before = columns_of(made)
    plan(made)
    for left, right in zip(before, columns_of(made), strict=True):
        np.testing.assert_array_equal(left, right)


# --- a plan by itself


@given(case=cases())
@MANY
def test_no_plan_breaks_a_rule(plan: Planner, case: Case) -> None:
    check(case, plan(case.build()))


@given(case=cases(features=PLAIN, rows=(4, 6, 9)))
def test_no_plan_of_plain_rows_breaks_a_rule(plan: Planner, case: Case) -> None:
    case = case.but(limits={**case.limits, "reserve_max": -1, "starts_max": 9999, "rows_max": 9999})
    check(case, plan(case.build()))


def test_the_checker_sees_what_it_should(reference: Planner) -> None:
    """Plans for a cluster that lacks something (a cpu, a node, a reservation) break rules of the one that has less."""
    caught = dict.fromkeys(("nodes", "running", "resvs", "licenses"), 0)
    for seed in range(160):
        case = a_case(random.Random(seed).choice)
        richer_ones = {
            "nodes": case.but(nodes=[replace(node, cpus=node.cpus + 1) for node in case.nodes]),
            "running": case.but(running=[]),
            "resvs": case.but(resvs=[replace(resv, blocks=(), licenses={}) for resv in case.resvs]),
            "licenses": case.but(licenses=[5, 5]),
        }
        for what, richer in richer_ones.items():
            try:
                check(case, reference(richer.build()))
            except AssertionError:
                caught[what] += 1
    assert min(caught.values()) >= 1, caught


# --- two plans


@given(case=cases(rows=(2, 4, 6)))
def test_a_row_never_changes_what_was_decided_before_it(plan: Planner, case: Case) -> None:
    """Removing a lower-ranked job delays nobody above it, and moves nobody."""
    whole = plan(case.build())
    for last in range(1, len(case.rows)):
        row, before = case.rows[last], case.rows[last - 1]
        if (value(row, "het") and value(row, "het") == value(before, "het")) or row.get("job") == before.get(
            "job", last
        ):
            continue  # they are one job
        part = plan(case.but(rows=case.rows[:last]).build())
        assert part.start_s.tolist() == whole.start_s.tolist()[:last]
        assert part.reason.tolist() == whole.reason.tolist()[:last]
        assert starts(part) == [start for start in starts(whole) if start.row < last]
        assert plans(part) == plans(whole)[:last]


@given(case=cases(features=[x for x in PLAIN if x != "preempts"], rows=(2, 4)))
def test_removing_any_job_never_delays_the_head(plan: Planner, case: Case) -> None:
    head_s = int(plan(case.build()).start_s[0])
    fewer = [case.but(rows=case.rows[:at] + case.rows[at + 1 :]) for at in range(1, len(case.rows))]
    fewer += [case.but(running=case.running[:at] + case.running[at + 1 :]) for at in range(len(case.running))]
    for other in fewer:
        start_s = int(plan(other.build()).start_s[0])
        assert head_s < 0 or NOW_S <= start_s <= head_s


@given(case=cases(rows=(4, 6)))
def test_limits_of_a_pass_cut_the_plan_and_change_nothing_before(plan: Planner, case: Case) -> None:
    rows = [{**row, "het": 0} for row in case.rows]
    case = case.but(rows=rows, limits={**case.limits, "starts_max": 9999, "rows_max": 9999})
    whole = plan(case.build())
    for name in ("starts_max", "rows_max"):
        for most in range(4):
            part = plan(case.but(limits={**case.limits, name: most}).build())
            assert starts(part) == starts(whole)[: len(part.job)]
            assert name == "rows_max" or len(part.job) == min(most, len(whole.job))
            assert all(p in (w, NOT_TESTED) for p, w in zip(part.reason, whole.reason, strict=True))


@given(case=cases(features=PLAIN, rows=(1, 2, 4)))
def test_copies_start_as_equal_rows_would(plan: Planner, case: Case) -> None:
    limits = {**case.limits, "reserve_max": -1, "copies_max": 9999, "rows_max": 9999, "starts_max": 9999}
    copies = [at for at, row in enumerate(case.rows) for _ in range(max(0, value(row, "count")))]
    rows = [{**row, "preempts": 0} for row in case.rows]
    case = case.but(rows=rows, limits=limits)
    apart = plan(case.but(rows=[{**rows[at], "count": 1} for at in copies]).build())
    together = plan(case.build())
    assert [(copies[start.row], start.on, start.limit_s) for start in starts(apart)] == [
        (start.row, start.on, start.limit_s) for start in starts(together)
    ]


# --- preemption


@given(case=cases(features=[*PLAIN, *["preempts"] * 9], rows=(1,)))
@MANY
def test_victims_are_necessary_and_permitted(plan: Planner, case: Case) -> None:
    """With the victims gone the row fits where it is planned; with one of them still there it does not."""
    row = {**case.rows[0], "nodes_max": case.rows[0]["nodes_min"], "ntasks": case.rows[0]["nodes_min"], "count": 1}
    case = case.but(rows=[row])
    result = plan(case.build())
    gone = [run for _, run in victims(result)]
    assert bool(gone) == (result.reason[0] == PREEMPTING)
    for run in gone:
        assert value(row, "preempts") >> case.running[run].kind & 1
        assert case.running[run].kind >= 0
    alone = case.but(rows=[{**row, "preempts": 0}])

    def fits_without(removed: list[int]) -> bool:
        """The row starts now on just its nodes when these running jobs are not there."""
        running = [run for at, run in enumerate(case.running) if at not in removed]
        licenses = [1 << 20] * 2
        only = {**alone.rows[0], "nodes": plans(result)[0], "limit_s": row_limit_s, "limit_min_s": row_limit_s}
        left = plan(alone.but(running=running, rows=[only], licenses=licenses).build())
        return left.reason.tolist() == [STARTED]

    row_limit_s = value(row, "limit_min_s")
    if gone:
        assert fits_without(gone)
        for spared in gone:
            assert not fits_without([run for run in gone if run != spared])


# --- time goes on


def steady(case: Case) -> Case:
    """Rows whose plan does not change while run times hold: one task a node, no choice but `order`."""
    rows = []
    for row in case.rows:
        nodes = value(row, "nodes_min")
        kept = {k: v for k, v in row.items() if k not in ("count", "preempts", "latest_s", "resv", "reserve")}
        rows.append({**kept, "nodes_max": nodes, "ntasks": nodes, "limit_min_s": value(row, "limit_s")})
    limits = {"reserve_max": -1}
    return case.but(rows=[{**row, "job": at} for at, row in enumerate(rows)], limits=limits)


@given(case=cases(features=PLAIN, rows=(3, 5, 7)))
def test_when_run_times_hold_nobody_starts_later_than_first_planned(plan: Planner, case: Case) -> None:
    case = steady(case)
    names, now_s = list(range(len(case.rows))), NOW_S
    running = [Run(**{**vars(run), "end_s": max(run.end_s, NOW_S + 1)}) for run in case.running]
    first = plan(case.build()).start_s.tolist()
    for _ in range(4 * len(first) + 4):
        rows = [case.rows[name] for name in names]
        result = plan(case.but(rows=rows, running=running, limits={**case.limits, "now_s": now_s}).build())
        for at, name in enumerate(names):
            assert first[name] < 0 or now_s <= result.start_s[at] <= first[name]
        started = starts(result)
        for start in started:
            row = rows[start.row]
            on = {n: (h[0], h[1], *h[2:]) for n, k in start.on.items() for h in [takes(case, row, n, k)[2]]}
            running.append(
                Run(
                    on,
                    now_s + start.limit_s,
                    value(row, "user"),
                    1 if value(row, "exclusive") & 5 else value(row, "exclusive"),
                    licenses=row.get("licenses", ()),
                )
            )
        names = [name for at, name in enumerate(names) if at not in {start.row for start in started}]
        turns = [run.end_s for run in running] + [int(s) for s in result.start_s]
        later = [s for s in turns if s > now_s]
        if not names or not later:
            break
        now_s = min(later)
        running = [run for run in running if run.end_s > now_s]
    assert [name for name in names if first[name] >= 0] == []


# --- the same everywhere


def digest(module: str, seeds: range) -> str:
    found = planner(module)
    total = hashlib.sha256()
    for seed in seeds:
        for column in found(a_case(random.Random(seed).choice).build()):
            total.update(column.tobytes())
    return total.hexdigest()


@pytest.mark.parametrize("module", ["_fastsched.plan", "_fastsched.reference"])
def test_the_same_plan_under_two_hash_seeds(module: str) -> None:
    code = f"from tests.fastsched.test_plan_properties import digest; print(digest({module!r}, range(60)))"
    planner(module)
    seen = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT}/tests/support"},
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert seen == [digest(module, range(60))] * 2


def test_forever_and_a_limit_can_be_added() -> None:
    assert contract.FOREVER == FOREVER < 2**62
