"""Leaf switches, or blocks, that running jobs have for themselves alone (--exclusive=topo, Exclusive=TOPO).

For the planner such a job has a part of nothing on each other node of its leaves; contract.py says what follows. Without a
topology the leaf of a node is the node itself. A suspended job has no leaves, as it has no CPUs.
"""

from collections.abc import Iterable

import numpy as np

from ctld.core.state.columns import NodeColumns


def leaf_mates(columns: NodeColumns, own: Iterable[int]) -> list[int]:
    """Returns the other nodes under the leaf switches of these (indices)."""
    if not len(columns.switches):
        return []
    leaves, here = columns.switches[0], list(own)
    found: list[int] = np.setdiff1d(np.isin(leaves, leaves[here]).nonzero()[0], here).tolist()
    return found


class LeafOwners:
    """The jobs that have leaf switches for themselves, by node."""

    def __init__(self) -> None:
        self.of_node: dict[int, dict[int, None]] = {}  # of node indices, also of nodes on which the job has nothing

    def take(self, job_id: int, nodes: Iterable[int]) -> None:
        """Notes that the job has the leaves of these nodes, which are all of their nodes."""
        for index in nodes:
            self.of_node.setdefault(index, {})[job_id] = None

    def leave(self, job_id: int) -> list[int]:
        """Does the reverse; returns the nodes."""
        held = [index for index, jobs in self.of_node.items() if job_id in jobs]
        for index in held:
            del self.of_node[index][job_id]
            if not self.of_node[index]:
                del self.of_node[index]
        return held
