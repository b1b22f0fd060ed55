"""Times and usage of a step as its node reports them, within what can be true.

The runtime has translated them from the node's time (ctld/agents/nodetime.py); but a node may say anything, and one of an
earlier release has only a clock. The end may be that of the job, of which its charge, its purge and its history follow: it
lies between the step's launch and now, by the controller's clock, and a report that would not is moved, with its duration.
A step has used no more CPU time than all threads of the node had between the two, and of the rest no more than any
machine has, or can do in that time (`MOST`): what is reported beyond is left out.
"""

from typing import Final, NamedTuple

import msgspec

from ctld.core.records.events import StepExited
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.step import SpreadStep, Step
from penstock.values.numbers import INT64_MAX

_Metric = tuple[int, int, int, int, int, int]  # kind, total, highest, its task, lowest, its task

#: CPU time is sampled and rounded, and a step's first and last moments are not in its times.
TOLERANCE_US: Final = 1_000_000
#: UsageMetric.Kind (proto/penstock/v1/common.proto).
CPU_MS, RSS_KB, VMSIZE_KB, PAGE_FAULTS, READ_BYTES, WRITE_BYTES = range(1, 7)
GPU_UTIL, GPU_MEM_KB, ENERGY_J, GPU_MEM_HELD_KB, ENERGY_ESTIMATED_J = range(7, 12)


class Most(NamedTuple):
    """The most of a figure that a step can have on one node: so much at once, or in each second."""

    at_once: int = 0
    a_second: int = 0

    def in_time(self, lasted_us: int) -> int:
        """Returns the most for a step that lasted so long."""
        return self.at_once + self.a_second * (lasted_us + TOLERANCE_US) // 1_000_000


_MEMORY: Final = Most(at_once=1 << 40)  # 1 PiB in KiB, as for requests
_DISKS: Final = Most(a_second=1 << 40)  # 1 TiB
_POWER: Final = Most(a_second=200_000)  # 200 kW
#: Far above what machines have or do. CPU time is the node's own (`_cpu_time`); a sum over processes counts shared memory
#: several times, and the address space of a process may be 2**57 bytes.
MOST: Final = {
    RSS_KB: _MEMORY,
    VMSIZE_KB: Most(at_once=1 << 57),
    PAGE_FAULTS: Most(a_second=10**10),
    READ_BYTES: _DISKS,
    WRITE_BYTES: _DISKS,
    GPU_UTIL: Most(at_once=100 * 1024),  # percent of each GPU or instance
    GPU_MEM_KB: _MEMORY,
    ENERGY_J: _POWER,
    GPU_MEM_HELD_KB: _MEMORY,
    ENERGY_ESTIMATED_J: _POWER,
}


def earliest_start(job: Job, step: Step) -> int:
    """Returns a time before which the step has not started, by the controller's clock."""
    return max(job.start_at_us, step.submit_at_us) if isinstance(step, SpreadStep) else job.start_at_us


def start_of(at_us: int, earliest_us: int, now_us: int) -> int:
    """Returns a reported start that is neither before the launch nor in the future."""
    return min(max(at_us, earliest_us), now_us)


def end_of(event: StepExited, earliest_us: int, now_us: int) -> StepExited:
    """Returns the report with a start and an end between `earliest_us` and now, which last as long as they did if that
    fits. A start of 0 = it has not started.
    """
    start_us, end_us = event.start_at_us, event.end_at_us
    lasted_us = max(0, end_us - start_us) if start_us else 0
    end_us = start_of(end_us, earliest_us, now_us)
    if start_us:
        start_us = start_of(min(start_us, end_us - lasted_us), earliest_us, now_us)
        end_us = min(start_us + lasted_us, now_us)
    if (start_us, end_us) == (event.start_at_us, event.end_at_us):
        return event
    return msgspec.structs.replace(event, start_at_us=start_us, end_at_us=end_us)


def usage_of(event: StepExited, node: Node) -> StepExited:
    """Returns the report with usage that the node can have had between its start and its end."""
    lasted_us = max(0, event.end_at_us - event.start_at_us) if event.start_at_us else 0
    cpu_us = _cpu_time(node, lasted_us)
    user_us = min(event.user_cpu_us, cpu_us)
    most = {kind: limit.in_time(lasted_us) for kind, limit in MOST.items()} | {CPU_MS: cpu_us // 1000}
    figures = {
        "user_cpu_us": user_us,
        "system_cpu_us": min(event.system_cpu_us, cpu_us - user_us),
        "max_rss_kb": min(event.max_rss_kb, most[RSS_KB]),
        "max_vmsize_kb": min(event.max_vmsize_kb, most[VMSIZE_KB]),
        "disk_read_bytes": min(event.disk_read_bytes, most[READ_BYTES]),
        "disk_write_bytes": min(event.disk_write_bytes, most[WRITE_BYTES]),
    }
    metrics = tuple(_metric(one, most.get(one[0], INT64_MAX)) for one in event.metrics)
    if metrics == event.metrics and all(getattr(event, name) == figure for name, figure in figures.items()):
        return event
    return msgspec.structs.replace(event, **figures, metrics=metrics)


def _metric(metric: _Metric, most: int) -> _Metric:
    kind, total, high, high_task, low, low_task = metric
    return kind, min(total, most), min(high, most), high_task, min(low, most), low_task


def _cpu_time(node: Node, lasted_us: int) -> int:
    """Returns the CPU time of all threads of the node in that time."""
    config = node.config
    threads = max(config.cpus, config.sockets * config.cores_per_socket * config.threads_per_core)
    return threads * lasted_us + TOLERANCE_US
