"""Which GPUs of a node would have to be divided anew, and into what, so that a request finds its devices there. Pure.

The fewest GPUs, and among these: one that brings the request furthest, one that is divided already rather than a whole
one, the lowest index, the layout that the configuration names first. So the same state always leads to the same choice.

Greedy, GPU by GPU: a node has some eight of them. It does not look for the choice that later requests would like best.
"""

from typing import NamedTuple

from ctld.core.gpu_model import Gpu
from ctld.core.mig_model import GPU, Kind, counts, layout_now
from ctld.core.model import Node
from penstock.values.mig import Layout, MigChoice

#: What is asked for of devices called gpu, by kind.
Wish = dict[Kind, int]
#: What is free, by kind.
Free = dict[Kind, int]


class Division(NamedTuple):
    """A GPU and what it is to be."""

    node: str
    uuid: str
    gpu_index: int
    layout: Layout


class Candidate(NamedTuple):
    """A divisible GPU that may be divided. `free`: those of its places that count among what is free now, as a mask."""

    gpu: Gpu
    choice: MigChoice
    free: int


def wish_of(gres: tuple[tuple[str, str, int], ...]) -> Wish:
    """The devices called gpu in a request."""
    found: Wish = {}
    for name, type_, count in gres:
        if name == GPU and count:
            found[name, type_] = found.get((name, type_), 0) + count
    return found


def lack(wish: Wish, free: Free) -> int:
    """How many devices are missing."""
    return sum(max(0, count - free.get(kind, 0)) for kind, count in wish.items())


def change(node: Node, candidate: Candidate, layout: Layout) -> dict[Kind, int]:
    """By kind: what would be free more (or less) if that GPU were divided so."""
    found = counts(node, layout, candidate.gpu.facts.type)
    for kind, mask in node.inside.kinds.items():
        if kind[0] == GPU and mask & candidate.free:
            found[kind] = found.get(kind, 0) - (mask & candidate.free).bit_count()
    return found


def plan(node: Node, wish: Wish, free: Free, candidates: list[Candidate]) -> list[Division]:
    """Divisions after which nothing of the wish is missing; empty = none are needed, or none help."""
    free, left, found = dict(free), list(candidates), list[Division]()
    missing = lack(wish, free)
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
                    lack(wish, after), not candidate.gpu.facts.mig_enabled, candidate.gpu.facts.index,
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
