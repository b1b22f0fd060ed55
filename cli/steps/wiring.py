"""Connects the streams of a step to srun's own: output, input, and the conditions that end the step."""

import os
from collections.abc import Sequence

from cli.base.environment import number_of
from cli.base.options import flag_is_on
from cli.base.run import CommandError
from cli.base.users import login_of
from cli.steps.console import STDERR as ERR
from cli.steps.console import STDOUT as OUT
from cli.steps.console import Console, Mode, PartsConsole, Sink, open_file
from cli.steps.ending import EndingRules
from cli.steps.request import STDIN_TO_ALL, STDIN_TO_NONE, StepValues, streams_of
from cli.steps.session import Session
from penstock.v1.steps_pb2 import CreateStepReply, StepSpec
from penstock.values.filenames import FileNames, expand_pattern
from penstock.values.numbers import is_digits

STDIN = 0
STDOUT = 1
STDERR = 2


def rules_of(values: StepValues, created: CreateStepReply) -> EndingRules:
    """The rules by which the step is ended, from the options or the site's configuration (KillOnBadExit, WaitTime)."""
    node = os.environ.get("SLURM_STEP_KILLED_MSG_NODE_ID", "")[:9]
    return EndingRules(
        kill_on_bad_exit=values.all.flag("kill_on_bad_exit", created.kill_on_bad_exit),
        wait_s=values.all.number("wait", created.wait_s),
        disable_status=values.all.flag("disable_status"),
        quit_on_interrupt=values.all.flag("quit_on_interrupt"),
        verbose=values.all.number("verbose"),
        shows_tasks=values.all.flag("debugger_test"),
        reports_once=flag_is_on(os.environ.get("SLURM_SRUN_REDUCE_TASK_EXIT_MSG", "0")),
        killed_note_node=int(node) if is_digits(node) else None,
    )


def console_of(created: CreateStepReply, values: StepValues) -> Console:
    """The destination of all tasks' output."""
    return _console(created, values, 0, {})


def parts_console(parts: Sequence[tuple[CreateStepReply, StepValues]]) -> Console:
    """The destinations of a step over several components. Components that name the same file share it. The labels of
    each are as wide as its own number of tasks requires.
    """
    sinks: dict[str | int, Sink] = {}
    consoles: list[tuple[int, Console]] = []
    first = 0
    for created, values in parts:
        consoles.append((first, _console(created, values, first, sinks)))
        first += created.plan.ntasks
    return PartsConsole(consoles)


def _console(created: CreateStepReply, values: StepValues, first: int, sinks: dict[str | int, Sink]) -> Console:
    """`first`: the rank of this part's first task; `sinks`: those in use, by their file."""
    streams = streams_of(values)
    out = _sink(streams.out, STDOUT, created, values, sinks)
    err = _sink(streams.err, STDERR, created, values, sinks)
    width = len(str(max(created.plan.ntasks - 1, 0))) if values.all.flag("label") else 0
    own = err if err is not None and streams.err.kind != "file" else _of_ours(STDERR, sinks)
    console = Console(out, err, label_width=width, own_err=own)
    for mode, channel in ((streams.out, OUT), (streams.err, ERR)):
        if mode.kind == "task":
            if mode.task >= created.plan.ntasks:
                raise CommandError(f"task {mode.task} of --output or --error: there are {created.plan.ntasks} tasks")
            console.show_only(channel, first + mode.task)
    return console


def _of_ours(fd: int, sinks: dict[str | int, Sink]) -> Sink:
    """The sink of srun's own stdout or stderr."""
    if fd not in sinks:
        sinks[fd] = Sink(fd)
    return sinks[fd]


def _sink(
    mode: Mode, fd: int, created: CreateStepReply, values: StepValues, sinks: dict[str | int, Sink]
) -> Sink | None:
    if mode.kind in ("none", "nodes"):
        return None
    if mode.kind != "file":
        return _of_ours(fd, sinks)
    if mode.path not in sinks:
        sinks[mode.path] = open_file(_expanded(mode.path, created), append=values.all.text("open_mode") == "append")
    return sinks[mode.path]


def _expanded(path: str, created: CreateStepReply) -> bytes:
    """A file's name with the symbols expanded that srun can expand."""
    task = number_of(os.environ, "SLURM_ARRAY_TASK_ID", -1)
    names = FileNames(
        job_id=created.job_id,
        array_job_id=number_of(os.environ, "SLURM_ARRAY_JOB_ID"),
        array_task_id=task if task >= 0 else None,
        job_name=os.environ.get("SLURM_JOB_NAME", ""),
        user_name=login_of(str(os.getuid())) if "%" in path else "",
        step=created.step_id,
        restart_count=number_of(os.environ, "SLURM_RESTART_COUNT"),
    )
    return expand_pattern(os.fsencode(path), names)


def feed(session: Session, spec: StepSpec, mode: Mode, created: CreateStepReply) -> None:
    """Connects standard input from the source given by --input."""
    _feed(session, spec, mode, created, STDIN, 0, ())


def feed_parts(session: Session, parts: Sequence[tuple[CreateStepReply, StepValues, StepSpec]]) -> None:
    """Connects the standard input of each component. Those without an own --input share srun's."""
    modes = [streams_of(values).input for _, values, _ in parts]
    sharing = [number for number, mode in enumerate(modes) if mode.kind == "all"]
    if sharing:
        created, _, spec = parts[sharing[0]]
        _feed(session, spec, Mode("all"), created, STDIN, 0, sharing)
    fd, first = -1 if sharing else STDIN, 0
    for number, (created, _, spec) in enumerate(parts):
        if number not in sharing:
            _feed(session, spec, modes[number], created, fd, first, (number,))
            fd = -1 if modes[number].kind == "task" else fd
        first += created.plan.ntasks


def _feed(
    session: Session, spec: StepSpec, mode: Mode, created: CreateStepReply, fd: int, first: int, parts: Sequence[int]
) -> None:
    """`fd`: the input when no file is named, -1 = none; `first`: the rank of the first task of these parts."""
    if spec.stdin_to == STDIN_TO_NONE:
        return
    if mode.kind == "file":
        try:
            fd = os.open(_expanded(mode.path, created), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CommandError(f"Could not open stdin file: {mode.path}: {error.strerror}") from error
    elif not _is_open(fd):
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if spec.stdin_to == STDIN_TO_ALL:
        session.feed(fd, parts=parts)
    else:
        if mode.task >= created.plan.ntasks:
            raise CommandError(f"task {mode.task} of --input: there are {created.plan.ntasks} tasks")
        session.feed(fd, first + mode.task, parts)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
