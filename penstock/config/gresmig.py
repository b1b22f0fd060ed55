"""PenstockMigLayouts of gres.conf: which GPUs of a node may be divided by MIG on demand, and into what.

    NodeName=n1 Name=gpu Type=h200 Count=2 PenstockMigLayouts=whole|1g.18gb*7|3g.71gb*2

speaks of the first two GPUs of type h200 of n1, by index; lines of the same type follow one another. `Gres=` of the
node says what it has when its GPUs are whole. GPUs with shards or MPS are not divided: a part of a part would have no
owner.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.config.problem import Findings, Where
from penstock.values.config import NodeConfig
from penstock.values.gres import SHARED_NAMES
from penstock.values.mig import Layout, MigChoice, is_profile

KEY: Final = "PenstockMigLayouts"
#: Instances are places in a bit mask of the node.
PLACES_MAX: Final = 1024


class Line(NamedTuple):
    """A gpu line of gres.conf; `layouts` is empty when it says nothing of MIG."""

    type: str
    number: int  # of GPUs
    layouts: tuple[Layout, ...]
    where: Where


def with_mig(node: NodeConfig, lines: Iterable[Line], findings: Findings) -> NodeConfig:
    """The node with what its gpu lines say of MIG, after a check that they speak of GPUs which it has."""
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


def _problem(node: NodeConfig, line: Line, have: dict[str, int], first: int) -> str:
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
