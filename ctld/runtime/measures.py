"""Measurements of the loop, for the monitoring (`Metrics`) and for sdiag (`Diagnostics`): one method for each occasion.

Begin times are those of time.perf_counter_ns().
"""

import time

from ctld.core.records.effects import Batch
from ctld.metrics import CallOutcomes, Diagnostics, Durations, Metrics


class Measures:
    """The counts of one loop."""

    __slots__ = ("calls", "diagnostics", "metrics", "times")

    def __init__(self, metrics: Metrics, diagnostics: Diagnostics) -> None:
        self.metrics = metrics
        self.diagnostics = diagnostics
        self.times = Durations()
        self.calls = CallOutcomes()

    def spared(self) -> None:
        """Counts a request that was refused for an internal error."""
        self.metrics.spared += 1
        self.diagnostics.spared += 1

    def quick_pass(self, begun_ns: int, rows: int, ready: int) -> None:
        """Counts a quick pass."""
        took_us = _us_since(begun_ns)
        self.diagnostics.main.count(took_us, rows, ready)
        self.times.quick_passes.count(took_us)

    def full_pass(self, begun_ns: int, rows: int, starts: int, table: int, now_us: int) -> None:
        """Counts a full pass that has returned."""
        took_us = _us_since(begun_ns)
        self.diagnostics.count_backfill(took_us, rows, starts, table, now_us)
        self.times.full_passes.count(took_us)

    def committed(self, begun_ns: int, batch: Batch) -> None:
        """Counts a batch that is in the database."""
        took_us = _us_since(begun_ns)
        metrics, diagnostics = self.metrics, self.diagnostics
        metrics.commits += 1
        metrics.commit_us_total += took_us
        metrics.rows += len(batch.jobs) + len(batch.steps) + len(batch.history)
        diagnostics.commits += 1
        diagnostics.commit_us += took_us
        self.times.commits.count(took_us)

    def released(self, batch: Batch, now_us: int) -> None:
        """Counts a batch that is visible, and whose effects have left."""
        for line in batch.history:
            self.diagnostics.count_history(line.event, line.detail)
            if line.event == "submit":
                self.times.submissions.count(max(now_us - line.at_us, 0))
        self.metrics.effects += len(batch.effects)


def _us_since(begun_ns: int) -> int:
    return (time.perf_counter_ns() - begun_ns) // 1000
