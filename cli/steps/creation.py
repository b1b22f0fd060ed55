"""Creates a step: first an allocation if there is none, then the step itself, with Slurm's messages. Both requests
carry an idempotency key, so that a repeated call (the controller restarts, or is busy) means the same job and the same
step. Waiting calls have a time limit and are repeated.
"""

import contextlib
import sys
from collections.abc import Callable, Sequence

from cli.base.exitstatus import error_status, immediate_status
from cli.base.insist import Interrupted, insist, interruptible
from cli.base.requestkey import new_key, not_known
from cli.base.run import CommandError, complain
from cli.jobs.release import release_allocation
from penstock.client import Client
from penstock.errors import NotKnown, PenstockError
from penstock.v1.common_pb2 import ExitStatus, JobRequest, JobSpec
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, SubmitJobReply, SubmitJobRequest
from penstock.v1.steps_pb2 import (
    AllocationReply,
    AwaitAllocationRequest,
    AwaitStepRequest,
    CreateStepReply,
    CreateStepRequest,
    StepSpec,
)
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ENDED, Reason

NAME = "srun"
WAIT_S = 25
#: Beyond the wait: the longest outage of the controller that is tolerated.
AWAY_S = 600.0
#: The controller learns of a step's end a fraction of a second after srun; this is the limit.
STEP_END_WAIT_S = 10
#: The previous step may be about to end: waits up to this long print no message.
FIRST_WAIT_S = 1
PAUSE_S = 2.0


class OwnJob:
    """The job that srun creates for its one step."""

    def __init__(
        self, client: Client, job: JobRequest, say: Callable[[str], None], key: str = "",
        components: Sequence[JobRequest] = (),
    ) -> None:  # fmt: skip
        self._client = client
        self._say = say
        self._request = SubmitJobRequest(request_key=key or new_key(), job=job, spec=JobSpec(), components=components)
        self.job_id = 0
        self.ntasks = 0  # as in the allocation; 0 = not given

    def allocate(self) -> None:
        """Waits until the nodes are allocated. Raises CommandError."""
        try:
            with interruptible():
                self._allocate()
        except Interrupted as error:
            self._withdraw()
            raise CommandError(f"{NAME}: Force Terminated JobId={self.job_id}", error_status(), plain=True) from error

    def _allocate(self) -> None:
        try:
            reply: SubmitJobReply = self._client.call("SubmitJob", self._request)
        except PenstockError as error:
            if error.code in (Code.NODES_BUSY, Code.NODES_NOT_AVAILABLE, Code.NOT_TOP_PRIORITY):
                from cli.jobs.allocation import not_at_once

                raise not_at_once(NAME, error.code) from error
            if isinstance(error, NotKnown):
                request = self._request
                raise not_known(NAME, request.job.name, request.request_key, error, error_status()) from error
            raise _refused("Unable to allocate resources", error) from error
        self.job_id = reply.job_id
        for line in reply.user_messages:
            self._say(line)
        for warning in reply.warnings:
            self._say(f"warning: {warning}")
        waited = False
        while True:
            state = self._allocation_state(WAIT_S if waited else 1)
            if state.state in ENDED or state.state == "COMPLETING":
                if state.reason == Reason.NODES_BUSY.value:  # --immediate
                    from cli.jobs.allocation import too_late

                    raise too_late(self._request.job.immediate_s)
                raise CommandError(f"Job allocation {self.job_id} has been revoked", error_status())
            if state.state == "RUNNING":
                self.ntasks = int(state.environment.get("SLURM_NTASKS", 0))
                break
            if not waited and (not self._request.job.HasField("immediate_s") or self._request.job.immediate_s):
                self._notice(state.reason)
                self._say(f"job {self.job_id} queued and waiting for resources")
            waited = True
        if waited and not self._request.job.HasField("immediate_s"):
            self._say(f"job {self.job_id} has been allocated resources")

    def _notice(self, reason: str) -> None:
        from cli.jobs.allocation import NOTICES

        if reason in NOTICES:
            self._say(NOTICES[reason])

    def _allocation_state(self, wait_s: int) -> AllocationReply:
        reply: AllocationReply = self._client.call(
            "AwaitAllocation", AwaitAllocationRequest(job_id=self.job_id, wait_s=wait_s), wait_s + AWAY_S
        )
        return reply

    def _withdraw(self) -> None:
        """Cancels the pending job; the same key identifies it."""
        self._client.close()
        try:
            self.job_id = self.job_id or self._client.call("SubmitJob", self._request).job_id
            insist(self._client, "CancelJobs", CancelJobsRequest(filter=JobFilter(ids=[str(self.job_id)])), self._say)
        except PenstockError as error:
            if self.job_id:
                complain(NAME, f"job {self.job_id} could not be cancelled: {error.text}")
            return
        self._say(f"Job allocation {self.job_id} has been revoked")

    def await_step(self, *created: CreateStepReply) -> None:
        """Waits until the nodes have reported the step's end: otherwise the controller would end the step itself."""
        for one in created:
            request = AwaitStepRequest(
                job_id=one.job_id, step_id=one.step_id, attempt=one.attempt, wait_s=STEP_END_WAIT_S
            )
            with contextlib.suppress(PenstockError):
                self._client.call("AwaitStep", request, 2 * STEP_END_WAIT_S)

    def end(self, status: int) -> bool:
        """Releases the allocation with the step's exit. False: that is not acknowledged, and was reported."""
        exit_ = ExitStatus(signal=status - 128) if 128 < status <= 192 else ExitStatus(code=status)
        return release_allocation(self._client, NAME, self.job_id, exit_, self._say)


