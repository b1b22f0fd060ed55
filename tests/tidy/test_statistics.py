"""tools/statistics.py: ordinary edits leave `make check` green, and a page that is out of date does not."""

import pytest

from tools.statistics import BEGIN, END, Figure, Row, SourceModule, compare, filled, tables

ROOM = Row("`cli`", "base {} / {}", (Figure(20, off=2), Figure(1_000, 0.1)))


def page(*lines: str) -> str:
    return "\n".join(("# Size", "| `cli` | base 1 / 1 |", BEGIN, *lines, END, "the end"))


@pytest.mark.parametrize("line", ["base 20 / 1,000", "base 18 / 1,100", "base 22 / 900"])
def test_what_is_near_is_allowed(line: str) -> None:
    assert compare(page(f"| `cli` | {line} |"), [ROOM]) == []


@pytest.mark.parametrize(
    "line", ["base 17 / 1,000", "base 20 / 1,101", "edge 20 / 1,000", "base 20", "base 20 / 1,000, new 1 / 1"]
)
def test_what_is_far_is_reported(line: str) -> None:
    assert compare(page(f"| `cli` | {line} |"), [ROOM]) == [f"`cli`: {line}; now base 20 / 1,000"]


def test_a_row_that_is_missing_is_reported() -> None:
    assert compare(page(), [ROOM]) == ["`cli`: no such row; now base 20 / 1,000"]


def test_circles_and_any_are_exact() -> None:
    text, rows = tables([SourceModule("cli/base/run.py", 10, (2, 3), 5)], [["cli.a", "cli.b"]])
    whole = filled(page(), text)
    assert compare(whole, rows) == []
    assert compare(whole.replace("| 1,383 | 5 |", "| 1,383 | 6 |"), rows) == ["`Any` (names in code) | 1,383: 6; now 5"]
    assert compare(whole.replace("| 16; 48 | 1; 2 |", "| 16; 48 | 0 |"), rows) == [
        "import circles; modules in the largest | 16; 48: 0; now 1; 2"
    ]


def test_only_the_text_between_the_marks_is_written() -> None:
    whole = filled(page("old"), "new")
    assert whole == page("new")
    with pytest.raises(SystemExit, match="lacks a mark"):
        filled("nothing", "new")
