"""`penstock run PROGRAM`: submits a program as a job, shows its output, and ends with its exit status. The command-line face of
the Python interface: what it does, a program can do with `Cluster`.

Its options are sbatch's, before or after PROGRAM; the program's own options come after `--`. As with srun, one Ctrl-C asks, a
second one within a second cancels the job, and one more leaves it to its end.
"""

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

import click

from cli.base.options import Command, OptionValues, parse
from cli.base.run import CommandError
from cli.jobs.jobopts import JOB_OPTIONS
from penstock.commandline import CommandLine, invoke
from penstock.values.refusals import Code
from sdk import questions
from sdk.cluster import FOLLOW_PAUSE_S, Cluster, JobHandle
from sdk.errors import InvalidRequest, WaitTimeout
from sdk.output import GrowingOutput, OutputNotHere
from sdk.records import JobRecord
from sdk.request import from_command, requested

NAME: Final = "penstock run"
LINE: Final = Command(NAME, "", JOB_OPTIONS, interspersed=True)
#: Two Ctrl-C within this time cancel the job, as srun's.
AGAIN_S: Final = 1.0
#: The exit status of a shell for a program that a signal has ended: this and the signal.
SIGNALLED: Final = 128
_CAUGHT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunLine(CommandLine):
    """A command whose words are not click's: sbatch's option table reads them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes all words; help is click's."""
        if args in (["-h"], ["--help"]) or not args:
            return super().parse_args(ctx, args)
        ctx.params["words"] = tuple(args)
        return []


@click.command(
    cls=RunLine,
    help="Run PROGRAM as a job: submit it, show its output, and end with its exit status.\n\n"
    "OPTIONS are those of sbatch, before or after PROGRAM; the program's own options come after --. A Python file needs no "
    "permission to be executed. Ctrl-C twice within a second cancels the job.",
    examples=(
        ("penstock run train.py --gpus 4", "with four GPUs"),
        ("penstock run --gpus 4 --time 60 train.py data.csv -- --epochs 3", "with arguments of its own"),
    ),
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGS] [-- ARGS]")
def command(words: tuple[str, ...]) -> int:
    """One run of `penstock run`."""
    values, program = read_line(words)
    request = requested(from_command(program), values, {}, "", False)
    with Cluster() as cluster, Interrupts() as interrupts:
        job = JobHandle(cluster, *cluster.ask(questions.submitted(request)))
        for line in job.messages:
            say(line)
        try:
            return exit_status(follow(job, interrupts), interrupts)
        except KeyboardInterrupt:
            say(f"job {job.id} is left to its end: scancel {job.id}")
            return SIGNALLED + signal.SIGINT


def main(argv: list[str]) -> int:
    """Run `penstock run ...`; its status."""
    return invoke(command, NAME, argv)


def read_line(words: Sequence[str]) -> tuple[OptionValues, list[str]]:
    """The options of the job, and its program with arguments. Raises InvalidRequest, click's UsageError for an option that is
    none of a job's.
    """
    try:
        line = parse(LINE, words)
    except CommandError as error:
        if not error.plain:
            raise InvalidRequest(Code.CONFIG_INVALID, error.text, error.detail) from error
        text = error.text.partition("\n")[0].removeprefix(f"{NAME}: ").replace("unrecognized option", "No such option")
        hint = "" if words[0].startswith("-") else "; options of the program come after --"
        raise click.UsageError(text + hint, click.get_current_context(silent=True)) from error
    if not line.positional:
        raise InvalidRequest(Code.JOB_SCRIPT_MISSING, "name the program to run")
    if "array" in line.values:
        raise InvalidRequest(Code.NOT_SUPPORTED, "the output of an array cannot be followed: submit it with sbatch")
    program, *arguments = line.positional
    if os.path.isfile(program):
        path = os.path.abspath(program)
        starts_itself = os.access(path, os.X_OK) or not program.endswith(".py")
        return line.values, [*([] if starts_itself else ["python3"]), path, *arguments]
    return line.values, line.positional


class Interrupts:
    """Ctrl-C and other signals that end programs, counted while it is open. Handlers do no work but to note and to say so."""

    def __init__(self) -> None:
        self.cancels = False  # the job is to be cancelled
        self._at_s = -math.inf

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._caught) for number in _CAUGHT}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.cancels:
            raise KeyboardInterrupt
        before_s = self._at_s
        self._at_s = time.monotonic()  # noted first: another signal may come while this one is reported
        if number != signal.SIGINT or self._at_s - before_s <= AGAIN_S:
            self.cancels = True
            say("the job is cancelled (one more leaves it to its end)")
        else:
            say("interrupt (one more within 1 sec to abort)")


def follow(job: JobHandle, interrupts: Interrupts) -> JobRecord:
    """Shows the job's output until it has ended."""
    growing = GrowingOutput()
    is_cancelled = is_waiting = False
    record = job.record()
    while True:
        is_waiting = _say_wait(record, is_waiting)
        for text in _growth(growing, record):
            sys.stdout.buffer.write(text.encode(errors="replace"))
            sys.stdout.buffer.flush()
        if record.has_ended:
            return record
        if interrupts.cancels and not is_cancelled:
            is_cancelled = True
            job.cancel()
        with contextlib.suppress(WaitTimeout):
            job.wait(FOLLOW_PAUSE_S)
        record = job.record()


def _growth(growing: GrowingOutput, record: JobRecord) -> Iterator[str]:
    """What was added to the output; once a line of its own where that cannot be read here."""
    try:
        yield from growing.more(record)
    except OutputNotHere as error:
        if record.has_ended:
            say(error.text)


def _say_wait(record: JobRecord, was_said: bool) -> bool:
    """Says once that the job waits, and once that it has started."""
    is_waiting = record.state == "PENDING"
    if is_waiting and not was_said:
        say(f"job {record.shown_id} queued and waiting for resources")
    elif was_said and not is_waiting and not record.has_ended:
        say(f"job {record.shown_id} has been allocated resources")
    return is_waiting


def exit_status(record: JobRecord, interrupts: Interrupts) -> int:
    """The status of the program, as a shell has it."""
    if record.signal and not record.exit_code:
        status = SIGNALLED + record.signal
    else:
        status = record.exit_code
    if record.state not in ("COMPLETED", "FAILED"):
        say(f"job {record.shown_id} ended as {record.state}")
        return status or (SIGNALLED + signal.SIGINT if interrupts.cancels else 1)
    return status


def say(text: str) -> None:
    """A line on standard error, by one write: also from a handler."""
    os.write(2, f"{NAME}: {text}\n".encode(errors="replace"))
