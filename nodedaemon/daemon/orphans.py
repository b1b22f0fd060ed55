"""Finds steps that still run and that this spool does not know: logged, killed, never adopted (reliability 10).

A spool may be lost under running steps (wiped, on a failed disk). Their supervisors then have no folder for the exit
record, and cannot be identified; the controller takes the steps as dead and restarts their jobs. So they must be gone
before the node registers. They are found in two ways:
    - by control groups of steps that are not in the spool;
    - where there are none, by their supervisors: launchers and stepds that were started for this spool's path, and are not
      this daemon's own.

A record may be lost while its step runs, and the journal may be cut back behind a damaged place. A stepd's current step
is then found by its open descriptors: the step's folder and its record, from the claim to the end (`by_step`), even if
the files were removed. A stepd whose step is unknown, or whose record is gone, is ended with all below it.

Deliberately absent: a search for other processes. Without control groups, processes that have escaped their supervisor
are not found.
"""

import contextlib
import logging
import os
from collections.abc import Iterable

from nodedaemon.base import proctree
from nodedaemon.base.folders import SCRIPT_NAME
from nodedaemon.cgroups.cgroup import Cgroups

log = logging.getLogger("penstock.noded")


def clear(cgroups: Cgroups, known: Iterable[str], spool_path: str, own_launcher: int, steps_fd: int = -1) -> bool:
    """Kills unknown processes; True when nothing is left. `steps_fd` -1: the spool is new, and nothing in it is known.

    Blocks, with a limit.
    """
    kept = frozenset(known)
    is_empty = True
    for name in cgroups.leftovers():
        if name not in kept:
            members = cgroups.members(name)
            if members:
                log.error("step %s is not in the spool; killing its processes %s", name, _listed(members))
                is_empty = cgroups.kill(name) and is_empty
            cgroups.remove(name)
    if steps_fd < 0:
        orphans = supervisors(spool_path, own_launcher)
    else:
        found_by_step = by_step(spool_path, own_launcher, steps_fd)
        # a stepd without a process below it has begun nothing, or is done with its step
        orphans = [p for key, pids in found_by_step.items() if key not in kept for p in pids if proctree.children(p)]
    if orphans:
        log.error("supervisors %s supervise steps without a record: killing them and their steps", _listed(orphans))
    return end(orphans) and is_empty


def by_step(spool_path: str, own_launcher: int, steps_fd: int) -> dict[str, list[int]]:
    """Supervisors that an earlier daemon with this spool has left, by their current step."""
    steps = os.fsencode(steps_path(steps_fd)) + b"/"
    found: dict[str, list[int]] = {}
    for pid in supervisors(spool_path, own_launcher):
        for name in {link[len(steps) :].split(b"/")[0] for link in _open_files(pid) if link.startswith(steps)}:
            found.setdefault(os.fsdecode(name.removesuffix(b" (deleted)")), []).append(pid)
    return found


def _open_files(pid: int) -> list[bytes]:
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(os.readlink(f"/proc/{pid}/fd/{name}".encode()))
    except OSError:  # it has ended
        return []
    return found


def end(orphans: list[int]) -> bool:
    """Kills these supervisors with all below them; True when none is left. Blocks, with a limit.

    They are killed last: as long as they live, processes without a parent become their children and are found.
    """
    starts = {pid: proctree.start_time(pid) for pid in orphans}
    seen = set(orphans)

    def is_orphan(pid: int) -> bool:
        return proctree.start_time(pid) == starts[pid] and _is_alive(pid)

    def below() -> list[int]:
        found = [pid for orphan in orphans if is_orphan(orphan) for pid in proctree.descendants(orphan)]
        seen.update(found)
        return [pid for pid in reversed(found) if pid not in starts and _is_alive(pid)]

    def is_below(pid: int) -> bool:
        fields = proctree.stat_fields(pid)
        return fields is not None and int(fields[1]) in seen

    is_empty = proctree.kill_all(below, is_below)
    return proctree.kill_all(lambda: [pid for pid in orphans if starts[pid] and is_orphan(pid)], is_orphan) and is_empty


def end_script(key: str, steps_fd: int) -> bool:
    """Kills the sessions of processes that run the script of a step whose supervisor is gone. True when none is left.

    This is a heuristic: a process may have changed its command line. In its session only processes
    of its own user are killed.
    """
    script = os.fsencode(f"{steps_path(steps_fd)}/{key}/{SCRIPT_NAME}")
    is_empty = True
    for name in os.listdir("/proc"):
        if name.isdigit() and script in _words(int(name))[:4]:
            pid, fields = int(name), proctree.stat_fields(int(name))
            with contextlib.suppress(OSError):
                uid = os.stat(f"/proc/{pid}").st_uid
                is_empty = (fields is None or proctree.kill_session(int(fields[3]), uid)) and is_empty
    return is_empty


def steps_path(steps_fd: int) -> str:
    """Returns the path of the step folders, from the open descriptor."""
    return os.readlink(f"/proc/self/fd/{steps_fd}").removesuffix(" (deleted)")


def _words(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    fields = proctree.stat_fields(pid)
    return fields is not None and fields[0] not in (b"Z", b"X")


def supervisors(spool_path: str, own_launcher: int) -> list[int]:
    """Launchers and stepds for that spool that are not this daemon's."""
    ours = {own_launcher, *proctree.descendants(own_launcher)}
    wanted = os.fsencode(spool_path)
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_for(int(name), wanted, ours)]


def _is_for(pid: int, spool_path: bytes, ours: set[int]) -> bool:
    if pid in ours:
        return False
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
    except OSError:
        return False
    words = _words(pid)
    return spool_path in words and any(b"nodedaemon.daemon.launcher" in word for word in words[:6])


def _listed(pids: list[int]) -> str:
    return ", ".join(map(str, pids[:20])) + (f" and {len(pids) - 20} more" if len(pids) > 20 else "")
