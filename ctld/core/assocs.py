"""Associations of jobs: which one a job belongs to, what is charged to it, and how the tree is changed.

Without AccountingStorageEnforce any account is accepted, as in Slurm. A job is charged to (account, user); the account
is what the job names (sbatch fills in the user's default account), else PenstockDefaultAccount. What nobody has added is made by
itself: an account under root with 1 share, a user in it with 1 share; `sacctmgr add` takes such a one over. So that
nobody fills the tree with invented names, ACCOUNTS_BY_THEMSELVES_MAX bounds those; further ones are charged to the
default account.

A start and an end change the rate of one association; its usage row goes into the same batch as the job's row.
"""

from ctld.core.factors import billing
from ctld.core.fairshare import AccountRow, Assoc, AssocRow, Decay, LoadedShares, ShareTree
from ctld.core.model import Job, NodeAlloc
from ctld.core.qos import DEFAULT_QOS
from ctld.core.spent import spent_from
from ctld.core.state import ClusterState
from penstock.values.states import ACTIVE_STATES, HOLDING_STATES
from penstock.values.tres import gres_keys

#: Accounts that nobody has added. A site has some dozens of real ones.
ACCOUNTS_BY_THEMSELVES_MAX = 1_000
#: What root's associations may have when nobody has said anything.
QOS_AT_THE_TOP = ("normal",)


def account_of(state: ClusterState, job: Job) -> str:
    """The account that a job is charged to, in lower case as all accounts are."""
    return (job.request.account or state.config.penstock_default_account).lower()


def find(state: ClusterState, job: Job) -> Assoc | None:
    """The job's association, if it is there."""
    tree = state.shares
    account = account_of(state, job)
    found = tree.find(account, job.user_name, job.partition)
    if found is None and account not in tree.accounts:  # one too many: see `of`
        found = tree.find(state.config.penstock_default_account.lower(), job.user_name, job.partition)
    return found


def of(state: ClusterState, job: Job, now_us: int) -> Assoc:
    """The job's association; made if it is not there."""
    found = find(state, job)
    if found is not None:
        return found
    tree, name = state.shares, account_of(state, job)
    if name not in tree.accounts:
        if state.own_accounts >= ACCOUNTS_BY_THEMSELVES_MAX:
            name = state.config.penstock_default_account.lower()
        if name not in tree.accounts:
            state.own_accounts += 1
            about = tree.about[name] = AccountRow(name, name, name)
            tree.gone_accounts.pop(name, None)
            state.dirty_accounts[name] = about
            _make(state, name, "", tree.root, now_us)
    return _make(state, name, job.user_name, tree.accounts[name], now_us)


def note(state: ClusterState, job: Job, now_us: int) -> None:
    """Write the job's association into its record, after a change of what it depends on. Where nobody asks for
    associations (priority/basic, nothing enforced) none is made."""
    found = find(state, job)
    if found is None and (state.priorities is not None or state.config.enforce or state.budgets.books):
        found = of(state, job, now_us)
    job.assoc_id = found.assoc_id if found is not None else 0


def _make(state: ClusterState, account: str, user: str, parent: Assoc, now_us: int) -> Assoc:
    from ctld.core.priority import calculate_soon  # priority.py asks for associations of us

    revived = (account, user, "") in state.shares.gone
    assoc = state.shares.add(account, user, parent)
    assoc.made_by_itself, assoc.at_us, assoc.created_at_us = True, now_us, now_us
    if revived:  # what it used before it was deleted is its account's
        state.dirty_usage[assoc.assoc_id] = None
    state.dirty_assocs[assoc.assoc_id] = assoc.row()
    state.entities_changed = True
    calculate_soon(state, now_us)
    return assoc


# ---- charging ----------------------------------------------------------------------------------------------------


def charge_of(state: ClusterState, job: Job) -> int:
    """What fair-share is charged: the rate times the UsageFactor of the job's QOS."""
    qos = state.qos.get(job.request.qos or DEFAULT_QOS)
    rate = rate_of(state, job)
    return rate if qos is None else rate * qos.usage_factor_ppm // 1_000_000


def rate_of(state: ClusterState, job: Job, holds: dict[str, int] | None = None) -> int:
    """What a running job is charged for each second, in thousandths. `holds`: what `allocated` said."""
    partition = state.partitions.get(job.partition)
    weights = partition.config.tres_billing_weights if partition is not None else ()
    return billing(weights, allocated(job) if holds is None else holds, state.config.priority_flags)


def allocated(job: Job) -> dict[str, int]:
    """What a job holds, by TRES; without its billing."""
    return allocated_in(job.alloc)


def allocated_in(alloc: tuple[NodeAlloc, ...]) -> dict[str, int]:
    """What an allocation is, by TRES."""
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


