"""Who may see what: PrivateData, and partitions that are hidden from a user.

PrivateData (slurm.conf) names what users may not see of others: jobs, nodes, partitions, reservations, usage, users,
accounts. Operators and administrators see everything. `cloud` and `events` are words of Slurm's that mean nothing here.

A partition is hidden from a user when it says so (Hidden=YES) or when its AllowGroups has none of his groups; a listing
leaves it out, and the jobs in it, unless `--all` is given. This is tidiness and no fence: it can be asked for.
"""

from ctld.core.events import Actor, Role
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
