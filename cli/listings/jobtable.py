"""The jobs of a listing as columns: squeue filters, sorts and prints them without a message for each job.

A `JobField` says which columns it needs and how their values become text; text is made once for each distinct set of
values (most jobs of a long queue have `PENDING`, `debug`, `0:00`), already padded. So a line costs a look-up per column
and one join: 100,000 lines take some 0.2 s.

The controller sends columns (ListJobsReply.columns) when all needed ones have a name in penstock.values.jobcolumns;
otherwise it sends whole messages, which are split into columns here. Fields that use the message itself need the column
`job`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from cli.base.format import PIECE_CHARS, Column, TableView, line_width
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobcolumns import NUMBERS, OPTIONAL, tres_per_node

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    from penstock.client import Message
    from penstock.v1.controller_pb2 import ListJobsReply

#: Columns derived here from others, for each line: see squeue.expand_rows.
TASKS, SINGLE = "line.tasks", "line.single"
MADE = frozenset((TASKS, SINGLE))
#: The column of fields that use the message itself.
WHOLE = "job"
#: Stands for a task's number in a text; no text has it.
_MARK = "\0"
_PATHS = frozenset(("std_out", "std_err", "std_in", "request.work_dir"))

_Result = TypeVar("_Result")


class JobField(NamedTuple):
    """One field of a format: `show(view, *values of the needed columns)`."""

    header: str
    needs: tuple[str, ...]
    show: Callable[..., str]
    uncut: bool = False  # see cli.base.format.Field
    splits: bool = False


def gres_per_node(job: JobInfo) -> str:
    """The GRES requested on each node; not what follows from --gpus or --gpus-per-task."""
    request = job.request
    derived = bool(request.gres_per_job or request.gres_per_task)
    return tres_per_node(tuple((g.name, g.type, g.count) for g in request.gres_per_node), derived)


def _path(name: str) -> Callable[[JobInfo], str]:
    get = attrgetter(name)
    return lambda job: get(job).decode("utf-8", "surrogateescape")


def _optional(name: str) -> Callable[[JobInfo], int]:
    parent, _, field = name.rpartition(".")
    owner: Callable[[JobInfo], Message] = attrgetter(parent) if parent else lambda job: job
    return lambda job: int(getattr(owner(job), field)) if owner(job).HasField(field) else -1


def reader(name: str) -> Callable[[JobInfo], object]:
    """The function that reads a column's value from a message."""
    if name == WHOLE:
        return lambda job: job
    if name in OPTIONAL:
        return _optional(name)
    if name == "tres_per_node":
        return gres_per_node
    return _path(name) if name in _PATHS else attrgetter(name)


class JobTable:
    """Columns by name, all of one length."""

    def __init__(self, names: Iterable[str]) -> None:
        self.columns: dict[str, list[object]] = {name: [] for name in names if name not in MADE}
        self.rows = 0

    def take(self, page: "ListJobsReply", names: Sequence[str]) -> None:
        """Adds one page of an answer. `names`: the requested columns, in order."""
        if page.rows:
            for name, column in zip(names, page.columns, strict=True):
                values = self.columns[name]
                if name in NUMBERS:
                    values += column.numbers if len(column.numbers) == page.rows else [column.numbers[0]] * page.rows
                else:
                    words = [word.decode("utf-8", "surrogateescape") for word in column.words]
                    values += map(words.__getitem__, column.index) if column.index else words * page.rows
            self.rows += page.rows
            return
        for name, values in self.columns.items():
            values += map(reader(name), page.jobs)
        self.rows += len(page.jobs)

    def text_column(self, name: str) -> list[str]:
        """A column of text. All values of a column are of one kind, which its name determines."""
        return cast("list[str]", self.columns[name])

    def number_column(self, name: str) -> list[int]:
        """A column of numbers."""
        return cast("list[int]", self.columns[name])

    def choose(self, positions: Sequence[int]) -> None:
        """Keeps only these rows, in this order; one may come several times."""
        for name, values in self.columns.items():
            if values and values.count(values[0]) == len(values):  # most columns; also all those of a single array
                self.columns[name] = values[:1] * len(positions)
            else:
                self.columns[name] = list(map(values.__getitem__, positions))
        self.rows = len(positions)

    def parts(self, rows: int) -> Iterator["JobTable"]:
        """The table in parts of this many rows: itself, if it is not longer."""
        if self.rows <= rows:
            yield self
            return
        for at in range(0, self.rows, rows):
            part = JobTable(())
            part.columns = {name: values[at : at + rows] for name, values in self.columns.items()}
            part.rows = min(rows, self.rows - at)
            yield part

    def compute(self, needs: Sequence[str], function: Callable[..., _Result]) -> list[_Result]:
        """The results of `function` over the values of some columns, row by row; it is called once for each set of
        values.
        """
        if not self.rows:
            return []
        if WHOLE in needs:  # a message is not hashable
            return [function(*values) for values in zip(*(self.columns[name] for name in needs), strict=True)]
        firsts = {name: self.columns[name][0] for name in needs}
        varying = [name for name in needs if self.columns[name].count(firsts[name]) < self.rows]
        if not varying:
            return [function(*firsts.values())] * self.rows
        columns = [self.columns[name] for name in varying]
        arguments = list(firsts.values())
        places = [list(firsts).index(name) for name in varying]
        found: dict[object, _Result] = {}
        keys: Sequence[object]
        if len(columns) == 1:
            keys, place = columns[0], places[0]
            for value in dict.fromkeys(keys):
                arguments[place] = value
                found[value] = function(*arguments)
        else:
            keys = rows = list(zip(*columns, strict=True))
            for row in dict.fromkeys(rows):
                for place, value in zip(places, row, strict=True):
                    arguments[place] = value
                found[row] = function(*arguments)
        return list(found.values()) if len(found) == self.rows else list(map(found.__getitem__, keys))

    def keep(self, needs: Sequence[str], test: Callable[..., bool]) -> None:
        """Drops the rows whose values do not pass."""
        passes = self.compute(needs, test)
        if not all(passes):
            self.choose([at for at, passed in enumerate(passes) if passed])


