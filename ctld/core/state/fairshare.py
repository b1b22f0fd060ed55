"""The fair-share tree: accounts and users, their usage, and their fair-share factors.

An association is a node of the tree for an account or a user: root -> accounts -> users. It has shares, and usage of
its own, which was charged to it directly. An account's usage is its own (that of users who were removed) and that of
everything below it.

Usage is carried forward from a time stamp (records/decay.py): between two changes of an association's rate - the
billing of its running jobs - nothing is written, and a start or an end costs one row however many jobs run. The row and
the jobs' rows leave in one transaction, so that after a crash amount, time stamp and running jobs are consistent.

Fair Tree (the default), as Slurm documents it: among siblings, level fair-share = S / U, where S is its fraction of the
siblings' shares and U its fraction of their usage. The tree is walked from the root, siblings with the highest level
fair-share first, and users are numbered in that order; the factor is rank / number of users. Equal users have one rank;
the children of equal accounts are ranked together; a user equal to an account has the rank of its best user. So when
one account is better off than its sibling, all of its users come before all of the sibling's.

NO_FAIR_TREE: the factor is 2^(-(U/S)/dampening), with U the effective usage: an account's own fraction of the whole,
weighted with its parent's by its fraction of the shares; directly below root it is its own fraction.

No float decides: S / U is compared as a whole number scaled by 2^64. Shares `parent`: an account's children compete
with its siblings; a user ranks with the account from which their shares come.

Deliberately absent: limits and QOS (limits/checks.py), and rights to change the tree (accounts/requests.py).
"""

from collections.abc import Iterator

# Any: associations are found by account and user or by those and a partition
from typing import TYPE_CHECKING, Any, NamedTuple

from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.records.decay import ONE, Decay, carry, half_power
from ctld.core.state.usage_resets import last_reset_us
from penstock.values.limits import NO_LIMITS

if TYPE_CHECKING:
    from ctld.core.state.spent_minutes import Spent

ROOT = "root"
ROOT_ID = 1
#: The value of shares for: as the parent.
PARENT_SHARES = -1
SHARES_MAX = 2**31 - 2
#: Maximum depth of the tree. Slurm's own limit of a name with all its parents is of that order.
DEPTH_MAX = 64

LEVEL_BITS = 64
#: Level fair-share of users and accounts without usage: above every quotient.
LEVEL_MAX = 1 << 192


