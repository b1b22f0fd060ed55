"""Control groups: they contain a step even when its stepd is dead, and enforce the requested limits.

    NODE-SUBTREE/JOB.ATTEMPT.STEP             a step without limits and accounting: one folder in one tree
    NODE-SUBTREE/JOB.ATTEMPT/STEP[/task_N]    any other: the job's limits apply to all its steps together

Groups live in a subtree named after the node, below the daemon's own group; nothing outside that subtree is touched.
v1's freezer tree is always flat, since it only groups processes; its other trees are always nested, and are made only
for steps that use their controllers. v2 has one tree: flat or nested as the step needs. stepd makes and removes a
step's groups and stays outside; the task joins before it becomes the user.

Rules
    - A job's group has no owner: the first step makes it, the last one removes it (rmdir fails while others are in it),
      and each step writes the same limits. A step's folder is made before the job's limits are written, so that
      the job's cannot be removed in the meantime.
    - Groups are looked up by name in each of these forms: noded cleans up after stepds whose orders it does not know.

Without a group, stepd as sub-reaper still finds all processes while it lives. find.py detects what is available;
limits.py writes the limits.
"""

import contextlib
import os
import signal

from nodedaemon.base import proctree
from nodedaemon.base.framing import pack, pack_values, unpack
from nodedaemon.base.kernelfiles import read_text, write_text
from nodedaemon.cgroups.limits import CgroupLimits, limit_job, limit_step, move_cpus, prepare
from nodedaemon.cgroups.tree import CgroupTree

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from nodedaemon.base.orders import LaunchOrder

#: Joining by `tasks` avoids a wait in v1 that `cgroup.procs` causes; the joining process has one thread.
V1_JOIN, V2_JOIN = "tasks", "cgroup.procs"
#: Sibling of the groups of a step's tasks, for processes of no task (v2: only leaf groups may contain processes).
OTHER = "other"
#: Attempts to make a step's folder while others remove the job's concurrently.
MAKE_TRIES = 100
#: pidfds open at a time while a group is killed.
KILL_CHUNK = 256
KILL_ROUNDS_MAX = 20


class Cgroups:
    """The control groups available on this node; no trees = none."""

    __slots__ = ("kind", "trees")

    def __init__(self, kind: str, trees: tuple[CgroupTree, ...] = ()) -> None:
        self.kind = kind  # "v2", "v1" or "none"
        self.trees = trees

    def encode(self) -> bytes:
        """Encodes it for the launcher."""
        trees = [pack_values(t.path, " ".join(t.controllers), int(t.unified)) for t in self.trees]
        return pack([self.kind.encode(), *trees])

    def can(self, controller: str) -> bool:
        """True when a tree has that controller."""
        return any(controller in tree.controllers for tree in self.trees)

    def of(self, order: "LaunchOrder") -> "StepGroups":
        """The groups of a step."""
        return StepGroups(self, order)

    # -- by name, for callers that do not know the step's settings

    def adopt(self, key: str, pid: int) -> None:
        """Moves a process that was started elsewhere, and all of its threads, into the step's groups."""
        job, _, step = key.rpartition(".")
        for tree in self.trees:
            for folder in (f"{tree.path}/{key}", f"{tree.path}/{job}/{step}"):
                if os.path.isdir(folder):
                    write_text(f"{folder}/cgroup.procs", str(pid))

    def members(self, key: str) -> list[int]:
        """Processes in the step's group."""
        return [pid for folder in self._found(key) for pid in members(folder)]

    def cpu_us(self, key: str) -> int | None:
        """Returns the CPU time of the step's group in us, that of ended processes too; None = not counted."""
        job, _, step = key.rpartition(".")
        for tree in self.trees:
            for folder in (f"{tree.path}/{key}", f"{tree.path}/{job}/{step}"):
                if tree.unified and (used := _field(f"{folder}/cpu.stat", "usage_usec")) > 0:
                    return used
                if "cpuacct" in tree.controllers and (text := read_text(f"{folder}/cpuacct.usage")):
                    return int(text) // 1000
        return None

    def kill(self, key: str) -> bool:
        """SIGKILL everything in the step's groups; True when nothing is left. Blocks, with a limit."""
        return all([kill_folder(folder) for folder in self._found(key)])

    def kill_job(self, job: str) -> bool:
        """SIGKILL all processes of every step of `JOB.ATTEMPT`. Blocks, with a limit."""
        return all([kill_folder(folder) for folder in self._of_job(job)])

    def job_members(self, job: str) -> list[int]:
        """Processes in any step of `JOB.ATTEMPT`."""
        return [pid for folder in self._of_job(job) for pid in members(folder)]

    def remove(self, key: str) -> None:
        """Removes the step's groups, and the job's after the last one; groups with processes stay."""
        job, _, step = key.rpartition(".")
        for tree in self.trees:
            for path in (f"{tree.path}/{key}", f"{tree.path}/{job}/{step}"):
                _remove_step(path)
            with contextlib.suppress(OSError):
                os.rmdir(f"{tree.path}/{job}")

    def leftovers(self) -> list[str]:
        """Keys of steps that have a group."""
        found: dict[str, None] = {}
        for tree in self.trees:
            for name in _folders(tree.path):
                if name.count(".") == 2:
                    found[name] = None
                else:
                    found.update({f"{name}.{step}": None for step in _folders(f"{tree.path}/{name}")})
        return list(found)

    def _found(self, key: str) -> list[str]:
        job, _, step = key.rpartition(".")
        trees = [tree for tree in self.trees if tree.is_complete]
        paths = [path for tree in trees for path in (f"{tree.path}/{key}", f"{tree.path}/{job}/{step}")]
        return [path for path in paths if os.path.isdir(path)]

    def _of_job(self, job: str) -> list[str]:
        trees = [tree for tree in self.trees if tree.is_complete]
        paths = [f"{tree.path}/{job}" for tree in trees]
        for tree in trees:
            paths += [f"{tree.path}/{name}" for name in _folders(tree.path) if name.startswith(f"{job}.")]
        return [path for path in paths if os.path.isdir(path)]