def cells(table: JobTable, column: Column, view: TableView) -> list[str]:
    """Formats one column of text, in its width, with the literal text after it."""
    field: JobField | None = column.field
    if field is None:
        return [column.suffix] * table.rows
    show, form = field.show, _form(column, field)
    if SINGLE in field.needs and (around := _around_task(table, field, view)):
        before, after = around
        return [form % (before + task + after) for task in table.text_column(TASKS)]
    return table.compute(field.needs, lambda *values: form % show(view, *values))


def _around_task(table: JobTable, field: JobField, view: TableView) -> tuple[str, str] | None:
    """The texts before and after the task in all cells, where each line is a single task and nothing else of it is
    shown; else None. Such lines all differ, so a call for each would be most of the time of `squeue -r`.
    """
    columns = {name: table.columns[name] for name in field.needs}
    firsts = {name: values[0] for name, values in columns.items() if values}
    if not firsts.get(SINGLE) or any(
        values.count(firsts[name]) < table.rows for name, values in columns.items() if name != TASKS
    ):
        return None
    before, mark, after = field.show(view, *(firsts | {TASKS: _MARK}).values()).partition(_MARK)
    return (before, after) if mark else None


def _form(column: Column, field: JobField) -> str:
    """The column's format: truncates and pads in one step."""
    suffix = column.suffix.replace("%", "%%")
    if not column.width:
        return "%s" + suffix
    if column.right:
        return f"%{column.width}{'' if field.uncut else f'.{column.width}'}s{suffix}"
    return f"%-{column.width}.{column.width}s{suffix}"


def lines(table: JobTable, columns: Sequence[Column], view: TableView) -> Iterator[str]:
    """The lines of the table."""
    if not columns:
        yield from [""] * table.rows
        return
    for part in table.parts(max(1, PIECE_CHARS // line_width(columns))):
        yield from map("".join, zip(*(cells(part, column, view) for column in columns), strict=True))


class SortKey(NamedTuple):
    """A sort key of -S: `value(view, *values of the needed columns)`."""

    needs: tuple[str, ...]
    value: Callable[..., "SupportsRichComparison"]


def sort(table: JobTable, keys: Sequence[tuple[SortKey, bool]], view: TableView) -> None:
    """Sorts the rows by several keys: the last first, since the sort is stable."""
    order: list[int] | range = range(table.rows)
    for key, backwards in reversed(keys):
        values = table.compute(key.needs, partial(key.value, view))
        if values and values.count(values[0]) < len(values):
            order = sorted(order, key=values.__getitem__, reverse=backwards)
    if type(order) is list:
        table.choose(order)


def needed_by(fields: Iterable[JobField | None], keys: Iterable[SortKey]) -> list[str]:
    """The columns that fields and keys need, each once."""
    names = [name for field in fields if field is not None for name in field.needs]
    return list(dict.fromkeys(names + [name for key in keys for name in key.needs]))
