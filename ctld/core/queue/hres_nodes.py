"""MODE_3 of hierarchical resources: each node of a job takes what it requests, from all layers above the node.

The layers are a tree, so sets of nodes that no layer forbids are the independent sets of a laminar matroid: choosing from
the smallest layers up, the preferred nodes first, gives as many nodes as any choice, and as many preferred ones. With a
subset of such a set no layer is exceeded either.
"""

from collections.abc import Callable, Iterable

import numpy as np

from ctld.core.state.hres import HresPool, PoolLayer
from ctld.core.state.state import ClusterState


def most_nodes(
    pool: HresPool, bits: int, count: int, room: Callable[[PoolLayer], int], preferred: Iterable[int] = ()
) -> int:
    """Returns as many of these nodes as may have `count` each at the same time, as a bit map. `room`: what a layer has, -1 =
    no limit. `preferred`: bit maps of nodes, the best first."""
    tiers = (*preferred, bits)
    for layer in sorted(pool.layers, key=lambda layer: layer.bits.bit_count()):
        has, inside = room(layer), bits & layer.bits
        if has >= 0 and inside.bit_count() * count > has:
            bits = bits & ~layer.bits | _first(inside, has // count, tiers)
    return bits


def _first(bits: int, number: int, tiers: Iterable[int]) -> int:
    taken = 0
    for tier in tiers:
        left = bits & tier & ~taken
        while left and number > 0:
            lowest = left & -left
            taken |= lowest
            left ^= lowest
            number -= 1
    return taken


def by_layer(pool: HresPool, bits: int, nodes: int, count: int) -> list[tuple[PoolLayer, int]]:
    """Returns the most that so many of these nodes can take of each layer with a limit."""
    inside = ((layer, min(nodes, (layer.bits & bits).bit_count())) for layer in pool.layers if layer.kind >= 0)
    return [(layer, number * count) for layer, number in inside if number]


def fitting_now(state: ClusterState, pool: HresPool, bits: int, count: int) -> int:
    """Returns as many of these nodes as may have so much each at present: idle ones first, then those with a free CPU."""
    free = state.free_licenses.item
    columns = state.node_columns
    up = columns.up != 0
    tiers = (up & (columns.free_cpus == columns.total_cpus), up & (columns.free_cpus > 0))
    maps = (int.from_bytes(np.packbits(tier, bitorder="little").tobytes(), "little") for tier in tiers)
    return most_nodes(pool, bits, count, lambda layer: max(0, free(layer.kind)) if layer.kind >= 0 else -1, maps)
