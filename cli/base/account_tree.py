"""The tree of accounts: loads it from the controller (`load_associations`), and answers, for reports that sum over it,
which accounts are above and below one (`AccountTree`).

Deleted accounts still have usage, so they are in the latter. An account that the controller does not show the caller
(PrivateData) is put directly below root.
"""

from collections.abc import Iterable, Iterator

from penstock.client import Client
from penstock.v1.shares_pb2 import ListAssociationsReply, ListAssociationsRequest

ROOT = "root"


def load_associations(client: Client, with_deleted: bool = False) -> ListAssociationsReply:
    """Loads all pages as one answer: the associations that the caller may see, in tree order."""
    whole = ListAssociationsReply()
    for page in client.stream("ListAssociations", ListAssociationsRequest(with_deleted=with_deleted)):
        whole.MergeFrom(page)
    return whole


class AccountTree:
    """Accounts by name, with the one above each."""

    def __init__(self, parents: dict[str, str]) -> None:
        self._parents = {ROOT: ""} | {name: above for name, above in parents.items() if name != ROOT}
        for name in list(self._parents):
            if name != ROOT and self._parents[name] not in self._parents:
                self._parents[name] = ROOT
        self._children: dict[str, list[str]] = {}
        for name in sorted(self._parents):
            self._children.setdefault(self._parents[name], []).append(name)

    def path(self, account: str) -> list[str]:
        """The account and all above it, root last."""
        found = [account]
        while (above := self._parents.get(found[-1], "")) and above not in found:
            found.append(above)
        return found

    def children(self, account: str) -> list[str]:
        """The accounts right below it, by name."""
        return self._children.get(account, [])

    def walk(self, tops: Iterable[str] = ()) -> Iterator[tuple[str, int]]:
        """Accounts with their depth below root, each before those below it; from `tops` on, or from root."""
        wanted = set(tops)
        stack = [(ROOT, 0, not wanted)]
        while stack:
            name, depth, inside = stack.pop()
            inside = inside or name in wanted
            if inside:
                yield name, depth
            stack += [(child, depth + 1, inside) for child in reversed(self.children(name))]


def load_tree(client: Client, also: Iterable[str] = ()) -> AccountTree:
    """Loads the tree from the controller; `also` are accounts that must be in it."""
    parents = dict.fromkeys(also, ROOT)
    for one in load_associations(client, with_deleted=True).associations:
        if not one.user and (not one.deleted or one.account not in parents or parents[one.account] == ROOT):
            parents[one.account] = one.parent
    return AccountTree(parents)
