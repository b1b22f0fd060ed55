"""Copies a file to all nodes of a job: a small step with one task a node that writes its standard input to the file.

The task runs as the user, so it can write what the user can, and nothing else. It writes a temporary file beside the
target, checks the size (a truncated input is discarded), and renames it, so that no reader sees half of it, also where
nodes share the folder. The step uses no resources of the job; its input is sent as for any step: authenticated, and at
the pace of the slowest node.

Without `force` an existing file is an error, unless it is the same: of several nodes that share a folder the second
finds the file of the first.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

from cli.steps.request import STDIN_TO_ALL
from penstock.v1.steps_pb2 import StepSpec

if TYPE_CHECKING:
    from cli.steps.creation import StepMaker
    from penstock.clusterfile import ClusterFile

#: Arguments: target, unique suffix of the temporary file, size, mode, time ("" = now), 1 = replace,
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
    """The file to copy and its destination. `nodes`: a hostlist, "" = all of the job. `time_s`: "" = now."""

    source: str
    target: bytes
    mode: int = 0o700
    time_s: str = ""
    force: bool = True
    nodes: str = ""
    make_folder: bool = False


def copy(cluster: "ClusterFile", maker: "StepMaker", file: File, work_dir: bytes, name: str) -> int:
    """Copies it to all nodes; returns 0, or the status of a failure, which has been reported. Raises OSError for the
    source.
    """
    from cli.steps.console import STDERR, Console, Sink
    from cli.steps.ending import EndingRules
    from cli.steps.outcome import StepOutcome
    from cli.steps.session import Session

    fd = os.open(file.source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        created = maker.create(_spec(file, work_dir), _words(file, size, name), [PATH])
        console = Console(None, Sink(STDERR))
        session = Session(cluster, created, console, EndingRules(), name=name)
        session.outcome = StepOutcome(_discard, tasks=created.plan.ntasks)  # the tasks report errors themselves
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


def _discard(text: str) -> None:
    """Drops messages about exit codes, which say less than the task's own message."""
