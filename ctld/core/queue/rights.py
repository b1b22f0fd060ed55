"""Authorisation: which user may do what to which object; one place for jobs and for accounting, used by every handler.

The table of the RPC layer says which roles may call a method at all; this module checks rights to the object. Rules as
Slurm's (user_permissions):

Jobs        A user may touch their own jobs, a coordinator those in their accounts, operators and administrators all. Only
            the latter two may raise a priority or release an administrator's hold. Only administrators may change nodes
            and partitions.
Accounting  Operators and administrators may change everything, except that no user grants a level above their own,
            nor adds, changes or removes a user whose level is above their own: neither the record nor an association,
            a wckey or a coordinatorship. A coordinator of an account may change what is below it, at any depth, but neither
            the account itself nor anything that belongs to no account, and may set no limit above that of the account
            above, and no QOS that it does not have. Users may choose their defaults among their own accounts and
            wckeys.

            A coordinator has rights over accounts, never over users: adding a user to an account gives the coordinator
            rights to that user's later jobs in it, and to nothing else. So a coordinator's addition makes an account the
            default only of a user none of whose jobs could be in another one (`may_give_default`), and a coordinator
            cannot add an account that other users' jobs may already name (`check_new_account`).

A user's level is that of the configuration (SlurmUser, PenstockAdministrators, PenstockOperators) or that set with
sacctmgr, whichever is higher.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ctld.core.queue.associations import account_of, qos_of
from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, Role
from ctld.core.records.job import Job
from ctld.core.state.fairshare import Assoc
from ctld.core.state.state import ClusterState
from penstock.values.config import Config
from penstock.values.limits import NO_LIMIT, OF_ASSOC, Limit, LimitKind, Limits, get
from penstock.values.refusals import Code

#: Keys that a coordinator may set below their accounts. `budget`, `priority` and levels are not among them.
COORDINATOR_KEYS: Final = frozenset(
    ("fairshare", "description", "organization", "qos", "qos+", "qos-", "defaultqos", *OF_ASSOC)
)
#: Further keys that they may set when they add something.
COORDINATOR_KEYS_OF_NEW: Final = frozenset(("parent", "defaultaccount"))
#: Keys that a user may set of their own record.
OWN_KEYS: Final = frozenset(("defaultaccount", "defaultwckey"))


# ---- jobs --------------------------------------------------------------------------------------------------------


def is_own(actor: Actor, job: Job) -> bool:
    """Whether the job is the actor's, or the actor has rights over all jobs."""
    return actor.uid == job.user_id or actor.role >= Role.OPERATOR


def may_touch(state: ClusterState, actor: Actor, job: Job) -> bool:
    """Whether the actor may change, signal or cancel the job."""
    return is_own(actor, job) or coordinates(state, actor.user_name, account_of(state, job))


def coordinates(state: ClusterState, user_name: str, account: str) -> bool:
    """Whether the user is a coordinator of the account or of one above it."""
    own = state.shares.coordinator_of.get(user_name)
    if own is None:
        return False
    at = state.shares.accounts.get(account)
    while at is not None:
        if at.account in own:
            return True
        at = at.parent
    return False


def sees_jobs_of_others(config: Config, actor: Actor) -> bool:
    """Whether PrivateData hides no job from the actor."""
    return actor.role >= Role.OPERATOR or "jobs" not in config.private_data


def sees_job(state: ClusterState, actor: Actor, job: Job) -> bool:
    """Whether PrivateData does not hide the job from the actor."""
    return sees_jobs_of_others(state.config, actor) or may_touch(state, actor, job)


def not_yours(state: ClusterState, actor: Actor, job: Job, code: Code, detail: str = "") -> Refused:
    """Returns the refusal of an action on another user's job.

    A caller who may not see the job gets the same answer as for a job that does not exist: `code` and `detail`.
    """
    if sees_job(state, actor, job):
        return Refused(Code.ACCESS_DENIED)
    return Refused(code, detail)


def coordinated(state: ClusterState, user_name: str) -> frozenset[str]:
    """Returns the accounts that the user coordinates, with all below them."""
    own = state.shares.coordinator_of.get(user_name)
    if not own:
        return frozenset()
    order = [account for name in sorted(own) if (account := state.shares.accounts.get(name)) is not None]
    for account in order:
        order += [child for child in account.children.values() if not child.user_name]
    return frozenset(account.account for account in order)


def has_job(state: ClusterState, node: str, uid: int) -> bool:
    """Whether a job of that user holds something on that node now, so that the node may act for them."""
    found = state.nodes.get(node)
    return found is not None and any(state.jobs[job_id].user_id == uid for job_id in found.jobs)


def require_role(actor: Actor, role: Role, what: str) -> None:
    """Raises Refused unless the actor has the role."""
    if actor.role < role:
        raise Refused(Code.ACCESS_DENIED, f"{what} needs the role {role.name.lower()}")


# ---- accounting --------------------------------------------------------------------------------------------------


def level_given(config: Config, person: UserRow | None, user_name: str) -> Role:
    """Returns a user's level by their name: the higher of those in the configuration and in accounting."""
    if user_name in ("root", config.slurm_user, *config.penstock_administrators):
        return Role.ADMINISTRATOR
    given = Role.OPERATOR if user_name in config.penstock_operators else Role.USER
    return max(given, Role(person.admin_level)) if person is not None else given