def begin(state: ClusterState, job: Job, now_us: int) -> None:
    """The job holds its allocation from now on."""
    if state.shares.in_partition or not job.assoc_id:  # it may have started in another partition of its list
        note(state, job, now_us)
    if state.budgets.books:
        from ctld.core import budgets  # it asks us what jobs hold

        budgets.begin(state, job, now_us)
    if state.priorities is None:
        return
    assoc, rate = of(state, job, now_us), charge_of(state, job)
    state.shares.begin(assoc, rate, now_us)
    state.charged[job.job_id] = (assoc.assoc_id, rate)
    state.dirty_usage[assoc.assoc_id] = None


def end(state: ClusterState, job: Job, end_at_us: int) -> None:
    """The job has given its allocation back."""
    if state.budgets.books:
        from ctld.core import budgets

        budgets.end(state, job, end_at_us)
    found = state.charged.pop(job.job_id, None)
    if found is None:
        return
    assoc_id, rate = found
    state.shares.end(state.shares.by_id[assoc_id], rate, max(end_at_us, job.start_at_us), state.now_us)
    state.dirty_usage[assoc_id] = None


def charge_all(state: ClusterState, now_us: int) -> None:
    """Jobs that run uncharged (the cluster had priority/basic) are charged from now on."""
    for job in state.jobs.values():
        if job.state in HOLDING_STATES and job.job_id not in state.charged:
            assoc, rate = of(state, job, now_us), charge_of(state, job)
            state.shares.begin(assoc, rate, now_us)
            state.charged[job.job_id] = (assoc.assoc_id, rate)
            state.dirty_usage[assoc.assoc_id] = None


def take_decay(state: ClusterState, decay: Decay, now_us: int) -> None:
    """From now on usage is forgotten in this way. NOW forgets all at once."""
    tree = state.shares
    forget = decay.reset_period == "NOW"
    if tree.decay == decay and not forget:
        return
    if state.ledger is not None:
        state.ledger.take_decay(tree.decay, forget, now_us)
    for assoc in tree.by_id.values():
        if not assoc.usage and not assoc.rate:
            continue
        tree.advance(assoc, now_us)
        if forget:
            assoc.usage = 0
        state.dirty_usage[assoc.assoc_id] = None
    tree.decay = decay


def restore(state: ClusterState, loaded: LoadedShares) -> None:
    """From the rows of the database, at start; the rates come with the partitions (`resume`)."""
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
    for row in found:  # every account under root first: a parent may have a higher number than its children
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
            assoc.usage, assoc.at_us, assoc.spent = entry.usage, entry.at_us, spent_from(entry.tres)


def resume(state: ClusterState) -> None:
    """The rates of the jobs that run at a start. Each was charged when it started, so its usage row is of that time or
    later: amount and time stamp stay as they are, and what it has used since is the difference."""
    for job in state.jobs.values():
        if not job.assoc_id and job.state in ACTIVE_STATES:  # of a version that did not note it
            known = find(state, job)
            job.assoc_id = known.assoc_id if known is not None else 0
        if job.state in HOLDING_STATES:
            assoc = find(state, job)
            if assoc is not None and assoc.at_us >= job.start_at_us:
                rate = charge_of(state, job)
                assoc.rate += rate
                state.charged[job.job_id] = (assoc.assoc_id, rate)


def _restore_one(parent: Assoc, row: AssocRow, state: ClusterState) -> None:
    assoc = Assoc(row.assoc_id, row.account, row.user_name, parent)
    _fill(assoc, row)
    state.own_accounts += row.made_by_itself and not row.user_name
    state.shares.enter(assoc)


def _fill(assoc: Assoc, row: AssocRow) -> None:
    assoc.shares, assoc.priority, assoc.made_by_itself = row.shares, row.priority, row.made_by_itself
    assoc.partition, assoc.limits, assoc.qos, assoc.default_qos = row.partition, row.limits, row.qos, row.default_qos
    assoc.budget, assoc.created_at_us = row.budget, row.created_at_us


def _is_there(tree: ShareTree, row: AssocRow) -> bool:
    if row.partition:
        return (row.account, row.user_name, row.partition) in tree.in_partition
    return (row.account, row.user_name) in tree.users if row.user_name else row.account in tree.accounts


# ---- QOS ---------------------------------------------------------------------------------------------------------


def qos_of(assoc: Assoc) -> tuple[str, ...]:
    """What its jobs may have: its own list, or that of the nearest account above that has one; at the top `normal`."""
    at: Assoc | None = assoc
    while at is not None:
        if at.qos:
            return at.qos
        at = at.parent
    return QOS_AT_THE_TOP