NONE = Cgroups("none")


class StepGroups:
    """The groups of one step: created, joined, read and removed by its stepd."""

    __slots__ = ("_folders", "_limits", "_tasks")

    def __init__(self, cgroups: Cgroups, order: "LaunchOrder") -> None:
        self._folders: list[tuple[CgroupTree, str, str]] = []  # tree, the job's folder ("" = flat), the step's
        if order.no_groups or not cgroups.trees:
            return
        self._limits = limits = CgroupLimits(order)
        self._tasks = limits.by_task
        job, _, step = order.key.rpartition(".")
        for tree in cgroups.trees:
            if limits.wants(tree.controllers, tree.unified):
                self._folders.append((tree, f"{tree.path}/{job}", f"{tree.path}/{job}/{step}"))
            elif tree.is_complete:
                self._folders.append((tree, "", f"{tree.path}/{order.key}"))

    def create(self) -> None:
        """Makes the groups and sets their limits. Raises OSError."""
        for tree, job, step in self._folders:
            if not job:
                _make(step)
                continue
            _make_below(job, step)
            if not tree.unified:  # the process that made the tree may not have enabled them yet
                prepare(os.path.dirname(tree.path), tree.path, tree.controllers, False)
            prepare(tree.path, job, tree.controllers, tree.unified)
            limit_job(job, self._limits, tree.controllers, tree.unified)
            prepare(job, step, tree.controllers, tree.unified)
            limit_step(step, self._limits, tree.controllers, tree.unified)
        self._create_below(OTHER)

    def create_task(self, rank: int) -> None:
        """Makes the groups of a task, where tasks are counted separately. Raises OSError."""
        self._create_below(f"task_{rank}")

    def _create_below(self, name: str) -> None:
        for tree, job, step in self._folders:
            if job and self._tasks:
                folder = f"{step}/{name}"
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o755)
                prepare(step, folder, tree.controllers, tree.unified)

    def join(self, rank: int | None = None) -> None:
        """Moves the calling, single-threaded process into the step's groups, or its task's. Raises OSError."""
        for path in self.join_files(rank):
            write_text(path, "0")

    def join_files(self, rank: int | None = None) -> list[str]:
        """The files to which a single-threaded process writes 0 to join the step's groups, or its task's."""
        name = OTHER if rank is None else f"task_{rank}"
        return [
            f"{step}/{name}/{_join_name(tree)}" if job and self._tasks else f"{step}/{_join_name(tree)}"
            for tree, job, step in self._folders
        ]

    def members(self) -> list[int]:
        """Processes in the step's group; empty also where there is no group."""
        for tree, _, step in self._folders:
            if tree.is_complete:
                return members(step)
        return []

    def signal_all(self, signum: int) -> int:
        """Sends a signal to all processes of the group as they are now; returns how many there were. Does not wait for
        them.
        """
        for tree, _, step in self._folders:
            if tree.is_complete:
                return signal_folder(step, signum)
        return 0

    def freeze(self, frozen: bool) -> None:
        """Freezes or thaws the step's group, if there is one."""
        for tree, _, step in self._folders:
            if tree.is_complete:
                with contextlib.suppress(OSError):
                    freeze_folder(step, frozen)

    def move(self, cpus: list[int], job_cpus: list[int]) -> None:
        """Gives step and job other CPUs. Raises OSError."""
        for tree, job, step in self._folders:
            if job and "cpuset" in tree.controllers:
                move_cpus(job, [step, *_below(step)], cpus, job_cpus)

    def out_of_memory(self) -> bool:
        """True when the OOM killer has killed a process of the step."""
        for tree, job, step in self._folders:
            if job and "memory" in tree.controllers:
                if tree.unified:  # counts all groups below it, too
                    return _oom_kills(f"{step}/memory.events")
                return any(_oom_kills(f"{folder}/memory.oom_control") for folder in (step, *_below(step)))
        return False

    def usage(self, rank: int) -> tuple[int, int] | None:
        """Returns CPU time in us and resident memory in kB of a task, as its groups count them; None = not counted."""
        cpu_us = rss_kb = -1
        for tree, job, step in self._folders:
            folder = f"{step}/task_{rank}"
            if not (job and self._tasks):
                continue
            if tree.unified:
                cpu_us = _field(f"{folder}/cpu.stat", "usage_usec")
                rss_kb = max(rss_kb, _field(f"{folder}/memory.stat", "anon") // 1024)
            if "cpuacct" in tree.controllers:
                cpu_us = int(read_text(f"{folder}/cpuacct.usage") or -1) // 1000
            if "memory" in tree.controllers and not tree.unified:
                rss_kb = _field(f"{folder}/memory.stat", "total_rss") // 1024
        return (cpu_us, max(rss_kb, 0)) if cpu_us >= 0 else None

    def remove(self) -> None:
        """Removes the step's groups, and the job's after the last one; groups with processes stay."""
        for _, job, step in self._folders:
            _remove_step(step)
            if job:
                with contextlib.suppress(OSError):
                    os.rmdir(job)


def _join_name(tree: CgroupTree) -> str:
    return V2_JOIN if tree.unified else V1_JOIN


def decode(data: bytes) -> Cgroups:
    """Decodes the result of `Cgroups.encode`."""
    kind, *trees = unpack(data)
    found = []
    for tree in trees:
        path, controllers, unified = (part.decode() for part in unpack(tree))
        found.append(CgroupTree(path, tuple(controllers.split()), unified == "1"))
    return Cgroups(kind.decode(), tuple(found))


# -- folders


def _make(folder: str) -> None:
    """Makes a folder, and the tree's folder above it when that does not exist."""
    try:
        os.mkdir(folder, 0o755)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(folder, 0o755, exist_ok=True)


def _make_below(job: str, step: str) -> None:
    """Makes the folders of job and step, retrying when another step removes the job's at the same moment."""
    for _ in range(MAKE_TRIES):
        _make(job)
        try:
            os.mkdir(step, 0o755)
            return
        except FileExistsError:
            return
        except FileNotFoundError:
            continue
    raise OSError(f"{step}: its parent is removed again and again")


def _remove_step(step: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(step)
        return
    for folder in _below(step):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    with contextlib.suppress(OSError):
        os.rmdir(step)


def _folders(path: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _below(folder: str) -> list[str]:
    """Returns all groups below, deepest first."""
    found = []
    for name in _folders(folder):
        found += [*_below(f"{folder}/{name}"), f"{folder}/{name}"]
    return found


# -- processes


def members(folder: str) -> list[int]:
    """Processes in a group and in all groups below it."""
    found = []
    for group in (*_below(folder), folder):
        found += [int(word) for word in read_text(f"{group}/cgroup.procs").split()]
    return found


def freeze_folder(folder: str, frozen: bool) -> None:
    """Freezes or thaws a group. Raises OSError."""
    if os.path.exists(f"{folder}/cgroup.freeze"):
        write_text(f"{folder}/cgroup.freeze", "01"[frozen])
    elif os.path.exists(f"{folder}/freezer.state"):
        write_text(f"{folder}/freezer.state", ("THAWED", "FROZEN")[frozen])


def signal_folder(folder: str, signum: int) -> int:
    """Signals all processes of a group; returns how many there were.

    For SIGKILL the group is frozen, so that no process forks meanwhile (another signal must not wake suspended ones);
    where the kernel offers cgroup.kill, that is used. A process is signalled through a pidfd and is checked to be a
    member after that is open: its number could have been reused.
    """
    if signum == signal.SIGKILL and os.path.exists(f"{folder}/cgroup.kill"):
        count = len(members(folder))
        write_text(f"{folder}/cgroup.kill", "1")
        return count
    pids = members(folder)
    if pids and signum == signal.SIGKILL:
        with contextlib.suppress(OSError):
            freeze_folder(folder, True)
        pids = members(folder)
    try:
        for at in range(0, len(pids), KILL_CHUNK):
            _signal_pinned(folder, pids[at : at + KILL_CHUNK], signum)
    finally:
        if pids and signum == signal.SIGKILL:
            with contextlib.suppress(OSError):
                freeze_folder(folder, False)
    return len(pids)


def _signal_pinned(folder: str, pids: list[int], signum: int) -> None:
    pinned: dict[int, int] = {}
    try:
        for pid in pids:
            with contextlib.suppress(OSError):  # gone
                pinned[pid] = os.pidfd_open(pid)
        still = set(members(folder))
        for pid, fd in pinned.items():
            if pid in still:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(fd, signum)
    finally:
        for fd in pinned.values():
            os.close(fd)


def kill_folder(folder: str) -> bool:
    """SIGKILL until no process is left in a group and below; False when some remain. Blocks, with a limit."""
    for _ in range(KILL_ROUNDS_MAX):
        if not signal_folder(folder, signal.SIGKILL):
            return True
        proctree.await_ends(members(folder))
    return not members(folder)


def _oom_kills(path: str) -> bool:
    return _field(path, "oom_kill") > 0


def _field(path: str, name: str) -> int:
    """Returns the number after a keyword in a file of `keyword number` lines; -1 when it is not there."""
    for line in read_text(path).splitlines():
        word, _, number = line.partition(" ")
        if word == name:
            return int(number)
    return -1
