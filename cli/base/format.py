"""Tables of text as Slurm's commands print them: percent formats, field lists and sacct's columns.

Three formats describe a line:
- `-o "%.18i %.9P"`: `%[[.]size]letter` and literal text (squeue, sinfo). A size truncates as well as pads, `.` aligns
  right. No size: as wide as the value. An unknown letter is printed as it was written.
- `-O "JobID:.10,Name"`: names with `:[.]size` and a suffix (squeue, sinfo); 20 wide without a size.
- `--format=jobid%-20,state`: sacct. Every column is followed by a space; `%20` aligns right, `%-20` left; a truncated
  value ends in `+`. `-P` and `-p` write the values in full, with a delimiter.

A command supplies its fields as tables of `Field`; this module does not depend on what they show. Widths count
characters, not bytes. Deliberately absent: colours, terminal widths, wrapping. Programs read the output.
"""

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

# Any: a column has a field of any table
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.values.dates import format_date
from penstock.values.errors import BadValue

#: The widest column: a larger width is a typing error that would only use memory, and is reduced to this.
WIDTH_MAX = 65535
#: The longest line, in characters, by the widths of its columns. A longer one is refused.
LINE_WIDTH_MAX = 1 << 20
#: Lines are written in chunks of about this many characters, so that no wide table is in memory as a whole.
PIECE_CHARS = 1 << 25
#: Default width of a field of -O.
LIST_WIDTH = 20
#: The characters shown of an array's task list (SLURM_BITSTR_LEN); 0 = all of it.
TASK_LIST_WIDTH = 64
TASK_LIST_WIDTH_MAX = 65536
#: The same for an unlimited list.
TASK_LIST_MAX = 32 * 1024 * 1024
#: A progression (0-30:3) is written as one when its ids, written out, take this many characters; observed in Slurm
#: 22.05.
STEPPED_LENGTH = 13


#: A row of a table, and the context that its command passes to the fields (the clock, names, other lists).
TableRow = TypeVar("TableRow")
TableView = TypeVar("TableView")


class FormatField(NamedTuple, Generic[TableRow, TableView]):
    """One field of a format: a letter or name. `value` gets the row and the command's context.

    `splits` is for tables that group records in one line (sinfo): whether different values make different lines.
    `mark`: a last character that remains when the value is truncated. `uncut`: aligned right, it is shown in full even
    if it is too wide (times and node lists of squeue).
    """

    header: str
    value: Callable[[TableRow, TableView], str]
    splits: bool = False
    uncut: bool = False
    mark: str = ""


class Column(NamedTuple):
    """One column of a line: a field with its width, or only literal text (field None)."""

    field: Any  # Field (or a command's own kind with a header), or None
    width: int = 0  # 0 = as the value needs
    right: bool = False
    suffix: str = ""

    def head(self) -> str:
        """The heading, in this column's width."""
        return pad(self.field.header if self.field else "", self.width, self.right) + self.suffix

    def cell(self, row: object, view: object) -> str:
        """The row's value, in this column's width."""
        if self.field is None:
            return self.suffix
        text = self.field.value(row, view)
        if self.field.mark and 0 < self.width < len(text) and text.endswith(self.field.mark):
            text = text[: self.width - 1] + self.field.mark
        width = max(self.width, len(text)) if self.width and self.right and self.field.uncut else self.width
        return pad(text, width, self.right) + self.suffix


class Unknown(NamedTuple):
    """A part of a format that names no field. The command prints its own message and continues, as Slurm does."""

    what: str


def pad(text: str, width: int, right: bool) -> str:
    """Cuts and pads a value."""
    if not width:
        return text
    return text[:width].rjust(width) if right else text[:width].ljust(width)


#: Patterns of formats, compiled at the first use: a command uses one or two.
_PERCENT = r"(\.?)([0-9]*)([A-Za-z]?)(.*)"


