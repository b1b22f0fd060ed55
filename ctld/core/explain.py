"""Why a job waits: the planner's reasons. Each reason in words is in `penstock.values.reasons`.

The planner's reasons are derived data: they are written only when they change, and jobs that are merely behind others
keep `Priority`, so that a pass over 100,000 jobs touches a few.
"""

from collections.abc import Sequence

from _fastsched import contract
from ctld.core import gpu_work, limit_nodes
from ctld.core.model import Job
from ctld.core.ready import set_reason
from ctld.core.shapes import bits_of, mask_bits
from ctld.core.shares import GPU
from ctld.core.state import CLOSED_FLAGS, ClusterState
from ctld.core.timers import Timer
from penstock.values.gres import SHARED_NAMES
from penstock.values.hostlist import compress
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState, Reason

#: Jobs that are told in one batch: some 2 ms of the loop, and as many rows to write.
REASONS_PER_BATCH = 1_000

#: Nodes of whose GPUs a job is told.
WORKS_TOLD_MAX = 4

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


class Telling:
    """What a pass said, and how far the jobs have been told: first the reasons, then `Priority` for the other flagged ones.

    Told in slices, one a batch: when the nodes of 100,000 jobs are gone, each of them gets a reason, a row to write and
    a place in the readers' view, and nobody waits for all of that. A job that a later pass has told about is left out.
    """

    __slots__ = ("_at", "_closed", "_flagged", "_reasons", "newer", "told")

    def __init__(self, reasons: Sequence[tuple[int, int]], flagged: Sequence[int]) -> None:
        self._reasons, self._flagged = reasons, flagged
        self._at = 0  # how many of both have been looked at
        self._closed: dict[int, str] = {}
        self.told: dict[int, None] = {}
        self.newer: dict[int, None] = {}  # jobs that a later pass has told

    def __len__(self) -> int:
        return len(self._reasons) + len(self._flagged)

    def some(self, state: ClusterState, most: int) -> bool:
        """Look at so many more. True when nothing is left."""
        begin, end, split = self._at, self._at + most, len(self._reasons)
        kept = _kept(state)
        for job_id, reason in self._reasons[begin:end]:
            self._give(state, job_id, PLANNED[reason], kept)
        for job_id in self._flagged[max(begin - split, 0) : max(end - split, 0)]:
            self._take_back(state, job_id)
        self._at = end
        return end >= len(self)

    def _give(self, state: ClusterState, job_id: int, reason: Reason, kept: tuple[int, int]) -> None:
        job = state.jobs.get(job_id)
        if job is None or not _waits(state, job) or job_id in self.newer:
            return
        if reason is Reason.RESERVATION and job_id in self.told:
            return  # one of its alternatives waits for something nearer
        self.told[job_id] = None
        detail = _closed_nodes(state, job, self._closed) if reason is Reason.REQ_NODE_NOT_AVAIL else ""
        if reason is Reason.RESERVATION and _waits_for_maintenance(state, job, kept):
            reason, detail = Reason.REQ_NODE_NOT_AVAIL, MAINTENANCE
        if reason is Reason.RESOURCES and state.gpu_works:
            detail = _gpus_worked_on(state, job)
        _tell(state, job, reason, detail)

    def _take_back(self, state: ClusterState, job_id: int) -> None:
        job = state.jobs.get(job_id)
        if job is None or not _waits(state, job):
            state.flagged.pop(job_id, None)
        elif job_id not in self.told and job_id not in self.newer:
            _tell(state, job, Reason.PRIORITY)


def _waits(state: ClusterState, job: Job) -> bool:
    return job.state is JobState.PENDING and state.pending.is_ready(job.job_id)


def apply_reasons(
    state: ClusterState, now_us: int, reasons: Sequence[tuple[int, int]], seen: Sequence[int] | None
) -> None:
    """Give ready jobs the planner's reasons. `seen`: the jobs that the pass looked at, None = all.

    `reasons` leaves out `Priority`: a job that the pass saw and that is not among them is merely behind others. What this
    costs goes with what the pass saw, not with how many jobs have some other reason; and what a pass over the whole
    queue says is told in slices (`tell_more`).
    """
    flagged = state.flagged
    telling = Telling(reasons, list(flagged) if seen is None else [job_id for job_id in seen if job_id in flagged])
    if seen is None:
        state.telling = telling if len(telling) > REASONS_PER_BATCH else None
    if telling is not state.telling:
        telling.some(state, len(telling))
        if state.telling is not None:
            state.telling.newer |= dict.fromkeys(seen or ())


def tell_more(state: ClusterState, now_us: int) -> None:
    """One slice of what the last pass over the whole queue said; a timer that is due at once asks for the next."""
    if state.telling is None:
        return
    if state.telling.some(state, REASONS_PER_BATCH):
        state.telling = None
    elif not state.telling_timer:
        state.telling_timer = True
        state.timers.set(now_us, Timer.TELLING)


def ask_again(state: ClusterState, now_us: int, key: object, check: int) -> None:
    """The timer: what it led to, a seal, tells the next slice."""
    state.telling_timer = False


def tell_divisions(state: ClusterState, waits: dict[int, str]) -> None:
    """Which jobs wait for GPUs to be divided, in words (mig.py); the others do not any more."""
    before, state.mig_waits = state.mig_waits, waits
    for job_id in dict.fromkeys((*before, *waits)):
        job = state.jobs.get(job_id)
        if job is not None and _waits(state, job) and (job_id not in waits or waits[job_id] != job.reason_detail):
            _tell(state, job, Reason.RESOURCES)


def _tell(state: ClusterState, job: Job, reason: Reason, detail: str = "") -> None:
    if job.job_id in state.mig_waits and reason in (Reason.PRIORITY, Reason.RESOURCES):
        reason, detail = Reason.RESOURCES, state.mig_waits[job.job_id]
    if state.masks.fences and reason in (Reason.RESOURCES, Reason.BAD_CONSTRAINTS, Reason.REQ_NODE_NOT_AVAIL):
        limit = limit_nodes.reason_of(state, job)
        reason, detail = (reason, detail) if limit is None else (limit, "")
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


def _gpus_worked_on(state: ClusterState, job: Job) -> str:
    """What is being done to GPUs that the job could have."""
    if not any(name == GPU or name in SHARED_NAMES for name, _, _ in job.request.gres_per_node):
        return ""
    bits = 0
    for name in job.request.partitions:
        bits |= mask_bits(state, state.partitions[name], job.request)
    nodes = [state.nodes[name] for name in state.gpu_works if name in state.nodes]
    told = [gpu_work.words(node) for node in nodes if bits >> node.index & 1]
    return "; ".join(told[:WORKS_TOLD_MAX]) + (
        f" and {len(told) - WORKS_TOLD_MAX} nodes more" if told[WORKS_TOLD_MAX:] else ""
    )


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
