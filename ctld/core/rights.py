"""Who may do what to which object: one place for jobs and for accounting, used by every handler.

Which roles may call a method at all stands in the table of the RPC layer; here the object decides. Rules as Slurm's
(user_permissions):

Jobs        A user may touch his own jobs, a coordinator those in his accounts, operators and administrators all. Only
            the latter two may raise a priority, release what an administrator holds. Nodes and partitions are the
            administrator's.
Accounting  Operators and administrators may change everything, except that nobody grants a level above his own, and
            nobody changes or removes a user whose level is above his own. A coordinator of an account may change what is
            below it, at any depth, but neither the account itself nor anything that is no matter of an account; he
            gives no limit above that of the account above, and no QOS that it does not have. A user may choose among
            his own accounts and wckeys what he gets when he names none.

A level is what the configuration gives (SlurmUser, PenstockAdministrators, PenstockOperators) or what sacctmgr has given,
whichever is higher.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ctld.core.assocs import account_of, qos_of
from ctld.core.effects import Refused
from ctld.core.events import Actor, Role
from ctld.core.fairshare import Assoc, UserRow
from ctld.core.model import Job
from ctld.core.state import ClusterState
from penstock.values.config import Config
from penstock.values.limits import NO_LIMIT, OF_ASSOC, Kind, Limit, Limits, get
from penstock.values.refusals import Code

#: What a coordinator may set below his accounts. `budget`, `priority` and levels are not among it.
COORDINATOR_KEYS: Final = frozenset(
    ("fairshare", "description", "organization", "qos", "qos+", "qos-", "defaultqos", *OF_ASSOC)
)
#: What he may set besides when he adds something.
COORDINATOR_KEYS_OF_NEW: Final = frozenset(("parent", "defaultaccount"))
#: What a user may set of his own record.
OWN_KEYS: Final = frozenset(("defaultaccount", "defaultwckey"))


# ---- jobs --------------------------------------------------------------------------------------------------------


def is_own(actor: Actor, job: Job) -> bool:
    """True when the job is the actor's, or he stands above all jobs."""
    return actor.uid == job.user_id or actor.role >= Role.OPERATOR


def may_touch(state: ClusterState, actor: Actor, job: Job) -> bool:
    """True when the actor may change, signal or cancel the job."""
    return is_own(actor, job) or coordinates(state, actor.user_name, account_of(state, job))


def coordinates(state: ClusterState, user_name: str, account: str) -> bool:
    """True when the user is a coordinator of the account or of one above it."""
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
    """True when PrivateData keeps no job from the actor."""
    return actor.role >= Role.OPERATOR or "jobs" not in config.private_data


def not_yours(state: ClusterState, actor: Actor, job: Job, code: Code, detail: str = "") -> Refused:
    """The refusal of something that is done to a job of somebody else.

    Who may not see the job is told what he would be told if it did not exist: `code` and `detail`.
    """
    if sees_jobs_of_others(state.config, actor) or may_touch(state, actor, job):
        return Refused(Code.ACCESS_DENIED)
    return Refused(code, detail)


def coordinated(state: ClusterState, user_name: str) -> frozenset[str]:
    """The accounts that the user coordinates, with all below them."""
    own = state.shares.coordinator_of.get(user_name)
    if not own:
        return frozenset()
    order = [account for name in sorted(own) if (account := state.shares.accounts.get(name)) is not None]
    for account in order:
        order += [child for child in account.children.values() if not child.user_name]
    return frozenset(account.account for account in order)


def has_job(state: ClusterState, node: str, uid: int) -> bool:
    """True when a job of that user holds something on that node now, so that the node may speak for him."""
    found = state.nodes.get(node)
    return found is not None and any(state.jobs[job_id].user_id == uid for job_id in found.jobs)


def require_role(actor: Actor, role: Role, what: str) -> None:
    """Raise Refused unless the actor has the role."""
    if actor.role < role:
        raise Refused(Code.ACCESS_DENIED, f"{what} needs the role {role.name.lower()}")


