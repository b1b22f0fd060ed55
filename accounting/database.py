"""Where the database is, and connections that can only read it.

A place is a path, `sqlite:////path`, or `postgresql://user@host/name` with libpq's parameters behind a `?`. Reading has
connections of its own, so that a long `sacct` never holds up a commit: they see the state of the last commit and block
nobody, and the database refuses writes on them (`query_only`, `default_transaction_read_only`). A connection that was
lost is made again when the next question comes.

Deliberately absent: a pool that grows, and any way to put a password into a message (`shown`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

#: A reader may have to wait while a crashed writer's log is recovered by the next one; not longer than this.
READ_BUSY_TIMEOUT_MS = 10_000
#: Connections kept open for readers. More readers than that at once queue up for one.
READ_CONNECTIONS_MAX = 4
#: A question that a server works on for longer is given up.
READ_STATEMENT_TIMEOUT_MS = 300_000
#: A server's connection that was not used for so long is made anew: firewalls forget what is quiet.
READ_RECYCLE_S = 1_800

_PRAGMAS = (f"PRAGMA busy_timeout = {READ_BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")

#: How soon a server that is away is known to be: seconds, but milliseconds for the last. A URL may say otherwise.
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
_SCHEMES = {"sqlite": "sqlite", "postgresql": POSTGRESQL, "postgres": POSTGRESQL, POSTGRESQL: POSTGRESQL}


class DatabaseUrlError(ValueError):
    """The place of the database cannot be understood, or not be used on this machine."""


def database_url(text: str | Path) -> URL:
    """A path or a URL as a URL. In-memory databases have no second connection and are not for readers."""
    if isinstance(text, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    scheme = text.partition("://")[0].lower()
    hint = "write a path, sqlite:////absolute/path or postgresql://user@host/name"
    if scheme not in _SCHEMES:
        raise DatabaseUrlError(f"database {scheme}://...: only SQLite and PostgreSQL are supported; {hint}")
    try:
        url = make_url(_SCHEMES[scheme] + text[len(scheme) :])
    except (ArgumentError, ValueError):  # its text may hold a password and is not repeated
        raise DatabaseUrlError(f"database {scheme}://...: not a URL; {hint}") from None
    if not url.database:
        raise DatabaseUrlError(f"database {shown(text)}: the database has no name; {hint}")
    return url


def is_server(text: str | Path) -> bool:
    """True of a database that is not a file of this machine. Raises DatabaseUrlError."""
    return database_url(text).drivername == POSTGRESQL


def shown(text: str | Path) -> str:
    """The place for messages: a password is not shown."""
    if isinstance(text, Path) or "://" not in text:
        return str(text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return text.partition("://")[0] + "://..."
    query = {name: "***" if "password" in name else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def server_arguments(url: URL, settings: Mapping[str, str]) -> dict[str, Any]:
    """What a connection to a server is made with, beside what its URL says. `settings` hold for the session."""
    arguments: dict[str, Any] = {name: value for name, value in _SERVER_ARGUMENTS.items() if name not in url.query}
    words = [str(url.query["options"])] if "options" in url.query else []
    words += [f"-c {name}={value}" for name, value in settings.items()]
    return arguments | {"options": " ".join(words)}


def server_engine(url: URL, settings: Mapping[str, str], **keywords: Any) -> Engine:
    """An engine for a server's database. Raises DatabaseUrlError when its driver is not installed."""
    try:
        return create_engine(url, connect_args=server_arguments(url, settings), **keywords)
    except ModuleNotFoundError as error:
        hint = "PostgreSQL needs the Python package psycopg; run: pip install 'penstock[postgresql]'"
        raise DatabaseUrlError(f"database {shown(str(url))}: {hint}") from error


def read_engine(text: str | Path) -> Engine:
    """An engine whose connections cannot write. An SQLite file must exist when the first of them is made."""
    url = database_url(text)
    if url.drivername == POSTGRESQL:
        settings = {"default_transaction_read_only": "on", "statement_timeout": str(READ_STATEMENT_TIMEOUT_MS)}
        sizes = {"pool_size": READ_CONNECTIONS_MAX, "max_overflow": 0, "pool_recycle": READ_RECYCLE_S}
        return server_engine(url, settings, pool_pre_ping=True, **sizes)
    # A URI is percent-decoded by SQLite, so that a '?' or '#' in the path must not reach it as such.
    quoted = Path(str(url.database)).absolute().as_uri().removeprefix("file://")
    url = URL.create("sqlite", database=f"file:{quoted}", query={"mode": "ro", "uri": "true"})
    engine = create_engine(url, pool_size=READ_CONNECTIONS_MAX, max_overflow=0)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma).close()

    return engine
