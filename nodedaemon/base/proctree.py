"""Process trees from /proc: descendants, sessions, and signals that cannot hit an unrelated process.

A pid may be reused, so signals go through a pidfd, and the process's identity is checked again after it is open. A
sub-reaper adopts the orphans of all that it started, so for stepd and launcher "everything left" is "my descendants".

Deliberately absent: cgroups (cgroups/cgroup.py), and any decision about whom to signal when.
"""

import ctypes
import errno
import os
import select
import signal
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
#: Rounds of signalling all processes before giving up; each round waits for the processes it signalled.
KILL_ROUNDS_MAX = 20
KILL_ROUND_WAIT_MS = 500
#: Processes whose ends are awaited at a time.
AWAITED_MAX = 64

_libc = ctypes.CDLL(None, use_errno=True)


#: File systems that store no data: writing to them has the kernel act on behalf of the writing process (linux/magic.h).
ACTING = frozenset(
    (
        0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x0027E0EB, 0x63677270, 0xCAFE4A11, 0x62656570, 0xF97CFF8C,
        0xDE5E81E4, 0x42494E4D, 0x6165676C, 0x43415D53, 0x6E736673, 0x65735543, 0x07655821, 0xABBA1974,
    )
)  # fmt: skip
_STATFS_BYTES = 512  # more than any architecture's; its first number is the file system's


def acts_on_writing(fd: int) -> bool:
    """True for a file of procfs, sysfs, cgroups and the like. Raises OSError."""
    found = (ctypes.c_long * (_STATFS_BYTES // ctypes.sizeof(ctypes.c_long)))()
    if _libc.fstatfs(fd, found) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found[0] & 0xFFFFFFFF in ACTING


def prctl(option: int, value: int) -> None:
    """Sets a process attribute; OSError when the kernel refuses."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def bind_memory(mode: int, nodes: list[int]) -> None:
    """Makes the calling process allocate from these NUMA nodes. `mode`: of set_mempolicy(2). OSError when refused."""
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    words = max(nodes, default=0) // 64 + 1
    mask = (ctypes.c_uint64 * words)()
    for node in nodes:
        mask[node // 64] |= 1 << (node % 64)
    if _libc.syscall(number, mode, mask if nodes else None, words * 64 + 1 if nodes else 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


#: Of these fields, the time of the start.
_STARTED = 19


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on, or None when the process is gone or cannot be seen."""
    try:
        return read_stat(pid)
    except OSError:
        return None


def read_stat(pid: int) -> list[bytes] | None:
    """The same, None only when it is gone. Raises OSError when that cannot be seen: no descriptor is left."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, 4096)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):  # the latter: it disappears while it is read
        return None
    return data[data.rfind(b")") + 2 :].split()


def is_process(pid: int, started: int) -> bool:
    """Whether the process with this start time exists. Raises OSError like `read_stat`."""
    fields = read_stat(pid)
    return fields is not None and int(fields[_STARTED]) == started


def start_time(pid: int) -> int:
    """Start time of the process, in clock ticks since boot; 0 when it is gone or cannot be seen. With the boot id it
    identifies a process."""
    fields = stat_fields(pid)
    return int(fields[_STARTED]) if fields else 0


def children(pid: int) -> list[int]:
    """Direct children, zombies included."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
        except OSError:
            continue
    return found


def descendants(pid: int, spared: Container[int] = ()) -> Iterator[int]:
    """All processes below `pid`, parents first. Includes those below one that ends during the iteration.

    `spared`: children of `pid` that are left out, with all below them.
    """
    stack = OrderedDict.fromkeys(child for child in children(pid) if child not in spared)
    while stack:
        found, _ = stack.popitem(last=False)
        before = children(found)
        yield found
        stack.update(dict.fromkeys((*before, *children(found))))


def send_signal(pid: int, signum: int, is_right: Callable[[int], bool]) -> bool:
    """Signals the process `pid` through a pidfd if `is_right` accepts it. False when it is gone or another."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_right(pid):
            return False
        signal.pidfd_send_signal(fd, signum)
        return True
    except OSError:  # ESRCH: gone; EPERM: another user's now
        return False
    finally:
        os.close(fd)


def signal_descendants(pid: int, signum: int, spared: Container[int] = ()) -> int:
    """Signals all processes below `pid`; returns how many there were. `spared`: children left out, with all below them.

    A killed process no longer has children, so SIGKILL goes to children before their parents, after all were found.
    All are stopped before that: a shell that sees its child killed would write "Killed" into the job's output, or end,
    and its other children would lose the parent by which they are found.
    Other signals reach parents first: one that is stopped forks no more.
    """
    if signum == signal.SIGKILL:
        signal_descendants(pid, signal.SIGSTOP, spared)
    below = {pid}
    count = 0
    all_below: Iterable[int] = descendants(pid, spared)
    if signum == signal.SIGKILL:
        all_below = list(all_below)[::-1]
        below.update(all_below)
    for found in all_below:
        below.add(found)

        def still_below(candidate: int) -> bool:
            fields = stat_fields(candidate)
            return fields is not None and int(fields[1]) in below

        count += send_signal(found, signum, still_below)
    return count


def session_members(session: int, user_id: int) -> list[int]:
    """Processes of a session that run as that user (the session's leader may be long gone)."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_member(int(name), session, user_id):
            found.append(int(name))
    return found


def _is_member(pid: int, session: int, user_id: int) -> bool:
    fields = stat_fields(pid)
    if fields is None or int(fields[3]) != session or fields[0] in (b"Z", b"X"):
        return False
    try:
        return os.stat(f"/proc/{pid}").st_uid == user_id
    except OSError:
        return False


def kill_all(find: Callable[[], list[int]], is_right: Callable[[int], bool]) -> bool:
    """Sends SIGKILL to the processes that `find` returns until there are none. Blocks, with a limit; True when none is
    left."""
    for _ in range(KILL_ROUNDS_MAX):
        pids = find()
        if not pids:
            return True
        await_ends([pid for pid in pids if send_signal(pid, signal.SIGKILL, is_right)])
    return not find()


def await_ends(pids: list[int]) -> None:
    """Waits until at least one of these processes has ended, at most KILL_ROUND_WAIT_MS."""
    poll = select.poll()
    pidfds: list[int] = []
    for pid in pids[:AWAITED_MAX]:
        try:
            pidfds.append(os.pidfd_open(pid))
        except OSError:
            continue
        poll.register(pidfds[-1], select.POLLIN)
    if pidfds:
        poll.poll(KILL_ROUND_WAIT_MS)
    for fd in pidfds:
        os.close(fd)


def kill_session(session: int, user_id: int) -> bool:
    """Sends SIGKILL to a session and all that descends from its members; True when nothing is left."""
    seen: set[int] = set()

    def is_right(pid: int) -> bool:
        fields = stat_fields(pid)
        return fields is not None and (int(fields[1]) in seen or _is_member(pid, session, user_id))

    def find() -> list[int]:
        """Children before parents, and all stopped: once a parent has ended, the descent of its children is lost."""
        found = dict.fromkeys(session_members(session, user_id))
        for pid in found:
            send_signal(pid, signal.SIGSTOP, is_right)
        for member in tuple(found):
            for pid in descendants(member):
                seen.update((member, pid))
                found[pid] = None
                send_signal(pid, signal.SIGSTOP, is_right)
        seen.update(found)
        return list(found)[::-1]

    return kill_all(find, is_right)
