"""Leaf switches, or blocks, that running jobs have for themselves alone (--exclusive=topo, Exclusive=TOPO).

For the planner such a job has a part of nothing on each other node of its leaves; contract.py says what follows. Without a
topology the leaf of a node is the node itself. A suspended job has no leaves, as it has no CPUs.
"""

from collections.abc import Iterable

from ctld.core.state.columns import NodeColumns


def leaf_mates(columns: NodeColumns, own: Iterable[int]) -> list[int]:
    """Returns the other nodes under the leaf switches of these (indices), in their order."""
    if not len(columns.switches):
        return []
    here = dict.fromkeys(own)
    leaves = dict.fromkeys(columns.switches[0, list(here)].tolist())
    return sorted(index for leaf in leaves for index in columns.under_leaf()[leaf] if index not in here)


class LeafOwners:
    """The jobs that have leaf switches for themselves, by node and by job."""

    def __init__(self) -> None:
        self.of_node: dict[int, dict[int, None]] = {}  # of node indices, also of nodes on which the job has nothing
        self._nodes_of: dict[int, tuple[int, ...]] = {}

    def take(self, job_id: int, nodes: tuple[int, ...]) -> None:
        """Notes that the job has the leaves of these nodes, which are all of their nodes."""
        self._nodes_of[job_id] = nodes
        for index in nodes:
            self.of_node.setdefault(index, {})[job_id] = None

    def leave(self, job_id: int) -> tuple[int, ...]:
        """Does the reverse; returns the nodes."""
        held = self._nodes_of.pop(job_id, ())
        for index in held:
            del self.of_node[index][job_id]
            if not self.of_node[index]:
                del self.of_node[index]
        return held
