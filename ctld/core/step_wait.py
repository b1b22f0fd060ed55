"""What a step waits for, in words: for `penstock why` and `scontrol show step`. It decides nothing.

The step is planned again as if other steps kept nothing of some kinds (CPUs, memory, each GRES). It waits for the kinds
without which it would still have no place; of several such sets one is named.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ctld.core.model import Job
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep
from ctld.core.step_plan import Held, Unfit, plan_step
from ctld.core.stepdesk import StepDesk, Wish, holding
from penstock.values.refusals import Code
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet

Relax = Callable[[Held], Held]


class WaitingStep(NamedTuple):
    """A step that has no number yet. `why` is a sentence without its subject: waits for ..."""

    since_us: int
    wish: Wish
    why: str


def waiting_steps(state: ClusterState, job: Job) -> Iterator[WaitingStep]:
    """Those of a job, in the order in which they came."""
    desk = state.desks.get(job.job_id)
    for wish in desk.wishes.values() if desk is not None else ():
        assert desk is not None
        yield WaitingStep(wish.since_us, wish, _why(state, job, desk, wish))


def _why(state: ClusterState, job: Job, desk: StepDesk, wish: Wish) -> str:
    if job.state in (JobState.CONFIGURING, JobState.SUSPENDED):
        return f"waits until the job runs; it is {job.state.name}"
    request = wish.event.request
    if wish.unfit.code is Code.PORTS_BUSY:
        count = request.resv_ports or job.request.resv_ports
        return f"waits for {count} ports (--resv-ports) that are free on all of its nodes"
    needed = _relaxations(desk)
    for kind in list(needed):
        fewer = {name: without for name, without in needed.items() if name != kind}
        if _fits(state, job, desk, wish, fewer):
            needed = fewer
    steps = [
        step.step_id
        for step in desk.live.values()
        if isinstance(step, SpreadStep) and any(holding(step, part) is not None for part in step.all_parts)
    ]
    own = TaskSet.of(sorted(step_id for step_id in steps if step_id >= 0)).format()
    who = f" that steps {own} of the job have" if len(steps) > 1 else f" that step {own} of the job has" if own else ""
    return f"waits for {' and '.join(needed) or 'resources'}{who}"


def _relaxations(desk: StepDesk) -> dict[str, Relax]:
    """What others keep, and how it would be without one kind of it."""
    held = list(desk.held.values())
    found: dict[str, Relax] = {}
    if any(h.cpus for h in held):
        found["CPUs"] = lambda h: h._replace(cpus=0, cpu_ids=0)
    if any(h.mem_mb for h in held):
        found["memory"] = lambda h: h._replace(mem_mb=0)
    for name in sorted({name for h in held for name, _, mask in h.gres if mask}):
        found[f"gres/{name}"] = _without_gres(name)
    return found


def _without_gres(name: str) -> Relax:
    return lambda h: h._replace(gres=tuple(entry for entry in h.gres if entry[0] != name))


def _fits(state: ClusterState, job: Job, desk: StepDesk, wish: Wish, relaxed: dict[str, Relax]) -> bool:
    held = dict(desk.held)
    for without in relaxed.values():
        held = {node: without(one) for node, one in held.items()}
    most = state.config.max_tasks_per_node
    try:
        plan_step(job.alloc, wish.event.request, held, lambda name: state.nodes[name].inside, most)
    except Unfit:
        return False
    return True
