"""The facts of a cluster's configuration that its row in the registry has (ctld/store/registry.py): by these, and by the
rows of its own schema, the controller of another cluster decides who may read what there.

They are fields of `Config` by their names, so that the same code decides on both sides. A fact that is missing, unknown or of
another type makes the row useless: a cluster whose PrivateData is not known is not read.
"""

import os
from typing import Final, get_type_hints

import msgspec

from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.events import Actor, Role
from ctld.rpc.gate.auth import VIA, Roles
from ctld.store.registry import RegisteredCluster
from penstock import SLURM_VERSION
from penstock.values.config import Config
from penstock.values.errors import BadValue

#: Who may see what, and what listings and reports depend on beside the rows.
FACTS: Final = (
    "private_data", "slurm_user", "penstock_administrators", "penstock_operators", "coordinators_read_scripts",
    "penstock_default_account", "enforce", "priority_type", "priority_flags", "utc_offsets",
)  # fmt: skip
_OWNER: Final = "owner_uid"  # of the controller's process, who administers it
_TYPES: Final = {name: kind for name, kind in get_type_hints(Config).items() if name in FACTS}


class NeighbourConfig(msgspec.Struct, frozen=True):
    """What is known of another cluster's configuration."""

    config: Config
    owner_uid: int


def registration(config: Config, now_us: int) -> RegisteredCluster:
    """Returns the row of this cluster. The registry knows its schema."""
    facts = {name: getattr(config, name) for name in FACTS} | {_OWNER: os.geteuid()}
    return RegisteredCluster(
        config.cluster_name, "", config.controller_host, config.slurmctld_port, SLURM_VERSION, now_us,
        msgspec.json.encode(facts).decode(),
    )  # fmt: skip


def config_of(row: RegisteredCluster) -> NeighbourConfig:
    """Returns the configuration of a row, as far as it is known. Raises BadValue."""
    try:
        facts = msgspec.json.decode(row.facts, type=dict[str, object])
        found = {name: msgspec.convert(facts[name], _TYPES[name]) for name in FACTS}
        owner_uid = msgspec.convert(facts[_OWNER], int)
    except (msgspec.MsgspecError, KeyError) as error:
        raise BadValue(f"cluster {row.name}: its row in the registry cannot be used: {error}") from None
    config = Config(
        cluster_name=row.name, controller_host=row.control_host, slurmctld_port=row.control_port, **found
    )  # fmt: skip
    return NeighbourConfig(config, owner_uid)


def actor_there(actor: Actor, there: NeighbourConfig, people: dict[str, UserRow]) -> Actor:
    """Returns the caller with the role that they have on the other cluster.

    That cluster trusts none of our nodes and login hosts, and they vouch for users who are plain ones here: so who comes
    from one of these, or with a token, is a plain user there.
    """
    if actor.via != VIA["controller"]:
        return msgspec.structs.replace(actor, role=Role.USER)
    config = there.config
    roles = Roles(
        frozenset((config.slurm_user, *config.penstock_administrators)),
        frozenset(config.penstock_operators),
        frozenset((0, there.owner_uid)),
        config.slurm_user,
        people,
    )
    return msgspec.structs.replace(actor, role=roles.role(actor.uid, actor.user_name))
