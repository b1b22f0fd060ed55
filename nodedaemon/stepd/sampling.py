"""Measures the usage of a step's tasks: sampled while they run, read from the kernel's accounting when they have ended.

A sample reads /proc once for every process of the step and adds up by task: CPU time, resident and virtual memory,
page faults that needed the disk, bytes read from and written to disks. Where tasks have groups of their own
(jobacct_gather/cgroup), CPU time and resident memory are the groups', which are complete and count shared pages once.
Page cache is not counted. The usage of ended processes is known exactly (rusage); so sums are right whatever the
interval, and only peaks of memory depend on it: the largest process's is the kernel's own.

A process belongs to a task if it is that task, or by its parent, process group, session or an earlier sample; otherwise
it belongs to the first task.

A plug of the step (plugs.py). With an interval it samples periodically; without, only on request (sstat), and a batch
script's record then has only the basic figures. noded measures GPU usage (daemon/gpu_usage.py); answers from here
include noded's last sample.

Each periodic sample is also a point of the step's profile (profiling.py). A batch script that is sampled for its profile
alone gets its sampler when the first interval is over (supervisor.py): a shorter one costs nothing.
"""

import os
import resource

from nodedaemon.base import proctree
from nodedaemon.base.kernelfiles import read_bytes
from nodedaemon.stepd.hangwatch import HangWatch
from nodedaemon.stepd.plugs import Plug
from nodedaemon.stepd.profiling import ProfileRecorder

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.stepd.plugs import PluggedStep
    from nodedaemon.stepd.taskrecord import Task
    from penstock.values.packing import PackedValue
    from penstock.values.timeline import Point

#: Numbers of UsageMetric.Kind.
CPU_MS, RSS_KB, VMSIZE_KB, PAGE_FAULTS, READ_BYTES, WRITE_BYTES = range(1, 7)
#: Time of the first sample: shorter processes are measured by their rusage.
FIRST_S = 1.0
_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_BLOCK_BYTES = 512  # getrusage counts blocks of this size
#: The kernel includes the memory that a task's process shared with stepd before its exec.
_FORK_RSS_KB = 4096
#: Indexes in /proc/PID/stat after the name: state, parent, group, session, faults and children's, times and children's, start,
#: sizes.
_STATE = 0
_PPID = 1
_PGRP = 2
_SESSION = 3
_FAULTS = 9
_CHILD_FAULTS = 10
_TIMES = 11
_START = 19
_VSIZE = 20
_RSS = 21


_IO = (b"read_bytes", b"write_bytes", b"rchar", b"wchar")


class Sum:
    """The usage of one task: of its ended processes, of its live ones as of the last sample, and peaks."""

    __slots__ = ("ended", "group_us", "live", "now_kb", "rss_kb", "vsize_kb")

    def __init__(self) -> None:
        self.ended = [0, 0, 0, 0]  # CPU us, faults, bytes read, bytes written
        self.live = [0, 0, 0, 0]
        self.group_us = 0
        self.now_kb = 0  # resident, in the last sample
        self.rss_kb = 0  # largest
        self.vsize_kb = 0

    def figures(self) -> tuple[int, ...]:
        """In the order of the kinds."""
        cpu_us, faults, read, written = (a + b for a, b in zip(self.ended, self.live, strict=True))
        return max(cpu_us, self.group_us) // 1000, self.rss_kb, self.vsize_kb, faults, read, written


