"""Reclaims borrowed resources: for their owner when it wants them, or as the borrower's own when its guarantee has room
(limits/borrow.py).

A pending job that fits its account's guarantee reclaims. Where nodes are missing it may preempt borrowed jobs below the
same account, through the planner, which takes as few as it needs. Where only the GrpTRES of an account above blocks it,
which borrowed jobs below that account fill, this module preempts these: as few as suffice, or none if all of them do
not. In both cases the lowest priority and the youngest go first. They have the GraceTime of their partition or QOS and
are requeued; with PreemptMode=CANCEL they end. PreemptExemptTime does not protect borrowed jobs.

What reclaiming jobs want of a guarantee is not idle (`Lending.claims`), so that no borrower takes it in between.

When an account's use falls, its borrowed jobs become its own, the oldest first. Deliberately absent: reclaiming by
heterogeneous jobs where a limit is in the way.
"""

from collections.abc import Iterator

from ctld.core.demand.factors import tres_amounts
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import checks
from ctld.core.limits.borrow import accounts_of, amount_of, cohorts, fits, guarantee, used
from ctld.core.limits.checks import LimitBlock
from ctld.core.limits.ledger import allocated_tres, settle
from ctld.core.limits.rules import Measure
from ctld.core.passes import victims
from ctld.core.queue import preemption
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, JobState


def _is_leaving(job: Job) -> bool:
    return job.state is JobState.COMPLETING or bool(job.preempt_end_at_us)


def _become_own(state: ClusterState, now_us: int) -> None:
    """Marks borrowed jobs that fit into their accounts' guarantees now as not borrowed, the oldest first."""
    lending = state.limits.lending
    jobs = [state.jobs[job_id] for job_id in lending.borrowed if job_id in state.jobs]
    lending.borrowed = {j.job_id: cohorts(state, j) for j in jobs if j.state in ALLOCATED_STATES and j.borrowed}
    jobs = [job for i in lending.borrowed if not _is_leaving(job := state.jobs[i])]
    jobs.sort(key=lambda one: (one.start_at_us, one.job_id))
    foreign: dict[tuple[int, str], int] = {}
    amounts = []
    for job in jobs:
        tres = allocated_tres(state, job)
        amounts.append([(account, name, amount) for account in accounts_of(state, job) for name, amount in tres
                       if amount_of(account.limits.borrow, name)])  # fmt: skip
        for account, name, amount in amounts[-1]:
            foreign[account.assoc_id, name] = foreign.get((account.assoc_id, name), 0) + amount
    for job, holds in zip(jobs, amounts, strict=True):
        if all(
            used(state, account, name) - foreign[account.assoc_id, name] + amount <= (guarantee(account, name) or 0)
            for account, name, amount in holds
            if guarantee(account, name) is not None
        ):
            for account, name, amount in holds:
                foreign[account.assoc_id, name] -= amount
            job.borrowed = 0
            del lending.borrowed[job.job_id]
            state.touch(job)
            state.record(now_us, job, "its own", "its account's use has fallen")
            preemption.update_running_class(state, job)


# ---- before a pass -----------------------------------------------------------------------------------------------


def renew(state: ClusterState) -> None:
    """Determines after a change of accounts or of the configuration, or at a start, whether there is any borrowing."""
    lending = state.limits.lending
    lending.stale = False
    accounts = state.shares.accounts.values()
    lending.is_on = state.limits.ledger is not None and any(account.limits.borrow for account in accounts)
    lending.was_on = lending.was_on or lending.is_on
    lending.borrowed = {j.job_id: () for j in state.jobs.records() if j.borrowed and j.state in ALLOCATED_STATES}


