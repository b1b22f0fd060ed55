"""Where the database is, and connections that can only read it.

Reading has connections of its own, so that a long `sacct` never holds up a commit: in WAL mode readers see the state of
the last commit and block nobody. `query_only` makes the database refuse writes on them.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

#: A reader may have to wait while a crashed writer's log is recovered by the next one; not longer than this.
READ_BUSY_TIMEOUT_MS = 10_000
#: Connections kept open for readers. More readers than that at once queue up for one.
READ_CONNECTIONS_MAX = 4

_PRAGMAS = (f"PRAGMA busy_timeout = {READ_BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")


class DatabaseUrlError(ValueError):
    """The place of the database cannot be understood."""


def database_url(text: str | Path) -> URL:
    """A path or `sqlite:///path` as a URL. In-memory databases have no second connection and are not for readers."""
    if isinstance(text, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except ArgumentError:
        raise DatabaseUrlError(f"database {text}: not a URL; write a path or sqlite:////absolute/path") from None
    if url.get_backend_name() != "sqlite" or not url.database:
        raise DatabaseUrlError(f"database {url!r}: only SQLite files are supported; write a path")
    return url


def read_engine(text: str | Path) -> Engine:
    """An engine whose connections cannot write. The file must exist when the first of them is made."""
    database = database_url(text).database
    # A URI is percent-decoded by SQLite, so that a '?' or '#' in the path must not reach it as such.
    quoted = Path(str(database)).absolute().as_uri().removeprefix("file://")
    url = URL.create("sqlite", database=f"file:{quoted}", query={"mode": "ro", "uri": "true"})
    engine = create_engine(url, pool_size=READ_CONNECTIONS_MAX, max_overflow=0)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        for pragma in _PRAGMAS:
            connection.execute(pragma).close()

    return engine
