"""Counts of changes of what users are shown of nodes, GPUs, partitions and reservations.

A caller that has a list of one kind, and the counts at which it was made, need not be sent it again while they are the same. A
change that a list shows counts; one that it does not show may count, too. The counts are of this process, mean nothing but
their equality, and decide nothing. `ClusterState` counts in its mutators, where the record is marked or the columns are
changed (tests/core/test_shown.py compares the lists of every scenario).
"""

from typing import NamedTuple


class ShownCounts(NamedTuple):
    """What was counted until a moment."""

    nodes: int  # records of nodes, and what jobs hold of them
    gpus: int
    partitions: int
    reservations: int


class Shown:
    """The counts."""

    __slots__ = ("gpus", "nodes", "partitions", "reservations")

    def __init__(self) -> None:
        self.nodes = 0
        self.gpus = 0
        self.partitions = 0
        self.reservations = 0

    def count_all(self) -> None:
        """Counts a change of the configuration."""
        self.nodes += 1
        self.gpus += 1
        self.partitions += 1
        self.reservations += 1

    def counts(self) -> ShownCounts:
        """Returns the counts of now."""
        return ShownCounts(self.nodes, self.gpus, self.partitions, self.reservations)
