"""Borrowing: the unused part of an account's guarantee may be used meanwhile by others below the same account.

    GrpTRES   of an account: its guarantee
    borrow    how much beyond that it may use
    lend      how much of its guarantee others may use while it is idle; without it nothing, or with
              PenstockLending=all all of it

Lenders and borrowers are the accounts below one account, a cohort. An account may exceed its guarantee if

    its use beyond its guarantee               <=  its borrow
    the cohort's use beyond their guarantees   <=  what is lent and idle in the cohort
                                                   + the use of the account above beyond its own guarantee

and the same is true of the account above, in its own cohort. Without `borrow` GrpTRES is Slurm's limit. The part of a
guarantee that the lender's own pending jobs want is not idle, so that borrowers do not take it before them.

A job that starts beyond a guarantee is borrowed (`Job.borrowed`). How it is reclaimed: passes/reclaim.py.

Applies where AccountingStorageEnforce has `limits`.
"""

from ctld.core.limits.ledger import allocated_tres, settle
from ctld.core.records.job import Job
from ctld.core.state.fairshare import Assoc
from ctld.core.state.state import ClusterState
from penstock.values.limits import Tres

#: Levels of a borrowed job's accounts at which it is beyond a guarantee: association ids of the accounts above these.
Cohorts = tuple[int, ...]


# ---- what an account may have ------------------------------------------------------------------------------------


def guarantee(account: Assoc, tres: str) -> int | None:
    """Returns the account's GrpTRES of that kind; None = it has none."""
    return next((amount for name, amount in account.limits.grp_tres if name == tres), None)


def amount_of(amounts: tuple[tuple[str, int], ...], tres: str) -> int:
    return next((amount for name, amount in amounts if name == tres), 0)


def used(state: ClusterState, account: Assoc, tres: str) -> int:
    """Returns the amount that running jobs below an account hold."""
    assert state.limits.ledger is not None
    return state.limits.ledger.book(("assoc", account.assoc_id)).tres.get(tres, 0)


def lendable(state: ClusterState, account: Assoc, tres: str) -> int:
    """Returns the amount that an account lends while it is idle."""
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
    left = most - used(state, account, tres) - state.limits.lending.claims.get((account.assoc_id, tres), 0)
    return min(lendable(state, account, tres), max(0, left))


def _beyond(state: ClusterState, account: Assoc, tres: str, more: int = 0) -> int:
    most = guarantee(account, tres)
    return 0 if most is None else max(0, used(state, account, tres) + more - most)


def standing(state: ClusterState, account: Assoc) -> tuple[Tres, Tres]:
    """Returns what an account uses beyond its guarantees, and what it lends of them and does not use, by TRES; none that is 0.
    What its pending jobs want counts as not used: it is known in a pass alone."""
    names = [name for name, _ in account.limits.grp_tres]
    beyond = [(name, _beyond(state, account, name)) for name in names]
    idle = [(name, min(lendable(state, account, name), _unused(state, account, name))) for name in names]
    return tuple(one for one in beyond if one[1]), tuple(one for one in idle if one[1])


def _unused(state: ClusterState, account: Assoc, tres: str) -> int:
    return max(0, (guarantee(account, tres) or 0) - used(state, account, tres))


def fits(state: ClusterState, account: Assoc, tres: str, wants: int) -> bool:
    """Whether an account may use so much more, at its own level. The caller has settled the ledger."""
    over, parent = _beyond(state, account, tres, wants), account.parent
    if not over:
        return True
    if parent is None or over > amount_of(account.limits.borrow, tres):
        return False
    others = [one for one in parent.children.values() if one is not account and not one.user_name]
    lent = sum(_idle(state, one, tres) for one in others)
    beyond = over + sum(_beyond(state, one, tres) for one in others)
    return beyond <= lent + _beyond(state, parent, tres, wants)


def bound(state: ClusterState, assoc_id: int, tres: str, limit: int, wants: int) -> int:
    """Returns GrpTRES as it applies to a job with that demand: `limit`, or the account's use with the job if borrowing
    allows it."""
    account = state.shares.by_id.get(assoc_id)
    if account is None or not amount_of(account.limits.borrow, tres):
        return limit
    after = used(state, account, tres) + wants
    return max(limit, after) if fits(state, account, tres, wants) else limit


def room(state: ClusterState, assoc_id: int, tres: str, wants: int, most: int) -> int:
    """Returns how many further jobs with that demand an account may have, at most `most`."""
    account = state.shares.by_id[assoc_id]
    low = 0
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(state, account, tres, middle * wants):
            low = middle
        else:
            high = middle - 1
    return low


# ---- borrowed jobs -----------------------------------------------------------------------------------------------


def accounts_of(state: ClusterState, job: Job) -> list[Assoc]:
    """Returns the job's account and those above it."""
    at, found = state.shares.by_id.get(job.assoc_id), []
    while at is not None:
        if not at.user_name:
            found.append(at)
        at = at.parent
    return found


def mark(state: ClusterState, job: Job, tres: dict[str, int], now_us: int) -> None:
    """Marks a job that is about to start with that allocation if it borrows any of it."""
    if not state.limits.lending.is_on or state.limits.ledger is None:
        return
    settle(state)
    excesses = []
    for account in accounts_of(state, job):
        for name, amount in sorted(tres.items()):
            over = _beyond(state, account, name, amount) if amount and amount_of(account.limits.borrow, name) else 0
            if over:
                excesses.append(f"account {account.account} has {over} {name} beyond its {guarantee(account, name)}")
    if excesses:
        job.borrowed = 1
        state.limits.lending.borrowed[job.job_id] = ()  # until the next pass
        state.record(now_us, job, "borrows", "; ".join(excesses))


def cohorts(state: ClusterState, job: Job) -> Cohorts:
    """Returns the accounts below which the others may reclaim a borrowed job."""
    holds = dict(allocated_tres(state, job))
    return tuple(
        account.parent.assoc_id
        for account in accounts_of(state, job)
        if account.parent is not None
        and any(holds.get(name) and _beyond(state, account, name) for name, _ in account.limits.borrow)
    )
