"""What a step waits for, in words: for `penstock why` and `scontrol show step`. It decides nothing.

The step is planned again as if other steps kept nothing of one kind (CPUs, memory, one GRES). Where that is enough, this
kind is what it waits for; where no single one is, it waits for all that others keep.
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
    kinds = [name for name, without in _relaxations(desk) if _fits(state, job, desk, wish, without)]
    if not kinds:
        kinds = [name for name, _ in _relaxations(desk)]
    steps = [
        step.step_id
        for step in desk.live.values()
        if isinstance(step, SpreadStep) and any(holding(step, part) is not None for part in step.all_parts)
    ]
    own = TaskSet.of(sorted(step_id for step_id in steps if step_id >= 0)).format()
    who = f" that steps {own} of the job have" if len(steps) > 1 else f" that step {own} of the job has" if own else ""
    return f"waits for {' and '.join(kinds) or 'resources'}{who}"


def _relaxations(desk: StepDesk) -> list[tuple[str, Callable[[Held], Held]]]:
    """What others keep, and how it would be without one kind of it."""
    held = list(desk.held.values())
    found: list[tuple[str, Callable[[Held], Held]]] = []
    if any(h.cpus for h in held):
        found.append(("CPUs", lambda h: h._replace(cpus=0, cpu_ids=0)))
    if any(h.mem_mb for h in held):
        found.append(("memory", lambda h: h._replace(mem_mb=0)))
    for name in sorted({name for h in held for name, _, mask in h.gres if mask}):
        found.append((f"gres/{name}", lambda h, n=name: h._replace(gres=tuple(g for g in h.gres if g[0] != n))))  # type: ignore[misc]
    return found


def _fits(state: ClusterState, job: Job, desk: StepDesk, wish: Wish, without: Callable[[Held], Held]) -> bool:
    held = {node: without(one) for node, one in desk.held.items()}
    most = state.config.max_tasks_per_node
    try:
        plan_step(job.alloc, wish.event.request, held, lambda name: state.nodes[name].inside, most)
    except Unfit:
        return False
    return True
