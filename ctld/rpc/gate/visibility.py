"""Visibility: PrivateData, and partitions that are hidden from a user. Every listing and report uses it.

PrivateData (slurm.conf) names what users may not see of others. Operators and administrators see everything. A
coordinator sees the jobs, usage and users of their accounts and of all below them.

    accounts      accounts that one neither belongs to nor coordinates, and what is above these
    events        times at which nodes or the cluster were not up
    jobs          jobs and steps of others, and numbers of them
    nodes, partitions    all of them
    reservations  those that one may not use
    usage         what others have used: in sshare, sreport, assoc_mgr
    users         other users and their associations

`cloud` has no effect. Invisible objects look as if they did not exist, also in errors
(ctld.core.queue.rights.not_yours).

A partition is hidden from a user when it has Hidden=YES or when its AllowGroups has none of their groups; listings omit
it, and the jobs in it, unless `--all` is given. This only shortens listings and is no access control.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from ctld.core.queue.rights import coordinated, sees_jobs_of_others
from ctld.core.records.events import Actor, JobFilter, Role
from ctld.core.records.job import Job, JobRow
from ctld.core.records.reservation import Reservation
from ctld.core.reservations.access import permits
from ctld.core.state.state import ClusterState
from penstock.values.config import Config


def is_private(config: Config, actor: Actor, what: str) -> bool:
    """Whether PrivateData hides this kind of data of others from the user."""
    return actor.role < Role.OPERATOR and what in config.private_data


# ---- jobs --------------------------------------------------------------------------------------------------------


#: How the core's texts name a job.
_JOB_NAMED: Final = re.compile(r"\bjob (\d+)\b")
#: A dependency with the states of the jobs that it names (core/jobs/dependees.py). It may be older than PrivateData.
_TERM: Final = re.compile(r"\b(after[a-z]*):(\d+)\S{0,64} \([^)]*\)")


class JobVisibility(NamedTuple):
    """The jobs that a user may see: those of `uid` and of `accounts`."""

    uid: int = -1  # -1 = all
    accounts: frozenset[str] = frozenset()

    def sees(self, job: Job | JobRow) -> bool:
        """Whether the job is one of them."""
        return self.sees_of(job.user_id, job.request.account)

    def sees_of(self, uid: int, account: str) -> bool:
        """Whether a job of this user and account is one of them."""
        return self.uid < 0 or uid == self.uid or account.lower() in self.accounts

    def redact(self, text: str, jobs: Mapping[int, JobRow]) -> str:
        """Replaces invisible jobs in a text of the core by "another job". `jobs`: the existing ones."""
        if self.uid < 0:
            return text

        def named(found: re.Match[str]) -> str:
            row = jobs.get(int(found[1]))
            return found[0] if row is not None and self.sees(row) else "another job"

        def term(found: re.Match[str]) -> str:
            row = jobs.get(int(found[2]))
            return found[0] if row is not None and self.sees(row) else f"{found[1]} another job"

        return _TERM.sub(term, _JOB_NAMED.sub(named, text))

    def narrow(self, which: JobFilter) -> JobFilter:
        """Narrows the filter to what the user may see."""
        if self.uid < 0:
            return which
        if self.accounts:
            return msgspec.structs.replace(which, seen_uid=self.uid, seen_accounts=tuple(sorted(self.accounts)))
        if which.unknown_user or (which.uids and self.uid not in which.uids):
            return msgspec.structs.replace(which, unknown_user=True)
        return msgspec.structs.replace(which, uids=(self.uid,))


ALL_JOBS = JobVisibility()


def job_visibility(state: ClusterState, actor: Actor) -> JobVisibility:
    """Returns the jobs that this user may see."""
    if sees_jobs_of_others(state.config, actor):
        return ALL_JOBS
    return JobVisibility(actor.uid, _coordinated(state, actor))


def script_visibility(state: ClusterState, actor: Actor) -> JobVisibility:
    """Returns the jobs whose scripts, environments and crontabs this user may see. Operators see only their own, as
    users do."""
    if actor.role >= Role.ADMINISTRATOR:
        return ALL_JOBS
    return JobVisibility(
        actor.uid, _coordinated(state, actor) if state.config.coordinators_read_scripts else frozenset()
    )


def _coordinated(state: ClusterState, actor: Actor) -> frozenset[str]:
    accounts = coordinated(state, actor.user_name)
    # "" stands for jobs without an account
    return accounts | {""} if state.config.penstock_default_account.lower() in accounts else accounts


# ---- partitions, reservations ------------------------------------------------------------------------------------


def hidden_partitions(state: ClusterState, actor: Actor) -> frozenset[str]:
    """Returns partitions that listings omit for this user."""
    if actor.role >= Role.OPERATOR:
        return frozenset()
    own = {actor.group_name, *actor.groups}
    return frozenset(
        partition.name
        for partition in state.partition_list
        if partition.config.hidden or (partition.config.allow_groups and own.isdisjoint(partition.config.allow_groups))
    )


def sees_reservation(config: Config, actor: Actor, reservation: Reservation) -> bool:
    """Whether the user may see the reservation. With PrivateData=reservations only if they may use it."""
    if not is_private(config, actor, "reservations"):
        return True
    return any(permits(reservation, actor.uid, group) for group in dict.fromkeys((actor.group_name, *actor.groups)))


# ---- accounting --------------------------------------------------------------------------------------------------


class AccountVisibility(NamedTuple):
    """The accounting entities that a user may see."""

    user: str
    hides_users: bool
    hides_usage: bool
    hides_accounts: bool
    coordinated: frozenset[str]  # with all below
    accounts: frozenset[str]  # that they belong to or coordinate, and those above them

    def sees_user(self, user: str, accounts: Iterable[str]) -> bool:
        """Whether they may see a user with these accounts."""
        return not self.hides_users or user == self.user or any(account in self.coordinated for account in accounts)

    def sees_account(self, account: str) -> bool:
        """Whether they may see an account."""
        return not self.hides_accounts or account in self.accounts

    def sees_assoc(self, account: str, user: str) -> bool:
        """Whether they may see an association; `user` "" = the account's own."""
        return self.sees_account(account) and (not user or self.sees_user(user, (account,)))

    def sees_usage(self, account: str, user: str) -> bool:
        """Whether they may see an association's usage. The usage of an account as a whole is no user's usage."""
        if not self.sees_assoc(account, user):
            return False
        return not self.hides_usage or not user or user == self.user or account in self.coordinated


