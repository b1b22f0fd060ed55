"""Processes by /proc: who descends from whom, who belongs to a session, and signals that cannot hit a stranger.

A pid is only a number until it is pinned: signals go through a pidfd, and after it is open the process is looked at
again. A sub-reaper keeps all that it started below itself, so for stepd and launcher "everything left" is "my
descendants".

Deliberately absent: cgroups (cgroup.py), and any decision about whom to signal when.
"""

import ctypes
import errno
import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
#: Rounds of "signal all that are there" before giving up; each round waits for the processes it hit.
KILL_ROUNDS_MAX = 20
KILL_ROUND_WAIT_MS = 500
#: Processes that are watched at a time while others end.
AWAITED_MAX = 64

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Set a process attribute; OSError when the kernel refuses."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def bind_memory(mode: int, nodes: list[int]) -> None:
    """Take the calling process's memory from these NUMA nodes. `mode`: of set_mempolicy(2). OSError when refused."""
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


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on, or None when the process is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(fd, 4096)
    except OSError:  # ESRCH: it went while we looked
        return None
    finally:
        os.close(fd)
    return data[data.rfind(b")") + 2 :].split()


def start_time(pid: int) -> int:
    """When the process began, in clock ticks since boot; 0 when it is gone. With the boot id it names a process."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


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


def descendants(pid: int) -> Iterator[int]:
    """All processes below `pid`, parents first."""
    stack = children(pid)
    while stack:
        found = stack.pop(0)
        yield found
        stack.extend(children(found))


def send_signal(pid: int, signum: int, is_right: Callable[[int], bool]) -> bool:
    """Signal the process `pid` if, pinned, it is the right one. False when it is gone or another."""
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


def signal_descendants(pid: int, signum: int) -> int:
    """Signal all processes below `pid`; returns how many were there.

    Who is killed has no children any more, so for SIGKILL all are found first, and children go before their parents.
    Other signals reach parents first: one that is stopped forks no more.
    """
    below = {pid}
    count = 0
    all_below: Iterable[int] = descendants(pid)
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
    """SIGKILL what `find` finds until it finds nothing. Blocks, with a limit; True when nothing is left."""
    for _ in range(KILL_ROUNDS_MAX):
        pids = find()
        if not pids:
            return True
        poll = select.poll()
        pidfds: list[int] = []
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                continue
            pidfds.append(fd)
            if send_signal(pid, signal.SIGKILL, is_right):
                poll.register(fd, select.POLLIN)
        poll.poll(KILL_ROUND_WAIT_MS)
        for fd in pidfds:
            os.close(fd)
    return not find()


def await_ends(pids: list[int]) -> None:
    """Wait until one of these processes at least has ended, if there is one, or for KILL_ROUND_WAIT_MS."""
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
    """SIGKILL a session and all that descends from its members; True when nothing is left."""

    seen: set[int] = set()

    def find() -> list[int]:
        """Children before parents: a parent that dies first would hide whose children they were."""
        members = session_members(session, user_id)
        below = [pid for member in members for pid in descendants(member)]
        seen.update(members, below)
        return [*reversed(below), *members]

    def is_right(pid: int) -> bool:
        fields = stat_fields(pid)
        return fields is not None and (int(fields[1]) in seen or _is_member(pid, session, user_id))

    return kill_all(find, is_right)
