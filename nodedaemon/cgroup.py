"""Control groups: a fence around a step that holds even when its stepd is dead; a memory limit where one is asked for.

Which kind is decided once, at the daemon's start: the unified hierarchy (v2) when it is the system's and we may
write, else v1's freezer (with `memory` when limits are asked for), else none. Groups live in a subtree named after
the node, below the daemon's own group, and nothing outside that subtree is touched. stepd makes and removes a step's
group and stays outside it; the task joins before it becomes the user.

Without a group, stepd as sub-reaper still finds everything while it lives. Deliberately absent: CPU and device
limits, pids.max.
"""

import contextlib
import os
import zlib

from nodedaemon import proctree
from nodedaemon.framing import pack, pack_values, unpack

ROOT = "/sys/fs/cgroup"
MB = 1024 * 1024
#: Joining by `tasks` spares v1 a wait that `cgroup.procs` costs; the joining process has one thread.
_V1_JOIN, _V2_JOIN = "tasks", "cgroup.procs"


class Hierarchy:
    """One tree that steps' groups are made in. `holds` = it can name and kill a step's processes."""

    __slots__ = ("holds", "join_file", "limits_memory", "path", "unified")

    def __init__(self, path: str, join_file: str, holds: bool, limits_memory: bool, unified: bool) -> None:
        self.path = path
        self.join_file = join_file
        self.holds = holds
        self.limits_memory = limits_memory
        self.unified = unified


class Cgroups:
    """What is available on this node; `hierarchies` empty = nothing."""

    __slots__ = ("hierarchies", "kind")

    def __init__(self, kind: str, hierarchies: tuple[Hierarchy, ...] = ()) -> None:
        self.kind = kind  # "v2", "v1" or "none"
        self.hierarchies = hierarchies

    def encode(self) -> bytes:
        """For the launcher."""
        trees = [
            pack_values(t.path, t.join_file, int(t.holds), int(t.limits_memory), int(t.unified))
            for t in self.hierarchies
        ]
        return pack([self.kind.encode(), *trees])

    def create(self, key: str, memory_limit_mb: int) -> None:
        """Make the step's groups."""
        for tree in self.hierarchies:
            folder = f"{tree.path}/{key}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o755)
            if tree.limits_memory and memory_limit_mb > 0:
                _limit_memory(tree, folder, memory_limit_mb)

    def join(self, key: str) -> None:
        """Put the calling, single-threaded process into the step's groups."""
        for tree in self.hierarchies:
            _write(f"{tree.path}/{key}/{tree.join_file}", "0")

    def adopt(self, key: str, pid: int) -> None:
        """Put a process into the step's groups. Raises OSError."""
        for tree in self.hierarchies:
            _write(f"{tree.path}/{key}/cgroup.procs", str(pid))

    def members(self, key: str) -> list[int]:
        """Processes in the step's group."""
        for tree in self.hierarchies:
            if tree.holds:
                return [int(word) for word in _read(f"{tree.path}/{key}/cgroup.procs").split()]
        return []

    def kill(self, key: str) -> bool:
        """SIGKILL everything in the step's group; True when nothing is left. Blocks, with a limit."""
        for tree in self.hierarchies:
            folder = f"{tree.path}/{key}"
            if not tree.holds or not os.path.isdir(folder):
                continue
            if tree.unified and os.path.exists(f"{folder}/cgroup.kill"):
                _write(f"{folder}/cgroup.kill", "1")
                return proctree.kill_all(lambda: self.members(key), lambda pid: pid in self.members(key))
            return self._kill_frozen(folder, key)
        return True

    def _kill_frozen(self, folder: str, key: str) -> bool:
        """v1: frozen processes cannot fork; they take the signal when they thaw."""
        _write(f"{folder}/freezer.state", "FROZEN")
        for pid in self.members(key):
            proctree.send_signal(pid, 9, lambda candidate: candidate in self.members(key))
        _write(f"{folder}/freezer.state", "THAWED")
        return proctree.kill_all(lambda: self.members(key), lambda pid: pid in self.members(key))

    def freeze(self, key: str, frozen: bool) -> None:
        """Let nothing in the step's group run, or let it run again. Nothing happens where there is no such group."""
        for tree in self.hierarchies:
            if tree.holds:
                name, states = ("cgroup.freeze", "01") if tree.unified else ("freezer.state", ("THAWED", "FROZEN"))
                with contextlib.suppress(OSError):
                    _write(f"{tree.path}/{key}/{name}", states[frozen])

    def out_of_memory(self, key: str) -> bool:
        """True when the kernel killed a process of the step for its memory limit."""
        for tree in self.hierarchies:
            if tree.limits_memory:
                name = "memory.events" if tree.unified else "memory.oom_control"
                for line in _read(f"{tree.path}/{key}/{name}").splitlines():
                    word, _, count = line.partition(" ")
                    if word == "oom_kill" and count.strip() not in ("", "0"):
                        return True
        return False

    def remove(self, key: str) -> None:
        """Remove the step's groups; what is not empty or not there stays as it is."""
        for tree in self.hierarchies:
            with contextlib.suppress(OSError):
                os.rmdir(f"{tree.path}/{key}")

    def leftovers(self) -> list[str]:
        """Names of step groups that exist."""
        for tree in self.hierarchies:
            if tree.holds:
                return [entry.name for entry in os.scandir(tree.path) if entry.is_dir()]
        return []


