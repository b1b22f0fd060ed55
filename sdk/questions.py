"""What is asked of the controller and what is made of the answer, for both faces of a cluster.

`ClusterQuestion` says which call is made with which request; its `answer` turns the reply, or the pages of a listing, into
records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

# Any: the reply of a method, which only the question knows
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.controller_pb2 import (
    AwaitJobRequest,
    CancelJobsRequest,
    ControlJobsRequest,
    GetBatchScriptRequest,
    JobFilter,
    ListJobsRequest,
    ListNodesRequest,
    SubmitJobRequest,
    UpdateJobsRequest,
)
from penstock.v1.explain_pb2 import WhyJobRequest
from penstock.v1.governance_pb2 import ReportRequest
from penstock.v1.watch_pb2 import WatchRequest
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.refusals import Code
from sdk.errors import InvalidRequest, JobNotFound, refusal
from sdk.options import option_text
from sdk.records import (
    ExpectedStart,
    JobRecord,
    NodeRecord,
    UsageRecord,
    WaitReasons,
    job_record,
    node_record,
    planned_start,
    usage_records,
    why,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.v1.controller_pb2 import JobResultsReply

T = TypeVar("T")
HOUR_US: Final = 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class ClusterQuestion(Generic[T]):
    """One call. With `is_listing` the reply comes in pages, and `answer` gets all of them; else it gets a list of one."""

    method: str
    request: "Message"
    answer: Callable[[list[Any]], T]
    is_listing: bool = False


#: By the method's name in Python.
ACTIONS: Final = {
    "hold": ControlJobsRequest.HOLD,
    "release": ControlJobsRequest.RELEASE,
    "requeue": ControlJobsRequest.REQUEUE,
    "suspend": ControlJobsRequest.SUSPEND,
    "resume": ControlJobsRequest.RESUME,
}


def submitted(request: SubmitJobRequest) -> ClusterQuestion[tuple[str, tuple[str, ...]]]:
    """Queues the job: its id, and lines of the site's submit filter."""
    return ClusterQuestion("SubmitJob", request, lambda found: (str(found[0].job_id), tuple(found[0].user_messages)))


def predicted(request: SubmitJobRequest) -> ClusterQuestion[ExpectedStart]:
    """When and where it would start; nothing is queued."""
    return ClusterQuestion("SubmitJob", request, lambda replies: planned_start(replies[0]))


def job_of(job_id: str) -> ClusterQuestion[JobRecord | None]:
    """The job in the queue, or among those that ended a short time ago; None: the accounting database may have it. Of an
    array that is several records, the first that has not ended.
    """

    def first(pages: list[Any]) -> JobRecord | None:
        found = [job_record(job) for page in pages for job in page.jobs]
        return next((job for job in found if not job.has_ended), found[0] if found else None)

    request = ListJobsRequest(filter=JobFilter(ids=[checked_id(job_id)]), all_states=True, detail=True)
    return ClusterQuestion("ListJobs", request, first, is_listing=True)


def jobs_of(job_ids: Sequence[str]) -> ClusterQuestion[dict[str, JobRecord]]:
    """Of these jobs those that the queue knows, by id; none of them an array."""
    request = ListJobsRequest(filter=JobFilter(ids=job_ids), all_states=True, detail=True)

    def by_id(pages: list[Any]) -> dict[str, JobRecord]:
        return {str(job.job_id): job_record(job) for page in pages for job in page.jobs}

    return ClusterQuestion("ListJobs", request, by_id, is_listing=True)


def recorded(job_id: str) -> ClusterQuestion[JobRecord]:
    """The job's last attempt in the accounting database. The answer raises JobNotFound."""

    def last(pages: list[Any]) -> JobRecord:
        found = [job_record(record) for page in pages for record in page.records]
        if not found:
            raise JobNotFound(Code.INVALID_JOB_ID, f"there is no job {job_id}, or none that you may see")
        return found[-1]

    return ClusterQuestion(
        "ListRecords", ListRecordsRequest(ids=[checked_id(job_id)], no_steps=True), last, is_listing=True
    )


def listed(
    users: Sequence[str],
    states: Sequence[str],
    partitions: Sequence[str],
    names: Sequence[str],
    accounts: Sequence[str],
) -> ClusterQuestion[list[JobRecord]]:
    """Jobs that have not ended, or those in one of `states`."""
    filter_ = JobFilter(users=users, states=states, partitions=partitions, names=names, accounts=accounts)
    request = ListJobsRequest(filter=filter_, all_states=bool(states))
    return ClusterQuestion(
        "ListJobs", request, lambda pages: [job_record(job) for page in pages for job in page.jobs], is_listing=True
    )


