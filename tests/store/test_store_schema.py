"""Migrations: they give the tables that the code works with, and know whom to refuse."""

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from ctld.store import migrate
from ctld.store.committer import Store
from ctld.store.errors import SchemaTooNew, StoreError
from ctld.store.schema import META, METADATA, SCHEMA_NAME
from tools.records.code import RECORDS
from tools.records.declare import Record


def tables_of(path: Path) -> dict[str, str]:
    """Name to SQL text, white space aside; alembic's own table left out."""
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in found if name != "alembic_version"}


def test_migrated_schema_is_the_metadata(tmp_path: Path) -> None:
    Store.open(tmp_path / "migrated.db", "me").close()
    engine = create_engine(f"sqlite:///{tmp_path}/created.db")
    METADATA.create_all(engine)
    engine.dispose()
    assert tables_of(tmp_path / "migrated.db") == tables_of(tmp_path / "created.db")
    engine = create_engine(f"sqlite:///{tmp_path}/migrated.db")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        row = connection.execute(META.select()).one()
    engine.dispose()
    assert (row.id, row.name, row.epoch, row.sequence, row.next_job_id) == (1, SCHEMA_NAME, 0, 0, 1)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "penstock.db"
    Store.open(path, "me").close()
    return path


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_migrations_make_the_columns_that_the_field_table_says(migrated: Path, record: Record) -> None:
    with sqlite3.connect(migrated) as connection:
        found = [row[1:] for row in connection.execute(f"PRAGMA table_info({record.name})")]
    types = {"BigInteger": "BIGINT", "Integer": "INTEGER", "Text": "TEXT", "LargeBinary": "BLOB"}
    said = [
        (
            field.name,
            types.get(field.kind.column, "INTEGER"),  # a variant: SQLite's own row number
            int(not field.kind.nullable),
            None if field.existing is None else f"'{field.existing}'",
            record.key.index(field.name) + 1 if field.name in record.key else 0,
        )
        for field in record.columns
    ]
    assert found == said


def test_known_revisions_are_those_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == migrate.REVISIONS


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    Store.open(path, "me").close()
    before = path.read_bytes()
    Store.open(path, "me").close()
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("revision", migrate.REVISIONS[:-1])
def test_an_older_database_gets_what_it_lacks(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "penstock.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    Store.open(path, "me").close()
    Store.open(tmp_path / "new.db", "me").close()
    assert tables_of(path).keys() == tables_of(tmp_path / "new.db").keys()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrate.REVISIONS[-1],)]


def test_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    Store.open(path, "me").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(SchemaTooNew, match=r"penstock\.db: the database has schema 9999.*newer Penstock"):
        Store.open(path, "me")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_foreign_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(StoreError, match=r"another program \(it has a table recipes\)"):
        Store.open(path, "me")


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1000)
    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database"):
        Store.open(path, "me")
    assert path.read_text() == "buy milk\n" * 1000


def test_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"gone/penstock\.db: No such file or directory"):
        Store.open(tmp_path / "gone" / "penstock.db", "me")


def test_unknown_database_system_is_refused() -> None:
    with pytest.raises(StoreError, match=r"mysql://\.\.\.: only SQLite and PostgreSQL"):
        Store.open("mysql://root:secret@host/penstock", "me")


def test_failed_migration_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "penstock.db"
    copy = tmp_path / "migrations"
    (copy / "versions").mkdir(parents=True)
    for source in (migrate.MIGRATIONS / "env.py", migrate.MIGRATIONS / "script.py.mako"):
        (copy / source.name).write_text(source.read_text())
    script = (migrate.MIGRATIONS / "versions" / "0001_first_schema.py").read_text()
    (copy / "versions" / "0001.py").write_text(script.replace("    op.execute(\n", "    1 / 0\n    op.execute(\n"))
    monkeypatch.setattr(migrate, "MIGRATIONS", copy)
    with pytest.raises(ZeroDivisionError):
        Store.open(path, "me")
    assert tables_of(path) == {}
    monkeypatch.undo()
    Store.open(path, "me").close()
    assert "meta" in tables_of(path)


def test_a_database_of_before_keeps_the_numbers_of_its_reservations(tmp_path: Path) -> None:
    """The last one is gone, and only its history says that it had number 7."""
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0013")
        connection.execute(text("INSERT INTO reservation_span VALUES (7, 1, 2, 'gone', 1, 'n1', 'cpu=1', 'ann')"))
        command.upgrade(config, "0019")
        assert connection.execute(text("SELECT value FROM counter WHERE name = 'reservation'")).scalar() == 7
        assert connection.execute(text("SELECT node_tres FROM reservation_span")).scalar() == ""
    engine.dispose()


def test_steps_of_before_have_no_ends_of_tasks(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0030")
        plain = {"name", "node"}
        columns = [one[1] for one in connection.execute(text("PRAGMA table_info(step)")) if one[3] and one[4] is None]
        values = ", ".join("'x'" if name in plain else "1" for name in columns)
        connection.execute(text(f"INSERT INTO step ({', '.join(columns)}) VALUES ({values})"))
        command.upgrade(config, "0031")
        assert connection.execute(text("SELECT step_id, task_ends FROM step")).fetchall() == [(1, None)]
    engine.dispose()
