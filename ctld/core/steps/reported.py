"""Times and CPU time of a step as its node reports them, within what can be true.

The runtime has translated them from the node's time (ctld/agents/nodetime.py); but a node may say anything, and one of an
earlier release has only a clock. The end may be that of the job, of which its charge, its purge and its history follow: it
lies between the step's launch and now, by the controller's clock, and a report that would not is moved, with its duration.
A step has used no more CPU time than all threads of the node had between the two: what is reported beyond is left out.
"""

from typing import Final

import msgspec

from ctld.core.records.events import StepExited
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.step import SpreadStep, Step

#: CPU time is sampled and rounded, and a step's first and last moments are not in its times.
CPU_TOLERANCE_US: Final = 1_000_000
#: UsageMetric.CPU_MS (proto/penstock/v1/common.proto).
CPU_MS: Final = 1


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


def cpu_of(event: StepExited, node: Node) -> StepExited:
    """Returns the report with CPU time that the node's threads can have given between its start and its end."""
    config = node.config
    threads = max(config.cpus, config.sockets * config.cores_per_socket * config.threads_per_core)
    lasted_us = event.end_at_us - event.start_at_us if event.start_at_us else 0
    most_us = threads * max(0, lasted_us) + CPU_TOLERANCE_US
    user_us = min(event.user_cpu_us, most_us)
    system_us = min(event.system_cpu_us, most_us - user_us)
    most_ms = most_us // 1000
    metrics = tuple(
        (kind, min(total, most_ms), min(high, most_ms), high_task, min(low, most_ms), low_task)
        if kind == CPU_MS
        else (kind, total, high, high_task, low, low_task)
        for kind, total, high, high_task, low, low_task in event.metrics
    )
    if (user_us, system_us, metrics) == (event.user_cpu_us, event.system_cpu_us, event.metrics):
        return event
    return msgspec.structs.replace(event, user_cpu_us=user_us, system_cpu_us=system_us, metrics=metrics)
