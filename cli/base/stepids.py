"""Helpers about steps that several commands share: naming, finding and filtering."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cli.base.jobids import wire_id
from cli.base.run import CommandError
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AttachStepReply, AttachStepRequest, ListStepsRequest, StepInfo
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP, JobSelector, format_job, format_step, parse_selector
from penstock.values.states import ENDED

if TYPE_CHECKING:
    from cli.base.queryclient import QueryClient
    from penstock.client import Client


def job_text(step: StepInfo) -> str:
    """The step's job: 12, 12_4, 12+1."""
    if step.het_job_id and not step.array_job_id:
        return f"{step.het_job_id}+{step.het_offset}"
    task = step.array_task_id if step.HasField("array_task_id") else None
    return format_job(step.job_id, step.array_job_id, task)


def step_text(step: StepInfo) -> str:
    """`12.0`, `12_4.batch`."""
    return f"{job_text(step)}.{format_step(step.step_id)}"


def step_name(step: StepInfo) -> str:
    """The step's name."""
    return step.name or format_step(step.step_id)


def names_step(selector: JobSelector, step: StepInfo) -> bool:
    """Whether the user's text selects the step."""
    if selector.step_id is not None and selector.step_id != step.step_id:
        return False
    if selector.het_offset is not None:
        return (selector.job_id, selector.het_offset) == (step.het_job_id, step.het_offset)
    if selector.tasks is not None:
        return step.array_job_id == selector.job_id and step.array_task_id in selector.tasks
    return selector.job_id in (step.job_id, step.array_job_id, step.het_job_id)


def list_steps(client: "Client", selectors: Iterable[JobSelector] = (), users: Iterable[str] = ()) -> list[StepInfo]:
    """The selected steps, in order of job and step; none for a job that does not exist."""
    chosen = list(selectors)
    request = ListStepsRequest(ids=[wire_id(s) for s in chosen], users=list(users))
    steps: list[StepInfo] = [
        step
        for step in client.call("ListSteps", request).steps
        if not chosen or any(names_step(selector, step) for selector in chosen)
    ]
    return sorted(steps, key=lambda step: (step.job_id, step.step_id))


def waiting_steps(client: "Client", selectors: Iterable[JobSelector] = ()) -> list[StepInfo]:
    """The steps that wait for room in their jobs; they have no number yet."""
    chosen = [s for s in selectors if s.step_id is None]
    reply = client.call("ListSteps", ListStepsRequest(ids=[wire_id(s) for s in chosen]))
    return [step for step in reply.waiting if not chosen or any(names_step(selector, step) for selector in chosen)]


def is_live(step: StepInfo) -> bool:
    """Whether it has not ended."""
    return step.state not in ENDED


def one_step(text: str, what: str = "job step id") -> JobSelector:
    """Parses a job and a step, or a job alone. Raises CommandError."""
    try:
        return parse_selector(text)
    except BadValue as error:
        raise CommandError(f"Invalid {what} {text[:80]}: {error}") from error


def attach(client: "QueryClient", job_id: int, step_id: int) -> AttachStepReply:
    """Returns the addresses of a step's streams, and the key to them."""
    reply: AttachStepReply = client.call("AttachStep", AttachStepRequest(job_id=job_id, step_id=step_id))
    return reply


def own_job_id() -> int:
    """The job that this command runs in; 0 = none."""
    text = os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or ""
    return int(text[:10]) if text.isascii() and text.isdigit() else 0


def default_step(steps: list[StepInfo]) -> StepInfo | None:
    """The default step: the first that srun created, else the batch step."""
    live = [step for step in steps if is_live(step) and step.step_id != EXTERN_STEP]
    of_srun = [step for step in live if step.step_id >= 0]
    batch = [step for step in live if step.step_id == BATCH_STEP]
    return next(iter([*of_srun, *batch, *live]), None)


def failed(name: str, what: str, error: PenstockError) -> CommandError:
    """A CommandError of a refusal, prefixed with the failed action."""
    from cli.base.refusal import lines_of

    return CommandError(lines_of(name, f"{name}: error: {what}", error), plain=True)