def before_pass(state: ClusterState, now_us: int) -> None:
    """Determines which jobs may reclaim, what they claim, and what is borrowed now."""
    lending = state.limits.lending
    if lending.stale:
        renew(state)
    if state.limits.ledger is None or not (lending.is_on or lending.borrowed or lending.reclaimers):
        return
    if len(state.preemption.classes) > preemption.CLASSES_MAX // 2:
        preemption.lay_out(state)  # removes those without any borrower
    settle(state)
    _become_own(state, now_us)
    before = dict(lending.reclaimers)
    waiting = _claim(state)
    for job_id in lending.borrowed:
        preemption.update_running_class(state, state.jobs[job_id])
    for job_id in dict.fromkeys((*before, *lending.reclaimers)):
        job = state.jobs.get(job_id)
        if job is not None and job.state is JobState.PENDING:
            preemption.update_pending_classes(state, job)
    _make_room(state, waiting, now_us)
    _wake(state, now_us)


def _claim(state: ClusterState) -> list[Job]:
    """Claims the demand of the first pending jobs that fit the guarantees of their accounts together. Returns those
    of them that wait for a limit of an account above."""
    lending = state.limits.lending
    lending.claims = {}
    lending.reclaimers = {}
    if state.limits.ledger is None or not lending.is_on:
        return []
    rows = state.pending.first(state.scheduling.policy.quick_depth)
    ready = dict.fromkeys(state.pending.table.job[rows].tolist())
    waiting = [job_id for job_id in _under_limits(state) if job_id not in ready]
    for job_id in (*ready, *waiting):
        may = _may_reclaim(state, state.jobs[job_id])
        if may:
            lending.reclaimers[job_id] = may
    return [state.jobs[job_id] for job_id in waiting if job_id in lending.reclaimers]


def _under_limits(state: ClusterState) -> list[int]:
    """Returns the first jobs that wait for GrpTRES of accounts with borrowed jobs below them, the highest priority
    first."""
    ledger = state.limits.ledger
    assert ledger is not None
    above = {one.assoc_id: one for i in state.limits.lending.borrowed for one in accounts_of(state, state.jobs[i])}
    found: dict[int, None] = {}
    for assoc_id in above:
        book = ledger.books.get(("assoc", assoc_id))
        for (measure, _), queue in book.waits.queues.items() if book is not None else ():
            if measure == Measure.TRES:
                found |= {job_id: None for heap in queue.heaps.values() for job_id in heap.jobs}
    jobs = [state.jobs[job_id] for job_id in found if job_id in state.jobs]
    jobs = [job for job in jobs if job.state is JobState.PENDING and not job.request.het_job_id]
    jobs.sort(key=lambda job: (-job.priority, job.job_id))
    return [job.job_id for job in jobs[: state.scheduling.policy.quick_depth]]


def _may_reclaim(state: ClusterState, job: Job) -> tuple[int, ...]:
    """Returns the accounts below which a job may preempt borrowed ones; the job's demand is claimed."""
    claims = state.limits.lending.claims
    wants = tres_amounts(job.request)
    may = []
    for account in accounts_of(state, job):
        if account.parent is None or not account.limits.grp_tres:
            continue
        key = account.assoc_id
        if all(
            used(state, account, name) + claims.get((key, name), 0) + wants.get(name, 0) <= most
            for name, most in account.limits.grp_tres
        ):
            may.append(account.parent.assoc_id)
            for name, _ in account.limits.grp_tres:
                claims[key, name] = claims.get((key, name), 0) + wants.get(name, 0)
    return tuple(may)


# ---- room below a limit ----------------------------------------------------------------------------------------------


