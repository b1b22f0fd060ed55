"""Hierarchical resources: counted like licenses, but in layers of nodes (resources.yaml of Slurm 25.05 and later).

A job requests a count of the resource, whatever its number of nodes. Under MODE_1 one layer with nodes of the job
provides it, under MODE_2 each layer that has nodes of the job does. Under MODE_3 the layers are a tree, and each node of
the job takes the count from its layer and from all above it.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

MODE_1: Final = 1
MODE_2: Final = 2
MODE_3: Final = 3


@dataclass(frozen=True, slots=True)
class HresLayer:
    """One layer. `count` is what jobs may have of it, -1 = no limit; `base`: what others use of `configured`."""

    name: str
    nodes: tuple[str, ...]
    count: int
    configured: int
    base: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hres:
    """One resource. `variables`: words that may be requested for a count."""

    name: str
    mode: int
    layers: tuple[HresLayer, ...]
    variables: tuple[tuple[str, int], ...] = ()


class Granted(NamedTuple):
    """What a job holds of a resource or license, of each of these layers; a license has none."""

    name: str
    layers: tuple[str, ...]
    amount: int


def kind_of(resource: str, layer: str) -> str:
    """Returns the name of a layer's count among the licenses. Users cannot request it: no license has parentheses."""
    return f"{resource}({layer})"


def format_granted(granted: tuple[Granted, ...]) -> str:
    """Formats what a job holds as Slurm does: `flat(low1,top):2,matlab:1`."""
    names = (kind_of(one.name, ",".join(one.layers)) if one.layers else one.name for one in granted)
    return ",".join(f"{name}:{one.amount}" for name, one in zip(names, granted, strict=True))


def parse_granted(text: str) -> tuple[Granted, ...]:
    """Parses what `format_granted` wrote."""
    found = []
    for word in outside(text, "()"):
        name, _, count = word.rpartition(":")
        name, _, layers = name.partition("(")
        found.append(Granted(name, outside(layers.removesuffix(")"), "[]"), int(count)))
    return tuple(found)


def outside(text: str, pair: str) -> tuple[str, ...]:
    """Splits at the commas that are not between such brackets."""
    words, depth = [""] if text else [], 0
    for letter in text:
        depth += (letter == pair[0]) - (letter == pair[1])
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return tuple(words)
