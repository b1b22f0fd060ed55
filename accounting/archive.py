"""Archives: files of purged records that can be loaded again.

One file for each kind and purge, gzip of JSON lines: [table, {column: value}]. Bytes are base64. Each page of records is
a gzip member of its own, on disk (fsync) before its records are deleted: a crash leaves records in both places, never
in none, and loading existing records changes nothing. Files are readable only by their owner, and no existing file is
overwritten.
"""

import base64
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

# Any: a row as its table defines it, and a file of gzip or of the system, read alike
from typing import Any

import msgspec
from sqlalchemy import LargeBinary, Table

from accounting.rolling import Begin
from accounting.schema import JOB, JOB_REQUEST, JOB_SPEC, STEP, STEP_PROFILE, TXN
from accounting.tables import (
    CLUSTER_DAY,
    CLUSTER_HOUR,
    CLUSTER_MONTH,
    JOB_SPAN,
    NODE_EVENT,
    RESERVATION_SPAN,
    USAGE_DAY,
    USAGE_HOUR,
    USAGE_KEY,
    USAGE_MONTH,
)
from accounting.upsert import insert_for
from penstock.values.errors import BadValue

#: Tables that an archive may contain.
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        JOB, JOB_REQUEST, JOB_SPEC, STEP, STEP_PROFILE, JOB_SPAN, NODE_EVENT, RESERVATION_SPAN, TXN, USAGE_HOUR, USAGE_DAY,
        USAGE_MONTH, USAGE_KEY, CLUSTER_HOUR, CLUSTER_DAY, CLUSTER_MONTH,
    )
}  # fmt: skip
#: Records of one transaction of a load.
PAGE_RECORDS = 200
LINE_BYTES_MAX = 64 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, dict[str, Any]]).decode


class Archive:
    """An archive file that is being written."""

    def __init__(self, folder: str, cluster: str, kind: str, until_s: int) -> None:
        self.path = self._free(Path(folder), f"{cluster}_{kind}_until_{until_s}")
        self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @staticmethod
    def _free(folder: Path, stem: str) -> Path:
        number = 0
        while (path := folder / f"{stem}{f'_{number}' if number else ''}.jsonl.gz").exists():
            number += 1
        return path

    def write(self, rows: Iterable[tuple[Table, Mapping[str, object]]]) -> None:
        """Writes a page of records; they are on disk when it returns. Raises OSError."""
        lines = b"".join(_encode((str(table.name), _json_row(row))) + b"\n" for table, row in rows)
        with open(self._handle, "wb", closefd=False) as file:
            file.write(gzip.compress(lines, 6))
        os.fsync(self._handle)

    def close(self) -> None:
        """Closes the file, and makes its name durable."""
        os.close(self._handle)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _json_row(row: Mapping[str, object]) -> dict[str, object]:
    return {str(k): base64.b64encode(v).decode() if isinstance(v, bytes | memoryview) else v for k, v in row.items()}


def load(path: str, begin: Begin) -> int:
    """Loads a file; existing records stay as they are. Returns the number of records in the file. Raises BadValue,
    OSError."""
    number = 0
    records = _records(path)
    while page := list(islice(records, PAGE_RECORDS)):
        by_table: dict[str, list[dict[str, object]]] = {}
        for name, row in page:
            by_table.setdefault(name, []).append(row)
        with begin() as connection:
            for name, rows in by_table.items():
                connection.execute(insert_for(connection.dialect.name, TABLES[name]).on_conflict_do_nothing(), rows)
        number += len(page)
    return number


def _records(path: str) -> Iterator[tuple[str, dict[str, object]]]:
    # Non-blocking: a pipe or device at this path would block the controller's thread forever.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(handle, "rb") as raw, gzip.open(raw, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BadValue(f"archive {path}: it is no regular file")
        number = 0
        while line := _line(file, path):
            number += 1
            try:
                name, row = _decode(line)
                table = TABLES[name]
                if set(row) - set(table.c.keys()):
                    raise BadValue(f"unknown columns {', '.join(sorted(set(row) - set(table.c.keys())))}")
                for column in table.columns:
                    if isinstance(column.type, LargeBinary) and isinstance(row.get(column.name), str):
                        row[column.name] = base64.b64decode(row[column.name], validate=True)
            except (msgspec.DecodeError, KeyError, ValueError) as error:
                raise BadValue(f"archive {path}, line {number}: {error}") from error
            yield name, row


def _line(file: Any, path: str) -> bytes:
    try:
        line: bytes = file.readline(LINE_BYTES_MAX)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadValue(f"archive {path}: {error}") from error
    return line
