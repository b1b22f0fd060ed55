"""`penstock doctor JOB[.STEP]`: whether a running job's steps seem to hang, or wait for one of their tasks, and why."""

import subprocess
from collections.abc import Iterator
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
    from cli.listings.hangs import SeenTask, StepFinding

NAME = "penstock doctor"
#: Tasks in a table, and tasks whose stacks are taken.
SHOWN_MAX: Final = 64
STACKS_MAX: Final = 8
#: For the stacks of one task: a process that hangs in the kernel gives none.
STACK_S: Final = 30


@click.command(
    cls=CommandLine,
    help="Say whether JOB's steps seem to hang, and which of their tasks are behind.",
    examples=(
        ("penstock doctor 12", "all running steps of a job"),
        ("penstock doctor 12.0 --stacks", "with the stacks of the suspected tasks, by py-spy"),
    ),
)
@documents
@click.option("--stacks", is_flag=True, help="Also run py-spy on the suspected tasks, as a step of your job.")
@click.argument("job")
def command(job: str, stacks: bool, language: str) -> int:
    """One run of `penstock doctor`."""
    found = load(job)
    if language:
        return write({"steps": [as_object(one) for one in found]}, language)
    for one in found:
        emit(shown(one))
        if stacks and one.suspicions:
            emit(line for task in one.suspects()[:STACKS_MAX] if task.pid for line in stack_of(one, task))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock doctor ...`; its status."""
    return invoke(command, NAME, argv)


def load(text: str) -> "list[StepFinding]":
    """What is found in a job or step. Raises CommandError when nothing of it runs."""
    from cli.listings.hangs import findings_of
    from penstock.v1.accounting_pb2 import ListRecordsRequest

    with Client.open() as client:
        jobs = list_records(client, ListRecordsRequest(ids=[wire_id(one_step(text, "job"))]))
        if not jobs:
            raise CommandError(f"job {text[:80]}: not found, or not yours to see")
        found = list(findings_of(client, jobs, partial(complain, NAME, level="warning")))
    if not found:
        raise CommandError(f"job {text[:80]}: no step of it runs")
    if all(one.answer.refusal for one in found):
        raise CommandError(found[0].answer.refusal)
    return found


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


def stack_of(one: "StepFinding", task: "SeenTask") -> Iterator[str]:
    """The stacks of a task, by py-spy in a step of the job: as its user, in its groups, with the caller's rights."""
    yield f"  Stacks of task {task.state.rank} (pid {task.pid} on {task.node}):"
    from cli.base.commandpath import how_to_run
    from penstock.values.text import clean_line

    words = ["py-spy", "dump", "--nonblocking", "--pid", str(task.pid)]
    of_job = ["--jobid", str(one.answer.job.job_id), "--overlap", "-Q", "-N1", "-n1", "-w", task.node]
    try:
        done = subprocess.run(
            [*how_to_run("srun"), *of_job, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STACK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield f"    none within {STACK_S} s"
        return
    text = done.stdout if done.returncode == 0 else done.stderr or b"py-spy has failed"
    yield from (f"    {clean_line(line)}" for line in text.decode("utf-8", "replace").splitlines())


def as_object(one: "StepFinding") -> "Json":
    """A step as a document."""
    job, _, step = one.answer.name().rpartition(".")
    tasks: list[Json] = [
        {"node": task.node, "pid": task.pid or None, "process_state": task.process_state, **task.state._asdict()}
        for task in one.tasks
    ]
    suspicions: list[Json] = [
        {"kind": found.kind, "ranks": list(found.ranks), "text": found.text} for found in one.suspicions
    ]
    return {
        "job": job, "step": step, "watched": one.is_watched, "suspicions": suspicions, "tasks": tasks,
        "flight_recorder": one.recorder or None, "missing": {**one.answer.missing},
        "refusal": one.answer.refusal or None,
    }  # fmt: skip