class _Room:
    """The resources of victims, less what has been promised to other pending jobs: by account and TRES."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._freed: dict[tuple[int, str], int] = {}
        self.left: list[Job] = []  # borrowed jobs that may still be chosen, in order of preemption
        for job_id in state.limits.lending.borrowed:
            job = state.jobs[job_id]
            if _is_leaving(job):
                self.free(job, 1)
            else:
                self.left.append(job)
        self.left.sort(key=lambda job: (preemption.cost_of(state, job), -job.start_at_us, -job.job_id))

    def free(self, job: Job, sign: int) -> None:
        """Counts a job that is to be preempted, or is not after all."""
        for account in accounts_of(self._state, job):
            for name, amount in allocated_tres(self._state, job):
                self._freed[account.assoc_id, name] = self._freed.get((account.assoc_id, name), 0) + sign * amount

    def promise(self, blocks: list[LimitBlock]) -> None:
        """Promises the missing resources to those who wait for these limits."""
        for key, lacks in _shortages(blocks):
            self._freed[key] = self._freed.get(key, 0) - lacks

    def is_enough(self, blocks: list[LimitBlock]) -> bool:
        """Whether no limit blocks any more, given what the victims release."""
        return all(self._freed.get(key, 0) >= lacks for key, lacks in _shortages(blocks))


def _shortages(blocks: list[LimitBlock]) -> Iterator[tuple[tuple[int, str], int]]:
    """Returns (account, TRES), missing amount there."""
    for block in blocks:
        if block.check is not None:
            yield (block.check.assoc_id, block.check.tres), block.used + block.want - block.check.bound


def _make_room(state: ClusterState, waiting: list[Job], now_us: int) -> None:
    """Preempts borrowed jobs for jobs within their guarantees that a GrpTRES of an account above blocks."""
    if not waiting:
        return
    room = _Room(state)
    for job in waiting:
        if len(checks.blocking_limits(state, job)) < len(job.request.partitions):
            continue  # another of them takes it
        blocks = list(checks.all_blocks(state, job, job.request.partitions[0]))
        if not all(_is_of_account(state, block) for block in blocks):
            continue  # something else blocks it, or nothing any more
        chosen = _chosen(state, room, job, blocks)
        if chosen is None:
            continue
        room.promise(blocks)
        state.preemption.preempting[job.job_id] = tuple(victim.job_id for victim in chosen)
        for victim in chosen:
            room.left.remove(victim)
            victims.make_go(state, victim, job, now_us)


def _is_of_account(state: ClusterState, block: LimitBlock) -> bool:
    check = block.check
    if check is None or check.of_qos or check.field != "grp_tres" or check.tres == "node":
        return False
    return not state.shares.by_id[check.assoc_id].user_name


def _chosen(state: ClusterState, room: _Room, job: Job, blocks: list[LimitBlock]) -> list[Job] | None:
    """Returns the borrowed jobs to preempt for a pending one; None if all of them do not suffice."""
    may = state.limits.lending.reclaimers[job.job_id]
    chosen: list[Job] = []
    for victim in room.left:
        if room.is_enough(blocks):
            break
        if any(one in may for one in state.limits.lending.borrowed[victim.job_id]) and _helps(state, victim, blocks):
            chosen.append(victim)
            room.free(victim, 1)
    if room.is_enough(blocks):
        return chosen
    for victim in chosen:
        room.free(victim, -1)
    return None


def _helps(state: ClusterState, victim: Job, blocks: list[LimitBlock]) -> bool:
    """Whether it holds something that one of the limits counts."""
    above = {account.assoc_id: None for account in accounts_of(state, victim)}
    holds = dict(allocated_tres(state, victim))
    return any(key in above and holds.get(tres) for (key, tres), _ in _shortages(blocks))


def _wake(state: ClusterState, now_us: int) -> None:
    """Wakes jobs of borrowers that wait for GrpTRES: the lendable amount may have changed."""
    assert state.limits.ledger is not None
    for account in state.shares.accounts.values():
        for name, _ in account.limits.borrow:
            queue = state.limits.ledger.book(("assoc", account.assoc_id)).waits.queues.get((int(Measure.TRES), name))
            if queue is None:
                continue
            least = min((need.wants for need in queue.heaps), default=0)
            if not least or not fits(state, account, name, least):
                continue
            waiting = [job_id for heap in queue.heaps.values() for job_id in heap.jobs]
            jobs = [state.jobs[job_id] for job_id in waiting if job_id in state.jobs]
            for job in sorted(jobs, key=lambda one: (-one.priority, one.job_id)):
                refresh(state, job, now_us)
