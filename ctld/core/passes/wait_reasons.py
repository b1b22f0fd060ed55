"""Sets the reasons of waiting jobs from the planner's answers. The sentence for each reason is in
`penstock.values.reasons`.

The planner's reasons are derived data: they are written only when they change, and jobs that are merely behind others
keep `Priority`, so that a pass over 100,000 jobs touches a few.
"""

from collections.abc import Sequence

from _fastsched import contract
from ctld.core.gpus import work as gpu_work
from ctld.core.lifecycle.waiting import set_reason
from ctld.core.limits import node_limits
from ctld.core.queue.shapes import bits_of, mask_bits
from ctld.core.records.job import Job
from ctld.core.state.reason_backlog import ReasonBacklog
from ctld.core.state.shares import GPU
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from ctld.core.state.timers import Timer
from penstock.values.gres import SHARED_NAMES
from penstock.values.hostlist import compress
from penstock.values.reasons import NODES_NOT_FREE
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState, Reason

#: Jobs whose reasons are written in one batch: some 2 ms of the loop, and as many rows.
REASONS_PER_BATCH = 1_000

#: Maximum number of nodes in a reason about GPUs.
WORKS_NAMED_MAX = 4

#: Slurm's text after ReqNodeNotAvail.
MAINTENANCE = "Reserved for maintenance"
#: Of a job that names nodes.
RESERVED = "May be reserved for other job"
#: The planner's reasons as Slurm's.
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


def _write_slice(state: ClusterState, backlog: ReasonBacklog, most: int) -> None:
    """Writes the next slice of reasons."""
    kept = _kept(state)
    reasons, flagged = backlog.next_slice(most)
    for job_id, reason in reasons:
        _give(state, backlog, job_id, PLANNED[reason], kept)
    for job_id in flagged:
        _take_back(state, backlog, job_id)


def _give(state: ClusterState, backlog: ReasonBacklog, job_id: int, reason: Reason, kept: tuple[int, int]) -> None:
    job = state.jobs.look(job_id)
    if job is None or not _waits(state, job) or job_id in backlog.newer:
        return
    if reason in (Reason.RESERVATION, Reason.BAD_CONSTRAINTS) and job_id in backlog.written:
        return  # one of its alternatives waits for something nearer
    backlog.written[job_id] = None
    detail = _closed_nodes(state, job, backlog.closed) if reason is Reason.REQ_NODE_NOT_AVAIL else ""
    if job_id in backlog.left_out:
        reason, detail = Reason.RESOURCES, NODES_NOT_FREE
    elif reason is Reason.RESERVATION and _waits_for_maintenance(state, job, kept):
        reason, detail = Reason.REQ_NODE_NOT_AVAIL, MAINTENANCE
    elif reason is Reason.RESERVATION and job.request.nodes_required and not job.request.reservation:
        reason, detail = Reason.REQ_NODE_NOT_AVAIL, RESERVED
    elif reason is Reason.RESOURCES and state.gpus.works:
        detail = _gpus_worked_on(state, job)
    _set_reason(state, job, reason, detail)


def _take_back(state: ClusterState, backlog: ReasonBacklog, job_id: int) -> None:
    job = state.jobs.look(job_id)
    if job is None or not _waits(state, job):
        state.scheduling.flagged.drop(job_id)
    elif job_id not in backlog.written and job_id not in backlog.newer:
        _set_reason(state, job, Reason.PRIORITY)


def _waits(state: ClusterState, job: Job) -> bool:
    return job.state is JobState.PENDING and state.pending.is_ready(job.job_id)


def apply_reasons(
    state: ClusterState,
    now_us: int,
    reasons: Sequence[tuple[int, int]],
    seen: Sequence[int] | None,
    left_out: frozenset[int] = frozenset(),
) -> None:
    """Sets the planner's reasons of ready jobs. `seen`: the jobs that the pass saw, None = all. `left_out`: those that
    wait for the first jobs of other partitions, whatever the planner says.

    `reasons` omits `Priority`: a job that the pass saw and that is absent is merely behind others. The cost depends on
    what the pass saw, not on the number of jobs with other reasons; the reasons of a pass over the whole queue are
    written in slices (`write_more_reasons`).
    """
    scheduling = state.scheduling
    flagged: list[int] = []
    if seen is None:
        flagged = scheduling.flagged.ids()
    elif scheduling.flagged:
        flagged = [job_id for job_id in seen if job_id in scheduling.flagged]
    if not reasons and not flagged and not left_out and (seen is None or scheduling.reason_backlog is None):
        scheduling.reason_backlog = None
        return
    if len(reasons) == 1 and not left_out and scheduling.reason_backlog is None and _is_set(state, reasons[0], flagged):
        return  # the same job waits first: the result of most passes
    if left_out:
        reasons = [*reasons, *((job_id, contract.RESOURCES) for job_id in sorted(left_out))]
    backlog = ReasonBacklog(reasons, flagged, left_out)
    if seen is None:
        state.scheduling.reason_backlog = backlog if len(backlog) > REASONS_PER_BATCH else None
    if backlog is not state.scheduling.reason_backlog:
        _write_slice(state, backlog, len(backlog))
        if state.scheduling.reason_backlog is not None:
            state.scheduling.reason_backlog.newer |= dict.fromkeys(seen or ())


