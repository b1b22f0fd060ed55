"""The tree of accounts: all of it as the controller tells it (`load_associations`), and, for reports that sum over it, where
an account stands and what is below it (`AccountTree`).

Accounts that are deleted still have usage, so they are in the latter. One that the controller does not name (somebody
else's, under PrivateData) stands right below root.
"""

from collections.abc import Iterable, Iterator

from penstock.client import Client
from penstock.v1.shares_pb2 import ListAssociationsReply, ListAssociationsRequest

ROOT = "root"


def load_associations(client: Client, with_deleted: bool = False) -> ListAssociationsReply:
    """All pages as one answer: what the caller may see, in the order of the tree."""
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
        """Those right below it, by name."""
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
    """Ask the controller; `also` are accounts that must be in it."""
    parents = dict.fromkeys(also, ROOT)
    for one in load_associations(client, with_deleted=True).associations:
        if not one.user and (not one.deleted or one.account not in parents or parents[one.account] == ROOT):
            parents[one.account] = one.parent
    return AccountTree(parents)
