"""The jobs of a listing as columns: what squeue filters, sorts and prints without a message for each job.

A `JobField` says which columns it needs and how their values become text; text is made once for each set of values that
differ (most jobs of a long queue say `PENDING`, `debug`, `0:00`), and put into its place at once. So a line costs a
look-up per column and one join: 100,000 lines take some 0.2 s.

Columns come from the controller as they are (ListJobsReply.columns) when all that is needed has a name in
penstock.values.jobcolumns; otherwise it is asked for whole messages, and they are taken apart here. Fields that look at
the message itself need the column `job`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from cli.format import PIECE_CHARS, Column, line_width
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobcolumns import NUMBERS, OPTIONAL, tres_per_node

#: Columns that are made here of others, for each line: see squeue.expand_rows.
TASKS, SINGLE = "line.tasks", "line.single"
MADE = frozenset((TASKS, SINGLE))
#: What a field has to say of itself when it looks at the message.
WHOLE = "job"
_PATHS = frozenset(("std_out", "std_err", "std_in", "request.work_dir"))


class JobField(NamedTuple):
    """What one letter or name shows: `show(view, *values of the needed columns)`."""

    header: str
    needs: tuple[str, ...]
    show: Callable[..., str]
    uncut: bool = False  # see cli.format.Field
    splits: bool = False


def gres_per_node(job: JobInfo) -> str:
    """What was asked for on each node; not what follows from --gpus or --gpus-per-task."""
    request = job.request
    derived = bool(request.gres_per_job or request.gres_per_task)
    return tres_per_node(tuple((g.name, g.type, g.count) for g in request.gres_per_node), derived)


def _path(name: str) -> Callable[[JobInfo], str]:
    get = attrgetter(name)
    return lambda job: get(job).decode("utf-8", "surrogateescape")


def _optional(name: str) -> Callable[[JobInfo], int]:
    parent, _, field = name.rpartition(".")
    owner: Callable[[JobInfo], Any] = attrgetter(parent) if parent else lambda job: job
    return lambda job: int(getattr(owner(job), field)) if owner(job).HasField(field) else -1


def reader(name: str) -> Callable[[JobInfo], Any]:
    """How a column's value is read from a message."""
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
        self.columns: dict[str, list[Any]] = {name: [] for name in names if name not in MADE}
        self.rows = 0

    def take(self, page: Any, names: Sequence[str]) -> None:
        """One page of an answer. `names`: of the columns that were asked for, in their order."""
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

    def choose(self, positions: Sequence[int]) -> None:
        """Only these rows, in this order; one may come several times."""
        for name, values in self.columns.items():
            self.columns[name] = list(map(values.__getitem__, positions))
        self.rows = len(positions)

    def parts(self, rows: int) -> Iterator["JobTable"]:
        """The table in pieces of so many rows: itself, if it is not longer."""
        if self.rows <= rows:
            yield self
            return
        for at in range(0, self.rows, rows):
            part = JobTable(())
            part.columns = {name: values[at : at + rows] for name, values in self.columns.items()}
            part.rows = min(rows, self.rows - at)
            yield part

    def compute(self, needs: Sequence[str], function: Callable[..., Any]) -> list[Any]:
        """`function` of the values of some columns, row by row; it is called once for each set of values."""
        if not self.rows:
            return []
        if WHOLE in needs:  # a message is no key
            return [function(*values) for values in zip(*(self.columns[name] for name in needs), strict=True)]
        firsts = {name: self.columns[name][0] for name in needs}
        varying = [name for name in needs if self.columns[name].count(firsts[name]) < self.rows]
        if not varying:
            return [function(*firsts.values())] * self.rows
        columns = [self.columns[name] for name in varying]
        keys: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        arguments = list(firsts.values())
        places = [list(firsts).index(name) for name in varying]
        found = {}
        for key in dict.fromkeys(keys):
            for place, value in zip(places, key, strict=True) if len(places) > 1 else ((places[0], key),):
                arguments[place] = value
            found[key] = function(*arguments)
        return list(found.values()) if len(found) == self.rows else list(map(found.__getitem__, keys))

    def keep(self, needs: Sequence[str], test: Callable[..., bool]) -> None:
        """Drop the rows whose values do not pass."""
        passes = self.compute(needs, test)
        if not all(passes):
            self.choose([at for at, passed in enumerate(passes) if passed])


def cells(table: JobTable, column: Column, view: Any) -> list[str]:
    """One column of text, in its place, with what stands behind it."""
    field: Any = column.field
    if field is None:
        return [column.suffix] * table.rows
    show, form = field.show, _form(column, field)
    return table.compute(field.needs, lambda *values: form % show(view, *values))


def _form(column: Column, field: JobField) -> str:
    """The column's place as a format: cut and padded in one go."""
    suffix = column.suffix.replace("%", "%%")
    if not column.width:
        return "%s" + suffix
    if column.right:
        return f"%{column.width}{'' if field.uncut else f'.{column.width}'}s{suffix}"
    return f"%-{column.width}.{column.width}s{suffix}"


def lines(table: JobTable, columns: Sequence[Column], view: Any) -> Iterator[str]:
    """The lines of the table."""
    if not columns:
        yield from [""] * table.rows
        return
    for part in table.parts(max(1, PIECE_CHARS // line_width(columns))):
        yield from map("".join, zip(*(cells(part, column, view) for column in columns), strict=True))


class SortKey(NamedTuple):
    """What a letter of -S sorts by: `value(view, *values of the needed columns)`."""

    needs: tuple[str, ...]
    value: Callable[..., Any]


def sort(table: JobTable, keys: Sequence[tuple[SortKey, bool]], view: Any) -> None:
    """Put the rows in order by several keys: the last first, as each sort keeps the order of equal ones."""
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