# ---- accounting --------------------------------------------------------------------------------------------------


def level_given(config: Config, person: UserRow | None, user_name: str) -> Role:
    """A user's level by his name: the higher of what the configuration and accounting say."""
    if user_name in ("root", config.slurm_user, *config.penstock_administrators):
        return Role.ADMINISTRATOR
    given = Role.OPERATOR if user_name in config.penstock_operators else Role.USER
    return max(given, Role(person.admin_level)) if person is not None else given


def level_of(state: ClusterState, user_name: str) -> Role:
    """The same, as of now."""
    return level_given(state.config, state.shares.people.get(user_name), user_name)


class Deed(NamedTuple):
    """What somebody wants to do to accounting's records."""

    what: str  # for the refusal
    keys: Iterable[str] = ()  # that are set
    is_new: bool = False
    #: the accounts directly above all that is changed; () = it is no matter of an account
    below: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()  # users whose record or associations are changed
    gives: Role = Role.USER  # level


def authorize(state: ClusterState, actor: Actor, deed: Deed) -> None:
    """Raise Refused unless the actor may do it. Who may not anyhow is told nothing of the levels of others."""
    if deed.gives > actor.role:
        raise Refused(Code.ACCESS_DENIED, f"{deed.what}: who gives the level {deed.gives.name.lower()} has it himself")
    _check_reach(state, actor, deed)
    for holder in deed.holders:
        level = level_of(state, holder)
        if level > actor.role and holder != actor.user_name:
            raise Refused(Code.ACCESS_DENIED, f"{deed.what}: {holder} has the level {level.name.lower()}")


def _check_reach(state: ClusterState, actor: Actor, deed: Deed) -> None:
    """Whether the accounts and keys are his to change."""
    if actor.role >= Role.OPERATOR:
        return
    if deed.holders == (actor.user_name,) and deed.keys and OWN_KEYS.issuperset(deed.keys):
        return
    allowed = COORDINATOR_KEYS | COORDINATOR_KEYS_OF_NEW if deed.is_new else COORDINATOR_KEYS
    if deed.below and all(coordinates(state, actor.user_name, account) for account in dict.fromkeys(deed.below)):
        denied = [key for key in deed.keys if key not in allowed]
        if not denied:
            return
        raise Refused(Code.ACCESS_DENIED, f"{deed.what}: a coordinator may not set {denied[0]}")
    raise Refused(Code.ACCESS_DENIED, f"{deed.what} needs the role operator, or a coordinator of the accounts above")


def check_bounds(actor: Actor, above: Assoc, limits: Limits, changed: Iterable[Limit], qos: tuple[str, ...]) -> None:
    """What a coordinator gives an association below `above`: its new limits and QOS. Raises Refused."""
    if actor.role >= Role.OPERATOR:
        return
    for limit in changed:
        _check_bound(above, limit, limits)
    more = [name for name in qos if name not in qos_of(above)]
    if more:
        raise Refused(Code.ACCESS_DENIED, f"account {above.account} does not have the QOS {more[0]}")


def _check_bound(above: Assoc, limit: Limit, limits: Limits) -> None:
    """One limit: of each TRES, and of a number, the nearest account above that has it is the bound."""
    value = get(limits, limit)
    wanted = dict(value) if limit.kind is Kind.TRES else {"": value} if value != NO_LIMIT else {}
    for name, number in wanted.items():
        at: Assoc | None = above
        while at is not None:
            found = get(at.limits, limit)
            bound = dict(found).get(name, NO_LIMIT) if limit.kind is Kind.TRES else found
            if bound != NO_LIMIT:
                if number < bound if limit.name == "minpriothreshold" else number > bound:
                    what = f"{limit.keyword} {name}={number}" if name else f"{limit.keyword}={number}"
                    raise Refused(Code.ACCESS_DENIED, f"{what} is beyond what account {at.account} has: {bound}")
                break
            at = at.parent
