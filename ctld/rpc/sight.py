"""Who may see what: PrivateData, and partitions that are hidden from a user.

PrivateData (slurm.conf) names what users may not see of others: jobs, nodes, partitions, reservations, usage, users,
accounts, events. Operators and administrators see everything. `cloud` is a word of Slurm's that means nothing here.

A partition is hidden from a user when it says so (Hidden=YES) or when its AllowGroups has none of his groups; a listing
leaves it out, and the jobs in it, unless `--all` is given. This is tidiness and no fence: it can be asked for.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ctld.core.events import Actor, JobFilter, Role
from ctld.core.model import Reservation
from ctld.core.reserve_who import permits
from ctld.core.rights import coordinates
from ctld.core.state import ClusterState
from penstock.values.config import Config


def is_private(config: Config, actor: Actor, what: str) -> bool:
    """Whether this kind of thing of others is not for this user."""
    return actor.role < Role.OPERATOR and what in config.private_data


def own_jobs_only(config: Config, actor: Actor) -> bool:
    """Whether this user sees no jobs but his own."""
    return is_private(config, actor, "jobs")


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


def own_uids(config: Config, actor: Actor, uids: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The users whose jobs somebody sees of those he asks for (none = all), and whether there is nothing to see."""
    if not own_jobs_only(config, actor):
        return uids, False
    return (actor.uid,), bool(uids) and actor.uid not in uids


def own_only(which: JobFilter, uid: int) -> JobFilter:
    """The same filter for somebody who may see only his own jobs."""
    if which.unknown_user or (which.uids and uid not in which.uids):
        return msgspec.structs.replace(which, unknown_user=True)
    return msgspec.structs.replace(which, uids=(uid,))


def sees_reservation(config: Config, actor: Actor, reservation: Reservation) -> bool:
    """With PrivateData=reservations only those that may be used by him."""
    if not is_private(config, actor, "reservations"):
        return True
    return any(permits(reservation, actor.uid, group) for group in dict.fromkeys((actor.group_name, *actor.groups)))


def usage_filter(state: ClusterState, actor: Actor, *words: str) -> Callable[[Any], bool]:
    """Whose usage somebody sees, of records with `user_id` and `account`: with PrivateData=usage his own and that of the
    accounts that he coordinates, and of those below them."""
    if not any(is_private(state.config, actor, word) for word in words or ("usage",)):
        return lambda owner: True
    ours = frozenset(name for name in state.shares.accounts if coordinates(state, actor.user_name, name))
    return lambda owner: owner.user_id == actor.uid or owner.account in ours


def seen_associations(config: Config, actor: Actor, found: Iterable[Any]) -> list[Any]:
    """Of shares_pb2.Association: those of other users are left out with `users` or `usage`, other accounts with `accounts`."""
    messages = list(found)
    if is_private(config, actor, "users") or is_private(config, actor, "usage"):
        messages = [message for message in messages if message.user in ("", actor.user_name)]
    if is_private(config, actor, "accounts"):
        parents = {message.account: message.parent for message in messages if not message.user}
        own: dict[str, None] = {}
        for message in messages:
            account = message.account if message.user == actor.user_name else ""
            while account and account not in own:
                own[account] = None
                account = parents.get(account, "")
        messages = [message for message in messages if message.account in own]
    return messages
