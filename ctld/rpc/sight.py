"""Who may see what: PrivateData, and partitions that are hidden from a user. Every listing and report asks here.

PrivateData (slurm.conf) names what users may not see of others. Operators and administrators see everything. A coordinator
sees the jobs, usage and users of his accounts and of all below them.

    accounts      accounts that one neither belongs to nor coordinates, and what is above these
    events        times at which nodes or the cluster were not up
    jobs          jobs and steps of others, and numbers of them
    nodes, partitions    all of them
    reservations  those that one may not use
    usage         what others have used: in sshare, sreport, assoc_mgr
    users         other users and their associations

`cloud` means nothing here. What is not seen looks as if it did not exist, also in errors (ctld.core.rights.not_yours).

A partition is hidden from a user when it says so (Hidden=YES) or when its AllowGroups has none of his groups; a listing
leaves it out, and the jobs in it, unless `--all` is given. This is tidiness and no fence: it can be asked for.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ctld.core.events import Actor, JobFilter, Role
from ctld.core.model import Job, JobRow, Reservation
from ctld.core.reserve_who import permits
from ctld.core.rights import coordinated, sees_jobs_of_others
from ctld.core.state import ClusterState
from penstock.values.config import Config


def is_private(config: Config, actor: Actor, what: str) -> bool:
    """Whether this kind of thing of others is not for this user."""
    return actor.role < Role.OPERATOR and what in config.private_data


# ---- jobs --------------------------------------------------------------------------------------------------------


class JobSight(NamedTuple):
    """Whose jobs somebody sees: those of `uid` and of `accounts`."""

    uid: int = -1  # -1 = all
    accounts: frozenset[str] = frozenset()

    def sees(self, job: Job | JobRow) -> bool:
        """Whether this is one of them."""
        return self.sees_of(job.user_id, job.request.account)

    def sees_of(self, uid: int, account: str) -> bool:
        """Whether a job of this user and account is one of them."""
        return self.uid < 0 or uid == self.uid or account.lower() in self.accounts

    def narrow(self, which: JobFilter) -> JobFilter:
        """The same filter for these eyes."""
        if self.uid < 0:
            return which
        if self.accounts:
            return msgspec.structs.replace(which, seen_uid=self.uid, seen_accounts=tuple(sorted(self.accounts)))
        if which.unknown_user or (which.uids and self.uid not in which.uids):
            return msgspec.structs.replace(which, unknown_user=True)
        return msgspec.structs.replace(which, uids=(self.uid,))


ALL_JOBS = JobSight()


def job_sight(state: ClusterState, actor: Actor) -> JobSight:
    """Whose jobs this user sees."""
    if sees_jobs_of_others(state.config, actor):
        return ALL_JOBS
    return JobSight(actor.uid, _coordinated(state, actor))


def script_sight(state: ClusterState, actor: Actor) -> JobSight:
    """Whose scripts, environments and crontabs this user sees. Operators see those of others no more than users do."""
    if actor.role >= Role.ADMINISTRATOR:
        return ALL_JOBS
    return JobSight(actor.uid, _coordinated(state, actor) if state.config.coordinators_read_scripts else frozenset())


def _coordinated(state: ClusterState, actor: Actor) -> frozenset[str]:
    accounts = coordinated(state, actor.user_name)
    # "" is of jobs that name none
    return accounts | {""} if state.config.penstock_default_account.lower() in accounts else accounts


# ---- partitions, reservations ------------------------------------------------------------------------------------


def hidden_partitions(state: ClusterState, actor: Actor) -> frozenset[str]:
    """Partitions that listings leave out for this user."""
    if actor.role >= Role.OPERATOR:
        return frozenset()
    own = {actor.group_name, *actor.groups}
    return frozenset(
        partition.name
        for partition in state.partition_list
        if partition.config.hidden or (partition.config.allow_groups and own.isdisjoint(partition.config.allow_groups))
    )


def sees_reservation(config: Config, actor: Actor, reservation: Reservation) -> bool:
    """With PrivateData=reservations only those that may be used by him."""
    if not is_private(config, actor, "reservations"):
        return True
    return any(permits(reservation, actor.uid, group) for group in dict.fromkeys((actor.group_name, *actor.groups)))


# ---- accounting --------------------------------------------------------------------------------------------------


class AccountSight(NamedTuple):
    """What of accounting somebody sees."""

    user: str
    hides_users: bool
    hides_usage: bool
    hides_accounts: bool
    coordinated: frozenset[str]  # with all below
    accounts: frozenset[str]  # that he belongs to or coordinates, and those above them

    def sees_user(self, user: str, accounts: Iterable[str]) -> bool:
        """Whether he may know of a user, who is in these accounts."""
        return not self.hides_users or user == self.user or any(account in self.coordinated for account in accounts)

    def sees_account(self, account: str) -> bool:
        """Whether he may know of an account."""
        return not self.hides_accounts or account in self.accounts

    def sees_assoc(self, account: str, user: str) -> bool:
        """Whether he may see an association; `user` "" = the account's own."""
        return self.sees_account(account) and (not user or self.sees_user(user, (account,)))

    def sees_usage(self, account: str, user: str) -> bool:
        """Whether he may see what an association has used. What an account has used as a whole is no user's usage."""
        if not self.sees_assoc(account, user):
            return False
        return not self.hides_usage or not user or user == self.user or account in self.coordinated


def account_sight(state: ClusterState, actor: Actor) -> AccountSight:
    """What of accounting this user sees."""
    config, name, tree = state.config, actor.user_name, state.shares
    hides = tuple(is_private(config, actor, word) for word in ("users", "usage", "accounts"))
    if not any(hides):
        return AccountSight(name, False, False, False, frozenset(), frozenset())
    mine = coordinated(state, name)
    known: dict[str, None] = dict.fromkeys(sorted(mine))
    known |= dict.fromkeys(assoc.account for assoc in tree.places.get(name, ()))
    for account in list(known):
        at = tree.accounts.get(account)
        while at is not None:
            known[at.account] = None
            at = at.parent
    return AccountSight(name, hides[0], hides[1], hides[2], mine, frozenset(known))


def usage_filter(state: ClusterState, actor: Actor, *words: str) -> Callable[[Any], bool]:
    """Whose usage somebody sees, of records with `user_id` and `account`: with PrivateData=usage or users (or one of
    `words`) his own and that of the accounts that he coordinates, with accounts that of accounts which he sees."""
    sight = account_sight(state, actor)
    hides = sight.hides_usage or sight.hides_users or any(is_private(state.config, actor, word) for word in words)
    if not hides:
        return lambda owner: sight.sees_account(owner.account)
    ours = sight.coordinated or coordinated(state, actor.user_name)  # it does not look where only `words` hide
    return lambda owner: owner.user_id == actor.uid or owner.account in ours
