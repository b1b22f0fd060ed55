"""The committed image of a job that waits for its first start, in less than half of a `JobRow`'s memory.

A job that has not started has the defaults in half of its row: no start, no end, no allocation, no exit code. With
100,000 pending jobs these defaults took 20 MB of the read snapshot. A `WaitingRow` has only the other fields; the
defaults are class attributes, as those of compact requests are (compact_request.py). Readers see no difference, except
that it is no tuple; it can also be read as a `Job`. The loader creates it from the database, or the core for a batch. The
read snapshot and, while the job does not change, the core's table of jobs (state/known_jobs.py) keep the same one.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, cast, get_type_hints

import msgspec

from ctld.core.records.job import NO_STEPS, Job, JobRow, job_row
from penstock.values.states import JobState, Reason, Suspend

#: The fields that differ among waiting jobs. All others have the same value in each of them.
KEPT: Final = (
    "job_id", "array_job_id", "request_id", "request", "spec_hash", "submit_key", "user_id", "group_id", "user_name",
    "group_name", "submit_at_us", "tres_req", "array_task_id", "partition", "reason", "reason_detail", "hold",
    "priority", "eligible_at_us", "time_limit_s", "assoc_id", "trace_one_in",
)  # fmt: skip
_REST: Final = tuple(name for name in JobRow._fields if name not in KEPT)
_USUAL: Final[dict[str, object]] = {
    "attempt": 0, "array_tasks": None, "array_throttle": 0, "state": JobState.PENDING, "end_state": None,
    **JobRow._field_defaults,
}  # fmt: skip

_types = get_type_hints(JobRow)
_values_of = attrgetter(*JobRow._fields)


def _equals(one: JobRow, other: object) -> bool:
    """Compares equal to a `JobRow` with the same values, too."""
    return isinstance(other, (JobRow, _class)) and _values_of(one) == _values_of(other)


def _iterate(row: JobRow) -> Iterator[object]:
    return iter(_values_of(row))


_class = msgspec.defstruct(
    "WaitingRow",
    [(name, _types[name]) for name in KEPT],
    namespace={"__eq__": _equals, "__iter__": _iterate, "steps": NO_STEPS} | {name: _USUAL[name] for name in _REST},
    module=__name__,
    frozen=True,
    array_like=True,
    gc=False,  # its values hold no references to rows
)
WaitingRow: Final = cast(Callable[..., JobRow], _class)  # it has the attributes of one
if TYPE_CHECKING:
    WaitingType = JobRow
else:
    WaitingType = _class  #: the class, for the types of a decoder
_kept = itemgetter(*map(JobRow._fields.index, KEPT))
_rest = itemgetter(*map(JobRow._fields.index, _REST))
_usual: Final = tuple(_USUAL[name] for name in _REST)
_kept_of, _rest_of = attrgetter(*KEPT), attrgetter(*_REST)


def compact(row: JobRow) -> JobRow:
    """Returns the compact form of a waiting job's row, and any other row unchanged."""
    if row.state is not JobState.PENDING or is_compact(row) or _rest(row) != _usual:
        return row
    return WaitingRow(*_kept(row))


def is_compact(row: JobRow) -> bool:
    """Whether the row is a `WaitingRow`."""
    kind: object = type(row)
    return kind is _class


def image_of(job: Job) -> JobRow:
    """Returns the row of a pending job, in compact form if it waits for its first start."""
    return WaitingRow(*_kept_of(job)) if _rest_of(job) == _usual else job_row(job)


def with_reason(row: JobRow, reason: Reason, detail: str) -> JobRow:
    """Returns a `WaitingRow` with another reason."""
    return msgspec.structs.replace(row, reason=reason, reason_detail=detail)  # type: ignore[type-var]  # it is a struct


def is_image(row: JobRow, job: Job) -> bool:
    """Whether the row is a `WaitingRow` with the job's values."""
    return is_compact(row) and _kept_of(row) == _kept_of(job) and _rest_of(job) == _usual


def waiting_job_from(row: JobRow) -> Job:
    """Returns the job of a `WaitingRow`, without steps. Written out, as job_from is (records/job.py)."""
    job = Job()
    job.steps = NO_STEPS
    # made by tools/records: waiting job
    job.job_id = row.job_id
    job.attempt = 0
    job.array_job_id = row.array_job_id
    job.request_id = row.request_id
    job.request = row.request
    job.spec_hash = row.spec_hash
    job.submit_key = row.submit_key
    job.user_id = row.user_id
    job.group_id = row.group_id
    job.user_name = row.user_name
    job.group_name = row.group_name
    job.submit_at_us = row.submit_at_us
    job.tres_req = row.tres_req
    job.array_task_id = row.array_task_id
    job.array_tasks = None
    job.array_throttle = 0
    job.partition = row.partition
    job.state = JobState.PENDING
    job.end_state = None
    job.reason = row.reason
    job.reason_detail = row.reason_detail
    job.hold = row.hold
    job.priority = row.priority
    job.dependency = ""
    job.eligible_at_us = row.eligible_at_us
    job.start_at_us = 0
    job.end_at_us = 0
    job.time_limit_s = row.time_limit_s
    job.alloc = ()
    job.batch_node = ""
    job.exit_code = 0
    job.exit_signal = 0
    job.derived_code = 0
    job.derived_signal = 0
    job.cancelled_by_uid = -1
    job.failed_node = ""
    job.admin_comment = ""
    job.tres_alloc = ""
    job.suspended_by = Suspend.NO
    job.suspended_us = 0
    job.suspended_at_us = 0
    job.preempt_at_us = 0
    job.preempt_end_at_us = 0
    job.preemptor_id = 0
    job.assoc_id = row.assoc_id
    job.borrowed = 0
    job.completing_at_us = 0
    job.resized_at_us = 0
    job.stopped = 0
    job.failed_attempts = 0
    job.licenses_alloc = ""
    job.trace_one_in = row.trace_one_in
    # end of what is made
    return job


def whole(row: JobRow) -> JobRow:
    """Returns the row as a `JobRow`, whichever form it has."""
    return row if isinstance(row, JobRow) else JobRow(*(getattr(row, name) for name in JobRow._fields))
