"""Reads the accounting of the other clusters of the same database, also while their controllers are down.

A handler that reads accounting asks for the `View` of the cluster that its request names: the state by which rights are
decided, the caller with their role there, and where to read. Without a name, or with the own one, that is the running
core and the caller as they are. For a neighbour it is a core without jobs and nodes, built from that cluster's rows and
the facts of its configuration in the registry, so that the same code serves both.

Rules
    - Only a cluster of the registry is read, in the schema that the registry names, by connections that cannot write,
      are opened for one question and closed after it: as many at once as there are threads. A connection is not used again,
      as what its session was set to by the functions of one schema would be there for the next question.
    - Its row in the registry is read each time, by the connection that reads its schema: where the schema was the last time is
      only where to look first. So a cluster that has moved, is gone or judges otherwise by now is noticed at once.
    - A server that does not answer is noticed (accounting/serverwait.py): the read fails, and other calls continue.
    - Its schema is its role's, which may put views and functions there in place of tables: they would run with the rights
      of the role that reads. PenstockDatabaseReadUrl names one that has none but to read.
    - Its tables must be of our schema's revision.
    - The core is kept while that cluster's accounts, users and QOS are the same (the number of its last transaction); its
      usage may then be USAGE_AGE_US old.

Deliberately absent: anything that changes a neighbour.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.engine.interfaces import CoreExecuteOptionsParameter
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accounting.database import in_schema, is_server, read_engine
from accounting.records import Records
from accounting.schema import TXN
from accounting.traces import Traces
from ctld.core.controller import Core
from ctld.core.records.events import Actor
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.neighbourfacts import NeighbourConfig, actor_there, config_of
from ctld.runtime.errors import BadRequest
from ctld.runtime.fair import FairThreads
from ctld.store.dialect import dialect_of, kind_of, one_moment
from ctld.store.errors import StorageWaits, StoreError
from ctld.store.loader import load_accounting
from ctld.store.migrate import REVISIONS, revision_of
from ctld.store.registry import CLUSTERS_MAX, RegisteredCluster, is_denied, registered
from ctld.store.schema import META, SCHEMA_NAME
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code

T = TypeVar("T")
#: Engines that are kept: those of all clusters, and the registry's.
_ENGINES_MAX: Final = CLUSTERS_MAX + 1
#: How old the usage of a cluster whose accounts are the same may be.
USAGE_AGE_US: Final = 60 * 1_000_000
_OWN: Final = text("SELECT current_schema()")
_NO_RIGHTS: Final = (
    "the controller's role may not read it: an administrator of the database gives it USAGE on the schema and SELECT on "
    "its tables"
)
#: Threads that read what a view needs.
THREADS: Final = 2


class NeighbourRead(Protocol):
    """Runs work with a connection, in a thread (reading.Reading.read)."""

    def __call__(self, work: Callable[[Connection], T], /) -> Awaitable[T]: ...


class View(NamedTuple):
    """A cluster as the caller may read it. `host`, `port`: of its controller; "" and 0 while none leads. `without_jobs`: it
    is a neighbour, whose state has no jobs."""

    state: ClusterState
    actor: Actor
    records: Records
    traces: Traces
    read: NeighbourRead
    host: str
    port: int
    without_jobs: bool = False


class _Kept(NamedTuple):
    """A neighbour's core, and what it was built from."""

    row: RegisteredCluster
    epoch: int
    txn_id: int
    sequence: int
    at_us: int
    there: NeighbourConfig
    state: ClusterState


class Opened(NamedTuple):
    """A neighbour that was looked up."""

    there: NeighbourConfig
    state: ClusterState
    address: str
    engine: Engine
    is_up: bool