class LoadedShares(NamedTuple):
    """The stored tree from the database."""

    assocs: tuple[AssocRow, ...] = ()
    usage: tuple[UsageRow, ...] = ()
    accounts: tuple[AccountRow, ...] = ()
    users: tuple[UserRow, ...] = ()
    next_assoc_id: int = ROOT_ID + 1
    gone: tuple[AssocRow, ...] = ()  # deleted associations
    wckeys: tuple[WckeyRow, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    tres: tuple[TresRow, ...] = ()


class Assoc:
    """One association. The fields below the line are derived at each recalculation."""

    __slots__ = (
        "account", "assoc_id", "at_us", "budget", "children", "created_at_us", "default_qos", "factor", "level", "level_shares",
        "level_usage", "limits", "made_by_itself", "parent", "partition", "priority", "qos", "rate", "shares", "spent",
        "total", "usage", "user_name",
    )  # fmt: skip

    def __init__(self, assoc_id: int, account: str, user_name: str, parent: "Assoc | None", shares: int = 1) -> None:
        self.assoc_id = assoc_id
        self.account = account
        self.user_name = user_name
        self.parent = parent
        self.shares = shares
        self.partition = ""
        self.priority = 0
        self.made_by_itself = False
        self.limits = NO_LIMITS
        self.qos: tuple[str, ...] = ()
        self.default_qos = ""
        self.budget = ""
        self.created_at_us = 0
        self.usage = 0  # charged to it
        self.at_us = 0  # as of when
        self.spent: Spent | None = None  # its own usage by TRES, where limits are enforced
        self.rate = 0  # billing of its running jobs, decay.RATE_ONE = one unit
        self.children: dict[int, Assoc] = {}
        if parent is not None:
            parent.children[assoc_id] = self
        # ---- derived
        self.total = 0  # usage of all below it, and its own
        self.level_shares = 1  # total of all siblings
        self.level_usage = 0
        self.level = LEVEL_MAX
        self.factor = (1, 1)  # until the next ranking a new one ranks first: it has no usage

    def row(self, deleted: bool = False) -> AssocRow:
        """Returns its row."""
        parent = "" if self.parent is None else self.parent.account
        return AssocRow(
            self.assoc_id, self.account, self.user_name, parent, self.shares, self.priority, self.made_by_itself,
            deleted, self.partition, self.limits, self.qos, self.default_qos, self.created_at_us, self.budget,
        )  # fmt: skip

    def usage_row(self) -> UsageRow:
        """Returns the row of its own usage."""
        return UsageRow(self.assoc_id, self.usage, self.at_us, self.spent.text() if self.spent is not None else "")


class ShareTree:
    """All associations. Code that changes it marks the rows to write (ctld.core.queue.associations)."""

    def __init__(self) -> None:
        self.root = Assoc(ROOT_ID, ROOT, "", None)
        self.accounts: dict[str, Assoc] = {ROOT: self.root}
        self.users: dict[tuple[str, str], Assoc] = {}  # by (account, user): those for all partitions
        self.in_partition: dict[tuple[str, str, str], Assoc] = {}  # by (account, user, partition)
        self.by_id: dict[int, Assoc] = {ROOT_ID: self.root}
        self.about: dict[str, AccountRow] = {ROOT: AccountRow(ROOT, "default root account", ROOT)}
        self.default_accounts: dict[str, str] = {}  # by user
        self.people: dict[str, UserRow] = {}  # by user: those that exist by request
        self.by_user: dict[str, tuple[Assoc, ...]] = {}  # by user: all of their associations
        self.coordinator_of: dict[str, tuple[str, ...]] = {}  # by user: accounts, without those below them
        self.wckeys: dict[tuple[str, str], WckeyRow] = {}  # by (name, user), including deleted ones
        # deleted ones, which keep their numbers when they are added again
        self.gone: dict[tuple[str, str, str], AssocRow] = {}  # by (account, user, partition)
        self.gone_accounts: dict[str, AccountRow] = {}
        self.gone_people: dict[str, UserRow] = {}
        self.next_id = ROOT_ID + 1
        self.decay = Decay()
        self.user_count = 0  # as of the last ranking

    def add(self, account: str, user_name: str, parent: Assoc, shares: int = 1, partition: str = "") -> Assoc:
        """Adds an association; the caller has checked that there is none. A deleted one gets its former number."""
        gone = self.gone.pop((account, user_name, partition), None)
        assoc = Assoc(self.next_id if gone is None else gone.assoc_id, account, user_name, parent, shares)
        assoc.partition = partition
        self.next_id += gone is None
        self.enter(assoc)
        return assoc

    def enter(self, assoc: Assoc) -> None:
        """Adds an association to the indexes."""
        self.by_id[assoc.assoc_id] = assoc
        index, key = self.index_of(assoc)
        index[key] = assoc
        if assoc.user_name:
            self.by_user[assoc.user_name] = (*self.by_user.get(assoc.user_name, ()), assoc)

    def index_of(self, assoc: Assoc) -> tuple[dict[Any, Assoc], Any]:
        """Returns the index key of an association's names."""
        if assoc.partition:
            return self.in_partition, (assoc.account, assoc.user_name, assoc.partition)
        return (self.users, (assoc.account, assoc.user_name)) if assoc.user_name else (self.accounts, assoc.account)

    def has_users(self) -> bool:
        """Whether any user has an association."""
        return bool(self.users or self.in_partition)

    def find(self, account: str, user_name: str, partition: str) -> Assoc | None:
        """Returns a user's association for jobs in a partition: the one for just that partition precedes the one for
        all."""
        own = self.in_partition.get((account, user_name, partition)) if self.in_partition else None
        return own or self.users.get((account, user_name))

    def move(self, assoc: Assoc, parent: Assoc) -> None:
        """Moves an account with its usage to another parent."""
        assert assoc.parent is not None
        del assoc.parent.children[assoc.assoc_id]
        assoc.parent = parent
        parent.children[assoc.assoc_id] = assoc

    # ---- usage ---------------------------------------------------------------------------------------------------

    def usage_at(self, assoc: Assoc, now_us: int) -> int:
        """Returns the usage charged to an association itself, decayed to that time."""
        reset_us = last_reset_us(self.decay.reset_period, now_us)
        if assoc.at_us < reset_us:
            return carry(0, assoc.rate, reset_us, now_us, self.decay.half_life_us)
        if not assoc.usage and not assoc.rate:
            return 0
        return carry(assoc.usage, assoc.rate, assoc.at_us, now_us, self.decay.half_life_us)

    def advance(self, assoc: Assoc, now_us: int) -> None:
        """Advances an association's own usage to now."""
        if now_us > assoc.at_us:
            assoc.usage = self.usage_at(assoc, now_us)
            assoc.at_us = now_us

    def begin(self, assoc: Assoc, rate: int, now_us: int) -> None:
        """Adds `rate` to an association's rate for a job that uses it from now on."""
        self.advance(assoc, now_us)
        assoc.rate += rate

    def end(self, assoc: Assoc, rate: int, end_at_us: int, now_us: int) -> None:
        """Removes the `rate` of a job that has stopped at `end_at_us`, which may be reported later: what was counted
        since is subtracted."""
        self.advance(assoc, now_us)
        assoc.rate -= rate
        if end_at_us < now_us:
            begun_us = max(end_at_us, last_reset_us(self.decay.reset_period, now_us))
            assoc.usage = max(0, assoc.usage - carry(0, rate, begun_us, now_us, self.decay.half_life_us))

    # ---- ranking -------------------------------------------------------------------------------------------------

    def rank(self, now_us: int, fair_tree: bool = True, dampening: int = 1) -> None:
        """Recomputes all derived values."""
        self._sum(now_us)
        users = [assoc for assoc in self.by_id.values() if assoc.user_name]
        self.user_count = len(users)
        self.root.level_shares = 1
        self.root.level_usage = self.root.total
        self._levels(self.root)
        if fair_tree:
            _FairTree(len(users)).walk(_competitors(self.root), False)
        else:
            _classic(self.root, self.root.total, dampening)

    def _sum(self, now_us: int) -> None:
        """Computes totals, from the leaves up."""
        order = [self.root]
        for assoc in order:
            order += assoc.children.values()
        for assoc in order:
            assoc.total = self.usage_at(assoc, now_us)
        for assoc in reversed(order):
            if assoc.parent is not None:
                assoc.parent.total += assoc.total

    def _levels(self, account: Assoc) -> None:
        """Computes the level fair-share of all that compete below an account."""
        found = list(_competitors(account))
        shares = sum(assoc.shares for assoc in found if assoc.shares > 0) or 1
        usage = sum(assoc.total for assoc in found)
        for assoc in found:
            assoc.level_shares = shares
            assoc.level_usage = usage
            if assoc.shares == PARENT_SHARES:
                assoc.level = account.level
            elif not assoc.shares:
                assoc.level = 0
            elif not assoc.total:
                assoc.level = LEVEL_MAX
            else:
                assoc.level = (assoc.shares * usage << LEVEL_BITS) // (shares * assoc.total)
            if not assoc.user_name:
                self._levels(assoc)


def _competitors(account: Assoc) -> Iterator[Assoc]:
    """Returns the competitors below an account: its children, and those of accounts whose shares are `parent`."""
    for child in account.children.values():
        if child.shares == PARENT_SHARES and not child.user_name:
            yield from _competitors(child)
        else:
            yield child


class _FairTree:
    """One walk. `left` counts users without a rank."""

    def __init__(self, users: int) -> None:
        self.users = users
        self.left = users
        self.last = users

    def walk(self, level: Iterator[Assoc], tied: bool) -> None:
        """Ranks the users of one level and below. `tied`: the first has the rank that was assigned last."""
        ordered = sorted(level, key=lambda a: (-a.level, not a.user_name, a.assoc_id))
        at = 0
        while at < len(ordered):
            end = at
            while end < len(ordered) and ordered[end].level == ordered[at].level:
                end += 1
            equals, at = ordered[at:end], end
            merged: list[Assoc] = []
            for assoc in equals:
                if assoc.user_name:
                    self._number(assoc, tied)
                    tied = True
                else:
                    merged += _competitors(assoc)
            if merged:
                self.walk(iter(merged), tied)
            tied = False

    def _number(self, user: Assoc, tied: bool) -> None:
        if not tied:
            self.last = self.left
        self.left -= 1
        user.factor = (self.last, self.users)


def _classic(account: Assoc, everything: int, dampening: int) -> None:
    """Computes 2^(-(U/S)/dampening) from the root down; U and S as fractions of the whole, scaled by ONE."""
    stack = [(account, ONE, ONE)]  # with effective usage and normalised shares
    while stack:
        above, above_usage, above_shares = stack.pop()
        for assoc in _competitors(above):
            if assoc.shares == PARENT_SHARES:
                usage, shares = above_usage, above_shares
            else:
                own = (assoc.total << 64) // everything if everything else 0
                usage = own  # directly below root it is not weighted
                if above is not account and everything:
                    usage += (above_usage - own) * assoc.shares // assoc.level_shares
                shares = above_shares * assoc.shares // assoc.level_shares
            if assoc.user_name:
                assoc.factor = (half_power(usage, shares * max(1, dampening)) if shares else 0, ONE)
            else:
                stack.append((assoc, usage, shares))
