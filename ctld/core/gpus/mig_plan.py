"""Plans which GPUs of a node to divide by MIG, and into which layouts, so that a request finds its devices there. Pure.

It takes the fewest GPUs. Among these it prefers the one that satisfies most of the request, then one that is divided
already, then the lowest index, then the layout that the configuration names first. So the same state always leads to
the same choice.

The search is greedy, GPU by GPU: a node has some eight of them. It does not anticipate later requests.
"""

from typing import NamedTuple

from ctld.core.records.gpu import Gpu
from ctld.core.records.mig import GPU, MigKind, counts, layout_now
from ctld.core.records.node import Node
from penstock.values.mig import GpuLayout, MigChoice

#: Requested devices called gpu, by kind.
GpusWanted = dict[MigKind, int]
#: Free devices, by kind.
_Free = dict[MigKind, int]


class Division(NamedTuple):
    """A GPU and the layout it is to get."""

    node: str
    uuid: str
    gpu_index: int
    layout: GpuLayout


class Candidate(NamedTuple):
    """A GPU that may be divided. `free`: its places that count among those free now, as a mask."""

    gpu: Gpu
    choice: MigChoice
    free: int


def gpus_wanted(gres: tuple[tuple[str, str, int], ...]) -> GpusWanted:
    """Returns the devices called gpu in a request."""
    found: GpusWanted = {}
    for name, type_, count in gres:
        if name == GPU and count:
            found[name, type_] = found.get((name, type_), 0) + count
    return found


def lack(wanted: GpusWanted, free: _Free) -> int:
    """Returns the number of missing devices."""
    return sum(max(0, count - free.get(kind, 0)) for kind, count in wanted.items())


def change(node: Node, candidate: Candidate, layout: GpuLayout) -> dict[MigKind, int]:
    """Returns by kind how much more (or less) would be free if that GPU were divided so."""
    found = counts(node, layout, candidate.gpu.facts.type)
    for kind, mask in node.inside.kinds.items():
        if kind[0] == GPU and mask & candidate.free:
            found[kind] = found.get(kind, 0) - (mask & candidate.free).bit_count()
    return found


def plan(node: Node, wanted: GpusWanted, free: _Free, candidates: list[Candidate]) -> list[Division]:
    """Plans divisions after which no requested device is missing; empty = none are needed, or none help."""
    free = dict(free)
    left = list(candidates)
    found = list[Division]()
    missing = lack(wanted, free)
    while missing:
        best = None
        for candidate in left:
            for place, layout in enumerate(candidate.choice.layouts):
                if layout == layout_now(node, candidate.gpu):
                    continue
                after = dict(free)
                for kind, count in change(node, candidate, layout).items():
                    after[kind] = after.get(kind, 0) + count
                key = (
                    lack(wanted, after), not candidate.gpu.facts.mig_enabled, candidate.gpu.facts.index,
                    candidate.gpu.uuid, place,
                )  # fmt: skip
                if best is None or key < best[0]:
                    best = (key, candidate, layout, after)
        if best is None or best[0][0] >= missing:
            return []
        _, candidate, layout, free = best
        missing = best[0][0]
        left.remove(candidate)
        found.append(Division(node.name, candidate.gpu.uuid, candidate.gpu.facts.index, layout))
    return found