class Neighbours:
    """The other clusters of the database. Methods are of the loop; look-ups run in threads."""

    def __init__(self, address: str, clock_us: Callable[[], int]) -> None:
        self._address = address
        self._clock_us = clock_us
        self._threads = FairThreads("questions about other clusters", THREADS)
        self._kept: dict[str, _Kept] = {}
        self._schemas: dict[str, str] = {}  # by name, as they were last
        self._engines: dict[str, Engine] = {}  # by address; none holds a connection

    async def rows(self) -> list[RegisteredCluster]:
        """Reads the registry; [] without one. A neighbour without a leader has host "" and port 0. Raises BadRequest."""
        if not is_server(self._address):
            return []
        return await self._ask(self._list)

    async def find(self, name: str) -> Opened:
        """Looks up a neighbour by its name. Raises BadRequest."""
        if not is_server(self._address):
            raise _unknown(name)
        return await self._ask(lambda: self._open(name))

    async def _ask(self, work: Callable[[], T]) -> T:
        return await self._threads.ask(caller().uid, lambda _: work(), lambda: None)

    # ---- in threads ----------------------------------------------------------------------------------------------

    def _list(self) -> list[RegisteredCluster]:
        return self._reading(
            "", self._address, lambda connection, _: [self._shown(row, connection) for row in registered(connection)]
        )

    def _shown(self, row: RegisteredCluster, connection: Connection) -> RegisteredCluster:
        there: CoreExecuteOptionsParameter = {"schema_translate_map": {None: row.schema}}
        try:
            with connection.begin_nested():
                expires_at_us = connection.execute(select(META.c.expires_at_us), execution_options=there).scalar() or 0
        except DBAPIError:  # the cluster is in the list whatever its schema is like; a reader gets the error
            expires_at_us = 0
        return row if expires_at_us > self._clock_us() else row._replace(control_host="", control_port=0)

    def _open(self, name: str) -> Opened:
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._reading("", self._address, lambda connection, _: self._row(name, connection)).schema
        found = self._inspect_at(name, schema)
        if isinstance(found, str):  # it has moved
            found = self._inspect_at(name, found)
        if isinstance(found, str):
            raise _unreadable(f"cluster {name}: its schema in the registry changes too often")
        return found

    def _inspect_at(self, name: str, schema: str) -> Opened | str:
        """Looks into a schema. Returns where the cluster is, if it is another one."""
        address = in_schema(self._address, schema)

        def work(connection: Connection, engine: Engine) -> Opened | str:
            one_moment(connection)
            row = self._row(name, connection)
            return self._inspect(row, address, connection, engine) if row.schema == schema else row.schema

        return self._reading(name, address, work)

    def _row(self, name: str, connection: Connection) -> RegisteredCluster:
        """Returns the cluster's row in the registry."""
        row = next((row for row in registered(connection) if row.name == name), None)
        if row is None:
            self._schemas.pop(name, None)
            raise _unknown(name)
        if len(self._schemas) >= CLUSTERS_MAX:
            self._schemas.clear()
        self._schemas[name] = row.schema
        return row

    def _inspect(self, row: RegisteredCluster, address: str, connection: Connection, engine: Engine) -> Opened:
        if connection.execute(_OWN).scalar() is None:
            raise _unreadable(f"cluster {row.name}: its schema does not exist, or {_NO_RIGHTS}")
        revision = revision_of(connection)
        if revision != REVISIONS[-1]:
            text = (
                f"the tables of cluster {row.name} have schema {revision or 'none'}, this program's is {REVISIONS[-1]}"
            )
            raise _unreadable(f"{text}: both clusters need the same version of Penstock")
        meta = connection.execute(select(META)).one()
        if meta.name != SCHEMA_NAME:
            raise _unreadable(f"the schema of cluster {row.name} is not Penstock's")
        txn_id = connection.execute(select(func.max(TXN.c.txn_id))).scalar() or 0
        kept, now_us = self._kept.get(row.name), self._clock_us()
        is_same = kept is not None and (kept.row, kept.epoch, kept.txn_id) == (row, meta.epoch, txn_id)
        if kept is None or not is_same or (kept.sequence != meta.sequence and now_us - kept.at_us > USAGE_AGE_US):
            there = config_of(row)
            state = Core(there.config, load_accounting(connection), now_us, is_stored=False).state
            kept = _Kept(row, meta.epoch, txn_id, meta.sequence, now_us, there, state)
            self._kept[row.name] = kept
        return Opened(kept.there, kept.state, address, engine, meta.expires_at_us > now_us)

    def _reading(self, name: str, address: str, work: Callable[[Connection, Engine], T]) -> T:
        """Runs work with a connection of its own. `name`: the cluster whose tables are read; "" = the registry."""
        engine = self._engines.get(address)
        if engine is None:
            if len(self._engines) >= _ENGINES_MAX:
                self._engines.clear()
            engine = self._engines[address] = read_engine(address, pooled=False)
        try:
            with engine.connect() as connection:
                return work(connection, engine)
        except BadValue as error:
            raise _unreadable(str(error)) from error
        except (DBAPIError, StoreError) as error:
            raise _refusal(name, engine, error) from error
        except SQLAlchemyError as error:
            raise _unreadable(f"cluster {name}: {error}") from error


def view_of(found: Opened, read: Callable[[Engine], NeighbourRead]) -> View:
    """Returns the view of a neighbour for the caller of this method."""
    config = found.there.config
    return View(
        found.state,
        actor_there(caller(), found.there, found.state.shares.people),
        Records(found.address, found.engine),
        Traces(found.address, found.engine),
        read(found.engine),
        config.controller_host if found.is_up else "",
        config.slurmctld_port if found.is_up else 0,
        without_jobs=True,
    )


def _refusal(name: str, engine: Engine, error: DBAPIError | StoreError) -> BadRequest:
    """Returns the refusal, without the database's own words, which name its tables."""
    if isinstance(error, DBAPIError) and is_denied(error):
        return _unreadable(f"{f'cluster {name}' if name else 'the registry of clusters'}: {_NO_RIGHTS}")
    kind = kind_of(dialect_of(engine), error)[0] if isinstance(error, DBAPIError) else type(error)
    if issubclass(kind, StorageWaits):
        return BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY])
    return _unreadable(f"cluster {name}: its tables in the database cannot be read")


def _unknown(name: str) -> BadRequest:
    return BadRequest(Code.INVALID_VALUE, f"No cluster '{name}' known by database.")


def _unreadable(what: str) -> BadRequest:
    return BadRequest(Code.CONFIG_INVALID, what)
