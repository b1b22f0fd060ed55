"""srun: run tasks in parallel, in the allocation around it or in one of its own.

    1. options: the command line over SLURM_* and SRUN_* variables (cli/steps/stepopts.py)
    2. an allocation: SLURM_JOB_ID or --jobid names it, else a job is made that ends with its step (creation.py)
    3. the step: the controller says where its tasks are, and starts them
    4. the streams to the nodes: output, input, signals, until the step has ended (session.py)

Status: the highest exit code of the tasks, 128+n after a signal; SLURM_EXIT_ERROR (1) for errors of srun's own.

What is imported at the top is paid by every start, of which a script may make thousands.
"""

import os
from typing import TYPE_CHECKING, NoReturn

from cli.environment import step_environment
from cli.exitstatus import error_status, with_exit_error
from cli.jobrequest import named_cluster, prediction
from cli.options import Command
from cli.run import Answered, CommandError, complain, run
from cli.steps.creation import OwnJob, StepMaker, say
from cli.steps.request import (
    STDIN_TO_ALL,
    STDIN_TO_NONE,
    Values,
    ask_programs,
    own_address,
    own_job,
    read_values,
    settle_counts,
    step_spec,
    streams_of,
)
from cli.steps.stepopts import ALLOCATION, JOB, MPI_LIST, STEP
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.values.numbers import is_digits

if TYPE_CHECKING:
    from cli.steps.console import Console, Mode, Sink
    from cli.steps.ending import Rules
    from cli.steps.session import Session
    from penstock.v1.steps_pb2 import CreateStepReply, StepSpec

COMMAND = Command(
    "srun",
    "[OPTIONS(0)... [executable(0) [args(0)...]]]",
    (*JOB, *ALLOCATION, *STEP),
    interspersed=False,
)
STDIN, STDOUT, STDERR = 0, 1, 2


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Run the step to its end."""
    return with_exit_error(COMMAND.name, _body, argv)


def _body(argv: list[str]) -> int:
    values, command = read_values(COMMAND, argv, os.environ)
    if values.get("mpi") == "list":
        raise Answered(MPI_LIST)
    if ":" in argv or "het_group" in values.all:
        from cli.steps.hetrun import run_pieces

        return run_pieces(COMMAND, argv)
    if not command:
        raise CommandError("srun: fatal: No command given to execute.", plain=True)
    if values.get("verbose"):
        from cli.defined import tell_defined

        tell_defined(COMMAND, values.all)
    warn = _nobody if values.get("quiet") else _warn
    settle_counts(values, warn)
    if "exact" in values.own and "whole" in values.own:
        raise CommandError("--exact and --whole are mutually exclusive.")
    tell = _nobody if values.get("quiet") else say
    job_id = values.get("jobid")
    if "relative" in values.own and not job_id:
        raise CommandError("srun: fatal: --relative option invalid for job allocation request", plain=True)
    own = None
    with Client.open() as client:
        named_cluster(values.all, client)
        spec = step_spec(values, command, argv, owns_job=not job_id)
        if "multi_prog" in values.all:
            _read_programs(spec, command)
        if "test_only" in values.all:
            return _test_only(client, values, command, argv)
        if not job_id:
            own = OwnJob(client, own_job(values, command, argv), tell)
            own.allocate()
            job_id = own.job_id
        status = error_status()
        try:
            maker = StepMaker(client, int(job_id), tell)
            run_around(values.get("prolog"), command, "prolog")
            created = _create(maker, client, values, spec, command, int(job_id))
            status = _serve(maker, client, created, values, spec)
            run_around(values.get("epilog"), command, "epilog")
            if own is not None:
                own.await_step(created)
        finally:
            if own is not None:
                own.end(status)
    return status


def _test_only(client: Client, values: Values, command: list[str], argv: list[str]) -> int:
    """When and where the job would start."""
    import time

    from penstock.client import new_request_key
    from penstock.v1.common_pb2 import JobSpec
    from penstock.v1.controller_pb2 import SubmitJobRequest

    key = new_request_key(time.time_ns() // 1000, os.urandom(16))
    job = own_job(values, command, argv)
    try:
        reply = client.call("SubmitJob", SubmitJobRequest(request_key=key, job=job, spec=JobSpec(), test_only=True))
    except PenstockError as error:
        from cli.refusal import lines_of

        raise CommandError(lines_of(COMMAND.name, "allocation failure", error), error_status(), plain=True) from error
    complain(COMMAND.name, prediction(COMMAND.name, reply), plain=True)
    return 0


def run_around(program: str | None, command: list[str], which: str) -> None:
    """--prolog and --epilog: a program that runs here, with the step's command as its arguments."""
    if not program or program.lower() == "none":
        return
    import subprocess

    try:
        status = subprocess.run([program, *command], check=False).returncode
    except OSError as error:
        complain(COMMAND.name, f"srun {which} {program}: {error.strerror}")
        return
    if status:
        complain(COMMAND.name, f"srun {which} failed status={status}")


def _create(
    maker: StepMaker, client: Client, values: Values, spec: "StepSpec", command: list[str], job_id: int
) -> "CreateStepReply":
    """The step, and before it what it needs on the nodes."""
    environment = step_environment(values.get("export", ""), os.environb, inside="SLURM_JOB_ID" in os.environ)
    if spec.pty:
        from cli.steps.terminal import Terminal

        spec.rows, spec.columns = Terminal(STDIN).size()
    words = [] if spec.multi_prog else [os.fsencode(word) for word in command]
    if "bcast" in values.all and words:
        from cli.steps.bcast import send

        words[0] = send(client.cluster, maker, spec, command[0], values.get("bcast"), job_id)
    spec.launch_node = own_address(client.cluster).encode()
    spec.line_buffered = not spec.unbuffered and not spec.pty and spec.ntasks != 1
    return maker.create(spec, words, environment)


