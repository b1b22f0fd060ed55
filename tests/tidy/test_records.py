"""What is generated from the field tables of the stored records is what they say, and a wrong table is found out."""

import re
from pathlib import Path

import pytest
import tidytree as tree

from tools.records.__main__ import generated
from tools.records.code import RECORDS
from tools.records.regions import END, START, BadMarks, filled

MODULE = f"class Row:\n    {START}{{}}\n    old: int\n    {END}\n"


def test_generated_code_is_current() -> None:
    stale = [tree.name_of(p) for p, text in generated(tree.ROOT).items() if p.read_text(encoding="utf-8") != text]
    assert stale == [], "run make records"


def test_every_function_that_is_generated_is_called() -> None:
    """What is only written, or only read, says so in its table."""
    made = re.findall(r"^def (\w+)\(", (tree.ROOT / "ctld/store/rows.py").read_text(encoding="utf-8"), re.MULTILINE)
    callers = "".join(path.read_text(encoding="utf-8") for path in (tree.ROOT / "ctld").rglob("*.py"))
    assert [name for name in made if f"rows.{name}" not in callers] == []


def test_keys_are_the_first_columns_and_names_are_said_once() -> None:
    for record in RECORDS:
        columns = [field.name for field in record.columns]
        assert tuple(columns[: len(record.key)]) == record.key, record.name
        assert len(set(columns)) == len(columns), record.name
    assert len({record.name for record in RECORDS}) == len(RECORDS)


def test_a_column_that_a_migration_added_says_what_older_rows_got() -> None:
    """Beside those that may be NULL: the database must know what to put there."""
    for record in RECORDS:
        since = [field.existing is not None for field in record.columns if not field.kind.nullable]
        assert since == sorted(since), f"{record.name}: a new column is the last one, and has `existing`"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MODULE.format("row of nothing"), "no such text"),
        (MODULE.format("row of tres") * 2, "it is repeated"),
        (MODULE.format("row of tres"), "no module has the mark"),
    ],
)
def test_marks_are_checked(tmp_path: Path, text: str, says: str) -> None:
    versions = tmp_path / "ctld/store/migrations/versions"
    versions.mkdir(parents=True)
    (versions / "0001_first.py").write_text('revision = "0001"\ndown_revision = None\n')
    (tmp_path / "ctld" / "some.py").write_text(text)
    with pytest.raises(BadMarks, match=says):
        filled(tmp_path)


def test_migrations_follow_each_other_in_one_line(tmp_path: Path) -> None:
    versions = tmp_path / "ctld/store/migrations/versions"
    versions.mkdir(parents=True)
    (versions / "0001_first.py").write_text('revision = "0001"\ndown_revision = None\n')
    (versions / "0003_ann.py").write_text('revision = "0003"\ndown_revision = "0001"\n')
    (versions / "0002_bob.py").write_text('revision = "0002"\ndown_revision = "0001"\n')
    with pytest.raises(BadMarks, match="which no other one has"):
        filled(tmp_path)
