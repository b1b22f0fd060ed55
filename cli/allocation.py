"""An allocation that a command owns: asked for, waited for, given back. For salloc, and for srun on its own.

    allocation = Allocation(client, "salloc")
    allocation.submit(job)               # a JobRequest with its kind set
    granted = allocation.wait()          # an AllocationReply, RUNNING
    ...
    allocation.end(code, signal)

Messages go to the error output in Slurm's words, which tools read. Calls that wait are made again and again: what they
wait for is the controller's state, so nothing is lost when the controller restarts.
"""

import math
import os
import sys
import time
from typing import Any

from cli.exitstatus import error_status, immediate_status
from cli.run import CommandError, complain
from penstock.client import Client, new_request_key
from penstock.errors import PenstockError, Unreachable
from penstock.v1.common_pb2 import ExitStatus, JobRequest, JobSpec
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, SubmitJobRequest
from penstock.v1.steps_pb2 import AllocationReply, AwaitAllocationRequest, EndAllocationRequest
from penstock.values.refusals import Code
from penstock.values.states import ENDED

NOT_GRANTED = ("PENDING", "REQUEUED", "")
#: How long one waiting call may take; it is made again.
WAIT_S = 30
#: A controller that is away comes back within this, or the command gives up giving back what it had.
END_LIMIT_S = 60.0
FAILED = "Job submit/allocate failed"
#: --immediate, and the resources are not there.
NOT_AT_ONCE = "Immediate execution impossible, insufficient priority"
#: With --immediate the controller ends the job; after so much more the client does.
IMMEDIATE_MORE_S = 5.0


class Allocation:
    """One job without a script, from its submission to its end."""

    def __init__(self, client: Client, name: str, quiet: bool = False) -> None:
        self.client = client
        self.name = name
        self.quiet = quiet
        self.job_id = 0
        self.waited_s = 0.0
        self._request: SubmitJobRequest | None = None

    def say(self, text: str) -> None:
        """A message, unless -Q was given."""
        if not self.quiet:
            complain(self.name, f"{self.name}: {text}", plain=True)

    def submit(self, job: JobRequest, *components: JobRequest) -> list[str]:
        """Hand the request in; warnings are shown. Raises CommandError in Slurm's words."""
        key = new_request_key(time.time_ns() // 1000, os.urandom(16))
        self._request = SubmitJobRequest(request_key=key, job=job, spec=JobSpec(), components=components)
        try:
            reply = self.client.call("SubmitJob", self._request)
        except PenstockError as error:
            if error.code == Code.NODES_BUSY:
                raise self._busy() from error
            from cli.refusal import lines_of

            text = lines_of(self.name, f"{self.name}: error: {FAILED}", error)
            raise CommandError(text, error_status(), plain=True) from error
        self.job_id = reply.job_id
        for warning in reply.warnings:
            self.say(f"warning: {warning}")
        return list(reply.warnings)

    def wait(self, immediate_s: int | None = None) -> AllocationReply:
        """Until the nodes are there and ready. Raises CommandError when the job ends before."""
        began = time.monotonic()
        first = True
        told_nodes = False
        while True:
            reply = self.look(0 if first else WAIT_S if immediate_s is None else 1)
            if reply.state in ENDED or reply.state == "COMPLETING":
                raise self._busy() if immediate_s is not None else self.ended(reply)
            waits = reply.state in NOT_GRANTED
            if waits and immediate_s is not None and time.monotonic() - began >= immediate_s + IMMEDIATE_MORE_S:
                self.cancel()  # the controller does that; but somebody may have changed the job meanwhile
                raise self._busy()
            if waits and first and immediate_s is None:
                self.say(f"Pending job allocation {self.job_id}")
                self.say(f"job {self.job_id} queued and waiting for resources")
            elif not waits:
                if not told_nodes:
                    self.waited_s = time.monotonic() - began
                    self._granted(reply, waited=not first and immediate_s is None)
                    told_nodes = True
                if reply.state == "RUNNING":
                    return reply
            first = False

    def _busy(self) -> CommandError:
        return CommandError(f"Unable to allocate resources: {NOT_AT_ONCE}", immediate_status())

    def _granted(self, reply: AllocationReply, waited: bool) -> None:
        if waited:
            self.say(f"job {self.job_id} has been allocated resources")
        self.say(f"Granted job allocation {self.job_id}")
        if reply.state != "RUNNING":
            self.say("Waiting for resource configuration")

    def look(self, wait_s: int) -> AllocationReply:
        """The allocation's state, after `wait_s` at the latest; patient with a controller that restarts."""
        request = AwaitAllocationRequest(job_id=self.job_id, wait_s=wait_s)
        reply: AllocationReply = self.client.call("AwaitAllocation", request, math.inf if wait_s else None)
        return reply

    def ended(self, reply: AllocationReply) -> CommandError:
        """The job is over before it was granted, or became ready."""
        word = f": {reply.note}" if reply.note else ""
        return CommandError(
            f"{self.name}: Job allocation {self.job_id} has been revoked.\n"
            f"{self.name}: error: {FAILED}: Job/step already completing or completed{word}",
            plain=True,
        )

    def take_back(self) -> bool:
        """Cancel what was asked for, whatever call was interrupted; the same key is the same job. False = nothing was."""
        if self._request is None:
            return False
        self.client.close()  # a call that was broken off leaves a connection that nobody knows the state of
        try:
            self.job_id = self.job_id or self.client.call("SubmitJob", self._request).job_id
        except PenstockError:
            return False  # it was refused, and nothing is left behind
        self.cancel()
        return True

    def cancel(self) -> None:
        """Take back a job that was not granted."""
        request = CancelJobsRequest(filter=JobFilter(ids=[str(self.job_id)]))
        try:
            self.client.call("CancelJobs", request)
        except PenstockError as error:
            complain(self.name, f"job {self.job_id} could not be cancelled: {error.text}")

    def end(self, code: int, signal: int = 0) -> bool:
        """Give it back. False when it had ended already."""
        request = EndAllocationRequest(job_id=self.job_id, exit=ExitStatus(code=code, signal=signal))
        try:
            self.client.call("EndAllocation", request, END_LIMIT_S)
        except Unreachable as error:
            complain(self.name, f"Unable to clean up job allocation {self.job_id}: {error.text}")
        except PenstockError as error:
            if error.code not in (Code.ALREADY_DONE, Code.INVALID_JOB_ID):
                complain(self.name, f"Unable to clean up job allocation {self.job_id}: {error.text}")
            return False
        return True


def ring(values: dict[str, Any], waited_s: float, after_s: float) -> None:
    """The terminal's bell: after a long wait unless --no-bell, always with --bell."""
    wanted = values.get("bell") or (waited_s > after_s and not values.get("no_bell"))
    if wanted and sys.stdout.isatty():
        sys.stdout.write("\a")
        sys.stdout.flush()
