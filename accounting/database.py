"""Locates the database, and opens read-only connections to it.

An address is a path, `sqlite:////path`, or `postgresql://user@host/name` with libpq's parameters behind a `?`, and with
ours: `schema=NAME`, where one database has the tables of several clusters, each in a schema of its own. Readers
have their own connections, so that a long `sacct` never delays a commit: they see the state of the last commit and take
no locks, and the database refuses writes on them (`query_only`, `default_transaction_read_only`). A lost connection is
replaced at the next query, and one to a server that does not answer is lost (serverwait.py).

Deliberately absent: a growing pool, and any way for a password to get into a message (`shown`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from penstock.values.names import why_no_schema
from penstock.values.urls import without_password

if TYPE_CHECKING:
    from sqlite3 import Connection as SqliteConnection

#: Time that a reader waits while another process recovers the log of a crashed writer.
READ_BUSY_TIMEOUT_MS = 10_000
#: Connections kept open for readers. Further readers wait for one.
READ_CONNECTIONS_MAX = 4
#: Time limit of a query on a server.
READ_STATEMENT_TIMEOUT_MS = 300_000
#: A server connection that was idle for this long is replaced: firewalls drop idle connections.
READ_RECYCLE_S = 1_800

_PRAGMAS = (f"PRAGMA busy_timeout = {READ_BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")

#: Timeouts after which a dead server is noticed: seconds, but milliseconds for the last. A URL may override them.
_SERVER_ARGUMENTS = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "penstock",
    "client_encoding": "utf8",
}

POSTGRESQL = "postgresql+psycopg"
#: The parameter of a server's URL that is ours and not libpq's.
_SCHEMA = "schema"
_SCHEMES = {"sqlite": "sqlite", "postgresql": POSTGRESQL, "postgres": POSTGRESQL, POSTGRESQL: POSTGRESQL}


class DatabaseUrlError(ValueError):
    """The location of the database cannot be parsed, or cannot be used on this machine."""


def database_url(text: str | Path) -> URL:
    """Converts a path or a URL to a URL. In-memory databases are refused: they cannot have a second connection."""
    if isinstance(text, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    scheme = text.partition("://")[0].lower()
    hint = "write a path, sqlite:////absolute/path or postgresql://user@host/name"
    if scheme not in _SCHEMES:
        raise DatabaseUrlError(f"database {scheme}://...: only SQLite and PostgreSQL are supported; {hint}")
    try:
        url = make_url(_SCHEMES[scheme] + text[len(scheme) :])
    except (ArgumentError, ValueError):  # its text may contain a password and is not repeated
        raise DatabaseUrlError(f"database {scheme}://...: not a URL; {hint}") from None
    if not url.database:
        raise DatabaseUrlError(f"database {shown(text)}: the database has no name; {hint}")
    if _SCHEMA in url.query and (url.drivername != POSTGRESQL or (why := why_no_schema(str(url.query[_SCHEMA])))):
        why = why if url.drivername == POSTGRESQL else "only PostgreSQL has schemas"
        raise DatabaseUrlError(f"database {shown(text)}: schema {url.query[_SCHEMA]!r}: {why}")
    return url


def schema_of(url: URL) -> str:
    """The schema of the tables; "" = that of the server's own search path, which is `public`."""
    return str(url.query.get(_SCHEMA, ""))


def bare(url: URL) -> URL:
    """The URL for libpq, which does not know our parameter."""
    return url.difference_update_query([_SCHEMA])


def in_schema(text: str | Path, schema: str) -> str:
    """The address with that schema in place of its own. Raises DatabaseUrlError for a file, or no name of a schema."""
    if why := why_no_schema(schema):
        raise DatabaseUrlError(f"database {shown(text)}: schema {schema!r}: {why}")
    url = database_url(text).update_query_dict({_SCHEMA: schema})
    found = url.set(drivername="postgresql" if url.drivername == POSTGRESQL else url.drivername)
    database_url(found.render_as_string(hide_password=False))  # refuses a file
    return str(found.render_as_string(hide_password=False))


def is_server(text: str | Path) -> bool:
    """True for a database that is not a file of this machine. Raises DatabaseUrlError."""
    return database_url(text).drivername == POSTGRESQL


def shown(text: str | Path) -> str:
    """The location for messages, without a password."""
    if isinstance(text, Path) or "://" not in text:
        return str(text)
    return without_password(text)


def server_arguments(url: URL, settings: Mapping[str, str]) -> dict[str, object]:
    """The connection arguments of a server, in addition to its URL. `settings` apply to the session."""
    arguments: dict[str, object] = {name: value for name, value in _SERVER_ARGUMENTS.items() if name not in url.query}
    words = [str(url.query["options"])] if "options" in url.query else []
    words += [f"-c {name}={value}" for name, value in settings.items()]
    if schema := schema_of(url):
        words.append(f'-c search_path="{schema}"')  # a plain name (why_no_schema)
    return arguments | {"options": " ".join(words)}


def server_engine(url: URL, settings: Mapping[str, str], **keywords: object) -> Engine:
    """An engine for a server's database. Raises DatabaseUrlError when its driver is not installed."""
    try:
        return create_engine(bare(url), connect_args=server_arguments(url, settings), **keywords)
    except ModuleNotFoundError as error:
        hint = "PostgreSQL needs the Python package psycopg; run: pip install 'penstock[postgresql]'"
        raise DatabaseUrlError(f"database {shown(str(url))}: {hint}") from error


def read_engine(text: str | Path, *, pooled: bool = True) -> Engine:
    """An engine whose connections cannot write. An SQLite file must exist when the first of them is made. Not `pooled`: a
    server's connection is closed after each use."""
    url = database_url(text)
    if url.drivername == POSTGRESQL:
        settings = {"default_transaction_read_only": "on", "statement_timeout": str(READ_STATEMENT_TIMEOUT_MS)}
        if not pooled:
            return watched(server_engine(url, settings, poolclass=NullPool))
        sizes = {"pool_size": READ_CONNECTIONS_MAX, "max_overflow": 0, "pool_recycle": READ_RECYCLE_S}
        return watched(server_engine(url, settings, pool_pre_ping=True, **sizes))
    # SQLite percent-decodes a URI, so that a '?' or '#' in the path has to be escaped.
    quoted = Path(str(url.database)).absolute().as_uri().removeprefix("file://")
    url = URL.create("sqlite", database=f"file:{quoted}", query={"mode": "ro", "uri": "true"})
    engine = create_engine(url, pool_size=READ_CONNECTIONS_MAX, max_overflow=0)

    @event.listens_for(engine, "connect")
    def _prepare(connection: "SqliteConnection", _record: object) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma).close()

    return engine


def watched(engine: Engine) -> Engine:
    """Has a server's new engine make connections that notice when the server does not answer; returns it."""
    from accounting.serverwait import connected

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, words: list[object], arguments: dict[str, object]) -> object:
        return connected(arguments | ({"conninfo": words[0]} if words else {}))

    return engine
