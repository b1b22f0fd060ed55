"""Writes a job's and a step's limits into their control groups: v1's files, v2's files.

    what            v1                                         v2
    memory          memory.limit_in_bytes                      memory.max, memory.oom.group (a step dies as a whole)
    swap            memory.memsw.limit_in_bytes (both)         memory.swap.max
    cores           cpuset.cpus                                cpuset.cpus
    processes       pids.max                                   pids.max
    devices         devices.deny                               an eBPF program (devices.py)

The job's group has the limits of all its steps together; a step's has its own where they are narrower. Each step writes
the job's limits again, since an earlier step may have failed halfway. A limit that the kernel does not support (swap
accounting is off) is left out; one that it rejects is an error, and the step does not start.
"""

import contextlib
import errno
import os

from nodedaemon.base.kernelfiles import read_text, write_text
from nodedaemon.cgroups.devices import deny_by_program, deny_lines

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from nodedaemon.base.orders import LaunchOrder

MB = 1024 * 1024
#: Controllers of v2 that are delegated as a step needs them.
V2_CONTROLLERS = ("cpuset", "memory", "pids")
_NEW = ("cpuset.cpus", "cpuset.mems")  # v1: empty in a new group, and no process may join while they are


class CgroupLimits:
    """The limits and counters of a launch order."""

    __slots__ = (
        "by_task", "cpus", "denied", "job_cpus", "job_denied", "job_memory_mb", "memory_mb", "oom_group",
        "pids_max", "swap_mb", "words",
    )  # fmt: skip

    def __init__(self, order: "LaunchOrder") -> None:
        self.job_memory_mb = order.job_memory_limit_mb or order.memory_limit_mb
        self.memory_mb = order.memory_limit_mb if order.memory_limit_mb < self.job_memory_mb else 0
        self.swap_mb = order.swap_limit_mb
        self.oom_group = order.oom_group
        self.job_cpus = order.job_cpu_ids
        self.cpus = order.cpu_ids if order.cpu_ids != order.job_cpu_ids else []
        self.pids_max = order.pids_max
        self.job_denied = order.job_denied_devices
        self.denied = order.denied_devices if order.denied_devices != order.job_denied_devices else []
        self.by_task = order.count_by_group and bool(order.tasks)
        wanted = (
            ("memory", self.job_memory_mb or self.by_task),
            ("cpuset", self.job_cpus),
            ("pids", self.pids_max),
            ("devices", self.job_denied or self.denied or order.fence_devices),
            ("cpuacct", self.by_task),
        )
        self.words = [word for word, is_wanted in wanted if is_wanted]

    def wants(self, controllers: tuple[str, ...], unified: bool) -> bool:
        """True when the limits need this tree. v2 counts cpu time and denies devices without controllers."""
        return any(word in controllers or (unified and word in ("cpuacct", "devices")) for word in self.words)


def prepare(parent: str, folder: str, controllers: tuple[str, ...], unified: bool) -> None:
    """Prepares a new group so that limits may be written and processes may join. Raises OSError."""
    if unified:
        wanted = [name for name in V2_CONTROLLERS if name in controllers]
        if wanted:
            write_text(f"{parent}/cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
    elif "cpuset" in controllers:
        for name in _NEW:
            if not read_text(f"{folder}/{name}").strip():
                write_text(f"{folder}/{name}", read_text(f"{parent}/{name}").strip())


def limit_job(folder: str, limits: CgroupLimits, controllers: tuple[str, ...], unified: bool) -> None:
    """Writes the job's limits on this node. Raises OSError."""
    if "memory" in controllers and limits.job_memory_mb:
        _limit_memory(folder, limits.job_memory_mb, limits.swap_mb, unified)
    if "cpuset" in controllers and limits.job_cpus:
        _write_known(f"{folder}/cpuset.cpus", ",".join(map(str, limits.job_cpus)))
    if "pids" in controllers and limits.pids_max:
        _write_known(f"{folder}/pids.max", str(limits.pids_max))
    _deny(folder, limits.job_denied, controllers, unified)


def limit_step(folder: str, limits: CgroupLimits, controllers: tuple[str, ...], unified: bool) -> None:
    """Writes the limits in which a step has less than its job. Raises OSError."""
    if "memory" in controllers:
        if limits.memory_mb:
            _limit_memory(folder, limits.memory_mb, limits.swap_mb, unified)
        if unified and limits.job_memory_mb and limits.oom_group:
            _write_known(f"{folder}/memory.oom.group", "1")
    if "cpuset" in controllers and (limits.cpus or (limits.job_cpus and not unified)):
        _write_known(f"{folder}/cpuset.cpus", ",".join(map(str, limits.cpus or limits.job_cpus)))
    _deny(folder, limits.denied, controllers, unified)


def move_cpus(job: str, groups: list[str], cpus: list[int], job_cpus: list[int]) -> None:
    """Gives a job and one of its steps other CPUs. `groups`: the step's, then all below it, deepest first. Raises OSError.

    v1 has a group's CPUs within its parent's, so all are widened from above, then narrowed from below. The job's stays wide
    there while another step is still to be moved, and is narrowed with the last one.
    """
    step, *below = groups
    new, of_job = ",".join(map(str, cpus)), ",".join(map(str, job_cpus))
    for folder, wider in ((job, of_job), (step, new), *[(folder, new) for folder in reversed(below)]):
        own = read_text(f"{folder}/cpuset.cpus").strip()
        if own:  # else it has all of its parent's (v2)
            write_text(f"{folder}/cpuset.cpus", f"{own},{wider}")
    for folder in (*below, step):
        if read_text(f"{folder}/cpuset.cpus").strip():
            write_text(f"{folder}/cpuset.cpus", new)
    with contextlib.suppress(OSError):
        write_text(f"{job}/cpuset.cpus", of_job)


def _limit_memory(folder: str, memory_mb: int, swap_mb: int, unified: bool) -> None:
    memory = str(memory_mb * MB)
    if unified:
        _write_known(f"{folder}/memory.max", memory)
        if swap_mb >= 0:
            _write_known(f"{folder}/memory.swap.max", str(swap_mb * MB))
        return
    both = f"{folder}/memory.memsw.limit_in_bytes"
    if swap_mb >= 0 and os.path.exists(both):  # memsw >= memory: the order depends on the present values
        with contextlib.suppress(OSError):
            write_text(both, str((memory_mb + swap_mb) * MB))
    _write_known(f"{folder}/memory.limit_in_bytes", memory)
    if swap_mb >= 0:
        _write_known(both, str((memory_mb + swap_mb) * MB))


def _deny(folder: str, files: list[str], controllers: tuple[str, ...], unified: bool) -> None:
    if not files:
        return
    if unified:
        deny_by_program(folder, files)
    elif "devices" in controllers:
        for line in deny_lines(files):
            write_text(f"{folder}/devices.deny", line)


def _write_known(path: str, text: str) -> None:
    """Writes a limit, unless this kernel does not support it."""
    try:
        write_text(path, text)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
            raise
