"""What the tasks of a step use: sampled while they run, taken from the kernel's accounts when they have ended.

A sample reads /proc once for every process of the step and adds up by task: CPU time, resident and virtual memory,
page faults that needed the disk, bytes read from and written to disks. Where tasks have groups of their own
(jobacct_gather/cgroup), CPU time and resident memory are the groups', which miss nothing and count shared pages once.
Page cache counts for nobody. What a process used that has ended is known exactly (rusage); so sums are right however
rarely anybody looks, and only peaks of memory depend on the interval: the largest process's is the kernel's own.

A process is its task's if it is that task, or its parent, process group, session or an earlier sample says so; one that
nothing speaks for is the first task's.

A plug of the step (plugs.py). With an interval it samples by itself; without, only when somebody asks (sstat), and a
batch script's record then says no more than it always did. What its GPUs do is counted by noded (gpu/usage.py); it is
told from here, too, as of noded's last sample.
"""

import os
import resource

from nodedaemon import proctree
from nodedaemon.kernelfiles import read_bytes
from nodedaemon.plugs import Plug

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from nodedaemon.orders import LaunchOrder
    from nodedaemon.supervisor import Supervisor
    from nodedaemon.tasks import Task
    from penstock.values.packing import Value

#: Numbers of UsageMetric.Kind.
CPU_MS, RSS_KB, VMSIZE_KB, PAGE_FAULTS, READ_BYTES, WRITE_BYTES = range(1, 7)
#: The first sample: what is over sooner is told by its rusage.
FIRST_S = 1.0
_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_BLOCK_BYTES = 512  # getrusage counts blocks of this size
#: The kernel counts what a task's process shared with stepd before its exec.
_FORK_RSS_KB = 4096
#: Places in /proc/PID/stat behind the name: parent, group, session, faults and children's, times and children's, start,
#: sizes.
_PPID, _PGRP, _SESSION, _FAULTS, _CHILD_FAULTS, _TIMES, _START, _VSIZE, _RSS = 1, 2, 3, 9, 10, 11, 19, 20, 21


class Sum:
    """What one task used: of its processes that have ended, of those that live as of the last sample, and peaks."""

    __slots__ = ("ended", "group_us", "live", "rss_kb", "vsize_kb")

    def __init__(self) -> None:
        self.ended = [0, 0, 0, 0]  # CPU us, faults, bytes read, bytes written
        self.live = [0, 0, 0, 0]
        self.group_us = 0
        self.rss_kb = 0  # largest
        self.vsize_kb = 0

    def figures(self) -> tuple[int, ...]:
        """In the order of the kinds."""
        cpu_us, faults, read, written = (a + b for a, b in zip(self.ended, self.live, strict=True))
        return max(cpu_us, self.group_us) // 1000, self.rss_kb, self.vsize_kb, faults, read, written


