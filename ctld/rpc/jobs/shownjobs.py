"""Encodes the jobs of one answer, page by page, each as it is when its page is made.

The short form of a job is kept with its row (runtime/snapshot.py). What changes without the row (priority, expected start),
or what few ask for (details), is appended to it: of several values of one field the last one counts, and protobuf merges
messages. These few fields are written by hand: a message for each of thousands of jobs takes longer than all else.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ctld.core.queue import priority
from ctld.core.records.job import JobRow
from ctld.core.state.forecast import Forecast
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.paging import least, log_row
from ctld.rpc.jobs import jobinfo
from ctld.rpc.jobs.alikejobs import AlikeJobs
from ctld.runtime.loop import Runtime
from ctld.runtime.snapshot import Snapshot
from penstock.v1 import controller_pb2
from penstock.values.hostlist import compress
from penstock.values.states import END_STATES, JobState
from penstock.values.varint import number_tag, text_tag, varint

log = logging.getLogger("penstock.ctld")

_FIELDS: Final = controller_pb2.JobInfo.DESCRIPTOR.fields_by_name
_PRIORITY: Final = number_tag(_FIELDS["priority"].number)
_LAST_PASS: Final = number_tag(_FIELDS["last_sched_at_us"].number)
_START: Final = number_tag(_FIELDS["planned_start_at_us"].number)
_START_NODES: Final = text_tag(_FIELDS["planned_node_list"].number)


class _ExpectedStarts(NamedTuple):
    """What the last pass expects of some jobs. `of`: the fields of those that it has a start for, encoded."""

    made_at_us: int
    last_pass: bytes
    of: Mapping[int, bytes]


class ShownJobs:
    """The jobs of one answer."""

    def __init__(self, runtime: Runtime, alike: AlikeJobs, detail: bool, planned: bool) -> None:
        self._runtime = runtime
        self._alike = alike
        self._detail = detail
        self._planned = planned

    def encoded(self, rows: Sequence[JobRow]) -> Iterator[bytes]:
        """Each as a message, or the part of it that can be encoded."""
        state, snapshot = self._runtime.core.state, self._runtime.snapshot
        largest = state.layout.cpus_largest
        expected = self._expected(rows, snapshot)
        for row in rows:
            try:
                data = self._short(row, snapshot)
                if self._detail:
                    data += jobinfo.encoded_details(row, state.nodes)
                if state.priorities is not None and not row.hold and row.state not in END_STATES:
                    data += _priority(row, state)
                if row.state is JobState.PENDING:
                    data += _pending(row, largest, expected)
            except Exception as error:  # noqa: BLE001 (whatever is wrong with it, it is not the others')
                log_row(row, error)
                data = least(row).SerializeToString()
            yield data

    def _expected(self, rows: Sequence[JobRow], snapshot: Snapshot) -> _ExpectedStarts | None:
        """The expected starts of these jobs, where they are asked for; None when they cannot be encoded, which is logged."""
        if not self._planned or snapshot.forecast is None:
            return None
        try:
            return _expected_starts(rows, snapshot.forecast)
        except Exception:
            log.exception("the expected starts of %d jobs cannot be shown", len(rows))
            return None

    def _short(self, row: JobRow, snapshot: Snapshot) -> bytes:
        """The short form, which is kept, since it is asked for again and again."""
        data = snapshot.encoded(row)
        if data is None:
            data = self._alike.encoded(row)
            snapshot.keep(row, data)
        return data


def _priority(row: JobRow, state: ClusterState) -> bytes:
    """Encodes the present priority: when priorities are calculated, no job has to be encoded again."""
    job = state.jobs.look(row.job_id)
    return _PRIORITY + varint(priority.current(state, job)) if job is not None else b""


def _pending(row: JobRow, largest: int, expected: _ExpectedStarts | None) -> bytes:
    """Encodes what is expected of a pending job: its number of nodes, and its start."""
    data = jobinfo.estimate(row, largest)
    if expected is None or row.submit_at_us > expected.made_at_us:
        return data
    return data + expected.last_pass + expected.of.get(row.job_id, b"")


def _expected_starts(rows: Sequence[JobRow], forecast: Forecast) -> _ExpectedStarts:
    found = forecast.of_many([row.job_id for row in rows if row.state is JobState.PENDING])
    lists: dict[tuple[str, ...], bytes] = {}
    encoded = {}
    for job_id, (start_s, names) in found.items():
        nodes = lists.get(names)
        if nodes is None:
            text = compress(names).encode()
            nodes = lists[names] = _START_NODES + varint(len(text)) + text if text else b""
        encoded[job_id] = _START + varint(start_s * 1_000_000) + nodes
    return _ExpectedStarts(forecast.made_at_us, _LAST_PASS + varint(forecast.made_at_us), encoded)
