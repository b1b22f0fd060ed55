"""The last line of continuous integration speaks for all its runs."""

import importlib.util

import pytest
import tidytree as tree

_spec = importlib.util.spec_from_file_location("closing", tree.ROOT / ".ci" / "closing.py")
closing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(closing)

GOOD = "..\n== 9000 passed, 12 skipped, 1 warning in 600.10s (0:10:00) ==\n"
PLAIN = "======= 2100 passed, 80 skipped in 200.15s (0:03:20) =======\n"
BAD = "FAILED tests/x.py\n== 2 failed, 2098 passed, 1 error in 9.00s ==\nmake: *** [Makefile:71: test] Error 1\n"


@pytest.mark.parametrize(
    ("logs", "line", "status"),
    [
        ({"root": GOOD}, "9000 passed, 12 skipped, 1 warnings in 600.10s", 0),
        ({"root": GOOD, "plain": PLAIN}, "11100 passed, 92 skipped, 1 warnings in 800.25s", 0),
        ({"root": GOOD, "plain": BAD}, "2 failed, 11098 passed, 12 skipped, 1 warnings, 1 errors in 609.10s", 1),
        ({"root": BAD, "plain": PLAIN}, "2 failed, 4198 passed, 80 skipped, 1 errors in 209.15s", 1),
        (
            {"root": GOOD, "plain": "no user could be made\n"},
            "9000 passed, 12 skipped, 1 warnings, 1 errors in 600.10s (plain: pytest did not run, see above)",
            1,
        ),
        ({"root": "no tests ran in 0.10s\n"}, "no tests ran in 0.10s", 0),
    ],
)
def test_one_line_for_all_runs(logs, line, status):
    assert closing.total(logs) == (line, status)


def test_a_line_in_a_tests_output_is_not_the_last_one():
    assert closing.closing("1 failed in 3.00s\n5 passed in 2.00s\n") == ({"passed": 5}, 2.0)
