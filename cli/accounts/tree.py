"""The tree of associations as sacctmgr shows it: own and inherited values of an association.

`AssociationTree.load` queries once. Descendants inherit an account's Max limits, QOS and default QOS unless they set
their own, for TRES each type by itself. Group limits, shares and priority are an association's own.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cli.base.account_tree import ROOT, load_associations
from penstock import SLURM_VERSION
from penstock.client import Client
from penstock.v1.shares_pb2 import AccountInfo, Association, ListAssociationsReply, UserInfo
from penstock.values.fields import Fields, made_of
from penstock.values.limits import LIMITS, NO_LIMIT, Limit, LimitKind, Limits, from_texts, tres_text

#: The QOS of the root account, which has all others below it.
DEFAULT_QOS = ("normal",)
#: Slurm's number of the protocol version.
RPC_VERSION = {"25.05": 11008}[SLURM_VERSION.rpartition(".")[0]]
#: Inherited limits: all that begin with Max.
_HANDED_DOWN = tuple(limit for limit in LIMITS if limit.of_assoc and limit.keyword.startswith("Max"))


class AssociationTree(NamedTuple):
    """All associations that the caller may see, in the order of the tree."""

    whole: ListAssociationsReply
    accounts: dict[str, AccountInfo]
    users: dict[str, UserInfo]
    nodes: dict[str, Association]  # the associations of accounts
    spans: dict[int, tuple[int, int]]  # lft and rgt by the association's number
    own_only: bool = False  # leave out inherited values

    @property
    def cluster(self) -> str:
        return self.whole.cluster

    @classmethod
    def load(cls, client: Client, with_deleted: bool = False) -> "AssociationTree":
        """Loads the tree from the controller."""
        return cls.of(load_associations(client, with_deleted))

    @classmethod
    def of(cls, whole: ListAssociationsReply) -> "AssociationTree":
        """Builds the tree from an answer."""
        nodes = {one.account: one for one in reversed(whole.associations) if not one.user}
        return cls(
            whole,
            {one.name: one for one in whole.accounts},
            {one.name: one for one in whole.users},
            nodes,
            _spans(list(whole.associations)),
        )

    def above(self, assoc: Association) -> Association | None:
        """The account above an association; of an account its parent."""
        name = assoc.account if assoc.user else assoc.parent
        found = self.nodes.get(name)
        return found if found is not assoc else None

    def chain(self, assoc: Association) -> list[Association]:
        """The association and all above it, the nearest first."""
        found = [assoc]
        while (above := self.above(found[-1])) is not None and len(found) <= len(self.nodes) + 1:
            found.append(above)
        return found

    def lineage(self, assoc: Association) -> str:
        """The path of the association: `/`, `/science/physics/`, `/science/physics/0-ann/`, with a partition after it
        if it has one.
        """
        names = [one.account for one in reversed(self.chain(assoc)) if not one.user and one.account != ROOT]
        names += [f"0-{assoc.user}"] if assoc.user else []
        names += [assoc.partition] if assoc.partition else []
        return "/" + "".join(f"{name}/" for name in names)

    def level_shares(self) -> dict[int, int]:
        """The sum of the shares of each association and its siblings; root has none."""
        sums: dict[str, int] = {}
        for one in self.whole.associations:
            name = one.account if one.user else one.parent
            sums[name] = sums.get(name, 0) + max(one.shares, 0)
        return {one.id: sums[one.account if one.user else one.parent] for one in self.whole.associations}

    def limits(self, assoc: Association) -> Limits:
        """The limits of an association, as shown."""
        own = from_texts(assoc.limits)
        if self.own_only:
            return own
        for above in self.chain(assoc)[1:]:
            own = _with_from_above(own, from_texts(above.limits))
        return own

    def default_qos(self, assoc: Association) -> str:
        chain = [assoc] if self.own_only else self.chain(assoc)
        return next((one.default_qos for one in chain if one.default_qos), "")

    def qos(self, assoc: Association) -> list[str]:
        own = assoc.own_qos or (DEFAULT_QOS if assoc.account == ROOT and not assoc.user else ())
        return sorted(own if self.own_only else assoc.qos or self._qos_from_above(assoc))

    def _qos_from_above(self, assoc: Association) -> list[str]:
        return next((list(one.own_qos) for one in self.chain(assoc) if one.own_qos), [])

    def priority(self, assoc: Association) -> int:
        chain = [assoc] if self.own_only else self.chain(assoc)
        return next((one.priority for one in chain if one.priority), 0)

    def users_below(self, top: Association, key: str = "") -> list[Association]:
        """Users' associations below an account, those of the accounts in it first, as Slurm lists what it changes. With
        a key: those that have its value from the account."""
        accounts: dict[str, list[Association]] = {}
        users: dict[str, list[Association]] = {}
        for one in self.whole.associations:
            if not (key and one is not top and _has_own(one, key)):
                (users if one.user else accounts).setdefault(one.account if one.user else one.parent, []).append(one)

        def below(account: str) -> Iterator[Association]:
            for one in accounts.get(account, ()):
                yield from below(one.account)
            yield from sorted(users.get(account, ()), key=lambda one: -one.id)

        return list(below(top.account))


def with_below(tree: AssociationTree, names: list[str]) -> list[str]:
    """The accounts named, and those below them."""
    found = {name.lower() for name in names}
    for one in tree.whole.associations:  # parents come first
        if not one.user and one.parent in found:
            found.add(one.account)
    return sorted(found)


def _has_own(one: Association, key: str) -> bool:
    """Whether an association has a value of its own for a setting that is handed down."""
    if key == "qos":
        return bool(one.own_qos)
    own = {"defaultqos": one.default_qos, "priority": str(one.priority or "")}.get(key)
    return bool(one.limits.get(key) if own is None else own)


#: Settings that what is below an account has from it.
INHERITED = frozenset(("qos", "defaultqos", "priority", *(limit.name for limit in _HANDED_DOWN)))


def _with_from_above(own: Limits, above: Limits) -> Limits:
    changed: Fields = {}
    for limit in _HANDED_DOWN:
        mine, theirs = getattr(own, limit.field), getattr(above, limit.field)
        if limit.kind is LimitKind.TRES:
            changed[limit.field] = tuple(sorted((dict(theirs) | dict(mine)).items()))
        elif mine == NO_LIMIT:
            changed[limit.field] = theirs
    return made_of(own._replace, changed)


def _spans(found: list[Association]) -> dict[int, tuple[int, int]]:
    """The left and right numbers of a nested set."""
    spans: dict[int, tuple[int, int]] = {}
    count, path = 0, list[Association]()

    def close(depth: int) -> None:
        nonlocal count
        while path and path[-1].depth >= depth:
            count += 1
            done = path.pop()
            spans[done.id] = (spans[done.id][0], count)

    for one in found:
        close(one.depth)
        count += 1
        spans[one.id] = (count, 0)
        path.append(one)
    close(0)
    return spans


def wall_text(minutes: int) -> str:
    """Minutes as a table shows them: 01:30:00, 1-00:00:00."""
    days, rest = divmod(minutes, 24 * 60)
    text = f"{rest // 60:02d}:{rest % 60:02d}:00"
    return f"{days}-{text}" if days else text


def limit_text(limits: Limits, limit: Limit) -> str:
    """One limit as a table shows it; "" = there is none."""
    value = getattr(limits, limit.field)
    if limit.kind is LimitKind.TRES:
        return tres_text(value)
    if value == NO_LIMIT:
        return ""
    return wall_text(value) if limit.kind is LimitKind.WALL else str(value)


class ShownEntity(NamedTuple):
    """One row: an association, its account or its user. Any of them may be None."""

    assoc: Association | None = None
    account: AccountInfo | None = None
    user: UserInfo | None = None
    indent: int = 0
    with_coordinators: bool = True
