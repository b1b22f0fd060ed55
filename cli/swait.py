"""swait: waits until a job's steps have ended, or one of them.

    swait [JOBID[_TASK][.STEP]]      without an id: the job that it is called in (SLURM_JOB_ID)

Only steps of srun count; the batch, extern and interactive steps do not. The controller answers when a step has ended;
then the remaining steps are queried, until none runs.

Statuses, as those of Slurm 26.11: 0 the wait is over (however the steps ended), 1 an error, 2 the timeout has expired,
3 the step does not exist (any more).

Deliberately absent: --stepmgr, which Slurm needs for this and the controller here does not.
"""

import os
import time
from typing import Final, NoReturn

from cli.base.jobids import selector_text
from cli.base.options import NUMERIC, YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, complain, run
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AwaitStepReply, AwaitStepRequest, ListStepsRequest, StepInfo
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, format_job, format_step, parse_selector
from penstock.values.refusals import Code
from penstock.values.states import ENDED

#: The longest time of one waiting call, which is then repeated.
WAIT_S: Final = 25
#: Beyond that: the longest outage of the controller that is tolerated.
AWAY_S: Final = 600.0
#: The poll interval for steps that wait for resources of their job: their start is not reported.
QUEUED_S: Final = 1.0
TIMEOUT_MAX_S: Final = 10**9
STATUS_TIMEOUT, STATUS_NO_STEP = 2, 3


def _timeout_s(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:12]) > TIMEOUT_MAX_S:
        raise BadValue(f"--timeout must be a non-negative integer, not {text[:32]!r}")
    return int(text)


COMMAND = Command(
    "swait",
    "[OPTIONS] [jobid[_task][.stepid]]",
    (
        Option("follow", help="report every step as it ends"),
        Option("quiet", "Q", help="suppress informational messages"),
        Option("timeout", "", YES, help="fail after this many seconds", metavar="SECS", convert=_timeout_s,
        invalid=NUMERIC), Option("verbose", "v", help="show the steps that it waits for", counted=True),
    ),
)  # fmt: skip


