"""The controller's log: one line for each thing that happened to a job, from committed batches.

What is written is what the database has. No environment, no script, no token comes near it.
"""

import logging
import sys
from pathlib import Path
from typing import Final

from ctld.core.effects import Batch

log = logging.getLogger("penstock.ctld")

FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


class LogFile:
    """SlurmctldLogFile, or stderr. Opened anew after a rotation (SIGHUP)."""

    def __init__(self, path: str) -> None:
        self._path = path
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
        handler.setFormatter(logging.Formatter(FORMAT))
        root = logging.getLogger()
        root.setLevel(logging.INFO)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        root.addHandler(handler)
        if self._handler is not None:
            root.removeHandler(self._handler)
            self._handler.close()
        self._handler = handler

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
