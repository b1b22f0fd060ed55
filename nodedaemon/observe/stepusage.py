"""Families about running steps: CPU time, memory, disk I/O and processes, of what runs now.

A step's processes are those of its control groups or, without groups, those below its supervisor. Its CPU time is the
group's where it has one; else that of its processes and the children that they have waited for. A counter never falls:
what a process had used before it ended stays in it. Read in a worker thread.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nodedaemon.base import proctree
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.core.steps import StepKey
from nodedaemon.spool.steprecord import NAME, read_record
from nodedaemon.stepd.sampling import disk_bytes
from penstock.exporter.exposition import MetricFamily, MetricType, labels
from penstock.values.jobid import format_step

_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Places in proctree.stat_fields: user and system time, those of reaped children, resident pages.
_TIMES, _RSS = 11, 21
#: Processes that are read for one step; a step of more has at least this usage.
PROCESSES_MAX = 2_000


class StepLabels(NamedTuple):
    """What a step's metrics say of it. "" = not known: the daemon was restarted since the step began."""

    user: str = ""
    account: str = ""
    partition: str = ""

    def text(self, key: StepKey, **more: str) -> str:
        """Returns the labels of a sample."""
        step = format_step(key.step_id)
        return labels({"job": str(key.job_id), "step": step, **self._asdict(), **more})


class StepReading(NamedTuple):
    """The usage of one step."""

    cpu_us: int
    mem_bytes: int
    read_bytes: int
    written_bytes: int
    processes: int


class StepReader:
    """Reads the usage of steps; remembers what makes counters. One read at a time."""

    def __init__(self, cgroups: Cgroups, steps_fd: int) -> None:
        self._cgroups = cgroups
        self._steps_fd = steps_fd
        self.last: dict[StepKey, StepReading] = {}

    def read(self, keys: Iterable[StepKey]) -> dict[StepKey, StepReading]:
        """Returns the usage of these steps. Blocks for some microseconds a process."""
        found = {key: self._read(key) for key in keys}
        self.last = found
        return found

    def _read(self, key: StepKey) -> StepReading:
        pids = self._cgroups.members(str(key)) or self._below_supervisor(key)
        cpu_us = mem_bytes = read = written = 0
        for pid in pids[:PROCESSES_MAX]:
            fields = proctree.stat_fields(pid)
            if fields is None:
                continue
            cpu_us += sum(map(int, fields[_TIMES : _TIMES + 4])) * _TICK_US
            mem_bytes += int(fields[_RSS]) * _PAGE_BYTES
            from_disk, to_disk = disk_bytes(pid)
            read += from_disk
            written += to_disk
        if (counted_us := self._cgroups.cpu_us(str(key))) is not None:
            cpu_us = counted_us
        before = self.last.get(key)
        if before is not None:
            cpu_us = max(cpu_us, before.cpu_us)
            read, written = max(read, before.read_bytes), max(written, before.written_bytes)
        return StepReading(cpu_us, mem_bytes, read, written, len(pids))

    def _below_supervisor(self, key: StepKey) -> list[int]:
        claim, _ = read_record(self._steps_fd, f"{key}/{NAME}", str(key))
        if claim is None or not claim.pid or proctree.start_time(claim.pid) != claim.pid_start:
            return []
        return list(proctree.descendants(claim.pid))


def step_families(
    readings: Mapping[StepKey, StepReading], known: Mapping[StepKey, StepLabels], suspected: Mapping[StepKey, str]
) -> list[MetricFamily]:
    """Returns the families of the steps. `suspected`: why some of them may hang."""
    texts = {key: known.get(key, StepLabels()).text(key) for key in readings}
    each = [(texts[key], found) for key, found in sorted(readings.items())]
    gauge, counter = MetricType.GAUGE, MetricType.COUNTER
    return [
        MetricFamily(
            "penstock_step_cpu_seconds", counter, "CPU time of a step", [(t, f.cpu_us / 1e6) for t, f in each]
        ),
        MetricFamily(
            "penstock_step_memory_bytes", gauge, "Resident memory of a step", [(t, f.mem_bytes) for t, f in each]
        ),
        MetricFamily(
            "penstock_step_read_bytes", counter, "Bytes read from disks", [(t, f.read_bytes) for t, f in each]
        ),
        MetricFamily(
            "penstock_step_written_bytes", counter, "Bytes written to disks", [(t, f.written_bytes) for t, f in each]
        ),
        MetricFamily(
            "penstock_step_suspected",
            gauge,
            "A step that may hang, and why: see penstock doctor",
            [(known.get(key, StepLabels()).text(key, why=suspected[key]), 1) for key in readings if key in suspected],
        ),
        MetricFamily("penstock_step_processes", gauge, "Processes of a step", [(t, f.processes) for t, f in each]),
    ]
