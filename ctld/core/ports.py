"""Ports that jobs and steps have for themselves on their nodes: MASTER_PORT, and --resv-ports (MpiParams=ports=).

A job of several tasks has one port on all of its nodes, where its first rank may listen (MASTER_PORT). It is the port at
the job id's place in the range, or the next that no other job has on one of the nodes. A step with --resv-ports has so
many more on all of its nodes; they are kept with its row.

Only Penstock's own jobs are counted: a daemon that listens in this range is not known here. The job's port is not in the
database. After a restart of the controller each job has the port at its place again if it can; another one than before
concerns only steps that are started later, which rank 0 of the step tells the others anyway.
"""

from ctld.core.model import Job
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep
from ctld.core.step_plan import Unfit
from penstock.values.refusals import Code


def wants_port(job: Job) -> bool:
    """True for a job whose tasks may have to find each other."""
    return len(job.alloc) > 1 or job.request.ntasks > 1


def give_job(state: ClusterState, job: Job) -> None:
    """Give a job that starts its port; without one when none is free."""
    if not wants_port(job):
        return
    first, last = state.config.mpi_ports
    count = last - first + 1
    nodes = [part.node for part in job.alloc]
    for i in range(count):
        port = first + (job.job_id + i) % count
        if not any(port in state.ports.get(node, ()) for node in nodes):
            state.master_ports[job.job_id] = port
            _take(state, nodes, (port,))
            return


def take_back(state: ClusterState, job: Job) -> None:
    """The job has given its nodes back."""
    port = state.master_ports.pop(job.job_id, 0)
    if port:
        _free(state, [part.node for part in job.alloc], (port,))


def find(state: ClusterState, nodes: tuple[str, ...], count: int) -> tuple[int, ...]:
    """So many ports that are free on all of these nodes. Raises Unfit."""
    first, last = state.config.mpi_ports
    if count > last - first + 1:
        raise Unfit(Code.PORTS_INVALID, f"{count} of {last - first + 1}")
    taken = [state.ports[node] for node in nodes if node in state.ports]
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
    """The step has these ports on all of its nodes until it ends."""
    step.ports = ports
    _take(state, [part.node for part in step.all_parts], ports)


def step_ended(state: ClusterState, step: SpreadStep) -> None:
    """Its ports are free again; which they were stays in its record."""
    if step.ports:
        _free(state, [part.node for part in step.all_parts], step.ports)


def _take(state: ClusterState, nodes: list[str], ports: tuple[int, ...]) -> None:
    for node in nodes if ports else ():
        state.ports.setdefault(node, {}).update(dict.fromkeys(ports))


def _free(state: ClusterState, nodes: list[str], ports: tuple[int, ...]) -> None:
    state.steps_due.update(state.port_waiters)
    state.port_waiters.clear()
    for node in nodes:
        taken = state.ports.get(node, {})
        for port in ports:
            taken.pop(port, None)
        if not taken:
            state.ports.pop(node, None)
