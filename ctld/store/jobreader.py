"""Reads job rows at a start: equal requests of adjacent rows share one object, and so do equal strings of all.

There are hundreds of thousands of them, so the reading itself is generated (rows.job_from); this class has the caches.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from _fastsched import Sharing
from ctld.core.records.compact_request import read_request
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.store import rows

#: Requests that are cached while rows are read: arrays and equal submissions are adjacent. More would not fit the processor's
#: cache.
REQUESTS_KEPT = 256

#: Fields that are mostly equal in different requests.
_SHARED = (
    "name", "partitions", "account", "qos", "comment", "work_dir", "std_err", "submit_host", "submit_dir", "command",
    "gres_per_node", "features", "rlimits", "export_env", "time_limit_s", "mem_per_node_mb", "mem_per_cpu_mb",
)  # fmt: skip
#: Equal in most jobs of a loop or script and different in others: compared with the previous job's.
_REPEATED = ("std_out", "submit_line")


class RequestMissing(LookupError):
    """A job's request is not in the database."""


class JobReader:
    """Reads job rows: `read` creates a JobRow from the values of rows.JOB_READ_COLUMNS and
    rows.JOB_REQUEST_READ_COLUMNS, `read_waiting` from those of rows.JOB_WAITING_COLUMNS and of the request.

    `request_bytes_max` is the size of the largest request so far.
    """

    def __init__(self) -> None:
        self.request_bytes_max = 0
        self._requests: dict[bytes, JobRequest] = {}
        self._words: dict[object, object] = {}
        self._share = Sharing(self._words, _SHARED, _REPEATED, JobRequest(), msgspec.structs.force_setattr)

    # Made when asked for: as attributes they would refer to the reader, and its caches stay in memory (a start collects no
    # cycles).

    @property
    def read(self) -> Callable[[rows.JobRowValues], JobRow]:
        """Makes a JobRow of a row."""
        return partial(rows.job_from, self._requests, self._request, self._one())

    @property
    def read_waiting(self) -> Callable[[rows.WaitingRowValues], JobRow]:
        """Makes the row of a waiting job."""
        return partial(rows.waiting_job_from, self._requests, self._request, self._one())

    def _one(self) -> rows.One:
        return cast(rows.One, self._words.setdefault)  # what equals a value is of its type

    def _request(self, request_json: bytes | None) -> JobRequest:
        """Decodes a request. The new record has no other user yet, so it may be modified although it is frozen."""
        if request_json is None:
            raise RequestMissing
        if len(request_json) > self.request_bytes_max:
            self.request_bytes_max = len(request_json)
        if len(self._requests) >= REQUESTS_KEPT:
            self._requests.clear()
        request = self._requests[request_json] = read_request(request_json)
        self._share(request)
        return request
