"""Hierarchical resources of a job: its ways to run by layers, and the layers that it takes from when it starts.

MODE_1 (one layer with nodes of the job has enough). A way for each layer that could ever have enough, those of the
fewest nodes first: all nodes of the job in that layer; and, for a job of several nodes, at least one of them in it and
the others anywhere under layers of the resource.

MODE_2 (each layer with nodes of the job has enough). Nodes that are in the same layers are a cell. A way for each
cell; then, for a job of several nodes, one for all nodes whose layers have enough at present, a set that is renewed
before each pass; and one for each layer, in which everything below counts as taken: by it such a job waits.

MODE_3 (each node takes the count, of its layer and of all above it: hres_nodes.py). A way for each set of nodes below a
layer, cut to those that may have it together, with what the fewest nodes of the job can take of each layer at most; and,
for a job of several nodes, one for those that may have it together at present, a set that is renewed before each pass.

A way says what the planner counts while it plans. What the job takes is decided when it starts, by its nodes, and
verified then: a second start in the same pass on the same rest waits for the next pass.

A node outside of all layers has nothing of the resource.
"""

from collections.abc import Iterable
from typing import Final

from _fastsched.contract import I32
from ctld.core.queue.hres_nodes import by_layer, fitting_now, most_nodes
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.state.hres import HresPool, PoolLayer
from ctld.core.state.pending import Shape, Ways
from ctld.core.state.state import ClusterState
from penstock.values.hres import MODE_1, MODE_2, MODE_3, Granted, format_granted
from penstock.values.licenses import parse_licenses

#: Ways of one request; the rest is ignored.
WAYS_MAX = 1024


def _requested(state: ClusterState, request: JobRequest) -> list[tuple[str, int]]:
    """Returns the licenses that it requests, if hierarchical resources are among them."""
    if not state.layout.hres or not request.licenses:
        return []
    found = parse_licenses(request.licenses)
    return list(found) if any(count and name in state.layout.hres for name, count in found) else []


def wanted(state: ClusterState, request: JobRequest) -> list[tuple[str, int]]:
    """Returns the hierarchical resources that it requests, and how much of each."""
    return [(name, count) for name, count in _requested(state, request) if count and name in state.layout.hres]


def is_enough(pool: HresPool, count: int) -> bool:
    """Whether some node could ever give so much."""
    return bool(_could(pool, count))


def _could(pool: HresPool, count: int) -> int:
    """Returns the nodes on which a job of one node could have so much if nobody else had any, as a bit map."""
    able = [layer for layer in pool.layers if layer.most < 0 or layer.most >= count]
    if pool.mode == MODE_1:
        return _union(able)
    return _union(able) & ~_union(layer for layer in pool.layers if 0 <= layer.most < count)


def _union(layers: Iterable[PoolLayer]) -> int:
    bits = 0
    for layer in layers:
        bits |= layer.bits
    return bits


def by_layers(state: ClusterState, request: JobRequest, found: Ways) -> Ways:
    """Returns the ways to run of a request with its hierarchical resources, preferred ones first."""
    for name, count in wanted(state, request):
        pool = state.layout.hres[name]
        make = _MAKERS[pool.mode]
        ways = [(index, way) for index, shape in found for way in make(state, name, count, shape)]
        found = ways[:WAYS_MAX] or [(index, _on(state, shape, 0, (), 0)) for index, shape in found[:1]]
    return found


def _on(state: ClusterState, shape: Shape, bits: int, layers: Iterable[PoolLayer], count: int) -> Shape:
    """Returns the shape on these nodes, with so much of each of these layers."""
    licenses = list(shape.licenses)
    for layer in layers:
        if layer.kind >= 0:
            licenses[layer.kind] += count
    return shape._replace(mask=state.layout.masks.row_of_bits(bits), licenses=tuple(licenses))


