"""Describes what a step waits for: for `penstock why` and `scontrol show step`. It decides nothing.

The step is planned again as if other steps used nothing of some kinds (CPUs, memory, each GRES). It waits for a
smallest set of kinds with which it would fit; of several such sets one is named.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ctld.core.demand import specialized
from ctld.core.records.job import Job
from ctld.core.records.step import SpreadStep, Unfit, UsedResources
from ctld.core.state.job_step_table import JobStepTable, PendingStep, used_by
from ctld.core.state.state import ClusterState
from ctld.core.steps.gres import implied_gres
from ctld.core.steps.plan import plan_step
from penstock.values.refusals import Code
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet

Relax = Callable[[UsedResources], UsedResources]


class WaitingStep(NamedTuple):
    """A step without an id yet. `why` is a sentence without its subject: waits for ..."""

    since_us: int
    pending: PendingStep
    why: str


def waiting_steps(state: ClusterState, job: Job) -> Iterator[WaitingStep]:
    """Returns the waiting steps of a job, in the order of arrival."""
    table = state.steps.by_job.get(job.job_id)
    for pending in table.pending.values() if table is not None else ():
        assert table is not None
        yield WaitingStep(pending.since_us, pending, _why(state, job, table, pending))


def _why(state: ClusterState, job: Job, table: JobStepTable, pending: PendingStep) -> str:
    if job.state in (JobState.CONFIGURING, JobState.SUSPENDED):
        return f"waits until the job runs; it is {job.state.name}"
    request = pending.event.request
    if pending.unfit.code is Code.PORTS_BUSY:
        count = request.resv_ports or job.request.resv_ports
        return f"waits for {count} ports (--resv-ports) that are free on all of its nodes"
    needed = _relaxations(table)
    for kind in list(needed):
        fewer = {name: without for name, without in needed.items() if name != kind}
        if _fits(state, job, table, pending, fewer):
            needed = fewer
    steps = [
        step.step_id
        for step in table.live.values()
        if isinstance(step, SpreadStep) and any(used_by(step, part) is not None for part in step.all_parts)
    ]
    own = TaskSet.of(sorted(step_id for step_id in steps if step_id >= 0)).format()
    who = f" that steps {own} of the job have" if len(steps) > 1 else f" that step {own} of the job has" if own else ""
    return f"waits for {' and '.join(needed) or 'resources'}{who}"


def _relaxations(table: JobStepTable) -> dict[str, Relax]:
    """Yields the resources used by others, each time without one kind of them."""
    used = list(table.used.values())
    found: dict[str, Relax] = {}
    if any(h.cpus for h in used):
        found["CPUs"] = lambda h: h._replace(cpus=0, cpu_ids=0)
    if any(h.mem_mb for h in used):
        found["memory"] = lambda h: h._replace(mem_mb=0)
    for name in sorted({name for h in used for name, _, mask in h.gres if mask}):
        found[f"gres/{name}"] = _without_gres(name)
    return found


def _without_gres(name: str) -> Relax:
    return lambda h: h._replace(gres=tuple(entry for entry in h.gres if entry[0] != name))


def _fits(state: ClusterState, job: Job, table: JobStepTable, pending: PendingStep, relaxed: dict[str, Relax]) -> bool:
    used = dict(table.used)
    for without in relaxed.values():
        used = {node: without(one) for node, one in used.items()}
    most = state.config.max_tasks_per_node
    try:
        plan_step(
            specialized.usable(job.request, job.alloc),
            pending.event.request,
            used,
            lambda name: state.nodes[name].inside,
            most,
            implied_gres(state, job),
        )
    except Unfit:
        return False
    return True