NONE = Cgroups("none")


def decode(data: bytes) -> Cgroups:
    """What `Cgroups.encode` made."""
    kind, *trees = unpack(data)
    found = []
    for tree in trees:
        path, join_file, *flags = (part.decode() for part in unpack(tree))
        found.append(Hierarchy(path, join_file, *(flag == "1" for flag in flags)))
    return Cgroups(kind.decode(), tuple(found))


def detect(node_name: str, spool_path: str, limit_memory: bool, root: str = ROOT) -> Cgroups:
    """Find what may be used and make the subtree. Never raises: a node without cgroups is a node.

    The subtree's name holds the spool's: two clusters on one machine may have nodes of one name and steps of one key.
    """
    spool = zlib.crc32(os.path.realpath(spool_path).encode("utf-8", "surrogateescape"))
    name = f"penstock-{node_name.replace('/', '_')}-{spool:08x}"
    own = _own_groups()
    try:
        if os.path.exists(f"{root}/cgroup.controllers"):
            return _detect_v2(f"{root}{own.get('', '/')}".rstrip("/"), name, limit_memory)
        return _detect_v1(root, own, name, limit_memory)
    except OSError:  # read-only, not delegated to us, or another layout
        return NONE


def _detect_v2(own: str, name: str, limit_memory: bool) -> Cgroups:
    path = f"{own}/{name}"
    os.makedirs(path, exist_ok=True)
    limits = limit_memory and _delegate_memory(own, path)
    # made and removed once, to know that we may
    probe = f"{path}/probe"
    os.makedirs(probe, exist_ok=True)
    os.rmdir(probe)
    return Cgroups("v2", (Hierarchy(path, _V2_JOIN, True, limits, True),))


def _delegate_memory(own: str, path: str) -> bool:
    """Hand the memory controller down. The daemon moves into a leaf: who hands down may hold no process."""
    try:
        leaf = f"{own}/penstock-daemon"
        os.makedirs(leaf, exist_ok=True)
        _write(f"{leaf}/cgroup.procs", "0")
        _write(f"{own}/cgroup.subtree_control", "+memory")
        _write(f"{path}/cgroup.subtree_control", "+memory")
    except OSError:
        return False
    return True


def _detect_v1(root: str, own: dict[str, str], name: str, limit_memory: bool) -> Cgroups:
    freezer = f"{root}/freezer{own.get('freezer', '/').rstrip('/')}/{name}"
    os.makedirs(freezer, exist_ok=True)
    trees = [Hierarchy(freezer, _V1_JOIN, True, False, False)]
    if limit_memory:
        memory = f"{root}/memory{own.get('memory', '/').rstrip('/')}/{name}"
        with contextlib.suppress(OSError):
            os.makedirs(memory, exist_ok=True)
            trees.append(Hierarchy(memory, _V1_JOIN, False, True, False))
    return Cgroups("v1", tuple(trees))


def remove_subtree(cgroups: Cgroups) -> None:
    """Remove the node's subtree when it is empty (a daemon that ends with no step left)."""
    for tree in cgroups.hierarchies:
        with contextlib.suppress(OSError):
            os.rmdir(tree.path)


def _own_groups() -> dict[str, str]:
    """Controller -> the group this process is in; "" is the unified hierarchy."""
    own: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    return own


def _limit_memory(tree: Hierarchy, folder: str, limit_mb: int) -> None:
    limit = str(limit_mb * MB)
    if not tree.unified:
        _write(f"{folder}/memory.limit_in_bytes", limit)
        return
    _write(f"{folder}/memory.max", limit)
    _write(f"{folder}/memory.oom.group", "1")
    with contextlib.suppress(OSError):
        _write(f"{folder}/memory.swap.max", "0")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
