"""sreport's columns: names, headings, widths, and how amounts of usage are written. Pure.

A column of usage is as wide as its largest value in seconds needs, at least 8, and 9 more with percentages after it;
that is Slurm's rule, and scripts that cut lines by position rely on it. Time is rounded to the nearest unit. A
truncated name ends in `+`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple

from cli.base.format import TableColumn, TableRow, TableStyle, line_width, table_lines, width_of
from cli.base.listing import words
from cli.base.run import CommandError
from cli.listings.sreport_words import TimeFormat

USAGE_WIDTH = 8
PERCENT_WIDTH = 9  # (100.00%)
SIZE_WIDTH = 13
LINE = "-" * 80


class ReportField(NamedTuple, Generic[TableRow]):
    """A field of format=. `seconds` marks usage: the value in seconds, and the total for percentages."""

    name: str
    header: str
    width: int
    text: Callable[[TableRow], str] | None = None
    seconds: Callable[[TableRow], tuple[float, float]] | None = None
    raw: bool = False  # not time: joules


class Setting(NamedTuple):
    """The options of the output."""

    time: TimeFormat
    style: TableStyle
    tres: tuple[str, ...] = ("cpu",)
    tres_given: bool = False

    @property
    def unit_words(self) -> str:
        """The words after `reported in`."""
        if not self.time.seconds:
            return self.time.words
        return f"{'TRES' if self.tres_given else 'CPU'} {self.time.words}"


def text_field(name: str, header: str, width: int, value: Callable[[TableRow], object]) -> ReportField[TableRow]:
    """A column of names."""
    return ReportField(name, header, width, text=lambda row: str(value(row)))


def usage_field(
    name: str, header: str, value: Callable[[TableRow], tuple[float, float]], width: int = USAGE_WIDTH
) -> ReportField[TableRow]:
    """A column of usage."""
    return ReportField(name, header, width, seconds=value)


def usage_text(seconds: float, whole: float, form: TimeFormat) -> str:
    """`1234`, `12.34%` or `1234(12.34%)`."""
    part = f"{100 * seconds / whole if whole else 0:.2f}%"
    if not form.seconds:
        return part
    amount = f"{seconds / form.seconds:.0f}"
    return f"{amount}({part})" if form.percent else amount


def choose(
    text: str, known: Sequence[ReportField[TableRow]], aliases: Mapping[str, str] = {}
) -> list[ReportField[TableRow]]:
    """Parses the fields of a format: by whole name, else by the first that begins with it; `%20` sets a width, negative
    = left-aligned.
    """
    chosen = []
    for part in words(text):
        name, percent, width = part.partition("%")
        low = aliases.get(name.strip().lower(), name.strip().lower())
        names = [field.name.lower() for field in known]
        at = (
            names.index(low)
            if low in names
            else next((i for i, one in enumerate(names) if low and one.startswith(low)), -1)
        )
        if at < 0:
            raise CommandError(f" Unknown field '{name}'", plain=True)
        field = known[at]
        chosen.append(field._replace(width=width_of(width) or field.width) if percent else field)
    line_width(chosen)
    return chosen


def table(fields: Sequence[ReportField[TableRow]], rows: Sequence[TableRow], setting: Setting) -> Iterable[str]:
    """The lines of the report."""
    columns = [_column(field, rows, setting.time) for field in fields]
    return table_lines(columns, rows, None, setting.style)


def _column(field: ReportField[TableRow], rows: Sequence[TableRow], form: TimeFormat) -> TableColumn[TableRow, None]:
    seconds = field.seconds
    if seconds is None:
        text = field.text
        assert text is not None  # a field is one of the two
        return TableColumn(field.header, field.width, lambda row, view: text(row))
    largest = max((len(str(int(seconds(row)[0]))) for row in rows), default=0)
    needed = max(USAGE_WIDTH, largest) + (PERCENT_WIDTH if form.percent and form.seconds else 0)
    width = max(abs(field.width), needed) * (-1 if field.width < 0 else 1)
    if field.raw:
        return TableColumn(field.header, width, lambda row, view: _raw(*seconds(row), form))
    return TableColumn(field.header, width, lambda row, view: usage_text(*seconds(row), form))


def _raw(amount: float, whole: float, form: TimeFormat) -> str:
    return usage_text(amount, whole, form._replace(seconds=1) if form.seconds else form)


def heading(title: str, unit_line: str, setting: Setting) -> list[str]:
    """The four lines above a report."""
    return [LINE, title, *unit_line.split("\n"), LINE] if setting.style.header else []
