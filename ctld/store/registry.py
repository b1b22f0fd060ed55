"""The registry: which clusters have their tables in this PostgreSQL database, each in a schema of its own.

One table in the schema `penstock_clusters`, with a row for each cluster: its name, its schema, where its controller is, and
the facts of its configuration by which a neighbour decides who may read what. A controller writes its own row when it
leads and when its configuration is read again, and reads those of others. The row says nothing about whether the
controller is up: the lease in that schema's `meta` does.

Rules
    - A name has one schema, and a schema one name: anything else is a configuration that would mix two clusters.
    - A site with one cluster needs no registry: without PenstockDatabaseSchema a controller joins one that exists and makes
      none. The warning about a role without the rights names the GRANT, and the cluster goes on alone.
    - What is read here was written by other controllers: the name of a schema is checked before it is used.
    - A role writes no row of a schema that is not its own (row-level security, which the maker of the table may set).

Deliberately absent: removing a cluster, which is an administrator's DELETE (docs/database.md).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from sqlalchemy import DDL, BigInteger, Column, Connection, Integer, MetaData, Table, Text, func, or_, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema, CreateTable

from accounting.database import DatabaseUrlError, database_url, is_server, shown, watched
from ctld.store.dialect import dialect_of, kind_of, own_schema, write_engine
from ctld.store.errors import StoreError
from penstock.values.names import REGISTRY_SCHEMA, is_cluster_name, why_no_host, why_no_schema
from penstock.values.text import shown as shown_text

CLUSTER: Final = Table(
    "cluster",
    MetaData(schema=REGISTRY_SCHEMA),
    Column("name", Text, primary_key=True),
    Column("schema_name", Text, nullable=False, unique=True),
    Column("control_host", Text, nullable=False),
    Column("control_port", Integer, nullable=False),
    Column("slurm_version", Text, nullable=False),  # whose protocol number clients show
    Column("registered_at_us", BigInteger, nullable=False),
    Column("facts", Text, nullable=False),  # JSON (ctld/rpc/gate/neighbourfacts.py)
)
#: Rows that are read: as many as a machine knows clusters (penstock/clusters.py).
CLUSTERS_MAX: Final = 64
#: Characters of the facts: lists of operators are the longest.
FACTS_MAX: Final = 1_000_000
#: SQLSTATE of an action that the role may not do.
_NOT_ALLOWED: Final = "42501"
_EXISTS: Final = text("SELECT 1 FROM pg_tables WHERE schemaname = :schema AND tablename = 'cluster'")
#: A role writes the rows of those schemas alone in which it may create tables: also the role whose controller has made the
#: registry, and that is its owner. PostgreSQL's own administrators are exempt.
_IS_OWN: Final = (
    "EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = schema_name "
    "AND pg_catalog.has_schema_privilege(oid, 'CREATE'))"
)
_OWN_ROWS: Final = tuple(
    DDL(statement, context={"table": f"{REGISTRY_SCHEMA}.cluster", "own": _IS_OWN})  # type: ignore[no-untyped-call]  # it has no types
    for statement in (
        "ALTER TABLE %(table)s ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE %(table)s FORCE ROW LEVEL SECURITY",
        "CREATE POLICY everybody_reads ON %(table)s FOR SELECT USING (true)",
        "CREATE POLICY own_rows ON %(table)s USING (%(own)s) WITH CHECK (%(own)s)",
    )
)
#: A table that an earlier version has made, and this role may change. One whose policies an administrator has disabled is left.
_UNPROTECTED: Final = text(
    "SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = to_regclass(:name) AND NOT c.relrowsecurity "
    "AND pg_has_role(c.relowner, 'USAGE') AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_policy WHERE polrelid = c.oid)"
)
#: Serialises controllers that register at the same time: a new table has no row to lock.
_LOCK: Final = text("SELECT pg_advisory_xact_lock(:key)")
LOCK_KEY: Final = 0x70656E73746F63 & 0x7FFFFFFFFFFFFFFF


class RegisteredCluster(NamedTuple):
    """One row, in the order of the columns."""

    name: str
    schema: str
    control_host: str
    control_port: int
    slurm_version: str
    registered_at_us: int
    facts: str


class Registry:
    """Keeps one cluster's row. `is_asked_for`: PenstockDatabaseSchema is set, so the registry is made if it is missing."""

    def __init__(self, address: str, is_asked_for: bool) -> None:
        self._address = address
        self._is_asked_for = is_asked_for

    def check(self, name: str, connection: Connection) -> None:
        """Checks that this cluster may have this name and schema, before anything in the schema is touched: a wrong one would
        be migrated. `connection`: one that is about to do so. Raises StoreError, DBAPIError."""
        if not is_server(self._address):
            return
        try:
            with connection.begin_nested():
                _check(connection, name)
        except DBAPIError as error:  # whose rights `write` warns about
            if not is_denied(error):
                raise

    def write(self, row: RegisteredCluster) -> str:
        """Writes the cluster's row with its actual schema. Returns a warning, or "". Raises StoreError, StorageWaits."""
        return self._run(lambda connection: self._write(connection, row))

    def _write(self, connection: Connection, row: RegisteredCluster) -> None:
        connection.execute(_LOCK, {"key": LOCK_KEY})
        if not _exists(connection):
            if not self._is_asked_for:
                return
            _make(connection)
        _protect(connection)
        _check(connection, row.name)
        values: dict[str, object] = dict(zip(CLUSTER.columns.keys(), row, strict=True))
        values["schema_name"] = own_schema(connection)
        insert = dialect_of(connection.engine).insert(CLUSTER).values(values)
        connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=values))

    def _run(self, act: Callable[[Connection], None]) -> str:
        if not is_server(self._address):
            return ""
        try:
            engine = watched(write_engine(self._address))
        except DatabaseUrlError as error:
            raise StoreError(str(error)) from error
        try:
            with engine.begin() as connection:
                act(connection)
        except DBAPIError as error:
            if is_denied(error):
                return self._denied()
            kind, said = kind_of(dialect_of(engine), error)
            raise kind(f"database {shown(self._address)}: {said}") from error
        finally:
            engine.dispose()
        return ""

    def _denied(self) -> str:
        url = database_url(self._address)
        role = f'"{url.username}"' if url.username else "the controller's role"
        return (
            f"database {shown(self._address)}: this cluster is not registered for the others of the database, as its role "
            f"may not do so; run as an administrator of the server: "
            f'GRANT CREATE ON DATABASE "{url.database}" TO {role}; or, if the schema {REGISTRY_SCHEMA} exists: '
            f"GRANT USAGE ON SCHEMA {REGISTRY_SCHEMA} TO {role}; "
            f"GRANT SELECT, INSERT, UPDATE ON {REGISTRY_SCHEMA}.cluster TO {role}"
        )