class Sampler(Plug):
    """One step's."""

    words = ("usage",)

    def __init__(self, order: "LaunchOrder") -> None:
        self._every_s = order.sample_every_s
        self._is_plain = order.kind == "batch" and not order.sample_every_s
        self._sums: dict[int, Sum] = {}  # by rank
        self._rank_of: dict[int, int] = {}  # the tasks' own processes
        self._known: dict[tuple[int, int], int] = {}  # pid and start time -> rank, as of the last sample
        self._step: Supervisor | None = None

    def open(self, step: "Supervisor") -> None:
        """No task runs yet."""
        self._step = step

    def forked(self, task: "Task") -> None:
        """One more to look at."""
        self._rank_of[task.pid] = task.rank
        self._sums[task.rank] = Sum()

    def count_before(self, cpu_s: float, blocks_read: float, blocks_written: float) -> None:
        """What processes used that were reaped before anybody asked: the first task's, as all that nothing speaks for."""
        for found in self._sums.values():
            found.ended = [
                int(cpu_s * 1_000_000),
                0,
                int(blocks_read) * _BLOCK_BYTES,
                int(blocks_written) * _BLOCK_BYTES,
            ]
            return

    def began(self) -> None:
        """All tasks run."""
        if self._every_s and self._step is not None:
            self._step.loop.after(min(FIRST_S, self._every_s), self._tick)

    def _tick(self) -> None:
        assert self._step is not None
        self.sample()
        self._step.loop.after(self._every_s, self._tick)

    def answer(self, word: str) -> "dict[str, Value]":
        """To sstat: as it is now."""
        self.sample()
        return {"tasks": len(self._sums), "metrics": self.metrics() + self._of_gpus()}

    def _of_gpus(self) -> "list[Value]":
        """What noded has counted of the step's GPUs; nothing for one that has none."""
        from nodedaemon.gpufile import NAME, read_kept  # only where somebody asks

        assert self._step is not None
        kept = read_kept(NAME, self._step.folder_fd)
        return kept[1] if kept is not None else []

    def reaped(self, pid: int, used: resource.struct_rusage) -> None:
        """A process of the step, with all that it has waited for, is gone: what it used is final."""
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
        """What the last sample counted as living of that task may be counted as ended now: the next one says."""
        self._rank_of.pop(pid, None)
        self._sums[rank].live = [0, 0, 0, 0]

    def close(self) -> "dict[str, Value]":
        """All processes are gone."""
        if self._is_plain or not self._sums:
            return {}
        self._ask_groups()
        return {"metrics": self.metrics(), "measured": len(self._sums)}

    # -- a sample

    def sample(self) -> None:
        """Look at every process of the step once."""
        assert self._step is not None
        pids = self._step.groups.members() or list(proctree.descendants(os.getpid()))
        stats = {pid: fields for pid in pids if (fields := proctree.stat_fields(pid)) is not None}
        owners = self._owners(stats)
        now: dict[int, list[int]] = {rank: [0] * 6 for rank in self._sums}
        self._known = {}
        for pid, fields in stats.items():
            rank = owners[pid]
            self._known[pid, int(fields[_START])] = rank
            total = now[rank]
            total[0] += sum(map(int, fields[_TIMES : _TIMES + 4])) * _TICK_US
            total[1] += int(fields[_FAULTS]) + int(fields[_CHILD_FAULTS])
            read, written = disk_bytes(pid)
            total[2] += read
            total[3] += written
            total[4] += int(fields[_RSS]) * _PAGE_KB
            total[5] += int(fields[_VSIZE]) // 1024
        for rank, (*live, rss_kb, vsize_kb) in now.items():
            found = self._sums[rank]
            found.live = live
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
        """The rank of every process."""
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

    def metrics(self) -> "list[Value]":
        """For each kind: kind, total, largest and its rank, smallest and its rank."""
        figures = [(rank, found.figures()) for rank, found in self._sums.items()]
        if not figures:
            return []
        found: list[Value] = []
        for place, kind in enumerate((CPU_MS, RSS_KB, VMSIZE_KB, PAGE_FAULTS, READ_BYTES, WRITE_BYTES)):
            values = [(numbers[place], rank) for rank, numbers in figures]
            high = max(values, key=lambda value: (value[0], -value[1]))
            low = min(values)
            found.append([kind, sum(value for value, _ in values), high[0], high[1], low[0], low[1]])
        return found


def disk_bytes(pid: int) -> tuple[int, int]:
    """Bytes that a process and those it has waited for had from and gave to disks; zeros where we may not look."""
    read = written = 0
    for line in read_bytes(f"/proc/{pid}/io").splitlines():
        word, _, number = line.partition(b": ")
        if word == b"read_bytes":
            read = int(number)
        elif word == b"write_bytes":
            written = int(number)
    return read, written


def make(order: "LaunchOrder") -> Plug | None:
    """Every step of srun has one; a batch script, when it is to be sampled. Else it gets one when somebody asks."""
    if order.kind == "extern" or (order.kind == "batch" and not order.sample_every_s):
        return None
    return Sampler(order)
