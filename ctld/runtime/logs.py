"""The controller's log of jobs: one line for each event of a job, from committed batches.

It contains committed data only, and no environment, script or token.
"""

import logging
import sys
from pathlib import Path
from typing import Final

from ctld.core.records.effects import Batch
from penstock.logfile import BackgroundHandler
from penstock.logtext import CleanFormatter, Lines
from penstock.values.loglevels import level_of

log = logging.getLogger("penstock.ctld")

FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
#: LogTimeFormat: the format of `asctime`, and whether milliseconds follow. Others are as iso8601_ms, without the "T".
_TIMES: Final = {
    "iso8601": ("%Y-%m-%dT%H:%M:%S", False),
    "iso8601_ms": ("%Y-%m-%dT%H:%M:%S", True),
    "rfc5424": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc5424_ms": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc3339": ("%Y-%m-%dT%H:%M:%S%z", False),
    "short": ("%b %d %H:%M:%S", False),
}


class LogFile:
    """The log's file: SlurmctldLogFile, or stderr. Reopened after a rotation (SIGHUP). A thread writes it
    (penstock/logfile.py)."""

    def __init__(self, path: str, level: str = "info", time_format: str = "") -> None:
        self._path = path
        self._level = level
        self._time_format = time_format
        self._handler: BackgroundHandler | None = None
        self.reopen()

    def reopen(self) -> None:
        """Reopens the file by its name."""
        if self._path:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            stream = open(self._path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (kept open)
            handler = BackgroundHandler(stream, owns=True)
        else:
            handler = BackgroundHandler(sys.stderr, owns=False)
        pattern, has_ms = _TIMES.get(self._time_format, ("", False))
        stamp = "%(asctime)s.%(msecs)03d" if has_ms else "%(asctime)s"
        handler.setFormatter(CleanFormatter(FORMAT.replace("%(asctime)s", stamp), pattern or None))
        root = logging.getLogger()
        root.setLevel(level_of(self._level))
        logging.getLogger("alembic").setLevel(logging.WARNING)
        root.addHandler(handler)
        if self._handler is not None:
            root.removeHandler(self._handler)
            self._handler.finish()
        self._handler = handler

    def set(self, level: str, time_format: str) -> None:
        """Changes SlurmctldDebug and LogTimeFormat."""
        if (level, time_format) != (self._level, self._time_format):
            self._level = level
            self._time_format = time_format
            self.reopen()

    def flush(self) -> None:
        """Waits until what was logged is written, for a short time at most."""
        if self._handler is not None:
            self._handler.flush()


def log_transitions(batch: Batch) -> None:
    """Logs the changes of jobs, one line each, with one write."""
    if batch.history and log.isEnabledFor(logging.INFO):
        log.info(Lines([f"job {row.job_id} attempt {row.attempt}: {row.event} {row.detail}" for row in batch.history]))