class Sampler(Plug):
    """The sampler of one step."""

    words = ("usage", "profile", "doctor")

    def __init__(self, order: "LaunchOrder") -> None:
        self._every_s = order.sample_every_s or order.profile_every_s
        self._first_s = min(FIRST_S, self._every_s) if order.sample_every_s else self._every_s
        self._profile = ProfileRecorder() if order.profile_every_s else None
        self._watch = HangWatch(order)
        self._rss_kb = 0  # of all tasks, in the last sample
        self._is_plain = order.kind == "batch" and not order.sample_every_s
        self._sums: dict[int, Sum] = {}  # by rank
        self._rank_of: dict[int, int] = {}  # the tasks' own processes
        self._known: dict[tuple[int, int], int] = {}  # pid and start time -> rank, as of the last sample
        self._step: PluggedStep | None = None

    def open(self, step: "PluggedStep") -> None:
        """Takes the step; no task runs yet."""
        self._step = step

    def forked(self, task: "Task") -> None:
        """Adds a task."""
        self._rank_of[task.pid] = task.rank
        self._sums[task.rank] = Sum()

    def count_before(self, cpu_s: float, blocks_read: float, blocks_written: float) -> None:
        """Adds the usage of processes that were reaped before the sampler existed, to the first task."""
        for found in self._sums.values():
            found.ended = [
                int(cpu_s * 1_000_000),
                0,
                int(blocks_read) * _BLOCK_BYTES,
                int(blocks_written) * _BLOCK_BYTES,
            ]
            return

    def began(self) -> None:
        """Starts sampling: all tasks run."""
        if self._every_s and self._step is not None:
            self._step.loop.after(self._first_s, self.tick)

    def tick(self) -> None:
        """Samples, and will again."""
        assert self._step is not None
        self.sample()
        self._add_point(self._rss_kb)
        cpu_ms = {rank: found.figures()[0] for rank, found in self._sums.items()}
        self._watch.take(self._step, cpu_ms, self._host_points)
        self._step.loop.after(self._every_s, self.tick)

    def _host_points(self) -> "list[Point]":
        return self._profile.points() if self._profile is not None else []

    def _add_point(self, rss_kb: int | None) -> None:
        """Adds the last sample to the profile. `rss_kb` None: the step is over."""
        if self._profile is None or self._step is None:
            return
        ran_us, figures = self._step.ran_us(), {rank: found.figures() for rank, found in self._sums.items()}
        cpu_ms, read, written = (sum(one[index] for one in figures.values()) for index in (0, 4, 5))
        self._profile.add(ran_us, cpu_ms, rss_kb, read, written)
        now_kb = {rank: None if rss_kb is None else found.now_kb for rank, found in self._sums.items()}
        self._profile.add_tasks(ran_us, {rank: (one[0], now_kb[rank], one[4], one[5]) for rank, one in figures.items()})

    def answer(self, word: str) -> "dict[str, PackedValue]":
        """Answers sstat: the present usage; or with the profile so far."""
        if word == "profile":
            assert self._step is not None
            return {"profile": self._profile.answer(self._step.folder_fd) if self._profile is not None else b""}
        if word == "doctor":
            return self._watch.answer(self._rank_of)
        self.sample()
        return {"tasks": len(self._sums), "metrics": self.metrics() + self._of_gpus()}

    def _of_gpus(self) -> "list[PackedValue]":
        """The usage of the step's GPUs as noded has counted it; nothing for a step without GPUs."""
        from nodedaemon.spool.gpufile import NAME, read_kept  # imported only on request

        assert self._step is not None
        kept = read_kept(NAME, self._step.folder_fd)
        return kept[1] if kept is not None else []

    def reaped(self, pid: int, used: resource.struct_rusage) -> None:
        """Counts a process of the step that is gone, with its reaped children: its usage is final."""
        rank = self._rank_of.get(pid)
        if rank is None:
            rank = next((known for (old, _), known in self._known.items() if old == pid), None)
        if rank is None:
            if not self._sums:
                return
            rank = next(iter(self._sums))
        found = self._sums[rank]
        found.ended[0] += int((used.ru_utime + used.ru_stime) * 1_000_000)
        found.ended[1] += used.ru_majflt
        found.ended[2] += used.ru_inblock * _BLOCK_BYTES
        found.ended[3] += used.ru_oublock * _BLOCK_BYTES
        if used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + _FORK_RSS_KB:
            found.rss_kb = max(found.rss_kb, used.ru_maxrss)
        self._forget(pid, rank)

    def _forget(self, pid: int, rank: int) -> None:
        """Drops the last sample's count of the task's live processes, which may have ended: the next sample counts them
        again."""
        self._rank_of.pop(pid, None)
        self._sums[rank].live = [0, 0, 0, 0]

    def close(self) -> "dict[str, PackedValue]":
        """Returns the metrics for the exit record: all processes are gone. The profile gets its last point, and its file."""
        if not self._sums:
            return {}
        self._ask_groups()
        if self._profile is not None and self._step is not None:
            self._add_point(None)
            self._profile.save(self._step.folder_fd)
        if self._is_plain:
            return {}
        return {"metrics": self.metrics(), "measured": len(self._sums)}

    # -- a sample

    def sample(self) -> None:
        """Samples every process of the step once."""
        assert self._step is not None
        pids = self._step.groups.members() or list(proctree.descendants(os.getpid()))
        stats = {pid: fields for pid in pids if (fields := proctree.stat_fields(pid)) is not None}
        owners = self._owners(stats)
        now: dict[int, list[int]] = {rank: [0] * 6 for rank in self._sums}
        self._known = {}
        self._watch.begin()
        for pid, fields in stats.items():
            rank = owners[pid]
            self._known[pid, int(fields[_START])] = rank
            total = now[rank]
            total[0] += sum(map(int, fields[_TIMES : _TIMES + 4])) * _TICK_US
            total[1] += int(fields[_FAULTS]) + int(fields[_CHILD_FAULTS])
            read, written, *moved = io_bytes(pid)
            self._watch.see(rank, fields[_STATE], *moved)
            total[2] += read
            total[3] += written
            total[4] += int(fields[_RSS]) * PAGE_KB
            total[5] += int(fields[_VSIZE]) // 1024
        self._rss_kb = sum(each[4] for each in now.values())
        for rank, (*live, rss_kb, vsize_kb) in now.items():
            found = self._sums[rank]
            found.live = live
            found.now_kb = rss_kb
            found.rss_kb = max(found.rss_kb, rss_kb)
            found.vsize_kb = max(found.vsize_kb, vsize_kb)
        self._ask_groups()

    def _ask_groups(self) -> None:
        assert self._step is not None
        for rank, found in self._sums.items():
            counted = self._step.groups.usage(rank)
            if counted is None:
                return  # then no task has a group
            found.group_us = max(found.group_us, counted[0])
            found.rss_kb = max(found.rss_kb, counted[1])

    def _owners(self, stats: dict[int, list[bytes]]) -> dict[int, int]:
        """Returns the rank of every process."""
        owners: dict[int, int] = {}
        first = next(iter(self._sums), 0)
        for pid in stats:
            path: list[int] = []
            rank: int | None = None
            at = pid
            while rank is None and at in stats and len(path) <= len(stats):
                path.append(at)
                rank = owners.get(at, self._rank_of.get(at, self._known.get((at, int(stats[at][_START])))))
                at = int(stats[at][_PPID])
            if rank is None:
                leaders = (int(stats[pid][_PGRP]), int(stats[pid][_SESSION]))
                rank = next((self._rank_of[leader] for leader in leaders if leader in self._rank_of), first)
            owners.update(dict.fromkeys(path, rank))
        return owners

    def metrics(self) -> "list[PackedValue]":
        """For each kind: kind, total, largest and its rank, smallest and its rank."""
        figures = [(rank, found.figures()) for rank, found in self._sums.items()]
        if not figures:
            return []
        found: list[PackedValue] = []
        for index, kind in enumerate((CPU_MS, RSS_KB, VMSIZE_KB, PAGE_FAULTS, READ_BYTES, WRITE_BYTES)):
            values = [(numbers[index], rank) for rank, numbers in figures]
            high = max(values, key=lambda value: (value[0], -value[1]))
            low = min(values)
            found.append([kind, sum(value for value, _ in values), high[0], high[1], low[0], low[1]])
        return found


def disk_bytes(pid: int) -> tuple[int, int]:
    """Bytes that a process and its reaped children have read from and written to disks; zeros without permission."""
    return io_bytes(pid)[:2]


def io_bytes(pid: int) -> tuple[int, int, int, int]:
    """Bytes read from and written to disks; read from and written to anything, by a process and its reaped children."""
    found = dict.fromkeys(_IO, 0)
    for line in read_bytes(f"/proc/{pid}/io").splitlines():
        word, _, number = line.partition(b": ")
        if word in found:
            found[word] = int(number)
    disk_read, disk_written, read, written = found.values()
    return disk_read, disk_written, read, written


def make(order: "LaunchOrder") -> Plug | None:
    """Makes a sampler: every step of srun has one; a batch script, when it is to be sampled. Else it gets one at the
    first request.
    """
    if order.kind == "extern" or (order.kind == "batch" and not order.sample_every_s):
        return None
    return Sampler(order)
