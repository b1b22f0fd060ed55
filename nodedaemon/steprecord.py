"""The record of one step: a file of at most two frames, the claim and the end.

The claim decides over the start. stepd appends one before it forks the task, and so does a restarted noded that wants
to say "never"; the frame that came first counts, and whoever finds another's frame there starts nothing. Appending a
few hundred bytes is one step for all who look at the file. A first frame that is damaged (a full disk) is nobody's:
nothing was started, and nothing will be.

The end is appended by the stepd whose claim counts, and synced: from then on the step's fate is known whatever happens.
"""

import os
import struct
import time

from nodedaemon.framing import HEAD_BYTES, dump, frame, load, pack_values, unframe, unpack

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from typing import Any

    from penstock.values.packing import Value

NAME = "record"
NEVER = "never"
STEPD = "stepd"
#: How the failure of a step begins for which the node had no room: nobody is to blame but the node.
CANNOT_START = "cannot start a process"
READ_BYTES_MAX = 128 * 1024  # two frames


def now_us() -> int:
    """Wall clock in microseconds: the times in a record."""
    return time.time_ns() // 1000


class Claim:
    """Who decided. For a stepd: how to find it (pid and start time), and the address of its control socket."""

    __slots__ = ("at_us", "by", "control", "pid", "pid_start", "user_id")

    def __init__(self, by: str, pid: int, pid_start: int, user_id: int, at_us: int, control: bytes) -> None:
        self.by = by
        self.pid = pid
        self.pid_start = pid_start
        self.user_id = user_id
        self.at_us = at_us
        self.control = control

    def encode(self) -> bytes:
        """As a payload."""
        return pack_values(self.by, self.pid, self.pid_start, self.user_id, self.at_us, self.control)


class End:
    """How the step ended. `start_at_us` 0 = it never ran, and `failure` says why."""

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
        more: "dict[str, Value] | None" = None,
    ) -> None:
        self.start_at_us = start_at_us
        self.end_at_us = end_at_us
        self.exit_code = exit_code
        self.exit_signal = exit_signal
        self.failure = failure
        self.out_of_memory = out_of_memory
        self.usage = usage  # user CPU us, system CPU us, largest RSS kB, bytes read, bytes written
        self.more = more or {}  # "tasks": rank and wait status of each; what plugs have to say

    def encode(self) -> bytes:
        """As a payload."""
        numbers = (self.start_at_us, self.end_at_us, self.exit_code, self.exit_signal, int(self.out_of_memory))
        more = (dump(self.more),) if self.more else ()
        return pack_values(self.failure, *numbers, *self.usage, *more)


def place_claim(folder_fd: int, claim: Claim) -> int:
    """Try to decide over the step's start. The record's descriptor if this claim counts, else -1."""
    fd = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    payload = claim.encode()
    framed = frame(payload)
    try:
        if os.write(fd, framed) == len(framed) and unframe(os.pread(fd, READ_BYTES_MAX, 0)) == payload:
            return fd
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def place_end(fd: int, end: End) -> None:
    """Append the end and make it durable."""
    framed = frame(end.encode())
    if os.write(fd, framed) != len(framed):
        raise OSError("the record could not be written whole")
    os.fsync(fd)


def read_record(folder_fd: int, path: str) -> tuple[Claim | None, End | None]:
    """The claim that counts and the end. `path` is the record's, relative to the folder."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    except FileNotFoundError:
        return None, None
    try:
        data = os.read(fd, READ_BYTES_MAX)
    finally:
        os.close(fd)
    first = unframe(data)
    if first is None:
        return None, None
    claim = _decode_claim(first)
    # behind the claim that counts may come a claim that was too late, then the end
    at = HEAD_BYTES + len(first)
    end = None
    while (payload := unframe(data, at)) is not None:
        parts = unpack(payload)
        if len(parts) in _END_PARTS:
            end = _decode_end(parts)
        at += HEAD_BYTES + len(payload)
    return claim, end


#: Without and with what came with steps of several tasks.
_END_PARTS = (11, 12)


def _decode_claim(payload: bytes) -> Claim:
    by, pid, pid_start, user_id, at_us, control = unpack(payload)
    return Claim(by.decode(), int(pid), int(pid_start), int(user_id), int(at_us), control)


def _decode_end(parts: list[bytes]) -> End:
    failure = parts[0].decode()
    start_at_us, end_at_us, code, signum, out_of_memory, *usage = map(int, parts[1:11])
    more: Any = load(parts[11]) if len(parts) > 11 else {}
    return End(start_at_us, end_at_us, code, signum, failure, bool(out_of_memory), tuple(usage), more)


#: Of each task: rank and wait status.
TASK_END = struct.Struct("<IH")


def task_ends(end: End) -> tuple[tuple[int, int], ...]:
    """The tasks that have run, as (rank, wait status)."""
    packed = end.more.get("tasks", b"")
    return tuple(TASK_END.iter_unpack(packed)) if isinstance(packed, bytes) else ()


def metrics_of(end: End) -> tuple[tuple[int, ...], ...]:
    """What the tasks used: kind, total, largest and its rank, smallest and its rank (sampling.py)."""
    found: Any = end.more.get("metrics", [])
    return tuple(tuple(metric) for metric in found)


def measured_of(end: End) -> int:
    """Of how many tasks the metrics are."""
    found = end.more.get("measured", 0)
    return found if isinstance(found, int) else 0
