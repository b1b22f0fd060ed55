"""The way to a step: an allocation of srun's own where there is none, then the step itself, in Slurm's words.

Both are asked for with a key of this program, so that a call that is made again (the controller restarts, or is busy)
means the same job and the same step. Waiting is done in calls that answer after a while and are made again.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from cli.exitstatus import error_status, immediate_status
from cli.run import CommandError, complain
from penstock.client import Client, new_request_key
from penstock.errors import PenstockError, Unreachable
from penstock.v1.common_pb2 import ExitStatus, JobRequest, JobSpec
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, SubmitJobReply, SubmitJobRequest
from penstock.v1.steps_pb2 import (
    AllocationReply,
    AwaitAllocationRequest,
    AwaitStepRequest,
    CreateStepReply,
    CreateStepRequest,
    EndAllocationRequest,
    StepSpec,
)
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ENDED, Reason

NAME = "srun"
WAIT_S = 25
#: Beyond the wait: how long a controller that is away is waited for.
AWAY_S = 600.0
END_LIMIT_S = 60.0
#: What lies between a step's last word to us and its end at the controller is a fraction of a second.
STEP_END_WAIT_S = 10
#: The step before may be just about to end: so long nothing is said of waiting.
FIRST_WAIT_S = 1
PAUSE_S = 2.0


class Interrupted(Exception):
    """A signal came while srun waited for what it had asked for."""


def new_key() -> str:
    """A key of a request."""
    return new_request_key(time.time_ns() // 1000, os.urandom(16))


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Signals that end a command raise Interrupted, once, in the call that waits."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OwnJob:
    """The job that srun makes for its one step."""

    def __init__(
        self, client: Client, job: JobRequest, say: Callable[[str], None], components: Sequence[JobRequest] = ()
    ) -> None:
        self._client = client
        self._say = say
        self._request = SubmitJobRequest(request_key=new_key(), job=job, spec=JobSpec(), components=components)
        self.job_id = 0

    def allocate(self) -> None:
        """Until the nodes are there. Raises CommandError."""
        try:
            with interruptible():
                self._allocate()
        except Interrupted as error:
            self._take_back()
            raise CommandError("Job allocation aborted by a signal", error_status()) from error

    def _allocate(self) -> None:
        try:
            reply: SubmitJobReply = self._client.call("SubmitJob", self._request)
        except PenstockError as error:
            if error.code == Code.NODES_BUSY:
                raise _not_at_once() from error
            raise _refused("Unable to allocate resources", error) from error
        self.job_id = reply.job_id
        for warning in reply.warnings:
            self._say(f"warning: {warning}")
        waited = False
        while True:
            state = self._look(WAIT_S if waited else 1)
            if state.state in ENDED or state.state == "COMPLETING":
                if state.reason == Reason.NODES_BUSY.value:  # --immediate
                    raise _not_at_once()
                raise CommandError(f"Job allocation {self.job_id} has been revoked", error_status())
            if state.state == "RUNNING":
                break
            if not waited and not self._request.job.HasField("immediate_s"):
                self._say(f"job {self.job_id} queued and waiting for resources")
            waited = True
        if waited and not self._request.job.HasField("immediate_s"):
            self._say(f"job {self.job_id} has been allocated resources")

    def _look(self, wait_s: int) -> AllocationReply:
        reply: AllocationReply = self._client.call(
            "AwaitAllocation", AwaitAllocationRequest(job_id=self.job_id, wait_s=wait_s), wait_s + AWAY_S
        )
        return reply

    def _take_back(self) -> None:
        """A job that waits is not left behind; the same key finds out which it is."""
        self._client.close()
        try:
            self.job_id = self.job_id or self._client.call("SubmitJob", self._request).job_id
            self._client.call("CancelJobs", CancelJobsRequest(filter=JobFilter(ids=[str(self.job_id)])))
        except PenstockError as error:
            if self.job_id:
                complain(NAME, f"job {self.job_id} could not be cancelled: {error.text}")
            return
        self._say(f"Job allocation {self.job_id} has been revoked")

    def await_step(self, *created: CreateStepReply) -> None:
        """Its tasks have ended; let the controller hear it from the nodes first, or it would end the step itself."""
        for one in created:
            request = AwaitStepRequest(
                job_id=one.job_id, step_id=one.step_id, attempt=one.attempt, wait_s=STEP_END_WAIT_S
            )
            with contextlib.suppress(PenstockError):
                self._client.call("AwaitStep", request, 2 * STEP_END_WAIT_S)

    def end(self, status: int) -> None:
        """Its step has ended so: give everything back."""
        exit_ = ExitStatus(signal=status - 128) if 128 < status <= 192 else ExitStatus(code=status)
        try:
            self._client.call("EndAllocation", EndAllocationRequest(job_id=self.job_id, exit=exit_), END_LIMIT_S)
        except Unreachable:
            return  # it ends with its last step
        except PenstockError as error:
            if error.code not in (Code.ALREADY_DONE, Code.INVALID_JOB_ID):
                complain(NAME, f"Unable to give back job allocation {self.job_id}: {error.text}")


class StepMaker:
    """Asks for steps of one job."""

    def __init__(self, client: Client, job_id: int, say: Callable[[str], None], name: str = NAME) -> None:
        self._client = client
        self._job_id = job_id
        self._say = say
        self._name = name

    def create(self, spec: StepSpec, argv: list[bytes], environment: list[bytes]) -> CreateStepReply:
        """Until the step has its place. Raises CommandError."""
        request = CreateStepRequest(
            job_id=self._job_id,
            step_key=new_key(),
            step=spec,
            spec=JobSpec(argv=argv, environment=environment),
            wait_s=FIRST_WAIT_S,
        )
        try:
            with interruptible():
                return self._create(request)
        except Interrupted as error:
            number = error.args[0]
            raise CommandError(f"Cancelled pending job step with signal {number}", error_status()) from error

    def _create(self, request: CreateStepRequest) -> CreateStepReply:
        waited = False
        while True:
            reply = self._ask(request)
            if not reply.busy:
                break
            if not waited:
                busy = TEXT[Code.NODES_BUSY]
                self._say(f"Job {self._job_id} step creation temporarily disabled, retrying ({busy})")
            waited = True
            request.wait_s = WAIT_S
        if waited:
            self._say(f"Step created for StepId={reply.job_id or self._job_id}.{reply.step_id}")
        for warning in reply.warnings:
            self._say(f"warning: {warning}")
        reply.job_id = reply.job_id or self._job_id
        return reply

    def cancel(self, created: CreateStepReply) -> None:
        """The step cannot be served from here: it shall not run."""
        wanted = JobFilter(ids=[f"{created.job_id}.{created.step_id}"])
        try:
            self._client.call("CancelJobs", CancelJobsRequest(filter=wanted))
        except PenstockError as error:
            complain(NAME, f"step {wanted.ids[0]} could not be cancelled: {error.text}")

    def _ask(self, request: CreateStepRequest) -> CreateStepReply:
        patience_s = AWAY_S if request.wait_s > FIRST_WAIT_S else None
        try:
            reply: CreateStepReply = self._client.call("CreateStep", request, patience_s)
            return reply
        except PenstockError as error:
            raise self._refused_step(error) from error

    def _refused_step(self, error: PenstockError) -> CommandError:
        """Why there is no step; of a job that is not there, Slurm's lines say that it is the job."""
        job_id, name = self._job_id, self._name
        if error.code not in _NO_ALLOCATION:
            return _refused(f"Unable to create step for job {job_id}", error, name)
        what = f"Unable to confirm allocation for job {job_id}: {TEXT[Code(error.code)]}"
        if error.code == Code.ALREADY_DONE:
            what = f"Slurm job {job_id} has expired"
        check = f"Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
        return CommandError(f"{name}: error: {what}\n{name}: {check}", error_status(), plain=True)


#: Refusals of a step that are about its job.
_NO_ALLOCATION = (Code.INVALID_JOB_ID, Code.JOB_PENDING, Code.ALREADY_DONE)


def _not_at_once() -> CommandError:
    from cli.allocation import NOT_AT_ONCE

    return CommandError(f"Unable to allocate resources: {NOT_AT_ONCE}", immediate_status())


def _refused(what: str, error: PenstockError, name: str = NAME) -> CommandError:
    from cli.refusal import lines_of

    status = immediate_status() if error.code == Code.NODES_BUSY else error_status()
    return CommandError(lines_of(name, f"{name}: error: {what}", error), status, plain=True)


def say(text: str) -> None:
    """A message of srun before its step runs."""
    sys.stderr.write(f"{NAME}: {text}\n")
    sys.stderr.flush()