def _is_set(state: ClusterState, said: tuple[int, int], flagged: Sequence[int]) -> bool:
    """Whether the only flagged job is this one, has this reason already, and nothing else could name another one."""
    job_id, reason = said
    if reason != contract.RESOURCES or len(flagged) != 1 or flagged[0] != job_id or state.layout.masks.fences:
        return False
    job = state.jobs[job_id]
    no_other_cause = not (state.gpus.works or state.gpus.mig_waits or state.reservations)
    return no_other_cause and job.reason is Reason.RESOURCES and not job.reason_detail


def write_more_reasons(state: ClusterState, now_us: int) -> None:
    """Writes one slice of the reasons of the last pass over the whole queue, and sets a timer that is due at once for
    the next."""
    if state.scheduling.reason_backlog is None:
        return
    _write_slice(state, state.scheduling.reason_backlog, REASONS_PER_BATCH)
    if state.scheduling.reason_backlog.is_over():
        state.scheduling.reason_backlog = None
    elif not state.scheduling.reasons_timer:
        state.scheduling.reasons_timer = True
        state.timers.set(now_us, Timer.REASONS)


def ask_again(state: ClusterState, now_us: int, key: object, check: int) -> None:
    """Handles the timer: the seal that follows writes the next slice."""
    state.scheduling.reasons_timer = False


def set_division_reasons(state: ClusterState, waits: dict[int, str]) -> None:
    """Sets and clears the reasons of jobs that wait for GPUs to be divided (mig_division.py)."""
    before = state.gpus.mig_waits
    state.gpus.mig_waits = waits
    for job_id in dict.fromkeys((*before, *waits)):
        job = state.jobs.get(job_id)
        if job is not None and _waits(state, job) and (job_id not in waits or waits[job_id] != job.reason_detail):
            _set_reason(state, job, Reason.RESOURCES)


def _set_reason(state: ClusterState, job: Job, reason: Reason, detail: str = "") -> None:
    if job.job_id in state.gpus.mig_waits and reason in (Reason.PRIORITY, Reason.RESOURCES):
        reason, detail = Reason.RESOURCES, state.gpus.mig_waits[job.job_id]
    if state.layout.masks.fences and reason in (Reason.RESOURCES, Reason.BAD_CONSTRAINTS, Reason.REQ_NODE_NOT_AVAIL):
        limit = node_limits.reason_of(state, job)
        reason, detail = (reason, detail) if limit is None else (limit, "")
    if reason is Reason.BAD_CONSTRAINTS and job.request.switches_max:
        reason = Reason.RESOURCES  # it gives up --switches after a time
    if reason is Reason.PRIORITY:
        state.scheduling.flagged.drop(job.job_id)
    else:
        state.scheduling.flagged.put(job.job_id, 0)
    set_reason(state, job, reason, detail)


def _kept(state: ClusterState) -> tuple[int, int]:
    """Returns bit maps of the nodes that MAINT reservations take, and other ones: computed once for a whole pass."""
    maintained = others = 0
    for reservation in state.reservations.values():
        bits = bits_of(state.nodes[part.node] for part in reservation.parts if part.node in state.nodes)
        if reservation.flags & ResvFlag.MAINT:
            maintained |= bits
        else:
            others |= bits
    return maintained, others


def _waits_for_maintenance(state: ClusterState, job: Job, kept: tuple[int, int]) -> bool:
    """Whether all reservations that take nodes which the job could have are for maintenance."""
    if job.request.reservation:
        return False
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    return bool(bits & kept[0]) and not bits & kept[1]


def _gpus_worked_on(state: ClusterState, job: Job) -> str:
    """Describes the work in progress on GPUs that the job could have."""
    if not any(name == GPU or name in SHARED_NAMES for name, _, _ in job.request.gres_per_node):
        return ""
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    nodes = [state.nodes[name] for name in state.gpus.works if name in state.nodes]
    works = [gpu_work.words(node) for node in nodes if bits >> node.index & 1]
    return "; ".join(works[:WORKS_NAMED_MAX]) + (
        f" and {len(works) - WORKS_NAMED_MAX} nodes more" if works[WORKS_NAMED_MAX:] else ""
    )


def _closed_nodes(state: ClusterState, job: Job, known: dict[tuple[int, bool], str]) -> str:
    """Names the nodes that the job could use if they were up; Slurm shows the names to a job that asked for them.

    Many jobs share few sets of nodes: `known` caches the texts of this pass by set, so that 100,000 jobs that wait for
    1,000 nodes cost a look-up each.
    """
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    key = bits, bool(job.request.nodes_required)
    text = known.get(key)
    if text is None:
        names = [node.name for node in state.node_list if bits >> node.index & 1 and node.flags & CLOSED_FLAGS]
        text = f"UnavailableNodes:{compress(names)}"
        known[key] = text = text if key[1] else f"{NODES_NOT_FREE} ({text})"
    return text
