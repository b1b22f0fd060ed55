"""Encodes waiting jobs that are alike: one as ever, of the others what differs, appended to what is the same.

Most fields of a job that waits for its first start are those of many others of its user. A `JobInfo` without its differences
(JobDifferences, the message) is encoded once for each kind, and protobuf puts both parts together. Only rows whose rare
fields have their defaults (records/waiting_row.py, records/compact_request.py) are encoded so; others as ever.
"""

from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ctld.core.records.compact_request import COMMON
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.core.records.waiting_row import KEPT, is_compact
from ctld.rpc.jobs import jobinfo
from penstock.v1.controller_pb2 import JobDifferences, RequestDifferences

#: Kinds that are kept, each some 300 bytes on the wire.
KINDS_MAX: Final = 1024
#: Fields of a row that differ, or on which its message does not depend.
_ROW_DIFFERS: Final = frozenset(
    (
        "job_id", "array_job_id", "array_task_id", "submit_at_us", "eligible_at_us", "priority",
        "request", "request_id", "spec_hash", "submit_key", "assoc_id",
    )
)  # fmt: skip
_REQUEST_DIFFERS: Final = frozenset(("name", "work_dir", "command", "submit_line", "rlimits"))
_kind_of_row = attrgetter(*(name for name in KEPT if name not in _ROW_DIFFERS))
_kind_of_request = attrgetter(*sorted(COMMON - _REQUEST_DIFFERS))
#: What is encoded for each job.
_DIFFERENCES: Final = (
    "job_id", "array_job_id", "array_task_id", "submit_at_us", "eligible_at_us", "priority", "std_out", "std_err", "std_in",
)  # fmt: skip
#: The message, of fields by their names.
_differences_of: Final[Callable[..., JobDifferences]] = JobDifferences
_REQUEST_DIFFERENCES: Final = ("name", "work_dir", "command")


class AlikeJobs:
    """The kinds of one controller's waiting jobs."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[object, bytes] = OrderedDict()

    def encoded(self, row: JobRow) -> bytes:
        """Returns the short form of a job: what `jobinfo.job_info` makes, in another order on the wire."""
        request = row.request
        if not is_compact(row) or type(request) is JobRequest:
            return jobinfo.job_info(row, False).SerializeToString()
        key = _kind_of_row(row), _kind_of_request(request)
        same = self._kinds.get(key)
        if same is None:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.popitem(last=False)
            same = self._kinds[key] = _same(row)
        differences = _differences_of(
            job_id=row.job_id,
            array_job_id=row.array_job_id,
            array_task_id=row.array_task_id,
            submit_at_us=row.submit_at_us,
            eligible_at_us=row.eligible_at_us,
            priority=0 if row.hold else row.priority,
            request=RequestDifferences(
                name=request.name.encode(), work_dir=request.work_dir, command=request.command.encode()
            ),
            **jobinfo.file_names(row, request),
        )
        return same + differences.SerializeToString()


def _same(row: JobRow) -> bytes:
    """Encodes what all jobs of a row's kind have."""
    made = jobinfo.job_info(row, False)
    for name in _DIFFERENCES:
        made.ClearField(name)
    for name in _REQUEST_DIFFERENCES:
        made.request.ClearField(name)
    return made.SerializeToString()
