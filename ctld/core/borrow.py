"""Borrowing: what an account does not use of its guarantee, others below the same account may use meanwhile.

    GrpTRES   of an account: its guarantee
    borrow    how far beyond that it may go
    lend      how much of its guarantee others may use while it is idle; without it nothing, or with
              PenstockLending=all all of it

Lenders and borrowers are the accounts below one account, a cohort. An account that would go beyond its guarantee may if

    what it then has beyond its guarantee  <=  its borrow
    what all of the cohort have beyond theirs  <=  what is lent and idle in the cohort
                                                   + what the account above then has beyond its own guarantee

and the same holds for the account above, in its own cohort. Without `borrow` GrpTRES is Slurm's limit. What waiting jobs
of a lender want of its guarantee is not idle, so that a borrower does not take it before them.

A job that starts beyond a guarantee is borrowed (`Job.borrowed`). A job that waits and fits its account's guarantee
reclaims: it may preempt borrowed jobs below the same account, through the planner, which takes as few as it needs, the
lowest priority and the youngest first. They have the GraceTime of their partition or QOS and go back to the queue; with
PreemptMode=CANCEL they end. PreemptExemptTime does not protect what is borrowed. When the account's use falls, its
borrowed jobs become its own, the oldest first.

Holds where AccountingStorageEnforce has `limits`. Deliberately absent: reclaiming for the sake of a limit of the account
above alone, while nodes are free.
"""

from ctld.core import preempt
from ctld.core.fairshare import Assoc
from ctld.core.ledger import held, settle
from ctld.core.model import Job
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES, JobState

#: Levels of a borrowed job's accounts at which it is beyond a guarantee: association ids of the accounts above these.
Cohorts = tuple[int, ...]


# ---- what an account may have ------------------------------------------------------------------------------------


def guarantee(account: Assoc, tres: str) -> int | None:
    """Its GrpTRES of that kind; None = it has none."""
    return next((amount for name, amount in account.limits.grp_tres if name == tres), None)


def _of(amounts: tuple[tuple[str, int], ...], tres: str) -> int:
    return next((amount for name, amount in amounts if name == tres), 0)


def used(state: ClusterState, account: Assoc, tres: str) -> int:
    """What running jobs below an account hold."""
    assert state.ledger is not None
    return state.ledger.book(("assoc", account.assoc_id)).tres.get(tres, 0)


def lendable(state: ClusterState, account: Assoc, tres: str) -> int:
    """What an account lends while it is idle."""
    most = guarantee(account, tres)
    if most is None or account.user_name:
        return 0
    if any(name == tres for name, _ in account.limits.lend):
        return min(most, _of(account.limits.lend, tres))
    return most if state.config.penstock_lending == "all" else 0


def _idle(state: ClusterState, account: Assoc, tres: str) -> int:
    most = guarantee(account, tres)
    if most is None:
        return 0
    left = most - used(state, account, tres) - state.lending.claims.get((account.assoc_id, tres), 0)
    return min(lendable(state, account, tres), max(0, left))


def _beyond(state: ClusterState, account: Assoc, tres: str, more: int = 0) -> int:
    most = guarantee(account, tres)
    return 0 if most is None else max(0, used(state, account, tres) + more - most)


def fits(state: ClusterState, account: Assoc, tres: str, wants: int) -> bool:
    """Whether an account may have so much more, at its own level. The caller has settled the ledger."""
    over, parent = _beyond(state, account, tres, wants), account.parent
    if not over:
        return True
    if parent is None or over > _of(account.limits.borrow, tres):
        return False
    others = [one for one in parent.children.values() if one is not account and not one.user_name]
    lent = sum(_idle(state, one, tres) for one in others)
    beyond = over + sum(_beyond(state, one, tres) for one in others)
    return beyond <= lent + _beyond(state, parent, tres, wants)