def level_of(state: ClusterState, user_name: str) -> Role:
    """Returns a user's present level."""
    return level_given(state.config, state.shares.people.get(user_name), user_name)


class AccountingChange(NamedTuple):
    """An intended change of accounting's records."""

    what: str  # for the refusal
    keys: Iterable[str] = ()  # that are set
    is_new: bool = False
    #: the accounts directly above all that is changed; () = it belongs to no account
    below: tuple[str, ...] = ()
    users: tuple[str, ...] = ()  # users whose record, associations, wckeys or coordinatorships are changed or created
    gives: Role = Role.USER  # level


def authorize(state: ClusterState, actor: Actor, change: AccountingChange) -> None:
    """Raises Refused unless the actor may do it. The refusal does not reveal the levels of others."""
    if change.gives > actor.role:
        raise Refused(
            Code.ACCESS_DENIED, f"{change.what}: who gives the level {change.gives.name.lower()} has it themselves"
        )
    _check_reach(state, actor, change)
    for user in change.users:
        level = level_of(state, user)
        if level > actor.role and user != actor.user_name:
            raise Refused(Code.ACCESS_DENIED, f"{change.what}: {user} has the level {level.name.lower()}")


def _check_reach(state: ClusterState, actor: Actor, change: AccountingChange) -> None:
    """Checks that the actor has rights to the accounts and keys."""
    if actor.role >= Role.OPERATOR:
        return
    if change.users == (actor.user_name,) and not change.is_new and change.keys and OWN_KEYS.issuperset(change.keys):
        return
    allowed = COORDINATOR_KEYS | COORDINATOR_KEYS_OF_NEW if change.is_new else COORDINATOR_KEYS
    if change.below and all(coordinates(state, actor.user_name, account) for account in dict.fromkeys(change.below)):
        denied = [key for key in change.keys if key not in allowed]
        if not denied:
            return
        raise Refused(Code.ACCESS_DENIED, f"{change.what}: a coordinator may not set {denied[0]}")
    raise Refused(Code.ACCESS_DENIED, f"{change.what} needs the role operator, or a coordinator of the accounts above")


def may_give_default(state: ClusterState, actor: Actor, user_name: str, own_job: int) -> bool:
    """Whether an addition to an account may make it the default of a user who has none.

    If every submission requires an account, the user has no job whose account a default would change. Where jobs need
    no account, a user who has submitted jobs keeps no default, and sets it or asks an operator to do so. `own_job`: an
    active one.
    """
    if actor.role >= Role.OPERATOR or "associations" in state.config.enforce:
        return True
    return not own_job and not state.shares.by_user.get(user_name)


def check_new_account(state: ClusterState, actor: Actor, name: str, named_by_job: int) -> None:
    """Raises Refused when an account that a coordinator adds is not new, since its jobs and usage belong to others.

    One that was deleted from below the coordinator's accounts may be restored. `named_by_job`: an active job that names
    the account although it does not exist.
    """
    gone = state.shares.gone.get((name, "", ""))
    was_elsewhere = gone is not None and not coordinates(state, actor.user_name, gone.parent)
    is_default = name == state.config.penstock_default_account.lower()
    if is_default or was_elsewhere or named_by_job or name in state.shares.accounts:
        raise Refused(Code.ACCESS_DENIED, f"account {name} has been used: adding it needs the role operator")


def check_forget(state: ClusterState, actor: Actor, user_name: str) -> None:
    """Raises Refused when a coordinator removes the last association of a user who coordinates accounts elsewhere."""
    if actor.role >= Role.OPERATOR:
        return
    for name in state.shares.coordinator_of.get(user_name, ()):
        account = state.shares.accounts.get(name)
        above = account.parent if account is not None else None
        if above is None or not coordinates(state, actor.user_name, above.account):
            raise Refused(Code.ACCESS_DENIED, f"{user_name} is a coordinator of account {name}")


def check_bounds(actor: Actor, above: Assoc, limits: Limits, changed: Iterable[Limit], qos: tuple[str, ...]) -> None:
    """Checks what a coordinator gives an association below `above`: its new limits and QOS. Raises Refused."""
    if actor.role >= Role.OPERATOR:
        return
    for limit in changed:
        _check_bound(above, limit, limits)
    more = [name for name in qos if name not in qos_of(above)]
    if more:
        raise Refused(Code.ACCESS_DENIED, f"account {above.account} does not have the QOS {more[0]}")


def _check_bound(above: Assoc, limit: Limit, limits: Limits) -> None:
    """Checks one limit: of each TRES, and of a number, the nearest account above that has it is the bound."""
    value = get(limits, limit)
    wanted = dict(value) if limit.kind is LimitKind.TRES else {"": value} if value != NO_LIMIT else {}
    for name, number in wanted.items():
        at: Assoc | None = above
        while at is not None:
            found = get(at.limits, limit)
            bound = dict(found).get(name, NO_LIMIT) if limit.kind is LimitKind.TRES else found
            if bound != NO_LIMIT:
                if number < bound if limit.name == "minpriothreshold" else number > bound:
                    what = f"{limit.keyword} {name}={number}" if name else f"{limit.keyword}={number}"
                    raise Refused(Code.ACCESS_DENIED, f"{what} is beyond what account {at.account} has: {bound}")
                break
            at = at.parent
