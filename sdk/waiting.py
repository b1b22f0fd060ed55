"""What is asked to wait for a job: generators of questions, which a cluster drives, blocking or from asyncio.

A generator yields an Ask, is sent the answer or thrown the error of the call, and returns its result. It asks nothing itself.
"""

import time
from collections.abc import Generator

# Any: the type of an answer follows from its question
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from penstock.calls import PAUSE_MAX_S
from penstock.errors import RECEIVE_FAILURE, Unreachable
from penstock.values.refusals import Code
from sdk import questions
from sdk.errors import JobNotFound, WaitTimeout
from sdk.questions import ClusterQuestion
from sdk.records import JobRecord

R = TypeVar("R")
#: One call that waits for a job; then it is asked again.
WAIT_CALL_S: Final = 300.0


class Ask(NamedTuple):
    """One question. `limit_s`: of its call; None = the cluster's own."""

    question: ClusterQuestion[Any]
    limit_s: float | None = None


QuestionSteps: TypeAlias = Generator[Ask, object, R]


def record(job_id: str) -> QuestionSteps[JobRecord]:
    """What is known of a job, from the queue or from accounting."""
    try:
        found = yield Ask(questions.job_of(job_id))
    except JobNotFound:
        found = None
    if found is None:
        found = yield Ask(questions.recorded(job_id))
    return cast(JobRecord, found)


def end(job: JobRecord, limit_s: float) -> QuestionSteps[None]:
    """Returns when the job has ended, or after that time: the call gives up when its limit ends, or up to one pause before,
    if the controller was busy then. The next question finds out whether it is lost.
    """
    began_s = time.monotonic()
    try:
        yield Ask(questions.ended(job.array_job_id or job.job_id), limit_s)
    except JobNotFound:
        return  # ended, and gone from the queue
    except Unreachable as error:
        if error.code != RECEIVE_FAILURE and time.monotonic() - began_s + PAUSE_MAX_S < limit_s:
            raise


def ended(job_id: str, timeout_s: float | None) -> QuestionSteps[JobRecord]:
    """Waits for a job's end. Raises WaitTimeout."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    job = yield from record(job_id)
    while not job.has_ended:
        left_s = WAIT_CALL_S if until is None else min(WAIT_CALL_S, until - time.monotonic())
        if left_s <= 0:
            raise WaitTimeout(Code.INTERNAL, f"job {job_id} has not ended after {timeout_s} s: {job.state}")
        yield from end(job, left_s)
        job = yield from record(job_id)
    return job
