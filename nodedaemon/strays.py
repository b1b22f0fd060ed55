"""What still runs of steps that this spool knows nothing of: found, told, killed, never adopted (reliability 10).

A spool may be lost under running steps (wiped, on a disk that went). Their supervisors then have no folder to write an
end into, and nobody can say what they are; the controller takes them as dead and starts their jobs again. So they must
be gone before the node registers. They are found in two ways:
    - by control groups of steps that are not in the spool;
    - where there are none, by their supervisors: launchers and stepds that were started for this spool's path, and are not
      this daemon's own.

Deliberately absent: a search for anything that is not ours. What a user left behind without groups and out of its
supervisor's reach is not found.
"""

import logging
import os
import signal
from collections.abc import Iterable

from nodedaemon import proctree
from nodedaemon.cgroup import Cgroups

log = logging.getLogger("penstock.noded")

#: How often everything below the supervisors is killed again, before they are: somebody may fork meanwhile.
ROUNDS_MAX = 20


def clear(cgroups: Cgroups, known: Iterable[str], spool_path: str | None, own_launcher: int) -> bool:
    """Kill what nobody knows; True when nothing is left. `spool_path` None: look at groups only. Blocks, with a limit."""
    kept = frozenset(known)
    is_empty = True
    for name in cgroups.leftovers():
        if name not in kept:
            members = cgroups.members(name)
            if members:
                log.error("step %s is not in the spool; killing its processes %s", name, _listed(members))
                is_empty = cgroups.kill(name) and is_empty
            cgroups.remove(name)
    return (spool_path is None or _clear_supervisors(spool_path, own_launcher)) and is_empty


def _clear_supervisors(spool_path: str, own_launcher: int) -> bool:
    strays = supervisors(spool_path, own_launcher)
    if not strays:
        return True
    log.error("the spool is new, and supervisors of an earlier one run: killing %s and their steps", _listed(strays))
    for _ in range(ROUNDS_MAX):
        below = {pid for stray in strays for pid in proctree.descendants(stray)} - set(strays)
        if not below:
            break
        for stray in strays:
            for pid in proctree.children(stray):
                if pid not in strays:
                    proctree.signal_descendants(pid, signal.SIGKILL)
                    proctree.send_signal(pid, signal.SIGKILL, lambda candidate: candidate not in strays)
    own = frozenset(strays)
    return proctree.kill_all(lambda: supervisors(spool_path, own_launcher), lambda pid: pid in own)


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
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return spool_path in words and any(b"nodedaemon.launcher" in word for word in words[:6])


def _listed(pids: list[int]) -> str:
    return ", ".join(map(str, pids[:20])) + (f" and {len(pids) - 20} more" if len(pids) > 20 else "")
