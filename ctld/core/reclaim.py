"""What was borrowed goes back: to its owner when that wants it, or into its borrower's own when there is room (borrow.py).

A job that waits and fits its account's guarantee reclaims. Where nodes are missing it may preempt borrowed jobs below the
same account, through the planner, which takes as few as it needs. Where nothing but the GrpTRES of an account above is
in its way, which borrowed work below that account fills, these are made to go here: as few as are enough, or none if
all of them were not. In both cases the lowest priority and the youngest go first. They have the GraceTime of their partition
or QOS and go back to the queue; with PreemptMode=CANCEL they end. PreemptExemptTime does not protect what is borrowed.

What jobs that reclaim want of a guarantee is not idle (`Lending.claims`), so that no borrower takes it in between.

When an account's use falls, its borrowed jobs become its own, the oldest first. Deliberately absent: reclaiming by
heterogeneous jobs where a limit is in the way.
"""

from collections.abc import Iterator

from ctld.core import limits, preempt, victims
from ctld.core.borrow import accounts_of, amount_of, cohorts, fits, guarantee, used
from ctld.core.factors import tres_amounts
from ctld.core.ledger import held, settle
from ctld.core.limit_rules import Measure
from ctld.core.limits import Block
from ctld.core.model import Job
from ctld.core.ready import refresh
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES, JobState


def _is_leaving(job: Job) -> bool:
    return job.state is JobState.COMPLETING or bool(job.preempt_end_at_us)


def _become_own(state: ClusterState, now_us: int) -> None:
    """Borrowed jobs that fit into their accounts' guarantees now are theirs, the oldest first."""
    lending = state.lending
    jobs = [state.jobs[job_id] for job_id in lending.borrowed if job_id in state.jobs]
    lending.borrowed = {j.job_id: cohorts(state, j) for j in jobs if j.state in HOLDING_STATES and j.borrowed}
    jobs = [job for i in lending.borrowed if not _is_leaving(job := state.jobs[i])]
    jobs.sort(key=lambda one: (one.start_at_us, one.job_id))
    foreign: dict[tuple[int, str], int] = {}
    places = []
    for job in jobs:
        places.append([(account, name, amount) for account in accounts_of(state, job) for name, amount in held(state, job)
                       if amount_of(account.limits.borrow, name)])  # fmt: skip
        for account, name, amount in places[-1]:
            foreign[account.assoc_id, name] = foreign.get((account.assoc_id, name), 0) + amount
    for job, holds in zip(jobs, places, strict=True):
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
            preempt.tell_running(state, job)


# ---- before a pass -----------------------------------------------------------------------------------------------


def renew(state: ClusterState) -> None:
    """Accounts or the configuration have changed, or a start: is there any borrowing?"""
    lending = state.lending
    lending.stale = False
    accounts = state.shares.accounts.values()
    lending.is_on = state.ledger is not None and any(account.limits.borrow for account in accounts)
    lending.was_on = lending.was_on or lending.is_on
    lending.borrowed = {j.job_id: () for j in state.jobs.values() if j.borrowed and j.state in HOLDING_STATES}


def before_pass(state: ClusterState, now_us: int) -> None:
    """Who may reclaim, what they claim, and what is borrowed now."""
    lending = state.lending
    if lending.stale:
        renew(state)
    if state.ledger is None or not (lending.is_on or lending.borrowed or lending.reclaimers):
        return
    if len(state.preempt_classes) > preempt.CLASSES_MAX // 2:
        preempt.lay_out(state)  # forget those that nobody has any more
    settle(state)
    _become_own(state, now_us)
    before = dict(lending.reclaimers)
    waiting = _claim(state)
    for job_id in lending.borrowed:
        preempt.tell_running(state, state.jobs[job_id])
    for job_id in dict.fromkeys((*before, *lending.reclaimers)):
        job = state.jobs.get(job_id)
        if job is not None and job.state is JobState.PENDING:
            preempt.tell_pending(state, job)
    _make_room(state, waiting, now_us)
    _wake(state, now_us)


def _claim(state: ClusterState) -> list[Job]:
    """Of the first that wait: which fit the guarantees of their accounts, with those before them. Returns those of them
    that wait for a limit of an account above."""
    lending = state.lending
    lending.claims, lending.reclaimers = {}, {}
    if state.ledger is None or not lending.is_on:
        return []
    rows = state.pending.first(state.policy.quick_depth)
    ready = dict.fromkeys(state.pending.table.job[rows].tolist())
    waiting = [job_id for job_id in _under_limits(state) if job_id not in ready]
    for job_id in (*ready, *waiting):
        may = _may_reclaim(state, state.jobs[job_id])
        if may:
            lending.reclaimers[job_id] = may
    return [state.jobs[job_id] for job_id in waiting if job_id in lending.reclaimers]


