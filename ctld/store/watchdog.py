"""A deadline for a database server that neither answers nor breaks the connection.

If a server is suspended, or its machine hangs, TCP stays up: its kernel acknowledges, keepalives are answered, and
libpq waits forever; `statement_timeout` is enforced by the very process that does not run. So while the writer waits, a
thread checks every CHECK_S whether the server accepts another connection. A server that is only slow does, and the wait
continues, up to LIMIT_S. One that does not within its connect_timeout is unreachable: the writer's socket is shut down,
the writer sees a lost connection, and the result of a COMMIT in progress is read from `meta` when the server is back,
as after any loss.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

# Any: each driver has its own class of connections
from typing import Any, Final

log = logging.getLogger("penstock.ctld")

CHECK_S: Final = 5.0
#: Longer than the server's own statement timeout (postgresql.STATEMENT_TIMEOUT_MS), which has failed by then.
LIMIT_S: Final = 65.0


class Watchdog:
    """Watches one thread's waits. `answers` tries a new connection; it must return in bounded time."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self._changed = threading.Condition()
        self._turn = 0  # start of the present or last wait
        self._connection: Callable[[], Any] | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Stops watching."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    @contextmanager
    def over(self, connection: Callable[[], object]) -> Iterator[None]:
        """Watches the waits of the block. `connection`: the driver's, whose socket may have to be shut down."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        with self._changed:
            self._turn += 1
            self._connection = connection
        try:
            yield
        finally:
            with self._changed:
                self._connection = None

    def _watch(self) -> None:
        turn, since = 0, 0.0
        while True:
            with self._changed:
                self._changed.wait(CHECK_S / 2)
                if self._is_closed:
                    return
                if self._connection is None:
                    continue
                if self._turn != turn:
                    turn, since = self._turn, time.monotonic()
                    continue
            waited_s = time.monotonic() - since
            if waited_s > LIMIT_S or (waited_s > CHECK_S / 2 and not self._answers()):
                self._shut(turn, waited_s)

    def _shut(self, turn: int, waited_s: float) -> None:
        with self._changed:
            raw = self._connection() if self._connection is not None and self._turn == turn else None
            if raw is None or raw.closed:
                return
            log.error("the database's server has not answered for %.0f s; the connection is closed", waited_s)
            with suppress(OSError), socket.socket(fileno=os.dup(raw.fileno())) as handle:
                handle.shutdown(socket.SHUT_RDWR)