def registered(connection: Connection) -> list[RegisteredCluster]:
    """Reads the rows by name. What no controller has written is left out: it goes into statements, and to terminals."""
    if not _exists(connection):
        return []
    is_short = func.length(CLUSTER.c.facts) <= FACTS_MAX
    found = connection.execute(select(CLUSTER).where(is_short).order_by(CLUSTER.c.name).limit(CLUSTERS_MAX))
    rows = [RegisteredCluster._make(row) for row in found]
    return [row for row in rows if _is_plausible(row)]


def _is_plausible(row: RegisteredCluster) -> bool:
    has_names = is_cluster_name(row.name) and not why_no_host(row.control_host)
    return has_names and not why_no_schema(row.schema) and 0 <= row.control_port < 65_536


def is_denied(error: DBAPIError) -> bool:
    """Whether the role may not do this."""
    return getattr(error.orig, "sqlstate", "") == _NOT_ALLOWED


def _exists(connection: Connection) -> bool:
    if connection.dialect.name == "sqlite":
        return False
    return connection.execute(_EXISTS, {"schema": REGISTRY_SCHEMA}).first() is not None


def _make(connection: Connection) -> None:
    connection.execute(CreateSchema(REGISTRY_SCHEMA, if_not_exists=True))
    connection.execute(CreateTable(CLUSTER))


def _protect(connection: Connection) -> None:
    """Sets row-level security on a table without it, a new one or one of an earlier version, if this role may."""
    if connection.execute(_UNPROTECTED, {"name": f"{REGISTRY_SCHEMA}.cluster"}).first() is None:
        return
    for statement in _OWN_ROWS:
        connection.execute(statement)


def _check(connection: Connection, name: str) -> None:
    """Raises StoreError when another cluster has the schema, or another schema the name."""
    if not _exists(connection):
        return
    schema = own_schema(connection)
    rule = or_(CLUSTER.c.name == name, CLUSTER.c.schema_name == schema)
    for found in connection.execute(select(CLUSTER.c.name, CLUSTER.c.schema_name).where(rule)):
        if tuple(found) == (name, schema):
            continue
        what = (
            f"a cluster {name} has its tables in the schema {shown_text(found.schema_name)}"
            if found.name == name
            else f"the schema {schema} has the tables of the cluster {shown_text(found.name)}"
        )
        raise StoreError(
            f"{what}, and this one is cluster {name} with schema {schema}: give it another ClusterName or "
            f"PenstockDatabaseSchema. If that cluster no longer exists, delete its row in {REGISTRY_SCHEMA}.cluster"
        )