def _under_limits(state: ClusterState) -> list[int]:
    """The first jobs that wait for GrpTRES of accounts with borrowed work below them, the highest priority first."""
    ledger = state.ledger
    assert ledger is not None
    above = {one.assoc_id: one for i in state.lending.borrowed for one in accounts_of(state, state.jobs[i])}
    found: dict[int, None] = {}
    for assoc_id in above:
        book = ledger.books.get(("assoc", assoc_id))
        for (measure, _), queue in book.waits.queues.items() if book is not None else ():
            if measure == Measure.TRES:
                found |= {job_id: None for heap in queue.heaps.values() for job_id in heap.jobs}
    jobs = [state.jobs[job_id] for job_id in found if job_id in state.jobs]
    jobs = [job for job in jobs if job.state is JobState.PENDING and not job.request.het_job_id]
    jobs.sort(key=lambda job: (-job.priority, job.job_id))
    return [job.job_id for job in jobs[: state.policy.quick_depth]]


def _may_reclaim(state: ClusterState, job: Job) -> tuple[int, ...]:
    """The accounts below which a job may make borrowed ones go; what it wants is claimed."""
    claims, wants, may = state.lending.claims, tres_amounts(job.request), []
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
    """What goes, less what others who wait have been promised of it: by account and TRES."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._freed: dict[tuple[int, str], int] = {}
        self.left: list[Job] = []  # borrowed jobs that may still be chosen, those first that go first
        for job_id in state.lending.borrowed:
            job = state.jobs[job_id]
            if _is_leaving(job):
                self.free(job, 1)
            else:
                self.left.append(job)
        self.left.sort(key=lambda job: (preempt.cost_of(state, job), -job.start_at_us, -job.job_id))

    def free(self, job: Job, sign: int) -> None:
        """A job goes, or does not after all."""
        for account in accounts_of(self._state, job):
            for name, amount in held(self._state, job):
                self._freed[account.assoc_id, name] = self._freed.get((account.assoc_id, name), 0) + sign * amount

    def promise(self, blocks: list[Block]) -> None:
        """Who waits for these limits gets what it lacks."""
        for key, lacks in _places(blocks):
            self._freed[key] = self._freed.get(key, 0) - lacks

    def is_enough(self, blocks: list[Block]) -> bool:
        """With what goes no limit is in the way any more."""
        return all(self._freed.get(key, 0) >= lacks for key, lacks in _places(blocks))


def _places(blocks: list[Block]) -> Iterator[tuple[tuple[int, str], int]]:
    """(account, TRES), what is lacking there."""
    for block in blocks:
        if block.check is not None:
            yield (block.check.assoc_id, block.check.tres), block.used + block.want - block.check.bound


def _make_room(state: ClusterState, waiting: list[Job], now_us: int) -> None:
    """For jobs within their guarantees that a GrpTRES of an account above holds back: borrowed jobs go."""
    if not waiting:
        return
    room = _Room(state)
    for job in waiting:
        blocks = list(limits.all_blocks(state, [job]))
        if not blocks or not all(_is_of_account(state, block) for block in blocks):
            continue  # something else holds it back, or nothing any more
        chosen = _chosen(state, room, job, blocks)
        if chosen is None:
            continue
        room.promise(blocks)
        state.preempting[job.job_id] = tuple(victim.job_id for victim in chosen)
        for victim in chosen:
            room.left.remove(victim)
            victims.make_go(state, victim, job, now_us)


def _is_of_account(state: ClusterState, block: Block) -> bool:
    check = block.check
    if check is None or check.of_qos or check.field != "grp_tres" or check.tres == "node":
        return False
    return not state.shares.by_id[check.assoc_id].user_name


def _chosen(state: ClusterState, room: _Room, job: Job, blocks: list[Block]) -> list[Job] | None:
    """The borrowed jobs that go for one that waits; None if all of them were not enough."""
    may = state.lending.reclaimers[job.job_id]
    chosen: list[Job] = []
    for victim in room.left:
        if room.is_enough(blocks):
            break
        if any(one in may for one in state.lending.borrowed[victim.job_id]) and _helps(state, victim, blocks):
            chosen.append(victim)
            room.free(victim, 1)
    if room.is_enough(blocks):
        return chosen
    for victim in chosen:
        room.free(victim, -1)
    return None


def _helps(state: ClusterState, victim: Job, blocks: list[Block]) -> bool:
    """It holds something of what one of the limits counts."""
    above = {account.assoc_id: None for account in accounts_of(state, victim)}
    holds = dict(held(state, victim))
    return any(key in above and holds.get(tres) for (key, tres), _ in _places(blocks))


def _wake(state: ClusterState, now_us: int) -> None:
    """Jobs of borrowers that wait for GrpTRES look again: what is lent may have changed."""
    assert state.ledger is not None
    for account in state.shares.accounts.values():
        for name, _ in account.limits.borrow:
            queue = state.ledger.book(("assoc", account.assoc_id)).waits.queues.get((int(Measure.TRES), name))
            if queue is None:
                continue
            least = min((need.wants for need in queue.heaps), default=0)
            if not least or not fits(state, account, name, least):
                continue
            waiting = [job_id for heap in queue.heaps.values() for job_id in heap.jobs]
            jobs = [state.jobs[job_id] for job_id in waiting if job_id in state.jobs]
            for job in sorted(jobs, key=lambda one: (-one.priority, one.job_id)):
                refresh(state, job, now_us)
