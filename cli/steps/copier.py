"""A file to all nodes of a job: a small step with one task a node that writes its standard input to the file.

The task is the user's and runs where his tasks run, so it can write what he can, and nothing else. It writes beside the
target, checks the size (an input that was cut short is no file), and puts the file in its place at once, so that nobody
ever sees half of it, also where nodes share the folder. The step takes nothing from the job; its input comes as any
step's does: authenticated, and as fast as the slowest node takes it.

Without `force` a file that is there already is an error, unless it is the same: of several nodes that share a folder
the second finds what the first has put there.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

from cli.steps.request import STDIN_TO_ALL
from penstock.v1.steps_pb2 import StepSpec

if TYPE_CHECKING:
    from cli.steps.creation import StepMaker
    from penstock.cluster import ClusterFile

#: Arguments: target, what makes the name beside it unique, size, mode, time ("" = now), 1 = replace,
#: command's name, 1 = make its folder.
SCRIPT = b"""
umask 077
target=$1 size=$3 mode=$4 time=$5 force=$6
fail() { echo "$name: error: REQUEST_FILE_BCAST($SLURMD_NODENAME): $1" >&2; exit 1; }
name=$7
folder=${target%/*}
[ "$8" = 0 ] || mkdir -p -- "$folder" 2>/dev/null
new=$target.$2.$SLURMD_NODENAME
if ! { true >"$new"; } 2>/dev/null; then
    [ -d "$folder/" ] || fail "$folder: No such file or directory"
    fail "$target: Permission denied"
fi
trap 'rm -f -- "$new"' EXIT
cat >"$new" || fail "$target: it could not be written"
[ "$(wc -c <"$new")" -eq "$size" ] || fail "$target: only a part of it arrived"
chmod "$mode" "$new" || fail "$target: its mode could not be set"
[ -z "$time" ] || touch -d "@$time" -- "$new" || fail "$target: its time could not be set"
if [ "$force" = 1 ]; then
    [ ! -d "$target" ] || fail "$target: Is a directory"
    mv -f -- "$new" "$target" || fail "$target: it could not be put in its place"
elif ! ln -- "$new" "$target" 2>/dev/null; then
    cmp -s -- "$new" "$target" || fail "$target: File exists"
fi
"""
PATH = b"PATH=/usr/local/bin:/usr/bin:/bin"


class File(NamedTuple):
    """What goes where. `nodes`: a hostlist, "" = all of the job. `time_s`: "" = now."""

    source: str
    target: bytes
    mode: int = 0o700
    time_s: str = ""
    force: bool = True
    nodes: str = ""
    make_folder: bool = False


def copy(cluster: "ClusterFile", maker: "StepMaker", file: File, work_dir: bytes, name: str) -> int:
    """Copy it to all nodes; 0, or the status of what failed, which has been told. Raises OSError for the source."""
    from cli.steps.console import STDERR, Console, Sink
    from cli.steps.ending import Rules
    from cli.steps.outcome import Outcome
    from cli.steps.session import Session

    fd = os.open(file.source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        created = maker.create(_spec(file, work_dir), _words(file, size, name), [PATH])
        console = Console(None, Sink(STDERR))
        session = Session(cluster, created, console, Rules(), name=name)
        session.outcome = Outcome(_nobody, tasks=created.plan.ntasks)  # the tasks say themselves what went wrong
        session.feed(fd)
        return session.run()
    finally:
        os.close(fd)


def _spec(file: File, work_dir: bytes) -> StepSpec:
    return StepSpec(
        name="sbcast", ntasks_per_node=1, overlap=True, stdin_to=STDIN_TO_ALL, work_dir=work_dir, mpi="none",
        nodes_required=file.nodes,
    )  # fmt: skip


def _words(file: File, size: int, name: str) -> list[bytes]:
    arguments = (
        file.target, b"sbcast-%d" % os.getpid(), b"%d" % size, b"%04o" % file.mode, file.time_s.encode(),
        b"%d" % file.force, name.encode(), b"%d" % file.make_folder,
    )  # fmt: skip
    return [b"/bin/sh", b"-c", SCRIPT, b"sbcast", *arguments]


def _nobody(text: str) -> None:
    """Lines about exit codes, which say less than the task has said."""
