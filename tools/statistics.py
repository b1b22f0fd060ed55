"""Writes the statistics of the sources in ARCHITECTURE.md's last section, or checks that they are about right.

    python -m tools.statistics          write the tables between the marks
    python -m tools.statistics --check  exit 1 and name the figures that are off

Most edits change a count of lines, so the check allows for it: 10 % of lines and functions (150 lines in a small room), 2
modules of a room or folder.
Circles of imports and uses of `Any` are exact. The columns "before" are history, and part of this module.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grimp

from tools.sourcefacts import circles, uses_of_any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- written by tools/statistics.py -->", "<!-- end of what is written -->"
PACKAGES = ("penstock", "ctld", "nodedaemon", "cli", "accounting", "_fastsched", "sim", "rest", "pamd", "sdk")
#: Packages that are divided into rooms.
HOUSES = ("ctld/core", "ctld/rpc", "cli", "nodedaemon")
#: Folders that are generated, or never change once they are released.
LEFT_OUT = ("penstock/v1/", "ctld/store/migrations/versions/")
LINES_SHARE = 0.1
#: A module more or less in a small room.
LINES_OFF = 150
MODULES_OFF = 2
NUMBER = re.compile(r"(?<!\w)\d+(?:,\d{3})*")


class Figure(NamedTuple):
    """A number, and how far the page may be from it."""

    value: int
    share: float = 0.0
    off: int = 0

    def allows(self, written: int) -> bool:
        """Whether the page may say this number."""
        return abs(written - self.value) <= max(self.off, self.share * self.value)

    def __str__(self) -> str:
        return f"{self.value:,}"


class Row(NamedTuple):
    """A row of a table: its first cells as text, and the last one, with a {} for each figure."""

    head: str
    text: str
    figures: tuple[Figure, ...]

    def line(self) -> str:
        """The row in Markdown."""
        return f"| {self.head} | {self.text.format(*self.figures)} |"


class SourceModule(NamedTuple):
    """A Python module of the project."""

    name: str
    lines: int
    functions: tuple[int, ...]
    any_uses: int


def sources(root: Path = ROOT) -> Iterator[SourceModule]:
    """All modules that count."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if name.startswith(LEFT_OUT):
                continue
            text = path.read_text(encoding="utf-8")
            module = ast.parse(text)
            functions = tuple(
                (node.end_lineno or node.lineno) - node.lineno + 1
                for node in ast.walk(module)
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
            yield SourceModule(name, len(text.splitlines()), functions, len(uses_of_any(module)))


def spread(values: list[int]) -> tuple[Figure, ...]:
    """How many there are; their median, their ninth decile, and the largest."""
    ordered = sorted(values)
    picked = (len(ordered), ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10], ordered[-1])
    return tuple(Figure(value, LINES_SHARE, MODULES_OFF) for value in picked)


def import_circles() -> list[list[str]]:
    """Groups of modules that import each other."""
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return circles({m: graph.find_modules_directly_imported_by(m) & graph.modules for m in graph.modules})


def totals(found: list[SourceModule], groups: list[list[str]]) -> list[Row]:
    """The rows about all sources."""
    folder, most = Counter(source.name.rpartition("/")[0] for source in found).most_common(1)[0]
    largest = (Figure(max(map(len, groups))),) if groups else ()
    return [
        Row("modules; lines median / p90 / longest | 719; 138 / 334 / 597", "{}; {} / {} / {}",
            spread([source.lines for source in found])),
        Row("functions; lines median / p90 / longest | 7,506; 7 / 19 / 69", "{}; {} / {} / {}",
            spread([lines for source in found for lines in source.functions])),
        Row("import circles; modules in the largest | 16; 48", "{}; {}" if groups else "{}",
            (Figure(len(groups)), *largest)),
        Row("`Any` (names in code) | 1,383", "{}", (Figure(sum(source.any_uses for source in found)),)),
        Row("modules of the largest folder | 161 (`ctld/core`)", f"{{}} (`{folder}`)", (Figure(most, off=MODULES_OFF),)),
    ]  # fmt: skip


def rooms(found: list[SourceModule]) -> list[Row]:
    """A row for each package with rooms: modules and lines of each."""
    rows = []
    for house in HOUSES:
        lines: dict[str, list[int]] = {}
        for source in found:
            room, inside, _ = source.name.removeprefix(house + "/").partition("/")
            if source.name.startswith(house + "/") and inside:
                lines.setdefault(room, []).append(source.lines)
        figures = [
            figure
            for room in sorted(lines)
            for figure in (Figure(len(lines[room]), off=MODULES_OFF), Figure(sum(lines[room]), LINES_SHARE, LINES_OFF))
        ]
        rows.append(Row(f"`{house}`", ", ".join(f"{room} {{}} / {{}}" for room in sorted(lines)), tuple(figures)))
    return rows


def tables(found: list[SourceModule], groups: list[list[str]]) -> tuple[str, list[Row]]:
    """The text between the marks, and its rows."""
    about, by_room = totals(found, groups), rooms(found)
    head = ["| | before | now |", "|---|---|---|"]
    second = ["", "Modules / lines by room:", "", "| package | rooms |", "|---|---|"]
    lines = [*head, *(row.line() for row in about), *second, *(row.line() for row in by_room)]
    return "\n".join(lines), [*about, *by_room]


def compare(page: str, rows: list[Row]) -> list[str]:
    """The rows of a page that are missing, or too far from the truth."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    bad = []
    for row in rows:
        line = next((line for line in lines if line.startswith(f"| {row.head} | ")), "")
        written = line.removeprefix(f"| {row.head} | ").removesuffix(" |")
        numbers = [int(number.replace(",", "")) for number in NUMBER.findall(written)]
        same = NUMBER.sub("{}", written) == row.text and len(numbers) == len(row.figures)
        if not same or not all(map(Figure.allows, row.figures, numbers)):
            bad.append(f"{row.head}: {written or 'no such row'}; now {row.text.format(*row.figures)}")
    return bad


def filled(page: str, text: str) -> str:
    """The page with the text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks a mark: {BEGIN} or {END}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="the statistics in ARCHITECTURE.md")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a figure is off")
    check = parser.parse_args().check
    text, rows = tables(list(sources()), import_circles())
    page = PAGE.read_text(encoding="utf-8")
    if not check:
        PAGE.write_text(filled(page, text), encoding="utf-8")
        return 0
    bad = compare(page, rows)
    for line in bad:
        print(f"{PAGE.name}: {line}", file=sys.stderr)
    if bad:
        print("run `make statistics`", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
