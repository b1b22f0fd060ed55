"""Moves the processes of a step to other CPUs when its job is resumed: other jobs may have those on which it was suspended.

Each thread keeps its place among the step's CPUs: what ran on the second of the old ones runs on the second of the new
ones, and CPUs that the step keeps stay where they are. A thread that was bound to nothing narrower than the machine
(--cpu-bind=none without ConstrainCores) stays so. It happens while the processes are stopped, so that they never run where
they should not. Memory that they have is not moved.
"""

import contextlib
import os

from nodedaemon.base import proctree

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.cgroups.cgroup import StepGroups

#: A process that is being forked while its parent is stopped is found in the next round.
ROUNDS_MAX = 8


def move(order: "LaunchOrder", groups: "StepGroups", cpus: list[int], job_cpus: list[int]) -> None:
    """Moves the step's processes, and its order, from `order.cpu_ids` to `cpus`. Raises OSError."""
    if not order.cpu_ids or not cpus or (cpus, job_cpus) == (order.cpu_ids, order.job_cpu_ids or job_cpus):
        return
    wanted: dict[int, list[int]] = {}
    to = _mapping(order.cpu_ids, cpus)
    _note_threads(wanted, groups, to)  # before the control groups change, which also changes what threads are bound to
    if order.job_cpu_ids:
        groups.move(cpus, job_cpus)
        order.job_cpu_ids = job_cpus
    order.cpu_ids = cpus
    done: dict[int, None] = {}
    for _ in range(ROUNDS_MAX):
        threads = [thread for thread in wanted if thread not in done]
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, wanted[thread])
            done[thread] = None
        if not threads:
            break
        _note_threads(wanted, groups, to)


def _mapping(old: list[int], new: list[int]) -> dict[int, int]:
    to = {cpu: cpu for cpu in old if cpu in new}
    leaving = [cpu for cpu in old if cpu not in to]
    return to | dict(zip(leaving, [cpu for cpu in new if cpu not in to], strict=False))


def _note_threads(wanted: dict[int, list[int]], groups: "StepGroups", to: dict[int, int]) -> None:
    """Adds the threads that are not known yet, with the CPUs that they are to have."""
    for pid in dict.fromkeys((*groups.members(), *proctree.descendants(os.getpid()))):
        with contextlib.suppress(OSError):  # it has ended
            for name in os.listdir(f"/proc/{pid}/task"):
                thread = int(name)
                bound = os.sched_getaffinity(thread) if thread not in wanted else set()
                if bound and bound <= to.keys():
                    wanted[thread] = sorted(to[cpu] for cpu in bound)
