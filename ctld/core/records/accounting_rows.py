"""Rows of accounting's entities as they leave for the database: associations, usage, accounts, users, wckeys, licences."""

from typing import NamedTuple

from penstock.values.limits import NO_LIMITS, Limits


class AssocRow(NamedTuple):
    """The committed image of an association. Primary key assoc_id."""

    # made by tools/records: row of assoc
    assoc_id: int
    account: str
    user_name: str  # "" = the account itself
    parent: str  # the account above; of a user's association its account
    shares: int  # PARENT_SHARES = as the parent
    priority: int
    made_by_itself: bool  # created implicitly for a job, not added by sacctmgr
    deleted: bool
    partition: str = ""  # of a user's association: it is for jobs in that partition; "" = for all others
    limits: Limits = NO_LIMITS
    qos: tuple[str, ...] = ()  # that its jobs may have; () = as the account above
    default_qos: str = ""  # "" = as the account above
    created_at_us: int = 0
    budget: str = ""  # of an account: penstock.values.budgets
    # end of what is made


class UsageRow(NamedTuple):
    """The usage charged to an association itself, as of a moment. Primary key assoc_id."""

    # made by tools/records: row of assoc_usage
    assoc_id: int
    usage: int  # decay.USAGE_ONE = one billing second
    at_us: int
    tres: str = ""  # the same by TRES (state/spent_minutes.py), where limits are enforced
    # end of what is made


class AccountRow(NamedTuple):
    """The stored record of an account. Primary key name."""

    # made by tools/records: row of account
    name: str
    description: str
    organization: str
    coordinators: tuple[str, ...] = ()  # users who may change what is below it
    deleted: bool = False
    # end of what is made


class UserRow(NamedTuple):
    """The stored record of a user. Primary key name."""

    # made by tools/records: row of account_user
    name: str
    default_account: str
    admin_level: int = 0  # ctld.core.records.events.Role: as set with sacctmgr
    default_wckey: str = ""
    deleted: bool = False
    # end of what is made


class WckeyRow(NamedTuple):
    """A wckey that a user may give to their jobs. Primary key wckey_id; one for each name and user."""

    # made by tools/records: row of wckey
    wckey_id: int
    name: str
    user_name: str
    deleted: bool = False
    # end of what is made


class ResourceRow(NamedTuple):
    """Licences of a server outside of the cluster, and the cluster's part of them. Primary key (name, server)."""

    # made by tools/records: row of resource
    name: str
    server: str
    total: int
    allowed_percent: int = 0
    type: str = "License"
    manager: str = ""
    description: str = ""
    deleted: bool = False
    # end of what is made

    @property
    def key(self) -> str:
        """The name that jobs request, as Slurm's: NAME@SERVER."""
        return f"{self.name}@{self.server}"

    @property
    def ours(self) -> int:
        """The number of licences that the cluster has."""
        return self.total * self.allowed_percent // 100


class TresRow(NamedTuple):
    """The permanent number of a kind of TRES. Primary key tres_id."""

    # made by tools/records: row of tres
    tres_id: int
    name: str  # cpu, gres/gpu:h200, license/matlab@server
    # end of what is made
