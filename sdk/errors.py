"""The errors of the Python interface, by what a program can do about them. All are `penstock.errors.PenstockError`, with
`code` (Slurm's number), `text` and `detail`; `penstock.errors.Unreachable` and `NotKnown` are raised as they are.
"""

from typing import Final

from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.values.refusals import Code
from sdk.records import JobRecord


class RequestRefused(PenstockError):
    """The controller refused the request; the classes below say why, where a program may want to know."""


class InvalidRequest(RequestRefused, ValueError):
    """An option, a script or an id cannot be what was meant."""


class NotPermitted(RequestRefused, PermissionError):
    """The caller may not do that."""


class JobNotFound(RequestRefused, LookupError):
    """There is no job of that id, or none that the caller may see."""


class WillNotRun(RequestRefused):
    """What the job asks for does not exist in the cluster, or is above a limit."""


class WaitTimeout(PenstockError, TimeoutError):
    """The job had not ended after the time that the caller gave; it continues."""


class JobFailed(PenstockError):
    """The job ended in another state than COMPLETED. `record` has it."""

    def __init__(self, record: JobRecord, output: str = "") -> None:
        how = f"signal {record.signal}" if record.signal else f"exit code {record.exit_code}"
        super().__init__(int(Code.INTERNAL), f"job {record.shown_id} ended as {record.state}, {how}", output)
        self.record = record


_CLASSES: Final[dict[int, type[RequestRefused]]] = {
    Code.ACCESS_DENIED: NotPermitted,
    Code.PARTITION_GROUP: NotPermitted,
    Code.INVALID_JOB_ID: JobNotFound,
    Code.REQUESTED_NODE_CONFIG_UNAVAILABLE: WillNotRun,
    Code.TOO_MANY_REQUESTED_CPUS: WillNotRun,
    Code.INVALID_PARTITION: InvalidRequest,
    Code.INVALID_NODE_COUNT: InvalidRequest,
    Code.INVALID_NODE_NAME: InvalidRequest,
    Code.INVALID_TIME_LIMIT: InvalidRequest,
    Code.INVALID_FEATURE: InvalidRequest,
    Code.INVALID_LICENSES: InvalidRequest,
    Code.INVALID_DEPENDENCY: InvalidRequest,
    Code.INVALID_GRES: InvalidRequest,
}


def classified(error: PenstockError) -> PenstockError:
    """The error as one of the classes above; those of the way to the controller stay."""
    if isinstance(error, Unreachable | NotProven | RequestRefused):
        return error
    return refusal(error.code, error.text, error.detail)


def refusal(code: int, text: str, detail: str = "") -> RequestRefused:
    """A refusal of this number."""
    return _CLASSES.get(code, RequestRefused)(code, text, detail)