class TimeOver(Exception):
    """--timeout."""


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Wait."""
    line = parse(COMMAND, argv)
    values = line.values
    if len(line.positional) > 1:
        raise CommandError("expected one job, or one step of it")
    if values.flag("quiet") and values.flag("verbose"):
        raise CommandError("--quiet and --verbose exclude each other")
    selector = _target(line.positional[0] if line.positional else os.environ.get("SLURM_JOB_ID", ""))
    if values.flag("follow") and selector.step_id is not None:
        raise CommandError("--follow and a step exclude each other")
    with Client.open() as client:
        try:
            return _Wait(client, selector, values).run()
        except TimeOver:
            if not values.flag("quiet"):
                complain(COMMAND.name, f"{COMMAND.name}: timed out after {values.number('timeout')} s", plain=True)
            return STATUS_TIMEOUT


def _target(text: str) -> JobSelector:
    if not text:
        raise CommandError("no job id given, and SLURM_JOB_ID is not set")
    try:
        selector = parse_selector(text)
    except BadValue as error:
        raise CommandError(f"Invalid job id {text[:80]}: {error}") from error
    if selector.het_offset is not None or (selector.tasks is not None and len(selector.tasks) != 1):
        raise CommandError(f"Invalid job id {text[:80]}: one job or one array task")
    if selector.step_id is not None and selector.step_id < 0:
        raise CommandError(f"Invalid step {text[:80]}: a step of srun")
    return selector


class _Wait:
    """One wait."""

    def __init__(self, client: Client, selector: JobSelector, values: OptionValues) -> None:
        self.client = client
        self.selector = selector
        self.values = values
        timeout_s = values.number("timeout")
        self.until = time.monotonic() + timeout_s if timeout_s else None

    def run(self) -> int:
        """The status."""
        self._check_job()
        if self.selector.step_id is not None:
            return self._one()
        ended: dict[int, None] = {}
        waited = False
        while True:
            live, queued = self._steps()
            if not live and not queued:
                break
            waited = True
            if not live:
                self._pause(QUEUED_S)
                continue
            step = live[0]
            reply = self._await(step)
            if reply is not None and step.step_id not in ended:
                ended[step.step_id] = None
                if self.values.flag("follow"):
                    self._report(step, reply)
        if waited:
            self._say(f"JobId={self._name()} steps drained")
        return 0

    def _name(self) -> str:
        if self.selector.submitted_s is not None:
            return selector_text(self.selector)
        tasks = self.selector.tasks
        job_id = self.selector.job_id
        return format_job(job_id, job_id, next(iter(tasks)) if tasks is not None else None)

    def _check_job(self) -> None:
        """Raises CommandError for a job that has no steps to wait for."""
        from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest

        request = ListJobsRequest(filter=JobFilter(ids=[self._name()]), all_states=True)
        jobs = [job for page in self.client.stream("ListJobs", request) for job in page.jobs]
        if not jobs:
            raise CommandError(f"Invalid job id specified: {self._name()}")
        if len(jobs) > 1:
            raise CommandError(f"{self._name()} is an array with {len(jobs)} tasks: name one, as {self._name()}_1")
        if jobs[0].state == "PENDING":
            raise CommandError(f"job {self._name()} is still pending")
        self.job_id = jobs[0].job_id

    def _steps(self) -> tuple[list[StepInfo], bool]:
        """The live steps, and whether some wait for resources."""
        try:
            reply = self.client.call("ListSteps", ListStepsRequest(ids=[str(self.job_id)]), AWAY_S)
        except PenstockError as error:
            if error.code == Code.INVALID_JOB_ID:  # the job has ended and is purged
                return [], False
            raise
        live = [step for step in reply.steps if step.step_id >= 0 and step.state not in ENDED]
        return live, bool(reply.waiting)

    def _one(self) -> int:
        """One step."""
        live, _ = self._steps()
        step = next((step for step in live if step.step_id == self.selector.step_id), None)
        if step is None:
            return STATUS_NO_STEP
        reply = None
        while reply is None:
            reply = self._await(step)
        self._report(step, reply)
        return 0

    def _await(self, step: StepInfo) -> AwaitStepReply | None:
        """The step's end; None = not yet. Raises TimeOver."""
        wait_s = WAIT_S if self.until is None else min(WAIT_S, max(1, round(self.until - time.monotonic())))
        self._note(f"waiting for step {self._name()}.{format_step(step.step_id)}")
        request = AwaitStepRequest(job_id=step.job_id, step_id=step.step_id, attempt=step.attempt, wait_s=wait_s)
        reply: AwaitStepReply = self.client.call("AwaitStep", request, wait_s + AWAY_S)
        if reply.state in ENDED:
            return reply
        self._pause(0)
        return None

    def _pause(self, seconds: float) -> None:
        if self.until is not None and time.monotonic() + seconds >= self.until:
            time.sleep(max(0.0, self.until - time.monotonic()))
            raise TimeOver
        time.sleep(seconds)

    def _report(self, step: StepInfo, reply: AwaitStepReply) -> None:
        code = f"code={reply.exit.code}:{reply.exit.signal}" if step.start_at_us else "never-launched"
        failed = reply.state in ("COMPLETED", "FAILED", "CANCELLED") and bool(step.start_at_us)
        reason = "" if failed else f" reason={reply.state}"
        self._say(f"StepId={self._name()}.{format_step(step.step_id)} {code}{reason}")

    def _say(self, text: str) -> None:
        if not self.values.flag("quiet"):
            print(text, flush=True)  # noqa: T201

    def _note(self, text: str) -> None:
        if self.values.flag("verbose"):
            complain(COMMAND.name, f"{COMMAND.name}: {text}", plain=True)


if __name__ == "__main__":
    main()