def account_visibility(state: ClusterState, actor: Actor) -> AccountVisibility:
    """Returns the accounting entities that this user may see."""
    config = state.config
    name = actor.user_name
    tree = state.shares
    hides = tuple(is_private(config, actor, word) for word in ("users", "usage", "accounts"))
    if not any(hides):
        return AccountVisibility(name, False, False, False, frozenset(), frozenset())
    mine = coordinated(state, name)
    known: dict[str, None] = dict.fromkeys(sorted(mine))
    known |= dict.fromkeys(assoc.account for assoc in tree.by_user.get(name, ()))
    for account in list(known):
        at = tree.accounts.get(account)
        while at is not None:
            known[at.account] = None
            at = at.parent
    return AccountVisibility(name, hides[0], hides[1], hides[2], mine, frozenset(known))


class UsageOwned(Protocol):
    """A record of usage that belongs to a user and an account."""

    @property
    def user_id(self) -> int:
        """The user's uid."""

    @property
    def account(self) -> str:
        """The account's name."""


def usage_filter(state: ClusterState, actor: Actor, *words: str) -> Callable[[UsageOwned], bool]:
    """Returns the filter of the usage that a user may see, of records with `user_id` and `account`.

    With PrivateData=usage or users (or one of `words`) users see their own and that of the accounts that they
    coordinate; with accounts, that of the accounts that they see.
    """
    visibility = account_visibility(state, actor)
    hides = (
        visibility.hides_usage or visibility.hides_users or any(is_private(state.config, actor, word) for word in words)
    )
    if not hides:
        return lambda owner: visibility.sees_account(owner.account)
    ours = visibility.coordinated or coordinated(state, actor.user_name)  # the first is empty where only `words` hide
    return lambda owner: owner.user_id == actor.uid or owner.account in ours
