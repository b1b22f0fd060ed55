"""`penstock db export`: jobs, steps, associations, QOS and usage as text for other programs.

One file for each, CSV with a heading or one JSON object a line. Columns are the tables' own, but times are ISO 8601 in
UTC without the `_us` of their names (empty = has not happened), and states are names. Bulky or private data are not
exported: scripts, environments, fields of a request beyond the columns.
"""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

# Any: values of any column, for which SQLAlchemy has no types
from typing import Any, Final, NamedTuple, TextIO

from sqlalchemy import ColumnElement, Connection, LargeBinary, Table, and_, or_, select, true

from accounting.dbrow import Query
from accounting.schema import ASSOC, ENDED_FROM, JOB, STEP
from accounting.tables import USAGE_DAY, USAGE_HOUR, USAGE_KEY, USAGE_MONTH
from ctld.store.dialect import one_moment
from ctld.store.schema import QOS
from penstock.values.states import JobState

FORMATS: Final = ("csv", "jsonl")
ROWS_AT_A_TIME: Final = 1_000
_STATES = {int(state): state.name for state in JobState}
_US = "_us"
_AT_US = "_at_us"


class _File(NamedTuple):
    name: str
    query: Query
    states: tuple[str, ...] = ()  # columns


def export(connection: Connection, folder: Path, form: str, since_us: int) -> Iterator[tuple[str, int]]:
    """Writes the files, as of one moment; yields each one's name and number of rows. Raises OSError (it exists, no
    space)."""
    one_moment(connection)
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in _files(since_us):
        path = folder / f"{file.name}.{form}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            yield path.name, _write(connection, file, form, stream)


def _files(since_us: int) -> Iterator[_File]:
    recent: ColumnElement[bool] = true()
    if since_us:
        recent = or_(JOB.c.end_at_us >= since_us, JOB.c.state < ENDED_FROM)
    yield _File("jobs", _without_blobs(JOB).where(recent).order_by(*JOB.primary_key), ("state", "end_state"))
    of_job = and_(STEP.c.job_id == JOB.c.job_id, STEP.c.attempt == JOB.c.attempt)
    yield _File("steps", _without_blobs(STEP).join(JOB, of_job).where(recent).order_by(*STEP.primary_key), ("state",))
    yield _File("associations", _without_blobs(ASSOC).order_by(ASSOC.c.assoc_id))
    yield _File("qos", _without_blobs(QOS).order_by(QOS.c.name))
    who = [column for column in USAGE_KEY.c if column.name != "key_id"]
    for table in (USAGE_HOUR, USAGE_DAY, USAGE_MONTH):
        columns = [column for column in table.c if column.name != "key_id"]
        query = select(*columns[:1], *who, *columns[1:]).join(USAGE_KEY, table.c.key_id == USAGE_KEY.c.key_id)
        yield _File(table.name, query.where(table.c.start_at_us >= since_us).order_by(*table.primary_key))


def _without_blobs(table: Table) -> Query:
    return select(*(column for column in table.c if not isinstance(column.type, LargeBinary)))


def _write(connection: Connection, file: _File, form: str, stream: TextIO) -> int:
    found = connection.execute(file.query.execution_options(yield_per=ROWS_AT_A_TIME))
    names = list(found.keys())
    heads = [name.removesuffix(_US) if name.endswith(_AT_US) else name for name in names]
    convert = [_converter(name, file.states) for name in names]
    table = csv.writer(stream, lineterminator="\n")
    if form == "csv":
        table.writerow(heads)
    count = 0
    for row in found:
        values: Sequence[object] = [one(value) for one, value in zip(convert, row, strict=True)]
        if form == "csv":
            table.writerow(values)
        else:
            stream.write(json.dumps(dict(zip(heads, values, strict=True)), ensure_ascii=False) + "\n")
        count += 1
    return count


def _converter(name: str, states: Sequence[str]) -> Any:
    if name in states:
        return lambda value: "" if value is None else _STATES.get(value, str(value))
    return _time if name.endswith(_AT_US) else lambda value: value


def _time(us: int | None) -> str:
    if not us:
        return ""
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
