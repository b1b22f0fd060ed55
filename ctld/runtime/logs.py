"""The controller's log of jobs: one line for each event of a job, from committed batches.

It contains committed data only, and no environment, script or token.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ctld.core.records.effects import Batch
from ctld.core.records.job import HistoryRow
from penstock.logs.daemonlog import LogSettings
from penstock.logs.events import job_event
from penstock.logtext import Lines
from penstock.values.config import Config

log = logging.getLogger("penstock.ctld")

FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"


def log_settings(config: Config) -> LogSettings:
    """Returns what the configuration says of the controller's log."""
    return LogSettings(config.slurmctld_log_file, config.log_format, config.slurmctld_debug, config.log_time_format)


class JobLines(Lines):
    """Rows of jobs' histories as lines."""

    def __init__(self, rows: Sequence[HistoryRow]) -> None:
        super().__init__([f"job {row.job_id} attempt {row.attempt}: {row.event} {row.detail}" for row in rows])
        self._rows = rows

    @property
    def facts(self) -> Sequence[dict[str, str | int]]:
        """The fields of each line."""
        return [
            {"event": job_event(row.event), "job": row.job_id, "attempt": row.attempt, "detail": row.detail}
            for row in self._rows
        ]


def log_transitions(batch: Batch) -> None:
    """Logs the changes of jobs, one line each, with one write."""
    if batch.history and log.isEnabledFor(logging.INFO):
        log.info(JobLines(batch.history))
