"""`penstock doctor JOB[.STEP]`: whether a running job's steps seem to hang, or wait for one of their tasks, and why; and of
steps that have ended, which of their tasks failed."""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from cli.base.jobids import wire_id
from cli.base.listing import emit, list_records
from cli.base.run import CommandError, complain
from cli.base.stepids import one_step
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke

if TYPE_CHECKING:
    from cli.base.document import Json
    from cli.listings.hangs import StepFinding
    from cli.listings.stacks import TaskStack
    from penstock.v1.accounting_pb2 import JobRecord, StepRecord

NAME = "penstock doctor"
#: Tasks in a table.
SHOWN_MAX: Final = 64
#: Steps with failed tasks that are shown: the last ones.
FAILED_MAX: Final = 20


@click.command(
    cls=CommandLine,
    help="Say whether JOB's steps seem to hang, and which of their tasks are behind.",
    examples=(
        ("penstock doctor 12", "all running steps of a job"),
        ("penstock doctor 12.0 --stacks", "with the stacks of the tasks, by py-spy"),
    ),
)
@documents
@click.option("--stacks", is_flag=True, help="Also run py-spy on the tasks of suspected steps, as a step of your job.")
@click.argument("job")
def command(job: str, stacks: bool, language: str) -> int:
    """One run of `penstock doctor`."""
    from cli.listings import stacks as stacks_of
    from cli.listings import taskends

    def places_of(one: "StepFinding") -> "list[list[TaskStack]]":
        return stacks_of.grouped(stacks_of.taken(one.answer.job.job_id, one.by_suspicion())) if stacks else []

    found, failed = load(job)
    if language:
        steps = [as_object(one, places_of(one)) for one in found]
        return write({"steps": steps, "failed": [taskends.as_object(*one) for one in failed]}, language)
    emit(taskends.as_text(*one) for one in failed[-FAILED_MAX:])
    for one in found:
        emit(shown(one))
        sys.stdout.flush()  # stacks take their time: NODE_S at worst
        emit(stacks_of.shown(places_of(one)))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock doctor ...`; its status."""
    return invoke(command, NAME, argv)


def load(text: str) -> "tuple[list[StepFinding], list[tuple[JobRecord, StepRecord]]]":
    """What is found in a job or step: running steps, and those that have ended with failed tasks. Raises CommandError
    when there is neither."""
    from cli.listings.hangs import findings_of
    from cli.listings.taskends import failed_steps
    from penstock.v1.accounting_pb2 import ListRecordsRequest

    with Client.open() as client:
        asked = ListRecordsRequest(ids=[wire_id(one_step(text, "job"))], with_task_ends=True)
        jobs = list_records(client, asked)
        if not jobs:
            raise CommandError(f"job {text[:80]}: not found, or not yours to see")
        found = list(findings_of(client, jobs, partial(complain, NAME, level="warning")))
    failed = list(failed_steps(jobs))
    if not found and not failed:
        raise CommandError(f"job {text[:80]}: no step of it runs, and no task of one has failed")
    if not failed and all(one.answer.refusal for one in found):
        raise CommandError(found[0].answer.refusal)
    return found, failed


def shown(one: "StepFinding") -> Iterator[str]:
    """A step for people."""
    from cli.base.format import aligned
    from penstock.values.duration import format_duration

    if one.answer.refusal:
        yield f"Step {one.answer.name()}: cannot be asked: {one.answer.refusal}"
        return
    nodes = dict.fromkeys(task.node for task in one.tasks)
    head = f"Step {one.answer.name()}: {len(one.tasks)} task{'s' * (len(one.tasks) != 1)} on {','.join(nodes) or 'no node'}: "
    if not one.is_watched or not one.tasks:
        why = (
            "it has not been sampled yet"
            if one.is_watched
            else "it has a terminal, no profile, or PenstockHangAfter is 0"
        )
        yield f"{head}not watched: {why}"
    elif not one.suspicions:
        yield f"{head}nothing is suspected"
    else:
        yield f"{head}suspected"
        for suspicion in one.suspicions:
            yield f"  {suspicion.kind}: {suspicion.text}"
    for node, reason in one.answer.missing.items():
        yield f"  node {node} does not answer: {reason}"
    if not one.suspicions:
        return
    rows: list[tuple[str, ...]] = [
        ("  TASK", "NODE", "PID", "STATE", "NO CPU FOR", "NO I/O FOR", "NOTHING WRITTEN FOR")
    ]
    for task in one.tasks[:SHOWN_MAX]:
        times = (task.state.quiet_s, task.state.still_s, task.state.silent_s)
        pid = str(task.pid) if task.pid else ""
        rows.append((f"  {task.state.rank}", task.node, pid, task.process_state, *map(format_duration, times)))
    yield from aligned(rows, right=(4, 5, 6))
    if len(one.tasks) > SHOWN_MAX:
        yield f"  and {len(one.tasks) - SHOWN_MAX} more tasks"
    if one.recorder:
        yield f"  NCCL's flight recorder, if it has written: {one.recorder}RANK on each node"


def as_object(one: "StepFinding", places: "Sequence[Sequence[TaskStack]]" = ()) -> "Json":
    """A step as a document. `places`: its tasks' stacks, those at the same place together."""
    job, _, step = one.answer.name().rpartition(".")
    tasks: list[Json] = [
        {"node": task.node, "pid": task.pid or None, "process_state": task.process_state, **task.state._asdict()}
        for task in one.tasks
    ]
    suspicions: list[Json] = [
        {"kind": found.kind, "ranks": list(found.ranks), "text": found.text} for found in one.suspicions
    ]
    stacks: list[Json] = [
        {"ranks": [stack.task.state.rank for stack in group], "lines": list(group[0].lines)} for group in places
    ]
    return {
        "job": job, "step": step, "watched": one.is_watched, "suspicions": suspicions, "tasks": tasks,
        "flight_recorder": one.recorder or None, "missing": {**one.answer.missing},
        "refusal": one.answer.refusal or None, "stacks": stacks,
    }  # fmt: skip
