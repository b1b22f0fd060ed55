"""Reserves ports on nodes for jobs and steps: MASTER_PORT, and --resv-ports (MpiParams=ports=).

A job of several tasks has one port on all of its nodes, where its first rank may listen (MASTER_PORT). It is the port
at the job id modulo the size of the range, or the next that no other job has on one of the nodes. A step with
--resv-ports has so many more on all of its nodes; they are stored in its row.

Only Penstock's own jobs are counted: a daemon that listens in this range is not known here. The job's port is not in
the database. After a restart of the controller ports are assigned again, if possible the same ones. A different port
affects only steps that start later, and within a step rank 0 announces it to the others.
"""

from ctld.core.records.job import Job
from ctld.core.records.step import SpreadStep, Unfit
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code


def wants_port(job: Job) -> bool:
    """Whether the job's tasks may need a port to find each other."""
    return len(job.alloc) > 1 or job.request.ntasks > 1


def give_job(state: ClusterState, job: Job) -> None:
    """Assigns a port to a job that starts; none when none is free."""
    if not wants_port(job):
        return
    first, last = state.config.mpi_ports
    count = last - first + 1
    nodes = [part.node for part in job.alloc]
    taken = [ports for node in nodes if (ports := state.steps.ports.get(node))]
    for i in range(count):
        port = first + (job.job_id + i) % count
        for ports in taken:
            if port in ports:
                break
        else:
            state.steps.master_ports[job.job_id] = port
            _take(state, nodes, (port,))
            return


def take_back(state: ClusterState, job: Job) -> None:
    """Frees the port of a job that has released its nodes."""
    port = state.steps.master_ports.pop(job.job_id, 0)
    if port:
        _free(state, [part.node for part in job.alloc], (port,))


def leave(state: ClusterState, job: Job, nodes: tuple[str, ...]) -> None:
    """Frees the port of a job on nodes that it has released while it continues."""
    port = state.steps.master_ports.get(job.job_id, 0)
    if port:
        _free(state, list(nodes), (port,))


def find(state: ClusterState, nodes: tuple[str, ...], count: int) -> tuple[int, ...]:
    """Finds so many ports that are free on all of these nodes. Raises Unfit."""
    first, last = state.config.mpi_ports
    if count > last - first + 1:
        raise Unfit(Code.PORTS_INVALID, f"{count} of {last - first + 1}")
    taken = [state.steps.ports[node] for node in nodes if node in state.steps.ports]
    free: list[int] = []
    for port in range(first, last + 1):
        if len(free) == count:
            break
        if not any(port in some for some in taken):
            free.append(port)
    if len(free) < count:
        raise Unfit(Code.PORTS_BUSY)
    return tuple(free)


def give_step(state: ClusterState, step: SpreadStep, ports: tuple[int, ...]) -> None:
    """Reserves these ports for a step on all of its nodes until it ends."""
    step.ports = ports
    _take(state, [part.node for part in step.all_parts], ports)


def step_ended(state: ClusterState, step: SpreadStep) -> None:
    """Frees the ports of a step; their numbers stay in its record."""
    if step.ports:
        _free(state, [part.node for part in step.all_parts], step.ports)


def _take(state: ClusterState, nodes: list[str], ports: tuple[int, ...]) -> None:
    for node in nodes if ports else ():
        state.steps.ports.setdefault(node, {}).update(dict.fromkeys(ports))


def _free(state: ClusterState, nodes: list[str], ports: tuple[int, ...]) -> None:
    state.steps.serve_port_waiters()
    for node in nodes:
        taken = state.steps.ports.get(node, {})
        for port in ports:
            taken.pop(port, None)
        if not taken:
            state.steps.ports.pop(node, None)