def _by_one_layer(state: ClusterState, name: str, count: int, shape: Shape) -> list[Shape]:
    masks, pool = state.layout.masks, state.layout.hres[name]
    able = sorted(
        (layer for layer in pool.layers if layer.most < 0 or layer.most >= count),
        key=lambda layer: layer.bits.bit_count(),
    )
    everywhere = masks.bits[shape.mask] & _union(able)
    found = []
    for layer in able:
        inside = everywhere & layer.bits
        if inside.bit_count() >= shape.nodes_min:
            found.append(_on(state, shape, inside, [layer], count))
    if shape.nodes_max == 1 or shape.segment:
        return found
    for layer in able:
        inside = everywhere & layer.bits
        if inside and inside != everywhere:
            way = _on(state, shape, everywhere, [layer], count)
            one_of = (masks.row_of_bits(inside), 1)
            found.append(way._replace(group=masks.group((*masks.members(shape.group), one_of))))
    return found


def _by_all_layers(state: ClusterState, name: str, count: int, shape: Shape) -> list[Shape]:
    masks, pool = state.layout.masks, state.layout.hres[name]
    everywhere = masks.bits[shape.mask] & _could(pool, count)
    cells = _cells(pool, everywhere)
    found = [_on(state, shape, bits, layers, count) for layers, bits in cells if bits.bit_count() >= shape.nodes_min]
    if shape.nodes_max == 1 or len(cells) < 2 or everywhere.bit_count() < shape.nodes_min:
        return found
    above = [layer for layer in pool.layers if everywhere & ~layer.bits == 0]
    now = _on(state, shape, everywhere, above, count)
    found.append(now._replace(mask=_set_of(state, now.mask, name, count)))
    regions = sorted((everywhere & layer.bits for layer in pool.layers), key=int.bit_count)
    known = dict.fromkeys(bits for _, bits in cells)
    for region in dict.fromkeys((*regions, everywhere)):
        if region not in known and region.bit_count() >= shape.nodes_min:
            found.append(_on(state, shape, region, [layer for layer in pool.layers if layer.bits & region], count))
    return found


def _by_nodes(state: ClusterState, name: str, count: int, shape: Shape) -> list[Shape]:
    masks, pool = state.layout.masks, state.layout.hres[name]
    everywhere, least = masks.bits[shape.mask] & _could(pool, count), shape.nodes_min
    regions = [bits for _, bits in _cells(pool, everywhere)]
    if shape.nodes_max > 1:
        regions += sorted((everywhere & layer.bits for layer in pool.layers), key=int.bit_count)
    sets = dict.fromkeys(most_nodes(pool, bits, count, lambda layer: layer.most) for bits in regions)
    found = []
    for bits in sets:
        if bits.bit_count() >= least:
            way = _on(state, shape, bits, (), 0)
            licenses = list(way.licenses)
            for layer, amount in by_layer(pool, bits, least, count):
                licenses[layer.kind] += amount
            found.append(way._replace(licenses=tuple(licenses), nodes_max=least))
    if shape.nodes_max == 1 or not found:
        return found
    above = [layer for layer in pool.layers if everywhere & ~layer.bits == 0]
    now = _on(state, shape, everywhere, above, count * least)
    now = now._replace(mask=_set_of(state, now.mask, name, count))
    return [now, *found] if shape.nodes_max > least else [*found, now]


_MAKERS: Final = {MODE_1: _by_one_layer, MODE_2: _by_all_layers, MODE_3: _by_nodes}


def _cells(pool: HresPool, bits: int) -> list[tuple[tuple[PoolLayer, ...], int]]:
    """Divides these nodes by the layers that they are in; returns them with these layers."""
    parts: list[tuple[tuple[PoolLayer, ...], int]] = [((), bits)] if bits else []
    for layer in pool.layers:
        halves = [
            (layers, part)
            for above, all_ in parts
            for layers, part in (((*above, layer), all_ & layer.bits), (above, all_ & ~layer.bits))
        ]
        parts = [(layers, part) for layers, part in halves if part]
    return parts


def by_kind(state: ClusterState, request: JobRequest) -> tuple[int, ...]:
    """Returns what it requests of each kind of license, each layer that could give it included."""
    counts = list(state.licenses_of(request))
    for name, count in wanted(state, request):
        pool = state.layout.hres[name]
        for layer in pool.layers:
            if layer.kind >= 0:
                is_whole = pool.mode == MODE_3 and layer.bits == pool.nodes
                counts[layer.kind] = count * request.nodes_min if is_whole else count
    return tuple(counts)