def parse_percent(text: str, letters: Mapping[str, object]) -> tuple[list[Column], list[Unknown]]:
    """Parses a `-o` format. `%all` means every letter, separated by bars."""
    first, *rest = text.split("%")
    columns = [Column(None, suffix=first)] if first else []
    unknown: list[Unknown] = []
    for piece in filter(None, rest):  # "%%" is one "%", and one at the end is nothing
        if piece == "all":
            columns += [Column(field, suffix="|") for field in letters.values()]
            columns[-1] = columns[-1]._replace(suffix="")
            continue
        match = re.fullmatch(_PERCENT, piece, re.DOTALL)
        assert match is not None  # every part may be empty
        dot, digits, letter, suffix = match.groups()
        field = letters.get(letter)
        if field is None:
            unknown.append(Unknown(letter or suffix[:1] or dot))
            columns.append(Column(None, suffix="%" + piece))
        else:
            columns.append(Column(field, width_of(digits), bool(dot), suffix))
    line_width(columns)
    return columns, unknown


_NAMED = r"([^:]*)(?::(\.?)([0-9]*)(.*))?"


def parse_names(text: str, names: Mapping[str, object]) -> tuple[list[Column], list[Unknown]]:
    """Parses a `-O` list. The keys of `names` are lower-case."""
    columns: list[Column] = []
    unknown: list[Unknown] = []
    for part in text.split(",") if text else ():
        match = re.fullmatch(_NAMED, part, re.DOTALL)
        assert match is not None
        name, dot, digits, suffix = match.groups()
        field = names.get(name.lower())
        if field is None:
            unknown.append(Unknown(name))
        else:
            width = LIST_WIDTH if dot is None else width_of(digits)
            columns.append(Column(field, width, bool(dot), suffix or ""))
    line_width(columns)
    return columns, unknown


_WIDTH = r"\s*([+-]?)0*([0-9]*)"


def width_of(text: str) -> int:
    """The width in a format, `20` or `-20`; 0 = none. Anything after the digits is ignored."""
    match = re.match(_WIDTH, text)
    assert match is not None  # every part may be empty
    sign, digits = match.groups()
    number = min(int(digits or 0), WIDTH_MAX) if len(digits) <= len(str(WIDTH_MAX)) else WIDTH_MAX
    return -number if sign == "-" else number


def line_width(columns: Iterable[Any]) -> int:
    """The characters of a line. Raises BadValue when they are too many."""
    width: int = sum(abs(column.width) + 1 for column in columns)
    if width > LINE_WIDTH_MAX:
        raise BadValue(f"Invalid format: a line would have {width} characters, the limit is {LINE_WIDTH_MAX}")
    return width


def header_line(columns: Iterable[Column]) -> str:
    """The line above the table."""
    return "".join(c.head() for c in columns)


def body_line(columns: Iterable[Column], row: object, view: object) -> str:
    """One line of the table."""
    return "".join(c.cell(row, view) for c in columns)


class TableColumn(NamedTuple, Generic[TableRow, TableView]):
    """One of sacct's columns. A width below 0 aligns the value to the left."""

    name: str
    width: int
    value: Callable[[TableRow, TableView], str]

    def cell(self, text: str) -> str:
        """The text in this column's width; `+` marks a truncated one."""
        width = abs(self.width)
        if len(text) > width:
            text = text[: width - 1] + "+"
        return (text.ljust(width) if self.width < 0 else text.rjust(width)) + " "

    def head(self) -> str:
        """The column's name, truncated without a mark."""
        width = abs(self.width)
        return pad(self.name, width, self.width > 0) + " "


class TableStyle(NamedTuple):
    """The style of a table. `delimiter` "" = columns, else values as they are."""

    delimiter: str = ""
    closed: bool = False  # -p: a delimiter after the last value too
    header: bool = True


def parse_table(
    text: str, known: Sequence[TableColumn[TableRow, TableView]]
) -> tuple[list[TableColumn[TableRow, TableView]], list[Unknown]]:
    """Parses sacct's --format. A name may be abbreviated; the first field in the table that begins with it is used."""
    columns: list[TableColumn[TableRow, TableView]] = []
    unknown: list[Unknown] = []
    for part in filter(None, text.split(",")):
        name, percent, width = part.strip().partition("%")
        found = next((c for c in known if name and c.name.lower().startswith(name.lower())), None)
        if found is None:
            unknown.append(Unknown(name))
            continue
        columns.append(found._replace(width=width_of(width) or found.width) if percent else found)
    line_width(columns)
    return columns, unknown


