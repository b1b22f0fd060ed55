"""The guard's statistics, verdicts and table, on made-up figures: nothing is timed."""

import sys

import pytest

from bench import environment, guard
from bench.compare import compare, table
from bench.measure import CannotMeasure

STEADY = [(100.0, 101.0), (102.0, 100.0), (99.0, 100.0), (101.0, 102.0), (100.0, 99.0)]
SLOWER = [(parent, 1.1 * change) for parent, change in STEADY]


def turns(*series):
    """Both sides of a part `p` with one figure, `a_ms`, whose rounds are these."""
    rounds = [pair for one in series for pair in one]
    asked: list[str] = []

    def side(index):
        left = iter(rounds)

        def measure(part):
            asked.append(f"{index}{part}")
            return {"a_ms": next(left)[index]}

        return measure

    return side(0), side(1), asked


def test_equal_programs_are_not_worse():
    found = compare("a_ms", STEADY)
    assert (found.parent, found.change, found.ratio) == (100.0, 100.0, 1.0)
    assert found.low < 1 < found.high
    assert not found.is_worse and not found.is_better


def test_ten_per_cent_of_a_steady_figure_are_worse():
    found = compare("a_ms", SLOWER)
    assert round(found.ratio, 3) == 1.1 and found.low > 1.05
    assert found.is_worse and not found.is_better


def test_less_of_a_rate_is_worse_and_more_is_better():
    assert compare("a_per_s", SLOWER).is_better
    assert compare("a_per_s", [(change, parent) for parent, change in SLOWER]).is_worse
    assert compare("a_ms", [(change, parent) for parent, change in SLOWER]).is_better


def test_noise_is_no_verdict():
    noisy = [(100.0, 130.0), (120.0, 100.0), (90.0, 115.0), (110.0, 125.0), (105.0, 95.0)]
    found = compare("a_ms", noisy)
    assert found.ratio > 1.05 and found.low < 1
    assert not found.is_worse


def test_four_per_cent_are_allowed_however_sure():
    found = compare("a_ms", [(100.0, 104.0)] * 5)
    assert found.low == found.high == 1.04
    assert not found.is_worse


def test_a_slow_machine_slows_both_sides_of_a_round():
    drift = [(100.0 * load, 100.0 * load) for load in (1, 2, 5, 3, 1)]
    found = compare("a_ms", drift)
    assert (found.low, found.ratio, found.high) == (1.0, 1.0, 1.0)


def test_figures_below_the_resolution_of_the_clock():
    assert compare("a_ms", [(0.0, 0.0)] * 5).ratio == 1.0
    assert compare("a_ms", [(0.0, 1.0)] * 5).is_worse


def test_the_same_rounds_give_the_same_interval():
    assert compare("a_ms", SLOWER) == compare("a_ms", SLOWER)


def test_the_tree_that_begins_alternates():
    parent, change, asked = turns(STEADY)
    assert guard.take_turns(parent, change, "p", 5) == {"a_ms": STEADY}
    assert asked == ["0p", "1p", "1p", "0p", "0p", "1p", "1p", "0p", "0p", "1p"]


def test_figures_of_one_side_only_are_left_out():
    found = guard.take_turns(
        lambda part: {"a_ms": 1.0, "old_ms": 1.0}, lambda part: {"a_ms": 2.0, "new_ms": 1.0}, "p", 1
    )
    assert found == {"a_ms": [(1.0, 2.0)]}


def test_a_suspect_is_judged_by_a_second_series():
    parent, change, asked = turns(SLOWER, STEADY)
    (found,) = guard.judge(parent, change, "p", 5)
    assert not found.is_worse and len(asked) == 20
    parent, change, asked = turns(SLOWER, SLOWER)
    (found,) = guard.judge(parent, change, "p", 5)
    assert found.is_worse and len(asked) == 20
    parent, change, asked = turns(STEADY)
    guard.judge(parent, change, "p", 5)
    assert len(asked) == 10, "nothing looked worse"


def test_a_part_that_cannot_be_measured_is_named_and_the_others_go_on():
    parent, change, _ = turns(STEADY)

    def fails_on_first(part):
        if part == "first":
            raise CannotMeasure("first: no such call")
        return change(part)

    found, reasons = guard.guard(
        lambda part: {"a_ms": 0.0} if part == "first" else parent(part), fails_on_first, ["first", "p"], 5
    )
    assert [one.name for one in found] == ["a_ms"] and reasons == {"first": "first: no such call"}
    assert guard.status_of(found, reasons) == 1 and guard.status_of(found, {}) == 0


def test_the_status_says_whether_something_is_worse():
    assert guard.status_of([compare("a_ms", STEADY)], {}) == 0
    assert guard.status_of([compare("a_ms", STEADY), compare("b_ms", SLOWER)], {}) == 1
    assert guard.status_of([], {}) == 1, "nothing was measured"


def test_the_table_names_the_verdicts():
    better = compare("c_ms", [(change, parent) for parent, change in SLOWER])
    head, steady, worse, gain = table([compare("a_ms", STEADY), compare("b_ms", SLOWER), better]).splitlines()
    assert head.split() == ["figure", "parent", "change", "cost", "95", "%", "interval"]
    assert steady.split()[:4] == ["a_ms", "100", "100", "1.000"] and steady.endswith(("0", "2", "1"))
    assert worse.endswith("WORSE") and gain.endswith("better")


@pytest.mark.parametrize(("words", "error"), [(["cores"], "no part 'cores'"), (["--rounds", "3"], "at least 5")])
def test_wrong_use_measures_nothing(words, error, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["guard", *words])
    with pytest.raises(SystemExit) as stopped:
        guard.main()
    assert stopped.value.code == 2 and error in capsys.readouterr().err


def test_the_interpreter_of_the_benchmarks():
    slow, fast = "/opt/bin/python3.11", "/usr/bin/python3.11"
    assert environment.chosen("", slow, False, [fast]) == fast
    assert environment.chosen("", slow, False, []) == ""
    assert environment.chosen("", slow, True, [fast]) == "", "the running one is optimised too"
    assert environment.chosen(slow, slow, False, [fast]) == "", "PYTHON decides"
    assert environment.chosen(slow, fast, True, []) == slow


def test_an_environment_of_another_interpreter_is_removed(tmp_path):
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nexecutable = /usr/bin/python3.11\n")
    environment.forget_other(folder, "/usr/bin/python3.11")
    assert folder.exists()
    environment.forget_other(folder, "/usr/bin/python3.1")
    assert not folder.exists()
    environment.forget_other(folder, "/usr/bin/python3.1")


def test_what_is_no_python_is_not_chosen(tmp_path):
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    assert environment.probe(str(program)) == environment.probe(str(tmp_path / "none")) == ""