# ---- what is free now


def _set_of(state: ClusterState, mask: int, name: str, count: int) -> int:
    """Returns the row of the nodes of `mask` whose layers all have so much at present."""
    known = state.layout.hres_sets.get((mask, name, count))
    if known is not None:
        return known
    masks = state.layout.masks
    row = masks.add(("hres", mask, name, count), _having(state, masks.bits[mask], name, count))
    state.layout.hres_sets[mask, name, count] = row
    state.layout.hres_free = b""  # the others may be of another moment
    return row


def _having(state: ClusterState, bits: int, name: str, count: int) -> int:
    """Returns those of these nodes that may have so much at present."""
    pool = state.layout.hres[name]
    if pool.mode == MODE_3:
        return fitting_now(state, pool, bits, count)
    return bits & ~_lacking(state, name, count)


def _lacking(state: ClusterState, name: str, count: int) -> int:
    """Returns the nodes of which a layer has less than that at present."""
    layers, free = state.layout.hres[name].layers, state.free_licenses.item
    return _union(one for one in layers if one.kind >= 0 and free(one.kind) < count)


def before_pass(state: ClusterState) -> None:
    """Renews the sets of nodes that depend on what is free, if that has changed; those of MODE_3 also depend on idle nodes."""
    free = state.free_licenses.tobytes()
    is_same = free == state.layout.hres_free
    state.layout.hres_free = free
    masks, lacking = state.layout.masks, dict[tuple[str, int], int]()
    for (mask, name, count), row in state.layout.hres_sets.items():
        if state.layout.hres[name].mode == MODE_3:
            masks.change(row, _having(state, masks.bits[mask], name, count))
        elif not is_same:
            if (name, count) not in lacking:
                lacking[name, count] = _lacking(state, name, count)
            masks.change(row, masks.bits[mask] & ~lacking[name, count])


# ---- a start


def take(state: ClusterState, request: JobRequest, alloc: tuple[NodeAlloc, ...], free: I32) -> str | None:
    """Returns what a job with this allocation takes, as the text of the job, and subtracts it from `free`.

    "" if it requests nothing of a hierarchy; None if there is not enough, then `free` may be changed.
    """
    requested = _requested(state, request)
    if not requested:
        return ""
    bits = 0
    for part in alloc:
        bits |= 1 << state.nodes[part.node].index
    granted = []
    for name, count in requested:
        pool = state.layout.hres.get(name)
        if pool is None or not count:
            granted.append(Granted(name, (), count))
            if name in state.layout.license_kinds:
                free[state.layout.license_kinds[name]] -= count
            continue
        layers = _layers_for(pool, bits, count, free)
        by_nodes = pool.mode == MODE_3
        amounts = [count * (layer.bits & bits).bit_count() if by_nodes else count for layer in layers]
        for layer, amount in zip(layers, amounts, strict=True):
            if layer.kind >= 0:
                free[layer.kind] -= amount
        if not layers or any(layer.kind >= 0 and free[layer.kind] < 0 for layer in layers):
            return None
        if by_nodes:
            granted += [Granted(name, (layer.name,), amount) for layer, amount in zip(layers, amounts, strict=True)]
        else:
            granted.append(Granted(name, tuple(layer.name for layer in layers), count))
    return format_granted(tuple(granted))


def _layers_for(pool: HresPool, bits: int, count: int, free: I32) -> list[PoolLayer]:
    """Returns the layers from which a job on these nodes takes, the smallest first."""
    here = sorted((layer for layer in pool.layers if layer.bits & bits), key=lambda layer: layer.bits.bit_count())
    if pool.mode != MODE_1:
        return here
    # among those that could hold all of its nodes first, as its ways to run are tried
    here.sort(key=lambda layer: bits & ~layer.bits != 0)
    return next(([layer] for layer in here if layer.kind < 0 or free[layer.kind] >= count), [])
