"""Adds events for deliveries to a batch before its commit: they are durable with their cause, or neither is.

Each has a sequence number that rises from one start of the controller to the next, as those of Watch do. Changes are those of
Watch (rpc/watch/changed.py), for the kinds that a receiver has; a completion is a job's row that ends an attempt.
An unexpected error here costs the events of one batch, with a line in the log, and not the controller.
"""

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from ctld.core.records.effects import Batch, OutboxRow
from ctld.core.records.job import JobRow
from ctld.delivery.completion import completion
from ctld.rpc.watch.changed import FreshChanges
from ctld.rpc.watch.feed import COUNT_BITS
from ctld.runtime.loop import Runtime
from penstock.changemembers import change_data
from penstock.values.states import END_STATES, JobState

log = logging.getLogger("penstock.ctld")

#: The kind of a job's completion, beside those of changes.
COMPLETION: Final = "COMPLETION"


class Outbox:
    """Belongs to the loop's thread. `sequence` is that of the last event."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._kinds: frozenset[str] = frozenset()
        self._fresh = FreshChanges()
        self.sequence = runtime.core.state.epoch << COUNT_BITS
        runtime.before_commit.append(self.add)

    def use(self, kinds: frozenset[str]) -> None:
        """From now on there are receivers of these kinds."""
        if not self._kinds - {COMPLETION} and kinds - {COMPLETION}:
            self._fresh.clear()
            self._fresh.know(self._runtime.snapshot.jobs.values())
        self._kinds = kinds

    def add(self, batch: Batch) -> None:
        """Adds a batch's events to its rows."""
        if not self._kinds:
            return
        try:
            for kind, body in self._bodies(batch):
                self.sequence += 1
                batch.outbox.append(OutboxRow(self.sequence, self._runtime.clock_us(), kind, body))
        except Exception:
            log.exception("events of a batch cannot be described: they are not delivered")

    def _bodies(self, batch: Batch) -> Iterator[tuple[str, bytes]]:
        if COMPLETION in self._kinds:
            cluster = self._runtime.core.state.config.cluster_name
            for row in filter(self._has_just_ended, batch.jobs):
                yield COMPLETION, msgspec.json.encode(completion(row, cluster))
        if self._kinds - {COMPLETION}:
            for change in self._fresh.of(batch, self._runtime.core.state):
                if change.kind in self._kinds:
                    message = change.message()
                    message.sequence = self.sequence + 1
                    message.at_us = self._runtime.clock_us()
                    yield change.kind, msgspec.json.encode(change_data(message))

    def _has_just_ended(self, row: JobRow) -> bool:
        """Whether the row ends an attempt; nothing is committed between a seal and its commit, so the snapshot is the row
        before it."""
        if row.state not in END_STATES and row.state is not JobState.REQUEUED:
            return False
        before = self._runtime.snapshot.jobs.get(row.job_id)
        return before is None or before.attempt != row.attempt or before.state not in END_STATES
