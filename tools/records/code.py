"""Writes ctld/store/rows.py from the field tables: for each record NAME_values and NAME_from, in straight-line code. A
row is unpacked once into local names, and the tuple of parameters is built from them: that is faster than reading each
attribute of the row. A record whose rows are their own parameters has no NAME_values.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.records import accounts, cluster, jobs
from tools.records.declare import Field, Record

RECORDS: Final = (*jobs.RECORDS, *cluster.RECORDS, *accounts.RECORDS)
WIDTH: Final = 120

_HEAD: Final = '''"""Rows of the database as SQL parameters and back. Made by tools/records from its field tables: `make records`.

A row's parameters are a plain tuple in the order of its table's columns, so that the statements (statements.py) bind it
without names. A row of a class that has no NAME_values is its own parameters. How single values are stored: encodings.py,
stepparts.py. This is the hot path: every microsecond is paid for with each job.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar
'''

_TYPES: Final = """Params = tuple[object, ...]
V = TypeVar("V")


class One(Protocol):
    \"\"\"Returns the known value that equals the first argument; the second becomes known if there is none.\"\"\"

    def __call__(self, value: V, new: V, /) -> V: ...

"""

#: Types of Python's by those of the columns.
_STORED: Final = {"Text": "str", "LargeBinary": "bytes"}


def rows_module(root: Path) -> str:
    """The text of ctld/store/rows.py."""
    body = "\n\n\n".join("\n".join(function) for record in RECORDS for function in _functions(record))
    constants = "\n".join(_constants())
    return f"{_HEAD}\n{_imports(root, body)}\n{_TYPES}\n{constants}\n\n\n{body}\n"


def fill(words: Iterable[str], indent: str) -> Iterator[str]:
    """Elements of a tuple or list, several to a line, each followed by a comma."""
    line = indent
    for word in words:
        if len(line) > len(indent) and len(line) + len(word) + 1 > WIDTH:
            yield line.rstrip()
            line = indent
        line += f"{word}, "
    if line.strip():
        yield line.rstrip()


def _constants() -> Iterator[str]:
    job = jobs.JOB
    yield "#: Columns of a job that an update writes, in the order of `job_update`; the key follows them."
    yield from _tuple("JOB_LIFE_COLUMNS: tuple[str, ...]", [f'"{c.name}"' for c in job.columns if not c.fixed])
    yield "#: What `job_from` reads: columns of the job, then columns of its request."
    yield from _tuple("JOB_READ_COLUMNS: tuple[str, ...]", [f'"{c.name}"' for c in _read(job)])
    waiting = [c for c in _read(job) if c.name in jobs.JOB_WAITING]
    usual = [(c.name, str(c.default)) for c in _read(job) if c.name not in jobs.JOB_WAITING]
    yield "#: What `waiting_job_from` reads of a job that waits for its first start, and what its other columns hold then."
    yield from _tuple("JOB_WAITING_COLUMNS: tuple[str, ...]", [f'"{c.name}"' for c in waiting])
    yield "JOB_WAITING_USUAL: dict[str, object] = {"
    yield from fill([f'"{name}": {jobs.STORED_DEFAULTS.get(default, default)}' for name, default in usual], "    ")
    yield "}  # fmt: skip"
    yield from _tuple("JOB_REQUEST_READ_COLUMNS: tuple[str, ...]", [f'"{name}"' for name in jobs.JOB_REQUEST_READ])


def _tuple(name: str, words: Sequence[str]) -> Iterator[str]:
    yield f"{name} = ("
    yield from fill(words, "    ")
    yield ")  # fmt: skip"


def _functions(record: Record) -> Iterator[list[str]]:
    if record is jobs.JOB:
        yield _writer(
            record, "job_insert", "All columns, for a new row or one whose request has changed.", record.columns
        )
        life = [column for column in record.columns if not column.fixed]
        keys = [column for column in record.columns if column.name in record.key]
        yield _writer(record, "job_update", "What changes in its life, then the key.", [*life, *keys])
        yield _job_reader("job_from", "A row of JOB_READ_COLUMNS", [field.name for field in record.attributes])
        yield _job_reader("waiting_job_from", "The row of a waiting job, of JOB_WAITING_COLUMNS", jobs.JOB_WAITING)
    elif record is jobs.STEP:
        plain = _plain_columns(record)
        yield _writer(record, "plain_step_values", "The first columns: all that a batch step has.", plain)
        yield _writer(record, "step_values", "All columns.", record.columns)
        yield _reader(record, "step_from")
    else:
        if not record.is_as_stored:
            yield _writer(record, f"{record.name}_values", f"A row of {record.name}.", record.columns)
        if not (record.is_document or record.is_write_only):
            yield _reader(record, f"{record.name}_from")


def _plain_columns(record: Record) -> list[Field]:
    names = [column.name for column in record.columns]
    return list(record.columns[: names.index(jobs.STEP_SPREAD_FROM)])


def _read(record: Record) -> list[Field]:
    """The columns that a row is built from."""
    return [column for column in record.columns if column.is_attribute]


def _writer(record: Record, function: str, says: str, columns: Sequence[Field]) -> list[str]:
    values = [column.value or column.kind.encode.format(column.name) for column in columns]
    lines = [f"def {function}(row: {record.row}) -> Params:", f'    """{says}"""']
    if not record.is_document:
        names = [field.name for field in record.attributes]
        if columns != record.columns and record.name == "step":
            names = [column.name for column in columns]
            lines += _unpack(names, f"row[:{len(names)}]")
        else:
            used = " ".join([*values, record.prepare])
            lines += _unpack([name if _names(used, name) else "_" for name in names], "row")
    if record.prepare:
        lines.append(f"    {record.prepare}")
    return [*lines, "    return (", *fill(values, "        "), "    )  # fmt: skip"]


def _names(text: str, name: str) -> bool:
    """True when an expression uses a local name."""
    return re.search(rf"(?<![\w.]){name}\b", text) is not None


def _unpack(names: Sequence[str], source: str) -> list[str]:
    return ["    (", *fill(names, "        "), f"    ) = {source}  # fmt: skip"]


def _reader(record: Record, function: str) -> list[str]:
    columns = _read(record)
    types = [_stored(column) for column in columns]
    line = f"def {function}(values: tuple[{', '.join(types)}]) -> {record.row}:"
    if len(line) <= WIDTH:
        lines = [line]
    else:
        lines = [*_values(record.row, types), f"def {function}(values: {record.row}Values) -> {record.row}:"]
    lines.append(f'    """A row of {record.name}, from its columns."""')
    return [*lines, *_unpack([column.name for column in columns], "values"), *_new(record)]


def _stored(column: Field) -> str:
    """The type of a column's values."""
    return _STORED.get(column.kind.column, "int") + (" | None" if column.kind.nullable else "")


def _values(row: str, types: Iterable[str]) -> Iterator[str]:
    """An alias for the type of the columns that a row is read from."""
    yield f"{row}Values: TypeAlias = tuple["
    yield from fill(types, "    ")
    yield "]  # fmt: skip"
    yield ""
    yield ""


def _new(record: Record) -> list[str]:
    """The expression that creates the row without calling its class."""
    made = [field.kind.decode.format(field.name) for field in record.attributes]
    return [
        "    fields = (",
        *fill(made, "        "),
        "    )  # fmt: skip",
        f"    return tuple.__new__({record.row}, fields)",
    ]


def _job_reader(function: str, says: str, given: Sequence[str]) -> list[str]:
    """A reader of all attributes creates a JobRow, another one a WaitingRow."""
    record = jobs.JOB
    columns = [column for column in _read(record) if column.name in given]
    row = "JobRow" if len(given) == len(record.attributes) else "WaitingRow"
    lines = [
        *_values(row, [*map(_stored, columns), *jobs.JOB_REQUEST_READ_TYPES]),
        f"def {function}(",
        "    requests: Mapping[bytes, JobRequest],",
        "    read_request: Callable[[bytes], JobRequest],",
        "    one: One,",
        f"    values: {row}Values,",
        ") -> JobRow:",
        f'    """{says} and JOB_REQUEST_READ_COLUMNS. The other parameters: jobreader.py."""',
    ]
    names = [*(column.name for column in columns), *jobs.JOB_REQUEST_READ.values()]
    lines += _unpack(names, "values")
    if row == "JobRow":
        return [*lines, *_new(record)]
    made = [field.kind.decode.format(field.name) for field in record.attributes if field.name in given]
    return [*lines, "    return WaitingRow(", *fill(made, "        "), "    )  # fmt: skip"]


#: Names that expressions use, by module.
_MODULES: Final = {
    "accounting.schema": ("join_strings", "split_strings"),
    "ctld.core.records.waiting_row": ("WaitingRow",),
    "ctld.store.encodings": (
        "HOLDS", "JOB_STATES", "REASONS", "SUSPENDS", "alloc_from", "alloc_values", "cron_jobs_from", "cron_lines_from",
        "encode_json", "gpu_json", "json_text", "limits_from", "limits_text", "words",
    ),
    "ctld.store.stepparts": ("parts_from", "parts_json", "ports_from", "step_request_from"),
    "penstock.values.states": ("Hold", "JobState", "NodeFlag", "Suspend"),
    "penstock.values.taskset": ("TaskSet",),
}  # fmt: skip


def _imports(root: Path, body: str) -> str:
    homes = _homes(root)
    wanted: dict[str, set[str]] = {}
    for name in ("JobRequest", *(record.row for record in RECORDS)):
        if _names(body, name):
            wanted.setdefault(homes[name], set()).add(name)
    for module, names in _MODULES.items():
        wanted.setdefault(module, set()).update(name for name in names if _names(body, name))
    return "".join(_import(module, names) for module, names in sorted(wanted.items()) if names)


def _homes(root: Path) -> dict[str, str]:
    """Classes of the core, with their modules."""
    return {
        name: ".".join(path.relative_to(root).with_suffix("").parts)
        for path in sorted((root / "ctld" / "core").rglob("*.py"))
        for name in re.findall(r"^class (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _import(module: str, names: set[str]) -> str:
    """An import sorted as by the linter: constants, classes, functions."""
    ordered = sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return f"{line}\n"
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")\n"