def _serve(maker: StepMaker, client: Client, created: "CreateStepReply", values: Values, spec: "StepSpec") -> int:
    """Input and output of the step, until it has ended."""
    try:
        session = _session(client, created, values)
        if spec.pty:
            from cli.steps.terminal import Terminal

            session.use_terminal(Terminal(STDIN))
        feed(session, spec, streams_of(values).input, created)
    except CommandError:
        maker.cancel(created)
        raise
    _tell_launch(session, created)
    return session.run()


def _session(client: Client, created: "CreateStepReply", values: Values) -> "Session":
    from cli.steps.session import Session

    return Session(client.cluster, created, console_of(created, values), rules_of(values, created))


def rules_of(values: Values, created: "CreateStepReply") -> "Rules":
    """How the options, or else the site (KillOnBadExit, WaitTime), want the step to be dealt with."""
    from cli.steps.ending import Rules

    return Rules(
        kill_on_bad_exit=bool(values.get("kill_on_bad_exit", created.kill_on_bad_exit)),
        wait_s=values.get("wait", created.wait_s),
        disable_status=bool(values.get("disable_status")),
        quit_on_interrupt=bool(values.get("quit_on_interrupt")),
        verbose=values.get("verbose", 0),
    )


def console_of(created: "CreateStepReply", values: Values) -> "Console":
    """Where the output of all tasks goes."""
    from cli.steps.console import STDERR as ERR
    from cli.steps.console import STDOUT as OUT
    from cli.steps.console import Console, Sink

    streams = streams_of(values)
    files: dict[str, Sink] = {}
    out = _sink(streams.out, STDOUT, created, values, files)
    err = _sink(streams.err, STDERR, created, values, files)
    width = len(str(max(created.plan.ntasks - 1, 0))) if values.get("label") else 0
    own = err if err is not None and streams.err.kind != "file" else Sink(STDERR)
    console = Console(out, err, label_width=width, own_err=own)
    for mode, channel in ((streams.out, OUT), (streams.err, ERR)):
        if mode.kind == "task":
            if mode.task >= created.plan.ntasks:
                raise CommandError(f"task {mode.task} of --output or --error: there are {created.plan.ntasks} tasks")
            console.show_only(channel, mode.task)
    return console


def _sink(mode: "Mode", fd: int, created: "CreateStepReply", values: Values, files: "dict[str, Sink]") -> "Sink | None":
    from cli.steps.console import Sink, open_file

    if mode.kind in ("none", "nodes"):
        return None
    if mode.kind != "file":
        return Sink(fd)
    if mode.path not in files:
        files[mode.path] = open_file(_expanded(mode.path, created), append=values.get("open_mode") == "append")
    return files[mode.path]


def _expanded(path: str, created: "CreateStepReply") -> bytes:
    """A file's name with what srun knows of its step."""
    import getpass

    from penstock.values.filenames import FileNames, expand_pattern

    array, task = os.environ.get("SLURM_ARRAY_JOB_ID", ""), os.environ.get("SLURM_ARRAY_TASK_ID", "")
    names = FileNames(
        job_id=created.job_id,
        array_job_id=int(array) if is_digits(array) else 0,
        array_task_id=int(task) if is_digits(task) else None,
        job_name=os.environ.get("SLURM_JOB_NAME", ""),
        user_name=getpass.getuser() if "%" in path else "",
        step=created.step_id,
        restart_count=int(os.environ.get("SLURM_RESTART_COUNT", 0)),
    )
    return expand_pattern(os.fsencode(path), names)


def feed(session: "Session", spec: "StepSpec", mode: "Mode", created: "CreateStepReply") -> None:
    """Standard input, from where --input says."""
    if spec.stdin_to == STDIN_TO_NONE:
        return
    fd = STDIN
    if mode.kind == "file":
        try:
            fd = os.open(_expanded(mode.path, created), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CommandError(f"Could not open stdin file: {mode.path}: {error.strerror}") from error
    elif not _is_open(fd):
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if spec.stdin_to == STDIN_TO_ALL:
        session.feed(fd)
    else:
        if mode.task >= created.plan.ntasks:
            raise CommandError(f"task {mode.task} of --input: there are {created.plan.ntasks} tasks")
        session.feed(fd, mode.task)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _read_programs(spec: "StepSpec", command: list[str]) -> None:
    """--multi-prog: the file that the command names."""
    from cli.steps.multiprog import read_config, tasks_of

    programs = read_config(command[0])
    tasks_of(programs, spec.ntasks or max(spec.nodes_min, 1) * max(spec.ntasks_per_node, 1), command[0])
    ask_programs(spec, programs)


def _tell_launch(session: "Session", created: "CreateStepReply") -> None:
    from cli.steps.outcome import ranks_text

    title = f"StepId={created.job_id}.{created.step_id}"
    for node, ranks in zip(created.plan.nodes, created.plan.ranks, strict=False):
        listed = ranks_text(list(ranks.rank)).partition(" ")[2]
        session.tell(f"launching {title} on host {node}, {len(ranks.rank)} tasks: {listed}")


def _warn(text: str) -> None:
    complain(COMMAND.name, f"{COMMAND.name}: warning: {text}", plain=True)


def _nobody(text: str) -> None:
    """-Q: nobody is told."""


if __name__ == "__main__":
    main()
