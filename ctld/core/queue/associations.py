"""Associations of jobs: the association of a job, its charges, and changes of the tree.

Without AccountingStorageEnforce any account is accepted, as in Slurm. A job is charged to (account, user); the account
is what the job names (sbatch fills in the user's default account), else PenstockDefaultAccount. Missing ones are
created implicitly: an account under root with 1 share, a user in it with 1 share; `sacctmgr add` adopts such a one.
ACCOUNTS_BY_THEMSELVES_MAX bounds them, so that invented names cannot fill the tree; further ones are charged to the
default account.

A start and an end change the rate of one association; its usage row goes into the same batch as the job's row.
"""

from ctld.core.demand.factors import billing
from ctld.core.queue.priority_timer import calculate_soon
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.records.accounting_rows import AccountRow, AssocRow
from ctld.core.records.decay import Decay
from ctld.core.records.job import Job
from ctld.core.records.request import NodeAlloc
from ctld.core.state.fairshare import Assoc, LoadedShares, ShareTree
from ctld.core.state.spent_minutes import spent_from
from ctld.core.state.state import ClusterState
from penstock.values.states import ACTIVE_STATES, ALLOCATED_STATES
from penstock.values.tres import gres_keys

#: Accounts that were created implicitly. A site has some dozens of real ones.
ACCOUNTS_BY_THEMSELVES_MAX = 1_000
#: The QOS of root's associations by default.
QOS_AT_THE_TOP = ("normal",)


def account_of(state: ClusterState, job: Job) -> str:
    """Returns the account that a job is charged to, in lower case as all accounts are."""
    return (job.request.account or state.config.penstock_default_account).lower()


def find(state: ClusterState, job: Job) -> Assoc | None:
    """Returns the job's association, if it exists."""
    tree = state.shares
    account = account_of(state, job)
    found = tree.find(account, job.user_name, job.partition)
    if found is None and account not in tree.accounts:  # beyond the maximum: see `of`
        found = tree.find(state.config.penstock_default_account.lower(), job.user_name, job.partition)
    return found


def of(state: ClusterState, job: Job, now_us: int) -> Assoc:
    """Returns the job's association, created if it does not exist."""
    found = find(state, job)
    if found is not None:
        return found
    tree, name = state.shares, account_of(state, job)
    if name not in tree.accounts:
        if state.registry.own_accounts >= ACCOUNTS_BY_THEMSELVES_MAX:
            name = state.config.penstock_default_account.lower()
        if name not in tree.accounts:
            state.registry.own_accounts += 1
            about = tree.about[name] = AccountRow(name, name, name)
            tree.gone_accounts.pop(name, None)
            state.outputs.dirty_accounts[name] = about
            _make(state, name, "", tree.root, now_us)
    return _make(state, name, job.user_name, tree.accounts[name], now_us)


def note(state: ClusterState, job: Job, now_us: int) -> None:
    """Writes the job's association into its record, after a change of its inputs. Where associations are not used
    (priority/basic, nothing enforced) none is created."""
    found = find(state, job) if state.shares.has_users() else None
    if found is None and (state.priorities is not None or state.config.enforce or state.limits.budgets.books):
        found = of(state, job, now_us)
    job.assoc_id = found.assoc_id if found is not None else 0


def _make(state: ClusterState, account: str, user: str, parent: Assoc, now_us: int) -> Assoc:
    revived = (account, user, "") in state.shares.gone
    assoc = state.shares.add(account, user, parent)
    assoc.made_by_itself = True
    assoc.at_us = now_us
    assoc.created_at_us = now_us
    if revived:  # its usage before it was deleted is part of its account's
        state.outputs.dirty_usage[assoc.assoc_id] = None
    state.outputs.dirty_assocs[assoc.assoc_id] = assoc.row()
    state.registry.entities_changed = True
    calculate_soon(state, now_us)
    return assoc


# ---- charging ----------------------------------------------------------------------------------------------------


def charge_of(state: ClusterState, job: Job) -> int:
    """Returns the rate for fair-share: the charge times the UsageFactor of the job's QOS."""
    qos = state.qos.get(job.request.qos or DEFAULT_QOS)
    rate = rate_of(state, job)
    return rate if qos is None else rate * qos.usage_factor_ppm // 1_000_000


def rate_of(state: ClusterState, job: Job, holds: dict[str, int] | None = None) -> int:
    """Returns the charge of a running job for each second, in thousandths. `holds`: the result of `allocated`."""
    partition = state.partitions.get(job.partition)
    weights = partition.config.tres_billing_weights if partition is not None else ()
    return billing(weights, allocated(job) if holds is None else holds, state.config.priority_flags)


def allocated(job: Job) -> dict[str, int]:
    """Returns the TRES that a job holds, without their billing."""
    return allocated_in(job.alloc)


def allocated_in(alloc: tuple[NodeAlloc, ...]) -> dict[str, int]:
    """Returns the TRES of an allocation."""
    tres = {"cpu": 0, "mem": 0, "node": len(alloc)}
    for part in alloc:
        tres["cpu"] += part.cpus
        tres["mem"] += part.mem_mb
        for name, type_, mask in part.gres:
            for key in gres_keys(name, type_):
                tres[key] = tres.get(key, 0) + mask.bit_count()
        for share in part.shares:
            for key in gres_keys(share.name, share.type):
                tres[key] = tres.get(key, 0) + share.units
    return tres


