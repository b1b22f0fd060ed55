"""Writes code generated from the field tables into hand-written modules, between marks:

    # made by tools/records: row of job
    ...
    # end of what is made

A mark is found by its text in any module, and must occur exactly once.

    row of NAME           the body of the row's class
    attributes of NAME    the body of the class of the mutable record
    columns of NAME       arguments of Table()
    job from its row      assignments; `a new NAME`: fields with a default
    waiting job           assignments from the row of a job that waits for its first start
    shown of job          names in JobInfo; `recorded of job`: in JobRecord; `record of job`: what accounting reads
    revisions             the migrations, in their order
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.records import cluster, jobs
from tools.records.code import RECORDS, WIDTH, fill
from tools.records.declare import INFO, READ, RECORD, Field, Numbered, Record

START: Final = "# made by tools/records: "
END: Final = "# end of what is made"
_REGION: Final = re.compile(rf"^([ ]*){START}([^\n]+)\n(.*?)^[ ]*{END}$", re.MULTILINE | re.DOTALL)
#: Folders that are searched for marks.
FOLDERS: Final = ("accounting", "ctld")
MIGRATIONS: Final = "ctld/store/migrations/versions"


class BadMarks(Exception):
    """A mark is missing, duplicated, or unknown."""


def regions() -> dict[str, list[str]]:
    """Every generated text by its mark: lines without their indentation."""
    found: dict[str, list[str]] = {}
    for record in RECORDS:
        found[f"columns of {record.name}"] = list(_columns(record))
        if not record.is_document:
            found[f"row of {record.name}"] = list(_row(record, has_notes=record not in _MUTABLE))
    found["attributes of job"] = list(_attributes(jobs.JOB.attributes))
    found["a new job"] = list(_new("job", jobs.JOB.attributes))
    found["job from its row"] = list(_assigned(jobs.JOB))
    found["waiting job"] = list(_assigned_waiting())
    found["attributes of node"] = list(_attributes(cluster.NODE.attributes))
    found["a new node"] = list(_new("node", cluster.NODE.attributes))
    found["shown of job"] = list(fill([f'"{f.name}"' for f in jobs.JOB.attributes if INFO in f.shown], ""))
    found["recorded of job"] = list(fill([f'"{f.name}"' for f in jobs.JOB.columns if RECORD in f.shown], ""))
    found["record of job"] = list(_recorded(jobs.JOB))
    names = [field.name for field in jobs.STEP.attributes]
    at = names.index(jobs.STEP_SPREAD_FROM)
    plain = [f for i, f in enumerate(jobs.STEP.attributes) if i < at or f.name in jobs.STEP_PLAIN_TOO]
    found["attributes of step"] = list(_attributes(plain))
    spread = [field for field in jobs.STEP.attributes if field not in plain]
    found["attributes of spread step"] = list(_attributes(spread))
    found["a new step"], found["a new spread step"] = list(_new("step", plain)), list(_new("step", spread))
    return found


#: Records with a mutable class, whose attributes have the notes as comments.
_MUTABLE: Final = (jobs.JOB, jobs.STEP, cluster.NODE)


def filled(root: Path) -> dict[Path, str]:
    """The modules that have marks, with the generated text between them. Raises BadMarks."""
    texts = regions()
    files = {}
    seen = dict[str, Path]()
    texts["revisions"] = list(fill([f'"{revision}"' for revision in _revisions(root)], ""))

    def put(path: Path) -> Callable[[re.Match[str]], str]:
        def one(found: re.Match[str]) -> str:
            indent, name = found[1], found[2]
            if name not in texts or name in seen:
                raise BadMarks(f"{path}: {START}{name}: " + ("it is repeated" if name in seen else "no such text"))
            seen[name] = path
            lines = "".join(f"{indent}{line}\n" if line else "\n" for line in texts[name])
            return f"{indent}{START}{name}\n{lines}{indent}{END}"

        return one

    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if START in text:
                files[path] = _REGION.sub(put(path), text)
    if missing := [name for name in texts if name not in seen]:
        raise BadMarks(f"no module has the mark {START}{missing[0]}")
    return files


def _revisions(root: Path) -> list[str]:
    """The migrations' numbers in order of application."""
    after: dict[str | None, str] = {}
    for path in (root / MIGRATIONS).glob("*.py"):
        found = re.search(r'^revision = "(\w+)"\ndown_revision = (?:None|"(\w+)")$', path.read_text(), re.MULTILINE)
        if found is None or found[2] in after:
            raise BadMarks(f"{path}: a migration has `revision` and then `down_revision`, which no other one has")
        after[found[2]] = found[1]
    order = [after[None]]
    while order[-1] in after:
        order.append(after[order[-1]])
    return order


def _row(record: Record, has_notes: bool) -> Iterator[str]:
    """Attributes of the row's class. Those after the last one without a default have theirs."""
    attributes = record.attributes
    last = max((i for i, field in enumerate(attributes) if field.default is None), default=-1)
    for i, field in enumerate(attributes):
        default = f" = {field.default}" if i > last else ""
        yield _noted(f"{field.name}: {field.kind.type}{default}", field.note if has_notes else "")


def _attributes(fields: Sequence[Field]) -> Iterator[str]:
    named = [(field.attribute or field.name, field) for field in fields]
    yield "__slots__ = ("
    yield from fill([f'"{name}"' for name, _ in sorted(named, key=lambda pair: pair[0])], "    ")
    yield ")  # fmt: skip"
    yield ""
    for name, field in named:
        # A field that the mutable record always has may be missing in the row.
        kind = field.kind.type.removesuffix(" | None") if field.attribute else field.kind.type
        yield _noted(f"{name}: {kind}", field.note)


def _new(name: str, fields: Sequence[Field]) -> Iterator[str]:
    for field in fields:
        # A field with another name there has another type, without a default.
        if field.default is not None and not field.attribute:
            yield f"{name}.{field.name} = {field.default}"


def _assigned(record: Record) -> Iterator[str]:
    yield "("
    yield from fill([f"{record.name}.{field.name}" for field in record.attributes], "    ")
    yield ") = row  # fmt: skip"


def _assigned_waiting() -> Iterator[str]:
    for field in jobs.JOB.attributes:
        value = f"row.{field.name}" if field.name in jobs.JOB_WAITING else field.default
        yield f"job.{field.name} = {value}"


def _columns(record: Record) -> Iterator[str]:
    for field in record.columns:
        words = [f'"{field.name}"', field.kind.column]
        if field.name in record.key:
            words.append("primary_key=True")
            if len(record.key) == 1 and "Integer" in field.kind.column:
                words.append(f"autoincrement={isinstance(field, Numbered)}")
        elif not field.kind.nullable:
            words.append("nullable=False")
        if field.existing is not None:
            words.append(f'server_default="{field.existing}"')
        line = f"Column({', '.join(words)}),"
        yield _noted(line, field.stored or (field.note if len(f"    {line}  # {field.note}") <= WIDTH else ""))


def _recorded(record: Record) -> Iterator[str]:
    """The columns that accounting reads."""
    types = {"Text": "str", "LargeBinary": "bytes"}
    for field in record.columns:
        if RECORD in field.shown or READ in field.shown:
            kind = types.get(field.kind.column, "int") + (" | None" if field.kind.nullable else "")
            default = (
                "" if field.existing is None else f" = {field.existing}" if kind == "int" else f' = "{field.existing}"'
            )
            yield f"{field.name}: {kind}{default}"


def _noted(line: str, note: str) -> str:
    return f"{line}  # {note}" if note else line
