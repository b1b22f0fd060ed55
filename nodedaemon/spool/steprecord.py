"""The record of one step: a file of at most two frames, the claim and the end.

The claim decides the start. stepd appends one before it forks the task, and so does a restarted noded that prevents the
start (NEVER); the first frame counts, and a process that finds another's frame there starts nothing. Appending a few
hundred bytes is atomic for all readers of the file. A first frame that is damaged while it is written (a full disk) is
no process's: nothing was started, and nothing will be. A record that is lost or damaged afterwards looks the same, so
noded searches for processes as well (daemon/orphans.py) before it claims NEVER. A record that cannot be read counts as
damaged, too; and so does a record of another step.

The end is appended by the stepd whose claim counts, and synced: from then on the step's end is known, whatever happens.
"""

import errno
import os
import struct

from nodedaemon.base.framing import HEAD_BYTES, dump, frame, load, pack_values, unframe, unpack

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    # Any: written by an earlier or later version; each member is checked where it is used
    from typing import Any

    from penstock.values.packing import PackedValue

NAME = "record"
NEVER = "never"
STEPD = "stepd"
#: Prefix of a step's failure for which the node had no space: the cause is the node, not the job.
CANNOT_START = "cannot start a process"
READ_BYTES_MAX = 128 * 1024  # two frames


class Claim:
    """The process that claimed the start. For a stepd: how to find it (pid and start time), and the address of its
    control socket.
    """

    __slots__ = ("at_us", "by", "control", "key", "pid", "pid_start", "user_id")

    def __init__(
        self, by: str, pid: int, pid_start: int, user_id: int, at_us: int, control: bytes, key: str = ""
    ) -> None:
        self.by = by
        self.pid = pid
        self.pid_start = pid_start
        self.user_id = user_id
        self.at_us = at_us  # of the node's time, as all times here
        self.control = control
        self.key = key  # of the step; "" = not recorded

    def encode(self) -> bytes:
        """Encodes it as a payload."""
        return pack_values(self.by, self.pid, self.pid_start, self.user_id, self.at_us, self.control, self.key)


class StepEnd:
    """The end of the step. `start_at_us` 0 = it never ran, and `failure` is the reason."""

    __slots__ = ("end_at_us", "exit_code", "exit_signal", "failure", "more", "out_of_memory", "start_at_us", "usage")

    def __init__(
        self,
        start_at_us: int,
        end_at_us: int,
        exit_code: int,
        exit_signal: int,
        failure: str,
        out_of_memory: bool,
        usage: tuple[int, ...],
        more: "dict[str, PackedValue] | None" = None,
    ) -> None:
        self.start_at_us = start_at_us
        self.end_at_us = end_at_us
        self.exit_code = exit_code
        self.exit_signal = exit_signal
        self.failure = failure
        self.out_of_memory = out_of_memory
        self.usage = usage  # user CPU us, system CPU us, largest RSS kB, bytes read, bytes written
        self.more = more or {}  # "tasks": rank and wait status of each; and the plugs' data

    def encode(self) -> bytes:
        """Encodes it as a payload."""
        numbers = (self.start_at_us, self.end_at_us, self.exit_code, self.exit_signal, int(self.out_of_memory))
        more = (dump(self.more),) if self.more else ()
        return pack_values(self.failure, *numbers, *self.usage, *more)


def write_claim(folder_fd: int, claim: Claim) -> int:
    """Tries to claim the step's start. Returns the record's descriptor if this claim counts, else -1."""
    fd = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    framed = frame(claim.encode())
    try:
        if os.write(fd, framed) == len(framed) and os.pread(fd, len(framed), 0) == framed:
            return fd
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def write_end(fd: int, end: StepEnd) -> None:
    """Appends the end and makes it durable."""
    framed = frame(end.encode())
    if os.write(fd, framed) != len(framed):
        raise OSError("the record could not be written whole")
    os.fsync(fd)


#: Errors that mean an invalid record; others (too many open files) may be temporary.
DAMAGED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


def read_record(folder_fd: int, path: str, key: str = "") -> tuple[Claim | None, StepEnd | None]:
    """The valid claim and the end; None for either that is missing, damaged or of another step than `key`.

    `path` is the record's, relative to the folder.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        try:
            data = os.read(fd, READ_BYTES_MAX)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in DAMAGED:
            raise
        return None, None
    first = unframe(data)
    if first is None:
        return None, None
    try:
        claim = decode_claim(first)
    except ValueError:
        return None, None
    if key and claim.key not in ("", key):
        return None, None
    # the valid claim may be followed by a claim that was too late, then the end
    at = HEAD_BYTES + len(first)
    end = None
    while (payload := unframe(data, at)) is not None:
        parts = unpack(payload)
        if len(parts) in _END_PARTS:
            end = _decode_end(parts)
        at += HEAD_BYTES + len(payload)
    return claim, end


#: Without and with the field for steps of several tasks.
_END_PARTS = (11, 12)


def decode_claim(payload: bytes) -> Claim:
    """Decodes the result of `Claim.encode`. Raises ValueError."""
    by, pid, pid_start, user_id, at_us, control, *more = unpack(payload)  # without a key: of an earlier release
    return Claim(
        by.decode(), int(pid), int(pid_start), int(user_id), int(at_us), control, more[0].decode() if more else ""
    )


def _decode_end(parts: list[bytes]) -> StepEnd:
    failure = parts[0].decode()
    start_at_us, end_at_us, code, signum, out_of_memory, *usage = map(int, parts[1:11])
    found = load(parts[11]) if len(parts) > 11 else {}
    more = found if isinstance(found, dict) else {}
    return StepEnd(start_at_us, end_at_us, code, signum, failure, bool(out_of_memory), tuple(usage), more)


#: Rank and wait status of each task.
TASK_END = struct.Struct("<IH")


def task_ends(end: StepEnd) -> tuple[tuple[int, int], ...]:
    """The tasks that have run, as (rank, wait status)."""
    packed = end.more.get("tasks", b"")
    return tuple(TASK_END.iter_unpack(packed)) if isinstance(packed, bytes) else ()


def metrics_of(end: StepEnd) -> tuple[tuple[int, ...], ...]:
    """Usage of the tasks: kind, total, largest and its rank, smallest and its rank (stepd/sampling.py)."""
    found: Any = end.more.get("metrics", [])
    return tuple(tuple(metric) for metric in found)


def measured_of(end: StepEnd) -> int:
    """Number of tasks that the metrics cover."""
    found = end.more.get("measured", 0)
    return found if isinstance(found, int) else 0