def charge_all(state: ClusterState, now_us: int) -> None:
    """Starts charging jobs that run uncharged (the cluster had priority/basic)."""
    for job in state.jobs.records():
        if job.state in ALLOCATED_STATES and job.job_id not in state.limits.charged:
            assoc, rate = of(state, job, now_us), charge_of(state, job)
            state.shares.begin(assoc, rate, now_us)
            state.limits.charged[job.job_id] = (assoc.assoc_id, rate)
            state.outputs.dirty_usage[assoc.assoc_id] = None


def take_decay(state: ClusterState, decay: Decay, now_us: int) -> None:
    """Changes the decay of usage. NOW clears all of it at once."""
    tree = state.shares
    forget = decay.reset_period == "NOW"
    if tree.decay == decay and not forget:
        return
    if state.limits.ledger is not None:
        state.limits.ledger.take_decay(tree.decay, forget, now_us)
    for assoc in tree.by_id.values():
        if not assoc.usage and not assoc.rate:
            continue
        tree.advance(assoc, now_us)
        if forget:
            assoc.usage = 0
        state.outputs.dirty_usage[assoc.assoc_id] = None
    tree.decay = decay


def restore(state: ClusterState, loaded: LoadedShares) -> None:
    """Restores usage from the rows of the database, at start; the rates come with the partitions (`resume`)."""
    tree, found = state.shares, loaded.assocs
    tree.next_id = max(tree.next_id, loaded.next_assoc_id)
    accounts = {row.account for row in found if not row.user_name} | {tree.root.account}
    for account in loaded.accounts:
        (tree.gone_accounts if account.deleted or account.name not in accounts else tree.about)[account.name] = account
    for name, about in tree.about.items():
        for user in about.coordinators:
            tree.coordinator_of[user] = (*tree.coordinator_of.get(user, ()), name)
    for person in loaded.users:
        (tree.gone_people if person.deleted else tree.people)[person.name] = person
    tree.default_accounts.update({p.name: p.default_account for p in tree.people.values() if p.default_account})
    tree.wckeys.update({(row.name, row.user_name): row for row in loaded.wckeys})
    state.registry.resources = {row.key: row for row in loaded.resources}
    state.registry.tres_ids = {row.name: row.tres_id for row in loaded.tres}
    for row in found:  # accounts under root first: a parent may have a higher number than its children
        if not row.user_name and row.assoc_id != tree.root.assoc_id:
            _restore_one(tree.root, row, state)
    for row in found:
        if row.user_name:
            _restore_one(tree.accounts[row.account], row, state)
        elif row.assoc_id != tree.root.assoc_id and row.parent != tree.root.account:
            tree.move(tree.accounts[row.account], tree.accounts[row.parent])
        elif row.assoc_id == tree.root.assoc_id:
            _fill(tree.root, row)
    tree.gone.update({(row.account, row.user_name, row.partition): row for row in loaded.gone})
    for key in [key for key, row in tree.gone.items() if _is_there(tree, row)]:
        del tree.gone[key]
    for entry in loaded.usage:
        assoc = tree.by_id.get(entry.assoc_id)
        if assoc is not None:
            assoc.usage = entry.usage
            assoc.at_us = entry.at_us
            assoc.spent = spent_from(entry.tres)


def resume(state: ClusterState) -> None:
    """Restores the rates of the jobs that run at a start. Each was charged when it started, so its usage row is of that
    time or later: amount and time stamp are kept, and the difference to now is its use since."""
    known: dict[tuple[str, str, str], int] = {}
    for job in list(state.jobs.records()):
        if not job.assoc_id and job.state in ACTIVE_STATES:  # of a version that did not store it
            key = (job.request.account, job.user_name, job.partition)
            if key not in known:
                found = find(state, job)
                known[key] = found.assoc_id if found is not None else 0
            if known[key]:
                state.jobs[job.job_id].assoc_id = known[key]
        if job.state in ALLOCATED_STATES:
            assoc = find(state, job)
            if assoc is not None and assoc.at_us >= job.start_at_us:
                rate = charge_of(state, job)
                assoc.rate += rate
                state.limits.charged[job.job_id] = (assoc.assoc_id, rate)


def _restore_one(parent: Assoc, row: AssocRow, state: ClusterState) -> None:
    assoc = Assoc(row.assoc_id, row.account, row.user_name, parent)
    _fill(assoc, row)
    state.registry.own_accounts += row.made_by_itself and not row.user_name
    state.shares.enter(assoc)


def _fill(assoc: Assoc, row: AssocRow) -> None:
    assoc.shares = row.shares
    assoc.priority = row.priority
    assoc.made_by_itself = row.made_by_itself
    assoc.partition = row.partition
    assoc.limits = row.limits
    assoc.qos = row.qos
    assoc.default_qos = row.default_qos
    assoc.budget = row.budget
    assoc.created_at_us = row.created_at_us


def _is_there(tree: ShareTree, row: AssocRow) -> bool:
    if row.partition:
        return (row.account, row.user_name, row.partition) in tree.in_partition
    return (row.account, row.user_name) in tree.users if row.user_name else row.account in tree.accounts


# ---- QOS ---------------------------------------------------------------------------------------------------------


def qos_of(assoc: Assoc) -> tuple[str, ...]:
    """Returns the QOS that an association's jobs may have: its own list, or that of the nearest account above that has
    one; at the top `normal`."""
    at: Assoc | None = assoc
    while at is not None:
        if at.qos:
            return at.qos
        at = at.parent
    return QOS_AT_THE_TOP
