"""Hierarchical resources as the planner counts them: each layer that has a limit is a kind of license.

So what jobs hold, what is free and when it will be, and the waiting for it follow the rules of licenses. Which layers a
job takes from depends on its nodes: queue/hres.py.
"""

from typing import NamedTuple

from penstock.values.config import Config
from penstock.values.hres import kind_of, parse_granted

#: A set of nodes that changes with what is free: (row of the masks, resource, count).
HresSet = tuple[int, str, int]


class PoolLayer(NamedTuple):
    """A layer: its nodes as a bit map; its kind of license, -1 = it has no limit; the most that jobs may have, likewise."""

    name: str
    bits: int
    kind: int
    most: int


class HresPool(NamedTuple):
    """A resource; its layers have the order of the file."""

    mode: int
    layers: tuple[PoolLayer, ...]
    variables: dict[str, int]

    @property
    def nodes(self) -> int:
        """All nodes of its layers, as a bit map."""
        bits = 0
        for layer in self.layers:
            bits |= layer.bits
        return bits


def totals(config: Config) -> dict[str, int]:
    """Returns the count of each layer that has a limit, by the name of its kind of license."""
    return {
        kind_of(one.name, layer.name): layer.count for one in config.hres for layer in one.layers if layer.count >= 0
    }


def pools(config: Config, kinds: dict[str, int]) -> dict[str, HresPool]:
    """Returns the resources by name."""
    index_of = {node.name: index for index, node in enumerate(config.nodes)} if config.hres else {}
    found = {}
    for one in config.hres:
        layers = [
            PoolLayer(
                layer.name,
                sum(1 << index_of[name] for name in layer.nodes if name in index_of),
                kinds[kind_of(one.name, layer.name)] if layer.count >= 0 else -1,
                layer.count,
            )
            for layer in one.layers
        ]
        found[one.name] = HresPool(one.mode, tuple(layers), dict(one.variables))
    return found


def taken(text: str, kinds: dict[str, int]) -> tuple[int, ...]:
    """Returns what a job holds of each kind; what the configuration no longer has does not count."""
    counts = [0] * len(kinds)
    for one in parse_granted(text):
        for name in [kind_of(one.name, layer) for layer in one.layers] or [one.name]:
            if name in kinds:
                counts[kinds[name]] += one.amount
    return tuple(counts)
