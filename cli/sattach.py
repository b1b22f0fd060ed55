"""sattach: attaches to a running step of srun, for output and input; also when its srun is gone. The nodes buffer
undelivered output, so a user who attaches again gets what is still buffered. Detaching (Ctrl-C, a closed terminal) does
not affect the step. --layout only prints which tasks are where.

Statuses: that of the step's tasks, as srun's; 130 after Ctrl-C; 1 when there is no such step.
"""

import os
from typing import NoReturn

from cli.base.options import YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, run
from cli.base.stepids import attach, failed
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AttachStepReply
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selector
from penstock.values.numbers import parse_int
from penstock.values.refusals import TEXT, Code
from penstock.values.stepframes import NO_TASK

NAME = "sattach"
STDIN = 0
STDOUT = 1
STDERR = 2


def _task(text: str) -> int | None:
    """Parses a task: a number; None = all, -1 = none."""
    if text.lower() in ("all", "*"):
        return None
    if text.lower() == "none":
        return -1
    try:
        return parse_int(text.lstrip("+"), 0, 2**31 - 1, "task")
    except BadValue as error:
        raise BadValue(f"{error}; a task's number, all or none") from None


NO_STEP = "Failed to parse stepid from command line options"

COMMAND = Command(
    NAME,
    "[options] <jobid.stepid>",
    (
        Option("input-filter", "", YES, help="send input to this task only", metavar="taskid", convert=_task),
        Option("output-filter", "", YES, help="show output of this task only", metavar="taskid", convert=_task),
        Option("error-filter", "", YES, help="show error output of this task only", metavar="taskid", convert=_task),
        Option("label", "l", help="prefix each line with its task's number"),
        Option("layout", help="print which tasks are on which nodes, and exit"),
        Option("pty", help="the step's task 0 has a terminal: use this one for it"),
        Option("quiet", "Q", help="suppress informational messages"),
        Option("verbose", "v", help="verbosity level", counted=True),
    ),
    usage="[options] <jobid.stepid>",
)


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Attaches until the step has ended."""
    line = parse(COMMAND, argv, os.environ)
    if not line.positional:
        raise _misused("too many parameters")
    if len(line.positional) > 1:
        raise _misused("too many parameters")
    selector = _step_of(line.positional[0])
    if selector.step_id is None:
        raise _misused(NO_STEP)
    with Client.open() as client:
        attached = _attach(client, selector)
        if line.values.flag("layout"):
            print(layout(attached), end="")  # noqa: T201
            return 0
        return _view(client, attached, line.values)


def _misused(text: str, detail: str = "") -> CommandError:
    """An error after which Slurm prints the usage, on the standard output."""
    print(f"Usage: {NAME} {COMMAND.usage}")  # noqa: T201
    return CommandError(text, detail=detail)


def _step_of(text: str) -> JobSelector:
    try:
        return parse_selector(text)
    except BadValue as error:
        raise _misused(NO_STEP, str(error)) from error


def _attach(client: Client, selector: JobSelector) -> AttachStepReply:
    job_id = selector.job_id
    try:
        if (selector.tasks, selector.het_offset, selector.submitted_s) != (None, None, None):
            from cli.base.stepids import list_steps

            found = list_steps(client, [selector])
            if not found:
                raise CommandError("Job step does not exist")
            job_id = found[0].job_id
        assert selector.step_id is not None
        return attach(client, job_id, selector.step_id)
    except PenstockError as error:
        if error.code == Code.INVALID_STEP:
            raise CommandError(f"Could not get job step info: {TEXT[Code.INVALID_JOB_ID]}") from error
        raise failed(NAME, "Could not get job step info", error) from error


def layout(attached: AttachStepReply) -> str:
    """The output of --layout."""
    plan = attached.plan
    lines = ["Job step layout:", f"\t{plan.ntasks} tasks, {len(plan.nodes)} nodes ({plan.node_list})", ""]
    for index, (node, ranks) in enumerate(zip(plan.nodes, plan.ranks, strict=True)):
        listed = "".join(f"{rank} " for rank in ranks.rank)
        lines.append(f"\tNode {index} ({node}), {len(ranks.rank)} task(s): {listed}")
    return "\n".join([*lines, ""])


def _view(client: Client, attached: AttachStepReply, values: OptionValues) -> int:
    from cli.steps.console import STDERR as ERR
    from cli.steps.console import STDOUT as OUT
    from cli.steps.console import Console, Sink
    from cli.steps.viewer import Detached, Viewer

    tasks = attached.plan.ntasks
    filters = {key: values.of(int, key) for key in ("input_filter", "output_filter", "error_filter")}
    for key, task in filters.items():
        if task is not None and task >= tasks:
            raise CommandError(f"--{key.replace('_', '-')}={task}: there are {tasks} tasks")
    width = len(str(max(tasks - 1, 0))) if values.flag("label") else 0
    out = Sink(STDOUT) if filters["output_filter"] != -1 else None
    err = Sink(STDERR) if filters["error_filter"] != -1 else None
    console = Console(out, err, label_width=width, own_err=err or Sink(STDERR))
    for key, channel in (("output_filter", OUT), ("error_filter", ERR)):
        if filters[key] is not None and filters[key] != -1:
            console.show_only(channel, filters[key] or 0)
    viewer = Viewer(client.cluster, attached, console, NAME)
    wanted = 0 if values.flag("pty") else filters["input_filter"]
    if values.flag("pty"):
        from cli.steps.terminal import Terminal

        viewer.use_terminal(Terminal(STDIN))
    if wanted != -1:
        viewer.type_into(STDIN, NO_TASK if wanted is None else wanted)
    try:
        return viewer.run()
    except Detached as left:
        return 128 + left.number


if __name__ == "__main__":
    main()
