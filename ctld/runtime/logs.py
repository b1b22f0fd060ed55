"""The controller's log: one line for each thing that happened to a job, from committed batches.

What is written is what the database has. No environment, no script, no token comes near it.
"""

import logging
import sys
from pathlib import Path
from typing import Final

from ctld.core.effects import Batch
from penstock.values.loglevels import level_of

log = logging.getLogger("penstock.ctld")

FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
#: LogTimeFormat: how `asctime` is written, and whether milliseconds follow. Others are as iso8601_ms, less the "T".
_TIMES: Final = {
    "iso8601": ("%Y-%m-%dT%H:%M:%S", False),
    "iso8601_ms": ("%Y-%m-%dT%H:%M:%S", True),
    "rfc5424": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc5424_ms": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc3339": ("%Y-%m-%dT%H:%M:%S%z", False),
    "short": ("%b %d %H:%M:%S", False),
}


class LogFile:
    """SlurmctldLogFile, or stderr. Opened anew after a rotation (SIGHUP)."""

    def __init__(self, path: str, level: str = "info", time_format: str = "") -> None:
        self._path = path
        self._level, self._time_format = level, time_format
        self._handler: logging.Handler | None = None
        self.reopen()

    def reopen(self) -> None:
        """Write to the file that has the name now."""
        handler: logging.Handler
        if self._path:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(self._path, encoding="utf-8", errors="backslashreplace")
        else:
            handler = logging.StreamHandler(sys.stderr)
        pattern, has_ms = _TIMES.get(self._time_format, ("", False))
        stamp = "%(asctime)s.%(msecs)03d" if has_ms else "%(asctime)s"
        handler.setFormatter(logging.Formatter(FORMAT.replace("%(asctime)s", stamp), pattern or None))
        root = logging.getLogger()
        root.setLevel(level_of(self._level))
        logging.getLogger("alembic").setLevel(logging.WARNING)
        root.addHandler(handler)
        if self._handler is not None:
            root.removeHandler(self._handler)
            self._handler.close()
        self._handler = handler

    def set(self, level: str, time_format: str) -> None:
        """SlurmctldDebug and LogTimeFormat, from now on."""
        if (level, time_format) != (self._level, self._time_format):
            self._level, self._time_format = level, time_format
            self.reopen()

    def flush(self) -> None:
        """Nothing stays in this process."""
        if self._handler is not None:
            self._handler.flush()


def log_transitions(batch: Batch) -> None:
    """What became of jobs, a line each."""
    if not log.isEnabledFor(logging.INFO):
        return
    for line in batch.history:
        log.info("job %d attempt %d: %s %s", line.job_id, line.attempt, line.event, line.detail)
