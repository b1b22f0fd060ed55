"""`penstock logs JOB`: the output of a job, from any machine that the user can log in at.

The file is read here if this machine has it, with the rights of the job's user also by root. If this machine does not have
it, it is read on the job's first node: while the job runs, by a step of it (srun --overlap), which has the user's own rights;
when it has ended, in parts that the node hands out (nodeoutput.py).
"""

import codecs
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO, Final

import click

from cli.base.commandpath import how_to_run
from cli.base.run import CommandError
from cli.base.users import numbered
from penstock.commandline import CommandLine, invoke
from penstock.errors import PenstockError
from penstock.values.text import clean_block
from sdk.cluster import FOLLOW_PAUSE_S, Cluster, JobHandle
from sdk.errors import WaitTimeout
from sdk.output import GrowingOutput, OutputNotHere
from sdk.records import JobRecord

NAME: Final = "penstock logs"
LINES_MAX: Final = 1_000_000
#: A longer line is searched in parts: a file may have no line break at all.
LINE_CHARS_MAX: Final = 1024 * 1024
_BLOCK_BYTES: Final = 64 * 1024
#: Follows a file (where tail begins, path) until the step is asked to end, and then reads once more: what a job writes last is
#: followed by its end. tail looks for the process that ends with the step's SIGTERM, and ignores the signal itself.
_FOLLOW: Final = """\
sleep 2147483647 & end=$!
(trap '' TERM; exec tail --pid=$end -s 0.2 "$1" -F -- "$2") & tail=$!
trap : TERM
wait $tail
kill $end 2>/dev/null
wait $end
wait $tail
"""


@click.command(
    cls=CommandLine,
    help="Show the output of JOB (17, or 17_3 of an array), also while it runs, also of a job whose file is on its node only.",
    examples=(
        ("penstock logs 17", "what it has written"),
        ("penstock logs -f -n 20 17", "its last lines, and what follows until it ends"),
        ("penstock logs --grep 'loss=' 17_3", "of a task of an array, the lines with a pattern"),
    ),
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--stderr", "is_error", is_flag=True, help="The error output, if it has a file of its own.")
@click.option("-n", "--lines", type=click.IntRange(0, LINES_MAX), metavar="N", help="The last N lines.")
@click.option("--grep", "pattern", metavar="RE", help="Lines in which this regular expression is found.")
@click.argument("job")
def command(job: str, follow: bool, is_error: bool, lines: int | None, pattern: str | None) -> int:
    """One run of `penstock logs`."""
    wanted = _wanted(pattern)
    with Cluster() as cluster:
        handle = cluster.job(job)
        record = handle.record()
        write = writer_of(wanted, record)
        growing = GrowingOutput(is_error)
        try:
            if lines is not None:
                growing.skip_to_last(record, lines)
            _show(growing, handle, record, write, follow)
        except OutputNotHere as problem:
            record = handle.record()  # it may have ended meanwhile
            if not record.nodes:
                raise
            given_bytes = (
                growing.given_bytes if growing.was_found else None
            )  # it has vanished here: what follows is shown
            if record.has_ended:
                return _of_node(record, is_error, lines, given_bytes, write, problem)
            if not _is_mine(record):  # steps are for the job's own user
                raise
            return _by_step(record, growing.path(record), _beginning(lines, given_bytes), write, follow)
    write("", True)
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock logs ...`; its status."""
    return invoke(command, NAME, argv)


#: Takes a piece of the output, and whether it is the last one.
Write = Callable[[str, bool], None]


def _wanted(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise CommandError(f"--grep: {error}") from None


def _is_mine(record: JobRecord) -> bool:
    me = numbered(os.geteuid())
    return me is not None and me.pw_name == record.user


def writer_of(wanted: re.Pattern[str] | None, record: JobRecord) -> Write:
    """Writes all, or the lines with a pattern. What another user has written is sanitised for a terminal."""
    is_cleaned = sys.stdout.isatty() and not _is_mine(record)
    rest = ""

    def write(text: str, is_last: bool) -> None:
        nonlocal rest
        if wanted is not None:
            *whole, rest = (rest + text).split("\n")
            if rest and (is_last or len(rest) > LINE_CHARS_MAX):
                whole.append(rest)
                rest = ""
            text = "".join(f"{line}\n" for line in whole if wanted.search(line))
        sys.stdout.buffer.write((clean_block(text) if is_cleaned else text).encode(errors="replace"))
        sys.stdout.buffer.flush()

    return write


def _show(growing: GrowingOutput, job: JobHandle, record: JobRecord, write: Write, follow: bool) -> None:
    """What this machine can read. Raises OutputNotHere if the file is not here though the job has begun."""
    while True:
        for text in growing.more(record):
            write(text, False)
        if not follow or record.has_ended:
            if record.start_time is not None and not growing.was_found:
                raise growing.missing(record)
            return
        if record.start_time is not None and record.state == "RUNNING" and not growing.was_found:
            raise growing.missing(record)
        with contextlib.suppress(WaitTimeout):
            job.wait(FOLLOW_PAUSE_S)
        record = job.record()


def _beginning(lines: int | None, given_bytes: int | None) -> str:
    """Where tail begins, as an option of it."""
    if given_bytes is not None:
        return f"-c+{given_bytes + 1}"
    return "-n+1" if lines is None else f"-n{lines}"


def _by_step(record: JobRecord, path: str, begin: str, write: Write, follow: bool) -> int:
    """Reads the file on the job's first node. The step ends with the job."""
    read = ("sh", "-c", _FOLLOW, "sh", begin, path) if follow else ("tail", begin, "--", path)
    argv = [
        *how_to_run("srun"), "--quiet", f"--jobid={record.job_id}", "--overlap", "--nodes=1", "--ntasks=1",
        f"--nodelist={record.nodes[0]}", f"--chdir={record.work_dir}", "--input=none", *read,
    ]  # fmt: skip
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as step:
        assert step.stdout is not None
        for text in _pieces(step.stdout):
            write(text, False)
    write("", True)
    return 0 if follow and step.returncode else step.returncode  # the job's end has ended it


def _of_node(
    record: JobRecord, is_error: bool, lines: int | None, given_bytes: int | None, write: Write, here: OutputNotHere
) -> int:
    """Writes what a node has of a job that has ended: the last lines, or all, without bytes that were given already. `here`: why
    this machine has not. Raises OutputNotHere."""
    from penstock.client import Client
    from sdk.nodeoutput import NodeOutput

    with Client.open() as client:
        output = NodeOutput(client, record, is_error)
        try:
            is_last = lines is not None and given_bytes is None
            for text in [output.last(lines or 0)] if is_last else output.whole(given_bytes or 0):
                write(text, False)
        except PenstockError as problem:
            raise OutputNotHere(here.code, f"{here.text}; {problem.text}") from None
    write("", True)
    return 0


def _pieces(stream: IO[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while block := stream.read1(_BLOCK_BYTES):  # type: ignore[attr-defined]  # of a pipe it is a BufferedReader
        yield decoder.decode(block)
