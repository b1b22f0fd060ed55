"""Invariants of a job's steps. Called by invariants.py for jobs that have started some."""

from ctld.core.demand import specialized
from ctld.core.records.job import Job
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import SpreadStep, StepPart
from ctld.core.records.violation import need
from ctld.core.state.job_step_table import JobStepTable, used_by
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, END_STATES


def check_ports(state: ClusterState) -> None:
    """Checks that each port of a node belongs to one job or one step. Raises Violation."""
    found: dict[str, list[int]] = {}
    for job_id, port in state.steps.master_ports.items():
        for part in state.jobs[job_id].alloc:
            found.setdefault(part.node, []).append(port)
    for table in state.steps.by_job.values():
        for step in table.live.values():
            if isinstance(step, SpreadStep) and step.ports:
                for piece in step.all_parts:
                    found.setdefault(piece.node, []).extend(step.ports)
    known = {node: sorted(ports) for node, ports in state.steps.ports.items()}
    need({node: sorted(ports) for node, ports in found.items()} == known, f"ports {found}, taken {known}")


def check_steps(state: ClusterState, job: Job) -> None:
    """Raises Violation at the first inconsistency."""
    name = f"job {job.job_id}"
    table = state.steps.by_job.get(job.job_id)
    need(table is None or job.state in ALLOCATED_STATES, f"{name}: a step table in {job.state.name}")
    alloc = {part.node: part for part in specialized.usable(job.request, job.alloc)}
    for step in job.steps.values():
        if isinstance(step, SpreadStep):
            _check_step(step, alloc)
            _check_cpus(step, alloc)
    if table is None:
        return
    live = {step_id: step for step_id, step in job.steps.items() if step.state not in END_STATES}
    need(table.live == live, f"{name}: live steps {sorted(table.live)}, not {sorted(live)}")
    need(all(step_id < table.next_id for step_id in job.steps), f"{name}: next step {table.next_id} is there already")
    again = JobStepTable(job.steps.values())
    need(again.used == table.used, f"{name}: steps use {again.used}, counted {table.used}")
    _check_used(job, alloc)


def _check_step(step: SpreadStep, alloc: dict[str, NodeAlloc]) -> None:
    name = f"step {step.job_id}.{step.step_id}"
    live = sum(part.state not in END_STATES for part in step.all_parts)
    need(live == step.live, f"{name}: {live} live parts, {step.live} counted")
    need((step.state in END_STATES) == (not live), f"{name}: {step.state.name} with {live} live parts")
    for part in step.all_parts:
        if part.state in END_STATES and part.node not in alloc:
            continue  # the job has released the node since
        need(part.node in alloc, f"{name}: on {part.node}, which is not one of the job's")
        need(part.cpus <= alloc[part.node].cpus, f"{name}: more cpus on {part.node} than the job")
        devices = {(kind, type_): mask for kind, type_, mask in alloc[part.node].gres}
        for kind, type_, mask in part.gres if part.state not in END_STATES else ():
            need(not mask & ~devices.get((kind, type_), 0), f"{name}: foreign {kind} on {part.node}")
    ranks = sorted(rank for part in step.all_parts for rank in part.ranks)
    need(ranks == list(range(step.tasks)), f"{name}: ranks {ranks[:20]}")


def _check_cpus(step: SpreadStep, alloc: dict[str, NodeAlloc]) -> None:
    for part in step.all_parts:  # the job may have moved since one has ended
        mine = alloc[part.node].cpu_ids if part.node in alloc and part.state not in END_STATES else 0
        need(not mine or not part.cpu_ids & ~mine, f"step {step.job_id}.{step.step_id}: foreign cpus on {part.node}")


def _check_used(job: Job, alloc: dict[str, NodeAlloc]) -> None:
    """Checks that no cpu, device or memory is allocated to two steps that do not share."""
    cpus: dict[str, int] = {}
    ids: dict[str, int] = {}
    mem_mb: dict[str, int] = {}
    devices: dict[tuple[str, str, str], int] = {}
    for step, part in _exclusive_parts(job):
        node, found = part.node, used_by(step, part)
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


def _exclusive_parts(job: Job) -> list[tuple[SpreadStep, StepPart]]:
    return [
        (step, part)
        for step in job.steps.values()
        if isinstance(step, SpreadStep)
        for part in step.all_parts
        if part.state not in END_STATES and used_by(step, part) is not None
    ]
