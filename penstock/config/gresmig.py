"""Reads PenstockMigLayouts of gres.conf: the GPUs of a node that MIG may divide on demand, and their layouts.

    NodeName=n1 Name=gpu Type=h200 Count=2 PenstockMigLayouts=whole|1g.18gb*7|3g.71gb*2

applies to the first two GPUs of type h200 of n1, by index; further lines of the type apply to the next ones. `Gres=` of
the node counts whole GPUs. GPUs with shards or MPS are not divided: a share of an instance would have no owner.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.config.problem import Findings, Where
from penstock.values.config import NodeConfig
from penstock.values.gres import SHARED_NAMES
from penstock.values.mig import GpuLayout, MigChoice, is_profile

KEY: Final = "PenstockMigLayouts"
#: Each instance is a bit in a mask of the node.
PLACES_MAX: Final = 1024


class LayoutLine(NamedTuple):
    """A gpu line of gres.conf; `layouts` is empty if the line has no PenstockMigLayouts."""

    type: str
    number: int  # of GPUs
    layouts: tuple[GpuLayout, ...]
    where: Where


def with_mig(node: NodeConfig, lines: Iterable[LayoutLine], findings: Findings) -> NodeConfig:
    """Adds the MIG settings of the gpu lines to the node, after checking that it has these GPUs."""
    have = {one.type: one.count for one in node.gres if one.name == "gpu"}
    begun: dict[str, int] = {}
    choices: list[MigChoice] = []
    for line in lines:
        first = begun.get(line.type, 0)
        begun[line.type] = first + line.number
        if not line.layouts:
            continue
        problem = _problem(node, line, have, first)
        if problem:
            findings.error(line.where, problem)
        elif line.number:
            choices.append(MigChoice(line.type, first, line.number, line.layouts))
    return replace(node, mig=tuple(choices))


def _problem(node: NodeConfig, line: LayoutLine, have: dict[str, int], first: int) -> str:
    if not line.type or is_profile(line.type):
        return f"{KEY} needs Type, the model of the whole GPU, as in Type=h200"
    if first + line.number > have.get(line.type, 0):
        what = f"gpu:{line.type}:{first + line.number}"
        return f"{KEY}: node {node.name} has no {what} in its Gres, which says what it has when its GPUs are whole"
    shared = next((one.name for one in node.gres if one.name in SHARED_NAMES), "")
    if shared:
        return f"{KEY}: node {node.name} has {shared} too; a node's GPUs are shared or divided, not both"
    if line.number * sum(len(layout) for layout in line.layouts) > PLACES_MAX:
        return f"{KEY}: more than {PLACES_MAX} instances on node {node.name}"
    return ""
