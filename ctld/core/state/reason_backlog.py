"""Wait reasons found by a pass over the queue, and how far they have been written to the jobs. The reasons are set by
passes/wait_reasons.py.
"""

from collections.abc import Sequence


class ReasonBacklog:
    """The reasons still to be written: first those found, then `Priority` for the other flagged jobs.

    Written in slices, one a batch: when the nodes of 100,000 jobs are gone, each of them gets a reason, a row to write
    and an entry in the readers' view, and no other event should wait for all of that. A job for which a later pass has
    found a reason is skipped.
    """

    __slots__ = ("at", "closed", "flagged", "left_out", "newer", "reasons", "written")

    def __init__(
        self, reasons: Sequence[tuple[int, int]], flagged: Sequence[int], left_out: frozenset[int] = frozenset()
    ) -> None:
        self.reasons = reasons
        self.left_out = left_out  # jobs whose nodes are left to other partitions (passes/partition_heads.py)
        self.flagged = flagged
        self.at = 0  # how many of both are done
        self.closed: dict[tuple[int, bool], str] = {}  # texts of closed nodes by set of nodes, and whether it was named
        self.written: dict[int, None] = {}
        self.newer: dict[int, None] = {}  # jobs whose reason a later pass has set

    def __len__(self) -> int:
        return len(self.reasons) + len(self.flagged)

    def next_slice(self, most: int) -> tuple[Sequence[tuple[int, int]], Sequence[int]]:
        """Returns the next so many reasons and flagged jobs."""
        begin = self.at
        end = self.at + most
        split = len(self.reasons)
        self.at = end
        return self.reasons[begin:end], self.flagged[max(begin - split, 0) : max(end - split, 0)]

    def is_over(self) -> bool:
        """Whether nothing is left to be written."""
        return self.at >= len(self)
