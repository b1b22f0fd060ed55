"""An allocation that a command owns: requested, waited for, released. For salloc, and for srun on its own.

    allocation = Allocation(client, "salloc")
    allocation.submit(job)               # a JobRequest with its kind set
    granted = allocation.wait()          # an AllocationReply, RUNNING
    ...
    allocation.end(code, signal)

Messages go to stderr in Slurm's words, which tools parse. Waiting calls are repeated: they wait for the controller's
state, so nothing is lost when the controller restarts.
"""

import math
import sys
import time

from cli.base.exitstatus import error_status, immediate_status
from cli.base.insist import insist
from cli.base.options import OptionValues
from cli.base.requestkey import new_key, not_known
from cli.base.run import CommandError, complain, warning_text
from cli.jobs.release import release_allocation
from penstock.client import Client
from penstock.errors import NotKnown, PenstockError
from penstock.v1.common_pb2 import ExitStatus, JobRequest, JobSpec
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, SubmitJobRequest
from penstock.v1.steps_pb2 import AllocationReply, AwaitAllocationRequest
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ENDED

NOT_GRANTED = ("PENDING", "REQUEUED", "")
#: The longest time of one waiting call; it is repeated.
WAIT_S = 30
FAILED = "Job submit/allocate failed"
UNABLE = "Unable to allocate resources"
#: The refusals of --immediate.
NOT_NOW = (Code.NODES_BUSY, Code.NODES_NOT_AVAILABLE, Code.NOT_TOP_PRIORITY)
#: By reason, what is said of a pending job that does not wait for others to end.
NOTICES = {
    **dict.fromkeys(
        ("PartitionDown", "PartitionInactive", "PartitionTimeLimit", "PartitionNodeLimit"),
        "Requested partition configuration not available now",
    ),
    "ReqNodeNotAvail": "Required node not available (down, drained or reserved)",
}
#: With --immediate the controller ends the job; after this long the client does.
IMMEDIATE_MORE_S = 5.0


def not_at_once(name: str, code: int) -> CommandError:
    """The error of --immediate when the nodes are busy or not available."""
    what = FAILED if name == "salloc" and code == Code.NODES_NOT_AVAILABLE else UNABLE
    return CommandError(f"{what}: {TEXT[Code(code)]}", immediate_status())


def too_late(immediate_s: int) -> CommandError:
    """The error of --immediate when the job has not started in time."""
    return CommandError(
        f"{UNABLE}: {TEXT[Code.NODES_BUSY if immediate_s else Code.NOT_TOP_PRIORITY]}", immediate_status()
    )


