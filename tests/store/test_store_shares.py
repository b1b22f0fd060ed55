"""Accounts, shares and usage through a real file; a database of the version before gets their tables."""

import sqlite3
from pathlib import Path

import pytest

from ctld.core.fairshare import AccountRow, AssocRow, LoadedShares, UsageRow, UserRow
from ctld.store import migrate
from ctld.store.committer import Store
from tests.store.making import NOW_US, leading, make_batch

ACCOUNT = AssocRow(2, "physics", "", "root", 30, 0, False, False)
USER = AssocRow(3, "physics", "ann", "physics", -1, 5, True, False)
GONE = AssocRow(4, "physics", "bob", "physics", 1, 0, False, True)


def test_round_trip(tmp_path: Path) -> None:
    store = leading(tmp_path / "penstock.db")
    store.commit(
        make_batch(
            1, assocs=[ACCOUNT, USER, GONE], usage=[UsageRow(3, 2**62, NOW_US)],
            accounts=[AccountRow("physics", "Physics", "uni")], users=[UserRow("ann", "physics")],
        )
    )  # fmt: skip
    store.commit(make_batch(2, usage=[UsageRow(3, 7, NOW_US + 1)], assocs=[ACCOUNT._replace(shares=1)]))
    assert store.load(NOW_US, 0, 0).shares == LoadedShares(
        (ACCOUNT._replace(shares=1), USER),
        (UsageRow(3, 7, NOW_US + 1),),
        (AccountRow("physics", "Physics", "uni"),),
        (UserRow("ann", "physics"),),
        5,  # the number of one that was deleted is not given again
    )
    store.close()


def test_a_database_of_the_first_schema_is_brought_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "penstock.db"
    Store.open(path, "me").close()
    with sqlite3.connect(path) as connection:
        for table in ("assoc", "assoc_usage", "account", "account_user"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    store = leading(path)
    assert store.load(NOW_US, 0, 0).shares == LoadedShares()
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrate.REVISIONS[-1],)]
    connection.close()