def history(
    since: datetime,
    until: datetime | None,
    users: Sequence[str],
    states: Sequence[str],
    accounts: Sequence[str],
    cluster: str,
) -> ClusterQuestion[list[JobRecord]]:
    """Jobs of the accounting database that ran or waited in that time, on the own cluster ("") or another one there."""
    request = ListRecordsRequest(
        users=users, states=states, accounts=accounts, start_at_us=_us(since), end_at_us=_us(until) if until else 0,
        no_steps=True, cluster=cluster,
    )  # fmt: skip
    return ClusterQuestion(
        "ListRecords",
        request,
        lambda pages: [job_record(one) for page in pages for one in page.records],
        is_listing=True,
    )


def used(
    since: datetime,
    until: datetime,
    group_by: Sequence[str],
    tres: Sequence[str],
    users: Sequence[str],
    accounts: Sequence[str],
) -> ClusterQuestion[list[UsageRecord]]:
    """Usage of the hours in which these times are, and those between."""
    request = ReportRequest(
        kind=ReportRequest.USAGE, start_at_us=_us(since) // HOUR_US * HOUR_US, end_at_us=-(-_us(until) // HOUR_US) * HOUR_US,
        group_by=group_by, tres=tres, users=users, accounts=accounts,
    )  # fmt: skip
    return ClusterQuestion(
        "Report",
        request,
        lambda pages: usage_records((row for page in pages for row in page.rows), group_by),
        is_listing=True,
    )


def nodes(names: Sequence[str]) -> ClusterQuestion[list[NodeRecord]]:
    """Nodes; without names all of them."""
    return ClusterQuestion(
        "ListNodes", ListNodesRequest(names=names), lambda replies: [node_record(node) for node in replies[0].nodes]
    )


def ended(job_id: int) -> ClusterQuestion[str]:
    """Waits for the end of the job, of an array's last task: the state in which it ended."""
    return ClusterQuestion("AwaitJob", AwaitJobRequest(job_id=job_id), lambda replies: str(replies[0].state))


def watched(after: int, kinds: Sequence[str], users: Sequence[str]) -> WatchRequest:
    """The request for changes after this one; 0 = from now on. Its answer does not end by itself."""
    return WatchRequest(after=after, kinds=kinds, users=users)


def explained(job_id: str) -> ClusterQuestion[WaitReasons]:
    """Why it waits."""
    return ClusterQuestion("WhyJob", WhyJobRequest(id=checked_id(job_id)), lambda replies: why(replies[0]))


def script(job_id: int) -> ClusterQuestion[str]:
    """Its batch script."""
    return ClusterQuestion(
        "GetBatchScript",
        GetBatchScriptRequest(job_id=job_id),
        lambda replies: bytes(replies[0].script).decode(errors="surrogateescape"),
    )


def cancelled(job_id: str, signal: int) -> ClusterQuestion[None]:
    """Cancels it, or with a signal's number sends that."""
    request = CancelJobsRequest(filter=JobFilter(ids=[checked_id(job_id)]), signal=signal)
    return ClusterQuestion("CancelJobs", request, lambda replies: _check_results(replies[0], ignored=Code.ALREADY_DONE))


def controlled(job_id: str, action: str) -> ClusterQuestion[None]:
    """One of ACTIONS."""
    request = ControlJobsRequest(ids=[checked_id(job_id)], action=ACTIONS[action])
    return ClusterQuestion("ControlJobs", request, lambda replies: _check_results(replies[0]))


def updated(job_id: str, changes: Mapping[str, object]) -> ClusterQuestion[tuple[str, ...]]:
    """Changes fields, by their names in `scontrol update`: lines of the site's submit filter."""
    texts = {key.replace("_", "").lower(): option_text(value) for key, value in changes.items()}
    request = UpdateJobsRequest(ids=[checked_id(job_id)], changes=texts)

    def lines(replies: "list[JobResultsReply]") -> tuple[str, ...]:
        _check_results(replies[0])
        return tuple(replies[0].user_messages)

    return ClusterQuestion("UpdateJobs", request, lines)


def checked_id(job_id: str) -> str:
    """The id, when it is one of a job. Raises InvalidRequest."""
    try:
        selector = parse_selector(job_id)
    except BadValue as error:
        raise InvalidRequest(Code.INVALID_JOB_ID, str(error)) from error
    if selector.step_id is not None:
        raise InvalidRequest(Code.INVALID_JOB_ID, f"{job_id} is a step: name its job")
    return job_id


def _check_results(reply: "JobResultsReply", ignored: int = 0) -> None:
    """Raises the first refusal."""
    for result in reply.results:
        if result.code not in (0, ignored):
            raise refusal(result.code, result.text, f"job {result.id}")


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
