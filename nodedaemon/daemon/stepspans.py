"""Where the lines of a node's log belong in the traces of jobs: by step and by job, as their launches said.

In memory; the journal has those of steps that a later daemon adopts.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, TypeVar

from nodedaemon.core.steps import StepKey
from penstock.logs.structured import LogValue, SpanIds

K = TypeVar("K")

#: Bytes of a trace's id and of a span's.
TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
#: Steps whose place is kept, since lines may follow their end. The oldest is dropped.
KEPT_MAX: Final = 10_000


class StepSpans:
    """The places of the last launched steps."""

    def __init__(self) -> None:
        self._by_step: OrderedDict[str, SpanIds] = OrderedDict()
        self._by_job: OrderedDict[int, SpanIds] = OrderedDict()

    def launched(self, key: StepKey, span: bytes) -> None:
        """Takes what a launch says; anything but two ids counts as none."""
        if len(span) != TRACE_BYTES + SPAN_BYTES:
            return
        ids = SpanIds(span[:TRACE_BYTES].hex(), span[TRACE_BYTES:].hex())
        _put(self._by_step, str(key), ids)
        _put(self._by_job, key.job_id, ids)

    def of(self, fields: Mapping[str, LogValue]) -> SpanIds | None:
        """Returns the place of a line: its step's, or that of the last step of its job here."""
        step, job_id = fields.get("step"), fields.get("job")
        if isinstance(step, str) and (ids := self._by_step.get(step)) is not None:
            return ids
        return self._by_job.get(job_id) if isinstance(job_id, int) else None


def _put(kept: OrderedDict[K, SpanIds], key: K, ids: SpanIds) -> None:
    kept.pop(key, None)
    kept[key] = ids
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
