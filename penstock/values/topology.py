"""How nodes hang together: switches (topology/tree) or blocks (topology/block), as topology.conf says.

A `Topology` is a list of switches, the lowest first. Level 0 are leaf switches (or base blocks); a switch's level is one
above its highest child.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch or block. `nodes`: all that are under it; `children`: the switches right below."""

    name: str
    level: int
    nodes: tuple[str, ...]
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """`kind`: flat, tree or block. `block_sizes`: nodes of a block by level (topology/block)."""

    kind: str = "flat"
    switches: tuple[Switch, ...] = ()
    block_sizes: tuple[int, ...] = ()

    def levels(self) -> int:
        """How many levels of switches there are."""
        return 1 + max((switch.level for switch in self.switches), default=-1)

    def above(self) -> dict[str, tuple[str, ...]]:
        """By node: the name of the switch above it at each level.

        Where a branch of the tree has none at a level, the one below it stands in.
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
