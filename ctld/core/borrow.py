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

A job that starts beyond a guarantee is borrowed (`Job.borrowed`). How it is given back: reclaim.py.

Holds where AccountingStorageEnforce has `limits`.
"""

from ctld.core.fairshare import Assoc
from ctld.core.ledger import held, settle
from ctld.core.model import Job
from ctld.core.state import ClusterState

#: Levels of a borrowed job's accounts at which it is beyond a guarantee: association ids of the accounts above these.
Cohorts = tuple[int, ...]


# ---- what an account may have ------------------------------------------------------------------------------------


def guarantee(account: Assoc, tres: str) -> int | None:
    """Its GrpTRES of that kind; None = it has none."""
    return next((amount for name, amount in account.limits.grp_tres if name == tres), None)


def amount_of(amounts: tuple[tuple[str, int], ...], tres: str) -> int:
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
        return min(most, amount_of(account.limits.lend, tres))
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
    if parent is None or over > amount_of(account.limits.borrow, tres):
        return False
    others = [one for one in parent.children.values() if one is not account and not one.user_name]
    lent = sum(_idle(state, one, tres) for one in others)
    beyond = over + sum(_beyond(state, one, tres) for one in others)
    return beyond <= lent + _beyond(state, parent, tres, wants)


def bound(state: ClusterState, assoc_id: int, tres: str, plain: int, wants: int) -> int:
    """GrpTRES as it holds for a job that wants so much: `plain`, or what the account then has if it may."""
    account = state.shares.by_id.get(assoc_id)
    if account is None or not amount_of(account.limits.borrow, tres):
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


def accounts_of(state: ClusterState, job: Job) -> list[Assoc]:
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
    for account in accounts_of(state, job):
        for name, amount in sorted(tres.items()):
            over = _beyond(state, account, name, amount) if amount and amount_of(account.limits.borrow, name) else 0
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
        for account in accounts_of(state, job)
        if account.parent is not None
        and any(holds.get(name) and _beyond(state, account, name) for name, _ in account.limits.borrow)
    )
