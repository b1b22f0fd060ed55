"""Why a job waits: the planner's reasons. Each reason in words is in `penstock.values.reasons`.

The planner's reasons are derived data: they are written only when they change, and jobs that are merely behind others
keep `Priority`, so that a pass over 100,000 jobs touches a few.
"""

from collections.abc import Iterable

from _fastsched import contract
from ctld.core.model import Job
from ctld.core.ready import set_reason
from ctld.core.shapes import bits_of, mask_bits
from ctld.core.state import CLOSED_FLAGS, ClusterState
from penstock.values.hostlist import compress
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState, Reason

#: Slurm's words behind ReqNodeNotAvail.
MAINTENANCE = "Reserved for maintenance"
#: What the planner says, as Slurm's reason.
PLANNED = {
    contract.RESOURCES: Reason.RESOURCES,
    contract.PRIORITY: Reason.PRIORITY,
    contract.NODES_DOWN: Reason.REQ_NODE_NOT_AVAIL,
    contract.BAD_CONSTRAINTS: Reason.BAD_CONSTRAINTS,
    contract.LICENSES: Reason.LICENSES,
    contract.RESERVED: Reason.RESERVATION,
    contract.PREEMPTING: Reason.RESOURCES,
    contract.DEADLINE: Reason.DEADLINE,
}


def apply_reasons(
    state: ClusterState, now_us: int, reasons: Iterable[tuple[int, int]], seen: Iterable[int] | None
) -> None:
    """Give ready jobs the planner's reasons. `seen`: the jobs that the pass looked at, None = all.

    `reasons` leaves out `Priority`: a job that the pass saw and that is not among them is merely behind others. What this
    costs goes with what the pass saw, not with how many jobs have some other reason.
    """
    told: dict[int, None] = {}
    closed: dict[int, str] = {}
    kept = _kept(state)
    for job_id, reason in reasons:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            continue
        planned = PLANNED[reason]
        if planned is Reason.RESERVATION and job_id in told:
            continue  # one of its alternatives waits for something nearer
        told[job_id] = None
        detail = _closed_nodes(state, job, closed) if planned is Reason.REQ_NODE_NOT_AVAIL else ""
        if planned is Reason.RESERVATION and _waits_for_maintenance(state, job, kept):
            planned, detail = Reason.REQ_NODE_NOT_AVAIL, MAINTENANCE
        _tell(state, job, planned, detail)
    flagged = state.flagged
    for job_id in list(flagged) if seen is None else [job_id for job_id in seen if job_id in flagged]:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            flagged.pop(job_id, None)
        elif job_id not in told:
            _tell(state, job, Reason.PRIORITY)


def _tell(state: ClusterState, job: Job, reason: Reason, detail: str = "") -> None:
    if reason is Reason.PRIORITY:
        state.flagged.pop(job.job_id, None)
    else:
        state.flagged[job.job_id] = None
    set_reason(state, job, reason, detail)


def _kept(state: ClusterState) -> tuple[int, int]:
    """Bit maps of the nodes that MAINT reservations keep, and others: one look for a whole pass."""
    maintained = others = 0
    for reservation in state.reservations.values():
        bits = bits_of(state.nodes[part.node] for part in reservation.parts if part.node in state.nodes)
        if reservation.flags & ResvFlag.MAINT:
            maintained |= bits
        else:
            others |= bits
    return maintained, others


def _waits_for_maintenance(state: ClusterState, job: Job, kept: tuple[int, int]) -> bool:
    """True when all reservations that keep nodes which the job could have are for maintenance."""
    if job.request.reservation:
        return False
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    return bool(bits & kept[0]) and not bits & kept[1]


def _closed_nodes(state: ClusterState, job: Job, known: dict[int, str]) -> str:
    """Names the nodes that the job could use if they were open.

    Few sets of nodes stand for many jobs: `known` holds the texts of this pass by set, so that 100,000 jobs that wait
    for 1,000 nodes cost a look-up each.
    """
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    text = known.get(bits)
    if text is None:
        names = [node.name for node in state.node_list if bits >> node.index & 1 and node.flags & CLOSED_FLAGS]
        text = known[bits] = f"UnavailableNodes:{compress(names)}"
    return text
