"""A log handler that writes in a thread of its own, so that no thread that logs waits for the disk.

write(2) to a file blocks as long as the file system's journal waits for its device. A daemon's event loop that logged in
such a moment would stop answering all callers.
"""

import logging
import threading
from queue import SimpleQueue
from typing import Final, Protocol

from penstock.threads import start_thread

#: Messages that wait for the disk; later ones are dropped, and counted in the log.
WAITING_MAX: Final = 50_000
#: How long the end of a process waits for the last messages.
FLUSH_S: Final = 2.0


class LogSink(Protocol):
    """What a log is written to: a text file, or what takes text like one."""

    def write(self, text: str, /) -> int:
        """Writes it. Raises OSError or ValueError."""

    def flush(self) -> None:
        """Passes on what was written."""

    def close(self) -> None:
        """Ends it."""


class BackgroundHandler(logging.Handler):
    """Writes to a stream, which it closes at its end if it `owns` it. Messages are formatted by the thread that logs.

    `after`: the handler that it replaces, whose messages come first unless they take longer than FLUSH_S.
    """

    def __init__(self, stream: LogSink, *, owns: bool, after: "BackgroundHandler | None" = None) -> None:
        super().__init__()
        self._after = after
        self._stream = stream
        self._owns = owns
        self._queue: SimpleQueue[str | threading.Event | None] = SimpleQueue()  # None = the end
        self._dropped = 0  # changed by `emit` only, which holds the handler's lock
        # changed by the thread only
        self._failed = 0
        self._reported = 0
        self._thread = start_thread(threading.Thread(target=self._write_all, name="log", daemon=True))

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a message."""
        if self._queue.qsize() >= WAITING_MAX:
            self._dropped += 1
            return
        self._queue.put(self.format(record))

    def flush(self) -> None:
        """Waits until what was logged is written, FLUSH_S at most."""
        if self._thread.is_alive():
            written = threading.Event()
            self._queue.put(written)
            written.wait(FLUSH_S)

    def finish(self) -> None:
        """Ends the thread when it has written everything; waits for nothing."""
        self._queue.put(None)
        super().close()

    def close(self) -> None:
        """Writes what was logged and ends, after FLUSH_S at most. May be called twice."""
        self.finish()
        self._thread.join(FLUSH_S)

    def _write_all(self) -> None:
        if self._after is not None:
            self._after._thread.join(FLUSH_S)
            self._after = None
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            else:
                self._write(item)
        if self._owns:
            self._stream.close()

    def _write(self, text: str) -> None:
        missing = self._dropped + self._failed
        if missing > self._reported:
            text = f"{self._notice(missing - self._reported)}\n{text}"
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # no space, a closed stderr: only the log itself could report it, later
            self._failed += 1
        else:
            self._reported = missing

    def _notice(self, missing: int) -> str:
        text = "%d messages were dropped here: the log could not be written"
        return self.format(logging.LogRecord("penstock.log", logging.ERROR, __file__, 0, text, (missing,), None))


def flush_logs() -> None:
    """Waits until what was logged is written, FLUSH_S at most: for a line that is printed past the log, after it."""
    for handler in logging.getLogger().handlers:
        handler.flush()
