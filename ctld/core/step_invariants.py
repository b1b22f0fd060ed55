"""What must always be true of a job's steps. Called by invariants.py for jobs that have started some."""

from ctld.core.model import Job, NodeAlloc
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, StepPart
from ctld.core.stepdesk import StepDesk, holding
from ctld.core.violation import need
from penstock.values.states import END_STATES, HOLDING_STATES


def check_ports(state: ClusterState) -> None:
    """Each port of a node belongs to one job or one step. Raises Violation."""
    found: dict[str, list[int]] = {}
    for job_id, port in state.master_ports.items():
        for part in state.jobs[job_id].alloc:
            found.setdefault(part.node, []).append(port)
    for desk in state.desks.values():
        for step in desk.live.values():
            if isinstance(step, SpreadStep) and step.ports:
                for place in step.all_parts:
                    found.setdefault(place.node, []).extend(step.ports)
    known = {node: sorted(ports) for node, ports in state.ports.items()}
    need({node: sorted(ports) for node, ports in found.items()} == known, f"ports {found}, taken {known}")


def check_steps(state: ClusterState, job: Job) -> None:
    """Raise Violation at the first thing that is wrong."""
    name = f"job {job.job_id}"
    desk = state.desks.get(job.job_id)
    need(desk is None or job.state in HOLDING_STATES, f"{name}: a desk in {job.state.name}")
    alloc = {part.node: part for part in job.alloc}
    for step in job.steps.values():
        if isinstance(step, SpreadStep):
            _check_step(step, alloc)
            if not job.suspended_at_us:  # it may have got other cpus when it went on; steps stay on theirs
                _check_cpus(step, alloc)
    if desk is None:
        return
    live = {step_id: step for step_id, step in job.steps.items() if step.state not in END_STATES}
    need(desk.live == live, f"{name}: live steps {sorted(desk.live)}, not {sorted(live)}")
    need(all(step_id < desk.next_id for step_id in job.steps), f"{name}: next step {desk.next_id} is there already")
    again = StepDesk(job.steps.values())
    need(again.held == desk.held, f"{name}: steps hold {again.held}, counted {desk.held}")
    _check_held(job, alloc)


def _check_step(step: SpreadStep, alloc: dict[str, NodeAlloc]) -> None:
    name = f"step {step.job_id}.{step.step_id}"
    live = sum(part.state not in END_STATES for part in step.all_parts)
    need(live == step.live, f"{name}: {live} live parts, {step.live} counted")
    need((step.state in END_STATES) == (not live), f"{name}: {step.state.name} with {live} live parts")
    for part in step.all_parts:
        need(part.node in alloc, f"{name}: on {part.node}, which is none of the job's")
        need(part.cpus <= alloc[part.node].cpus, f"{name}: more cpus on {part.node} than the job")
        devices = {(kind, type_): mask for kind, type_, mask in alloc[part.node].gres}
        for kind, type_, mask in part.gres if part.state not in END_STATES else ():
            need(not mask & ~devices.get((kind, type_), 0), f"{name}: foreign {kind} on {part.node}")
    ranks = sorted(rank for part in step.all_parts for rank in part.ranks)
    need(ranks == list(range(step.tasks)), f"{name}: ranks {ranks[:20]}")


def _check_cpus(step: SpreadStep, alloc: dict[str, NodeAlloc]) -> None:
    for part in step.all_parts:
        mine = alloc[part.node].cpu_ids
        need(not mine or not part.cpu_ids & ~mine, f"step {step.job_id}.{step.step_id}: foreign cpus on {part.node}")


def _check_held(job: Job, alloc: dict[str, NodeAlloc]) -> None:
    """No cpu, device or memory is given to two steps that do not share."""
    cpus: dict[str, int] = {}
    ids: dict[str, int] = {}
    mem_mb: dict[str, int] = {}
    devices: dict[tuple[str, str, str], int] = {}
    for step, part in _holders(job):
        node, found = part.node, holding(step, part)
        assert found is not None
        need(not ids.get(node, 0) & found.cpu_ids, f"step {step.job_id}.{step.step_id}: a cpu of {node} given twice")
        ids[node] = ids.get(node, 0) | found.cpu_ids
        cpus[node] = cpus.get(node, 0) + found.cpus
        mem_mb[node] = mem_mb.get(node, 0) + found.mem_mb
        for name, type_, mask in found.gres:
            key = (node, name, type_)
            need(not devices.get(key, 0) & mask, f"step {step.job_id}.{step.step_id}: {name} of {node} given twice")
            devices[key] = devices.get(key, 0) | mask
    for node, count in cpus.items():
        need(count <= alloc[node].cpus, f"job {job.job_id}: steps have {count} cpus of {node}")
        need(mem_mb[node] <= alloc[node].mem_mb, f"job {job.job_id}: steps have {mem_mb[node]} MB of {node}")


def _holders(job: Job) -> list[tuple[SpreadStep, StepPart]]:
    return [
        (step, part)
        for step in job.steps.values()
        if isinstance(step, SpreadStep)
        for part in step.all_parts
        if part.state not in END_STATES and holding(step, part) is not None
    ]
