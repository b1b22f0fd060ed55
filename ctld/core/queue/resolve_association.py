"""Resolves and validates a job's association, its QOS and its wckey.

    account    what the job names, else its user's default account
    association of (account, user, partition); one for just that partition precedes the one for all
    QOS        what the job names, else DefaultQOS of the association or of the nearest account above that has one, else
               the only one of its list, else `normal`
    wckey      what the job names; where wckeys are tracked and it names none, its user's default with a `*` before it

AccountingStorageEnforce determines what is required. With `associations` the association must exist: of several
partitions those without one are dropped, and with EnforcePartLimits=ALL one without refuses the job. With `qos` the QOS
must be in the association's list: its own, or that of the nearest account above that has one, or `normal` alone. With
`wckeys` the wckey must be one of its user's. An operator who changes a job is not bound by lists of QOS. Root has the
account root, as in Slurm. Without enforcement nothing is refused but a QOS that does not exist.

A QOS with RequiresReservation is only for jobs in reservations, enforced or not (sacctmgr(1)).

Deliberately absent: limits (limits/), and admission to a partition (admit.py).
"""

from collections.abc import Collection

import msgspec

from ctld.core.queue.associations import qos_of
from ctld.core.queue.defaults import find_qos
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.queue.wckeys import wckey_allowed, wckey_of
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, JobSubmission, Role
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest
from ctld.core.state.fairshare import ROOT, Assoc
from ctld.core.state.state import ClusterState
from penstock.values.limits import NO_LIMIT
from penstock.values.refusals import Code
from penstock.values.states import JobState, Reason

ROOT_USER = "root"
#: Keys of scontrol update that change a job's association, QOS or wckey.
KEYS = frozenset(("account", "partition", "qos", "wckey", "reservationname"))


def enforces(state: ClusterState, word: str) -> bool:
    """Whether AccountingStorageEnforce has it, or a value that implies it."""
    return word in state.config.enforce


def account_of_user(state: ClusterState, user: str, said: str) -> str:
    """Returns the account of a job, as its request stores it. Raises Refused where one is required and there is none."""
    account = said or state.shares.default_accounts.get(user, "")
    if not enforces(state, "associations"):
        return account
    if not account and user == ROOT_USER:
        account = ROOT
    if not account:
        raise Refused(Code.INVALID_ACCOUNT, f"user {user} has no default account")
    return account.lower()


def has_association(state: ClusterState, account: str, user: str, partition: str) -> bool:
    """Whether the user has an association. Implicitly created ones count: usage was charged to them before anything was
    enforced."""
    found = state.shares.find(account, user, partition)
    if found is not None:
        return not found.made_by_itself or (account == ROOT and user == ROOT_USER)
    return user == ROOT_USER and account == ROOT


def effective_qos(assoc: Assoc | None) -> tuple[str, ...]:
    """Returns the QOS that jobs of an association may have."""
    return qos_of(assoc) if assoc is not None else (DEFAULT_QOS,)


def default_qos(state: ClusterState, assoc: Assoc | None) -> str:
    """Returns the QOS of its jobs that name none."""
    at = assoc
    while at is not None and not at.default_qos:
        at = at.parent
    if at is not None:
        return at.default_qos
    listed = effective_qos(assoc)
    return listed[0] if len(listed) == 1 and assoc is not None else DEFAULT_QOS


def nearest(state: ClusterState, account: str, user: str, partition: str) -> Assoc | None:
    """Returns the association, or the one that would be above it if it were created."""
    return state.shares.find(account, user, partition) or state.shares.accounts.get(account.lower())


def chosen_qos(
    state: ClusterState, user: str, account: str, partition: str, said: str, reservation: str, bound: bool = True
) -> str:
    """Resolves the QOS of a job. `bound`: it must be in the association's list, where that is enforced. Raises Refused."""
    assoc = nearest(state, account, user, partition)
    name = find_qos(state, said or default_qos(state, assoc))
    if bound and enforces(state, "qos") and name not in effective_qos(assoc):
        raise Refused(Code.INVALID_QOS, f"{name}: it is not among those of account {account}")
    if "RequiresReservation" in state.qos[name].flags and not reservation:
        raise Refused(Code.INVALID_QOS, f"{name}: it is for jobs in a reservation only")
    return name


def chosen_wckey(state: ClusterState, user: str, said: str) -> str:
    """Resolves the wckey of a job. Raises Refused."""
    wckey = wckey_of(state, user, said)
    if state.config.track_wckey and enforces(state, "wckeys") and not wckey_allowed(state, user, wckey):
        raise Refused(Code.INVALID_WCKEY, f"user {user}, wckey {said or 'none'}")
    return wckey


