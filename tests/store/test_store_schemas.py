"""Several clusters in one database of PostgreSQL, each in a schema of its own: nothing of one is seen or locked by another."""

from pathlib import Path

import pytest
from postgres import Server, change, rows
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from accounting.database import DatabaseUrlError, database_url, in_schema, schema_of
from accounting.filter import RecordFilter
from accounting.records import Records
from ctld.dbtool.backup import backup, pg_dump
from ctld.store.address import database_address
from ctld.store.committer import LEASE_US, Store
from ctld.store.dialect import dialect_of, write_engine
from ctld.store.errors import LeaseHeld, StoreError
from ctld.store.registry import RegisteredCluster, Registry
from ctld.store.sidewriter import SideWriter
from penstock.errors import BadSetup
from penstock.values.names import REGISTRY_SCHEMA
from tests.store.making import NOW_US, all_jobs, leading, make_job, submitted


def test_two_schemas_share_nothing(postgresql: Server, tmp_path: Path) -> None:
    place = postgresql.new_database()
    east, west, reserved = (in_schema(place, name) for name in ("east", "west", "user"))  # `user` is a word of SQL
    one, other, third = leading(east, "e"), leading(west, "w"), leading(reserved, "u")
    with pytest.raises(LeaseHeld):
        leading(west, "another", NOW_US + LEASE_US - 1)
    one.commit(submitted(1, [make_job(1)]))
    other.commit(submitted(1, [make_job(1), make_job(2)]))
    assert [len(all_jobs(store)) for store in (one, other, third)] == [1, 2, 0]
    assert [len(list(Records(name).list(RecordFilter()))) for name in (east, west)] == [1, 2]
    side = SideWriter(west, other.leads)
    with side.begin() as connection:
        connection.execute(text("DELETE FROM job WHERE job_id = 2"))
    side.close()
    assert [len(all_jobs(store)) for store in (one, other)] == [1, 1]
    assert rows(place, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    assert rows(place, 'SELECT count(*) FROM "user".job') == [(0,)]
    if pg_dump():
        backup(west, tmp_path / "west.dump")
        listed = (tmp_path / "west.dump").read_bytes()
        assert b"west" in listed and b"east" not in listed
    default = leading(place, "default")  # the one without a schema is where it always was
    assert all_jobs(default) == [] and rows(place, "SELECT count(*) FROM public.job") == [(0,)]
    for store in (one, other, third, default):
        store.close()


def test_a_long_migration_of_one_cluster_does_not_hold_up_another(postgresql: Server) -> None:
    place = postgresql.new_database()
    engine = write_engine(in_schema(place, "west"))
    with engine.begin() as connection:
        dialect_of(engine).check(connection)  # in the middle of its migration
        leading(in_schema(place, "east")).close()
    engine.dispose()


def test_a_role_without_rights_is_told_which(postgresql: Server) -> None:
    place = postgresql.new_database()
    leading(in_schema(place, "west")).close()
    postgresql.execute("DROP ROLE IF EXISTS poor")
    postgresql.execute("CREATE ROLE poor LOGIN")
    mine = place.replace("penstock@", "poor@")
    for name, told in (
        ("east", 'CREATE SCHEMA east AUTHORIZATION "poor"'),
        ("west", 'GRANT USAGE, CREATE ON SCHEMA west TO "poor"'),
    ):
        with pytest.raises(StoreError, match=told):
            Store.open(in_schema(mine, name), "me")
    assert rows(place, "SELECT count(*) FROM pg_namespace WHERE nspname = 'east'") == [(0,)]
    database = str(database_url(place).database)
    postgresql.execute('CREATE SCHEMA east AUTHORIZATION "poor"', database)
    leading(in_schema(mine, "east")).close()
    postgresql.drop(place)
    postgresql.execute("DROP ROLE poor")


def test_where_a_schema_may_be_named(tmp_path: Path) -> None:
    url = "postgresql://a@host/x?connect_timeout=3"
    conf, default = tmp_path / "slurm.conf", tmp_path / "penstock.db"
    conf.write_text("")
    address = database_address(url, conf, default, {}, schema="west")
    assert (
        address.startswith("postgresql://")
        and schema_of(database_url(address)) == "west"
        and "connect_timeout=3" in address
    )
    assert database_address(f"{url}&schema=west", conf, default, {}, schema="west") == address
    with pytest.raises(BadSetup, match="names the schema east"):
        database_address(f"{url}&schema=east", conf, default, {}, schema="west")
    for file in ("", "sqlite:////x/y.db"):
        with pytest.raises(BadSetup, match="SQLite file, which has no schemas; set PenstockDatabaseUrl"):
            database_address(file, conf, default, {}, schema="west")
    with pytest.raises(DatabaseUrlError, match="only PostgreSQL"):
        database_url("sqlite:////x/y.db?schema=west")
    for name in (
        'we"st',
        "a,b",
        "West",
        "1a",
        "",
        "x" * 64,
        "pg_toast",
        "information_schema",
        REGISTRY_SCHEMA,
        "a b",
        "a-b",
        "é",
    ):
        with pytest.raises(DatabaseUrlError, match="schema"):
            in_schema(url, name)


@pytest.mark.parametrize("by", ["this version", "an earlier version"])
def test_a_role_writes_the_row_of_its_own_schema_alone(postgresql: Server, by: str) -> None:
    """Also the role whose controller has made the table; and of a table that an earlier version has made, when the controller
    of its owner registers again."""
    place = postgresql.new_database()
    name = place.partition("@/")[2].partition("?")[0]
    for cluster in ("east", "west"):
        postgresql.execute(f"DROP ROLE IF EXISTS {cluster}_role")
        postgresql.execute(f"CREATE ROLE {cluster}_role LOGIN")
        change(place, f"CREATE SCHEMA {cluster} AUTHORIZATION {cluster}_role")
    change(place, f'GRANT CREATE ON DATABASE "{name}" TO east_role')

    def address(cluster: str) -> str:
        return place.replace("penstock@", f"{cluster}_role@")

    def register(cluster: str) -> str:
        row = RegisteredCluster(cluster, "", f"{cluster}.example", 6817, "25.05.0", 1, "{}")
        return Registry(f"{address(cluster)}&schema={cluster}", True).write(row)

    assert register("east") == ""
    change(place, "GRANT USAGE ON SCHEMA penstock_clusters TO west_role")
    change(place, "GRANT SELECT, INSERT, UPDATE, DELETE ON penstock_clusters.cluster TO west_role")
    table = "penstock_clusters.cluster"
    if by == "an earlier version":
        for name_of in ("everybody_reads", "own_rows"):
            change(place, f"DROP POLICY {name_of} ON {table}")
        for less in ("NO FORCE", "DISABLE"):
            change(place, f"ALTER TABLE {table} {less} ROW LEVEL SECURITY")
    assert (register("west"), register("west"), register("east"), register("east")) == ("", "", "", "")
    for own, other in (("west", "east"), ("east", "west")):
        assert rows(address(own), f"SELECT count(*) FROM {table}") == [(2,)]
        for act in (f"UPDATE {table} SET control_host = 'evil'", f"DELETE FROM {table}"):
            assert change(address(own), f"{act} WHERE name = '{other}'") == 0
        for act in (
            f"INSERT INTO {table} SELECT 'more', 'elsewhere', control_host, 1, slurm_version, 1, facts FROM {table} LIMIT 1",
            f"UPDATE {table} SET schema_name = 'elsewhere' WHERE name = '{own}'",
        ):
            with pytest.raises(ProgrammingError, match="row-level security"):
                change(address(own), act)
    assert rows(place, f"SELECT name, schema_name, control_host FROM {table} ORDER BY name") == [
        ("east", "east", "east.example"),
        ("west", "west", "west.example"),
    ]
    postgresql.drop(place)
    for cluster in ("east", "west"):
        postgresql.execute(f"DROP ROLE {cluster}_role")
