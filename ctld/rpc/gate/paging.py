"""Pages of answers: limited by rows and by bytes, whichever is reached first; a row that cannot be encoded does not end
the listing.

Messages have a maximum size (server.MESSAGE_BYTES_MAX), and a row may be large: a job's texts are some hundred
kilobytes. A page holds one row at least, and so is never larger than PAGE_BYTES and one row.

An old database may contain values that no request could have any more. Such a row is reduced to the fields that can be
encoded (`least`) and logged; other rows are not affected.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.core.records.waiting_row import whole
from penstock.v1 import controller_pb2

log = logging.getLogger("penstock.ctld")
T = TypeVar("T")

PAGE_BYTES: Final = 1024 * 1024
CANNOT: Final = "the record cannot be shown whole: see the controller's log"


def by_bytes(rows: Iterable[T], rows_max: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Divides the rows into pages."""
    page: list[T] = []
    taken = 0
    for row in rows:
        page.append(row)
        taken += size(row)
        if len(page) >= rows_max or taken >= PAGE_BYTES:
            yield page
            page, taken = [], 0
    if page:
        yield page


def halved(rows: Sequence[JobRow], encode: Callable[[Sequence[JobRow]], bytes]) -> Iterator[bytes]:
    """Encodes rows together; if that is too large, or fails because of one of them, in halves."""
    data = b""
    try:
        data = encode(rows)
    except Exception as error:  # noqa: BLE001 (whatever is wrong with one of them)
        if len(rows) == 1:
            log_row(rows[0], error)
            yield encode([least_row(rows[0])])
            return
    if data and (len(data) <= PAGE_BYTES or len(rows) == 1):
        yield data
        return
    middle = len(rows) // 2
    yield from halved(rows[:middle], encode)
    yield from halved(rows[middle:], encode)


def least_row(row: JobRow) -> JobRow:
    """Returns the same job, reduced to its identity and its state."""
    return whole(row)._replace(
        request=JobRequest(name=row.request.name, partitions=row.request.partitions), reason_detail=CANNOT,
        submit_at_us=0, eligible_at_us=0, start_at_us=0, end_at_us=0, time_limit_s=-1, suspended_us=0, suspended_at_us=0,
        preempt_at_us=0, alloc=(), priority=0, array_tasks=None, array_throttle=0,
    )  # fmt: skip


def least(row: JobRow) -> controller_pb2.JobInfo:
    """Returns the reduced job as a message."""
    return controller_pb2.JobInfo(
        job_id=row.job_id, state=row.state.name, reason=row.reason.value, reason_detail=CANNOT, user_id=row.user_id,
        user_name=row.user_name, partition=row.partition,
    )  # fmt: skip


def log_row(row: JobRow, error: Exception) -> None:
    """Logs which job it was."""
    log.error("job %d cannot be shown whole: %r", row.job_id, error, exc_info=error)