class StepMaker:
    """Creates steps of one job."""

    def __init__(self, client: Client, job_id: int, say: Callable[[str], None], name: str = NAME) -> None:
        self._client = client
        self._job_id = job_id
        self._say = say
        self._name = name

    def create(self, spec: StepSpec, argv: list[bytes], environment: list[bytes]) -> CreateStepReply:
        """Waits until the step has its resources. Raises CommandError."""
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
            reply = self._send(request)
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
        """Cancels a step that this srun cannot serve."""
        wanted = JobFilter(ids=[f"{created.job_id}.{created.step_id}"])
        try:
            insist(self._client, "CancelJobs", CancelJobsRequest(filter=wanted), self._say)
        except PenstockError as error:
            complain(NAME, f"step {wanted.ids[0]} could not be cancelled: {error.text}")

    def _send(self, request: CreateStepRequest) -> CreateStepReply:
        patience_s = AWAY_S if request.wait_s > FIRST_WAIT_S else None
        try:
            reply: CreateStepReply = self._client.call("CreateStep", request, patience_s)
            return reply
        except PenstockError as error:
            raise self._refused_step(error) from error

    def _refused_step(self, error: PenstockError) -> CommandError:
        """The error when the step was refused; for a missing job, Slurm's messages about the job."""
        job_id, name = self._job_id, self._name
        if error.code not in _NO_ALLOCATION:
            return _refused(f"Unable to create step for job {job_id}", error, name)
        return unconfirmed(job_id, error, name)


def unconfirmed(job_id: int, error: PenstockError, name: str = NAME) -> CommandError:
    """The error when the job of a step is missing."""
    why = TEXT[Code(error.code)] if error.code in _NO_ALLOCATION else error.text
    what = f"Unable to confirm allocation for job {job_id}: {why}"
    if error.code == Code.ALREADY_DONE:
        what = f"Slurm job {job_id} has expired"
    check = f"Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
    return CommandError(f"{name}: error: {what}\n{name}: {check}", error_status(), plain=True)


#: Refusals of a step that concern its job.
_NO_ALLOCATION = (Code.INVALID_JOB_ID, Code.JOB_PENDING, Code.ALREADY_DONE)


def _refused(what: str, error: PenstockError, name: str = NAME) -> CommandError:
    from cli.base.refusal import lines_of

    status = immediate_status() if error.code == Code.NODES_BUSY else error_status()
    return CommandError(lines_of(name, f"{name}: error: {what}", error), status, plain=True)


def say(text: str) -> None:
    """Prints a message of srun before its step runs."""
    sys.stderr.write(f"{NAME}: {text}\n")
    sys.stderr.flush()