def bound(state: ClusterState, assoc_id: int, tres: str, plain: int, wants: int) -> int:
    """GrpTRES as it holds for a job that wants so much: `plain`, or what the account then has if it may."""
    account = state.shares.by_id.get(assoc_id)
    if account is None or not _of(account.limits.borrow, tres):
        return plain
    after = used(state, account, tres) + wants
    return max(plain, after) if fits(state, account, tres, wants) else plain


def room(state: ClusterState, assoc_id: int, tres: str, wants: int, most: int) -> int:
    """How many jobs that want so much each an account may have more, `most` at most."""
    account, low, high = state.shares.by_id[assoc_id], 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(state, account, tres, middle * wants):
            low = middle
        else:
            high = middle - 1
    return low


# ---- borrowed jobs -----------------------------------------------------------------------------------------------


def _accounts(state: ClusterState, job: Job) -> list[Assoc]:
    """The job's account and those above it."""
    at, found = state.shares.by_id.get(job.assoc_id), []
    while at is not None:
        if not at.user_name:
            found.append(at)
        at = at.parent
    return found


def mark(state: ClusterState, job: Job, tres: dict[str, int], now_us: int) -> None:
    """The job is about to start with that: is it borrowed?"""
    if not state.lending.is_on or state.ledger is None:
        return
    settle(state)
    told = []
    for account in _accounts(state, job):
        for name, amount in sorted(tres.items()):
            over = _beyond(state, account, name, amount) if amount and _of(account.limits.borrow, name) else 0
            if over:
                told.append(f"account {account.account} has {over} {name} beyond its {guarantee(account, name)}")
    if told:
        job.borrowed = 1
        state.lending.borrowed[job.job_id] = ()  # until the next pass
        state.record(now_us, job, "borrows", "; ".join(told))


def cohorts(state: ClusterState, job: Job) -> Cohorts:
    """Below which accounts a borrowed job may be reclaimed by the others there."""
    holds = dict(held(state, job))
    return tuple(
        account.parent.assoc_id
        for account in _accounts(state, job)
        if account.parent is not None
        and any(holds.get(name) and _beyond(state, account, name) for name, _ in account.limits.borrow)
    )


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
        places.append([(account, name, amount) for account in _accounts(state, job) for name, amount in held(state, job)
                       if _of(account.limits.borrow, name)])  # fmt: skip
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
    _claim(state)
    for job_id in lending.borrowed:
        preempt.tell_running(state, state.jobs[job_id])
    for job_id in dict.fromkeys((*before, *lending.reclaimers)):
        job = state.jobs.get(job_id)
        if job is not None and job.state is JobState.PENDING:
            preempt.tell_pending(state, job)
    _wake(state, now_us)


def _claim(state: ClusterState) -> None:
    """Of the first that wait: which fit the guarantees of their accounts, with those before them."""
    from ctld.core.factors import tres_amounts

    lending = state.lending
    lending.claims, lending.reclaimers = {}, {}
    if state.ledger is None or not lending.is_on:
        return
    rows = state.pending.first(state.policy.quick_depth)
    for job_id in dict.fromkeys(state.pending.table.job[rows].tolist()):
        job = state.jobs[job_id]
        wants = tres_amounts(job.request)
        may = []
        for account in _accounts(state, job):
            if account.parent is None or not account.limits.grp_tres:
                continue
            claims = lending.claims
            key = account.assoc_id
            if all(
                used(state, account, name) + claims.get((key, name), 0) + wants.get(name, 0) <= most
                for name, most in account.limits.grp_tres
            ):
                may.append(account.parent.assoc_id)
                for name, _ in account.limits.grp_tres:
                    claims[key, name] = claims.get((key, name), 0) + wants.get(name, 0)
        if may:
            lending.reclaimers[job_id] = tuple(may)


def _wake(state: ClusterState, now_us: int) -> None:
    """Jobs of borrowers that wait for GrpTRES look again: what is lent may have changed."""
    from ctld.core.limit_rules import Measure
    from ctld.core.ready import refresh

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