def at_submission(
    state: ClusterState, actor: Actor, wanted: JobSubmission, partitions: tuple[Partition, ...]
) -> tuple[JobSubmission, tuple[Partition, ...]]:
    """Returns the submission with its account, QOS and wckey, and the partitions that it may have. Raises Refused."""
    user = actor.user_name
    account = account_of_user(state, user, wanted.account)
    if enforces(state, "associations"):
        partitions = _with_association(state, account, user, partitions)
    qos = chosen_qos(state, user, account, partitions[0].name, wanted.qos, wanted.reservation)
    wckey = chosen_wckey(state, user, wanted.wckey)
    if (account, qos, wckey) != (wanted.account, wanted.qos, wanted.wckey):
        wanted = msgspec.structs.replace(wanted, account=account, qos=qos, wckey=wckey)
    return wanted, partitions


def _with_association(
    state: ClusterState, account: str, user: str, partitions: tuple[Partition, ...]
) -> tuple[Partition, ...]:
    """Returns those of the partitions for which there is an association. Raises Refused."""
    found = tuple(p for p in partitions if has_association(state, account, user, p.name))
    if not found or (len(found) < len(partitions) and state.config.enforce_part_limits == "ALL"):
        without = next(p for p in partitions if p not in found)
        raise Refused(Code.INVALID_ACCOUNT, f"user {user}, account {account}, partition {without.name}")
    return found


def after_update(
    state: ClusterState, actor: Actor, job: Job, request: JobRequest, changed: Collection[str]
) -> JobRequest:
    """Returns the changed request with a valid association, QOS and wckey. `changed`: the keys of the update. Raises
    Refused."""
    if KEYS.isdisjoint(changed):
        return request
    user, bound = job.user_name, actor.role < Role.OPERATOR
    account = request.account
    qos = request.qos
    wckey = request.wckey
    names = request.partitions
    if "account" in changed:
        account = account_of_user(state, user, request.account)
    if enforces(state, "associations") and ("account" in changed or "partition" in changed):
        found = _with_association(state, account, user, tuple(state.partitions[name] for name in names))
        names = tuple(partition.name for partition in found)
    if "qos" in changed or bound:
        qos = chosen_qos(state, user, account, names[0], request.qos, request.reservation, bound)
    if "wckey" in changed:
        wckey = chosen_wckey(state, user, request.wckey)
    return with_changes(request, account=account, qos=qos, wckey=wckey, partitions=names)


def wait_reason(state: ClusterState, job: Job) -> Reason | None:
    """Returns why an accepted job may not start: its association, QOS or wckey was deleted, or is enforced only since."""
    if job.request.qos not in state.qos:
        return Reason.INVALID_QOS
    if not state.config.enforce or not enforces(state, "associations"):
        return None
    account = job.request.account.lower()
    if any(has_association(state, account, job.user_name, name) for name in job.request.partitions):
        return None
    return Reason.INVALID_ACCOUNT


def reserves(state: ClusterState, job: Job) -> int:
    """Returns 1 = resources of the future are reserved for it while it waits; 0 with a QOS that has NoReserve."""
    qos = state.qos.get(job.request.qos)
    return 0 if qos is not None and "NoReserve" in qos.flags else 1


def qos_changed(state: ClusterState) -> None:
    """Updates the planner's rows of waiting jobs after a change of a QOS's flags."""
    for job in state.jobs.records():
        if job.state is JobState.PENDING:
            for row in state.pending.rows_of(job.job_id):
                state.pending.table.reserve[row] = reserves(state, job)


# ---- time limits ------------------------------------------------------------------------------------------------------


def qos_in_order(state: ClusterState, partition: Partition | None, name: str) -> tuple[Qos, ...]:
    """Returns the QOS whose limits a job has, in the order of precedence: the partition's first, unless its own has
    OverPartQOS."""
    own = state.qos.get(name)
    of_partition = state.qos.get(partition.config.qos) if partition is not None and partition.config.qos else None
    if own is None or of_partition is None or own is of_partition:
        return tuple(qos for qos in (own or of_partition,) if qos is not None)
    return (own, of_partition) if "OverPartQOS" in own.flags else (of_partition, own)


def max_wall_s(state: ClusterState, assoc: Assoc | None, partition: Partition | None, qos: str) -> int:
    """Returns MaxWall of a job, seconds; -1 = none. The first of these that has one: the QOS in their order, the
    association, the nearest account above."""
    for record in qos_in_order(state, partition, qos):
        if record.limits.max_wall_min != NO_LIMIT:
            return record.limits.max_wall_min * 60
    at = assoc
    while at is not None:
        if at.limits.max_wall_min != NO_LIMIT:
            return at.limits.max_wall_min * 60
        at = at.parent
    return -1


def default_limit_s(state: ClusterState, user: str, request: JobRequest, partition: Partition, limit_s: int) -> int:
    """Returns the default time limit of a job: its partition's, and no more than MaxWall where that is enforced."""
    if not enforces(state, "limits"):
        return limit_s
    most_s = max_wall_s(state, nearest(state, request.account, user, partition.name), partition, request.qos)
    return most_s if most_s >= 0 and (limit_s < 0 or most_s < limit_s) else limit_s
