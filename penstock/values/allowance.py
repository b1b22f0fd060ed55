"""The expansion budget of one request: how many names and ids its text may expand to.

A hostlist of a kilobyte can expand to millions of names, and a request may have many. The code that expands a request
passes the same `Allowance` to each `expand`, `TaskSet.parse` and `parse_selector`. These charge the number of names
before they create them, so the limit applies to the request as a whole and not to each text. Cost is counted in names:
reading CHARS_A_NAME characters costs one, and an id of a task set that must be examined individually costs IDS_COST.

The limit is a little above the largest cluster (hostlist.HOSTLIST_NODES_MAX): a request that names every node once is
accepted.
"""

from typing import Final

from penstock.values.errors import BadValue

#: Names per request: about 30 ms of work.
ALLOWED: Final = 70_000
CHARS_A_NAME: Final = 8
IDS_COST: Final = 8


class Allowance:
    """The remaining allowance of one request."""

    __slots__ = ("left",)

    def __init__(self, allowed: int = ALLOWED) -> None:
        self.left = allowed

    def spend(self, names: int) -> None:
        """Charges `names` to the allowance. Raises BadValue if it is exceeded."""
        self.left -= names
        if self.left < 0:
            raise BadValue(f"the request names more than {ALLOWED} nodes, tasks or jobs when it is written out")

    def read(self, text: str) -> None:
        """Charges the cost of reading `text`, before it is read."""
        self.spend(1 + len(text) // CHARS_A_NAME)
