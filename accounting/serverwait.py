"""Connections of PostgreSQL that wait no longer for a server that neither answers nor breaks the connection: those of readers.

If a server is suspended, or its machine hangs, its kernel keeps the connection alive, and `statement_timeout` is enforced by
the very process that does not run. So after CHECK_S without an answer a reader tries another connection. A server that is
only slow accepts it, and is waited for as long as its own timeouts allow. One that does not within `connect_timeout` is
unreachable: the reader gets the error of a lost connection. (The writer, whose COMMIT may have been done, has a watch of its own:
ctld/store/watchdog.py.)
"""

import time
from collections.abc import Mapping
from typing import Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from penstock.values.fields import made_of

T = TypeVar("T")
CHECK_S: Final = 5.0
#: How often the driver wakes up while it waits.
_INTERVAL_S: Final = 0.1


def answers(arguments: Mapping[str, object]) -> bool:
    """Checks whether a server accepts a connection within connect_timeout. A server that refuses has answered."""
    try:
        made_of(psycopg.connect, arguments).close()
    except psycopg.errors.ConnectionTimeout:
        return False
    except psycopg.Error:
        return True
    return True


class WatchedConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection whose waits end when the server is unreachable. Made by `connected`."""

    arguments: Mapping[str, object]

    def wait(self, gen: PQGen[T], interval: float = _INTERVAL_S, timeout: float | None = None) -> T:
        """As the driver waits. Raises OperationalError."""
        watched = self._watched(gen)
        return super().wait(watched, interval) if timeout is None else super().wait(watched, interval, timeout)

    def _watched(self, gen: PQGen[T]) -> PQGen[T]:
        since_s = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() - since_s > CHECK_S:
                    if not answers(self.arguments):
                        self.pgconn.finish()
                        raise psycopg.OperationalError("the server does not answer")
                    since_s = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found


def connected(arguments: Mapping[str, object]) -> WatchedConnection:
    """Connects, with the driver's arguments by name. Raises psycopg.Error."""
    connection = made_of(WatchedConnection.connect, arguments)
    connection.arguments = arguments
    return connection
