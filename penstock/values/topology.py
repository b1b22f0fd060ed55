"""The network topology of the nodes: switches (topology/tree) or blocks (topology/block), as in topology.conf.

A `Topology` is a list of switches, the lowest first. Level 0 are leaf switches (or base blocks); a switch's level is
one above its highest child.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch or block. `nodes`: all nodes below it; `children`: the switches directly below it."""

    name: str
    level: int
    nodes: tuple[str, ...]
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology. `kind`: flat, tree or block. `block_sizes`: nodes per block by level (topology/block)."""

    kind: str = "flat"
    switches: tuple[Switch, ...] = ()
    block_sizes: tuple[int, ...] = ()

    def levels(self) -> int:
        """The number of levels of switches."""
        return 1 + max((switch.level for switch in self.switches), default=-1)

    def above(self) -> dict[str, tuple[str, ...]]:
        """By node: the name of the switch above it at each level.

        If a branch of the tree has no switch at a level, the next lower one is used.
        """
        found: dict[str, list[str]] = {}
        for level in range(self.levels()):
            here = [switch for switch in self.switches if switch.level == level]
            for switch in here:
                for node in switch.nodes:
                    chain = found.setdefault(node, [])
                    chain.extend([chain[-1] if chain else switch.name] * (level - len(chain)))
                    chain.append(switch.name)
        full = self.levels()
        return {node: tuple(chain + [chain[-1]] * (full - len(chain))) for node, chain in found.items()}