def table_lines(
    columns: Sequence[TableColumn[TableRow, TableView]], rows: Iterable[TableRow], view: TableView, style: TableStyle
) -> Iterable[str]:
    """The lines of a table, header first."""
    if style.header:
        yield _table_line([c.name for c in columns], [c.head() for c in columns], style)
        if not style.delimiter:
            yield "".join("-" * abs(c.width) + " " for c in columns)
    for row in rows:
        values = [c.value(row, view) for c in columns]
        yield _table_line(values, [c.cell(v) for c, v in zip(columns, values, strict=True)], style)


def _table_line(values: list[str], cells: list[str], style: TableStyle) -> str:
    if not style.delimiter:
        return "".join(cells)
    return style.delimiter.join(values) + (style.delimiter if style.closed else "")


class DisplayClock(NamedTuple):
    """The time of the report and the format of times (SLURM_TIME_FORMAT)."""

    now_us: int
    style: str = "standard"

    @classmethod
    def of_environment(cls, now_us: int) -> "DisplayClock":
        """Reads the format from the environment."""
        return cls(now_us, os.environ.get("SLURM_TIME_FORMAT") or "standard")

    def text(self, at_us: int, unknown: str = "N/A") -> str:
        """A point in time, or `unknown` when there is none."""
        if at_us <= 0:
            return unknown
        return format_date(at_us, self.now_us, style=self.style)


def clipped_tasks(tasks: str) -> str:
    """An array's task list as a listing shows it: at most SLURM_BITSTR_LEN characters, truncated after a comma."""
    text = os.environ.get("SLURM_BITSTR_LEN", "")
    limit = int(text[:6]) if text.isascii() and text.isdigit() else TASK_LIST_WIDTH
    limited = 0 < limit <= TASK_LIST_WIDTH_MAX
    tasks = _listed_tasks(tasks, limit if limited else TASK_LIST_MAX)
    if not limited or len(tasks) < limit:
        return tasks
    kept = tasks[: max(limit - 4, 0)]
    return kept[: kept.rfind(",") + 1] + "..."


def _listed_tasks(tasks: str, enough: int) -> str:
    """The ids one by one where Slurm writes them so: only a long list that is one progression is written with a step.
    enough: stop soon after this many characters.
    """
    if ":" not in tasks or ("," not in tasks and not _is_short(tasks)):
        return tasks
    parts: list[str] = []
    length = 0
    for part in tasks.split(","):
        ends, _, step = part.partition(":")
        ids = iter((part,))
        if step:
            first, last = map(int, ends.split("-"))
            ids = map(str, range(first, last + 1, int(step)))
        for word in ids:
            parts.append(word)
            length += len(word) + 1
            if length > enough + 1:
                return ",".join(parts)
    return ",".join(parts)


def _is_short(progression: str) -> bool:
    """0-9:3 is 0,3,6,9, which Slurm writes out."""
    ends, _, step = progression.partition(":")
    first, last = map(int, ends.split("-"))
    ids = range(first, last + 1, int(step))
    return len(ids) <= STEPPED_LENGTH and len(",".join(map(str, ids))) < STEPPED_LENGTH


_UNITS = ("", "K", "M", "G", "T", "P")


def amount(value: float, base: str = "", *, unit: str = "", convert: bool = True) -> str:
    """A number with its unit: 2048 with base `M` is `2G`; a number that does not divide evenly keeps its unit (1500M).
    `unit` forces a unit (two decimals when needed); `convert=False` keeps the base.
    """
    step = _UNITS.index(base)
    if unit:
        scaled = value * 1024.0 ** (step - _UNITS.index(unit))
        number = f"{scaled:.0f}" if scaled == int(scaled) else f"{scaled:.2f}"
        return number + unit if value else "0"
    whole = int(value)
    while convert and whole and whole % 1024 == 0 and step + 1 < len(_UNITS):
        whole //= 1024
        step += 1
    return f"{whole}{_UNITS[step]}" if whole else "0"


def text_of(path: bytes) -> str:
    """A path for printing; bytes that are not UTF-8 are passed through (see cli.base.run)."""
    return path.decode("utf-8", "surrogateescape")


def seconds_us(at_us: int) -> int:
    """Whole seconds of a time in microseconds."""
    return at_us // 1_000_000


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Lines of a table of Penstock's own commands: columns as wide as their content, two spaces between them, nothing at a
    line's end. The first row has the heads; `right`: the numbers of the columns that are aligned right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if number in right else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