class Allocation:
    """One job without a script, from its submission to its end."""

    def __init__(self, client: Client, name: str, quiet: bool = False, key: str = "") -> None:
        self.client = client
        self._key = key or new_key()
        self.name = name
        self.quiet = quiet
        self.job_id = 0
        self.waited_s = 0.0
        self.configured = False  # it was granted before its nodes were ready
        self._request: SubmitJobRequest | None = None

    def say(self, text: str) -> None:
        """Prints a message, unless -Q was given."""
        if not self.quiet:
            complain(self.name, f"{self.name}: {text}", plain=True)

    def submit(self, job: JobRequest, *components: JobRequest) -> list[str]:
        """Submits the request; warnings are shown. Raises CommandError in Slurm's words."""
        self._request = SubmitJobRequest(request_key=self._key, job=job, spec=JobSpec(), components=components)
        try:
            reply = self.client.call("SubmitJob", self._request)
        except PenstockError as error:
            if error.code in NOT_NOW:
                raise not_at_once(self.name, error.code) from error
            if isinstance(error, NotKnown):
                raise not_known(self.name, job.name, self._key, error, error_status()) from error
            from cli.base.refusal import lines_of

            text = lines_of(self.name, f"{self.name}: error: {FAILED}", error)
            raise CommandError(text, error_status(), plain=True) from error
        self.job_id = reply.job_id
        for line in reply.user_messages:
            self.say(line)
        for warning in reply.warnings:
            self.say(warning_text(warning))
        return list(reply.warnings)

    def wait(self, immediate_s: int | None = None) -> AllocationReply:
        """Waits until the nodes are allocated and ready. Raises CommandError when the job ends before."""
        began = time.monotonic()
        first = True
        reported_nodes = False
        while True:
            reply = self.poll(0 if first else WAIT_S if immediate_s is None else 1)
            if reply.state in ENDED or reply.state == "COMPLETING":
                raise too_late(immediate_s) if immediate_s is not None else self.ended(reply)
            waits = reply.state in NOT_GRANTED
            if waits and immediate_s is not None and time.monotonic() - began >= immediate_s + IMMEDIATE_MORE_S:
                self.cancel()  # the controller does that, unless the job was changed meanwhile
                raise too_late(immediate_s)
            if waits and first and immediate_s != 0:
                self._notice(reply)
                self.say(f"Pending job allocation {self.job_id}")
                self.say(f"job {self.job_id} queued and waiting for resources")
            elif not waits:
                if not reported_nodes:
                    self.waited_s = time.monotonic() - began
                    self._granted(reply, waited=not first and immediate_s is None)
                    reported_nodes = True
                if reply.state == "RUNNING":
                    return reply
            first = False

    def _notice(self, reply: AllocationReply) -> None:
        if reply.reason in NOTICES:
            self.say(NOTICES[reply.reason])

    def _granted(self, reply: AllocationReply, waited: bool) -> None:
        if waited:
            self.say(f"job {self.job_id} has been allocated resources")
        self.say(f"Granted job allocation {self.job_id}")
        self.configured = reply.state != "RUNNING"
        if self.configured:
            self.say("Waiting for resource configuration")

    def poll(self, wait_s: int) -> AllocationReply:
        """Returns the allocation's state, after `wait_s` at the latest; retries while a controller restarts."""
        request = AwaitAllocationRequest(job_id=self.job_id, wait_s=wait_s)
        reply: AllocationReply = self.client.call("AwaitAllocation", request, math.inf if wait_s else None)
        return reply

    def ended(self, reply: AllocationReply) -> CommandError:
        """Handles a job that ended before it was granted or ready."""
        word = f": {reply.note}" if reply.note else ""
        return CommandError(
            f"{self.name}: Job allocation {self.job_id} has been revoked.\n"
            f"{self.name}: error: {FAILED}: Job/step already completing or completed{word}",
            plain=True,
        )

    def withdraw(self) -> bool:
        """Cancels the request, whichever call was interrupted; the same key means the same job. False = there was no
        job."""
        if self._request is None:
            return False
        self.client.close()  # an interrupted call leaves the connection in an unknown state
        try:
            self.job_id = self.job_id or self.client.call("SubmitJob", self._request).job_id
        except PenstockError:
            return False  # it was refused: there is no job
        self.cancel()
        return True

    def cancel(self) -> None:
        """Cancels a job that was not granted."""
        request = CancelJobsRequest(filter=JobFilter(ids=[str(self.job_id)]))
        try:
            insist(self.client, "CancelJobs", request, self.say)
        except PenstockError as error:
            complain(self.name, f"job {self.job_id} could not be cancelled: {error.text}")

    def end(self, code: int, signal: int = 0) -> bool:
        """Releases the allocation. False: that is not acknowledged, and was reported."""
        return release_allocation(self.client, self.name, self.job_id, ExitStatus(code=code, signal=signal), self.say)


def ring(values: OptionValues, waited_s: float, after_s: float) -> None:
    """Rings the terminal's bell: after a long wait unless --no-bell, always with --bell."""
    wanted = values.flag("bell") or (waited_s > after_s and not values.flag("no_bell"))
    if wanted and sys.stdout.isatty():
        sys.stdout.write("\a")
        sys.stdout.flush()
