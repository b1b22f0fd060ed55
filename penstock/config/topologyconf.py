"""Reads `topology.conf`, beside `slurm.conf`: switches (topology/tree) or blocks (topology/block).

Rules (topology.conf(5)): a SwitchName line has Nodes (a leaf switch) or Switches (one above others); every switch
except the top one (or several, in a network of islands) is below exactly one switch, and there are no cycles. A
BlockName line has Nodes; no node is in two blocks or below two leaf switches. BlockSizes lists the sizes at which
blocks are joined: the first is the base block's, the others are that times powers of two. LinkSpeed is ignored.
"""

import os
from collections.abc import Iterator

from penstock.config.keys import TOPOLOGY
from penstock.config.lines import LineReader, Values
from penstock.config.problem import Findings, Where
from penstock.config.syntax import read_statements
from penstock.config.unknown import unknown
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.topology import Switch, Topology

#: Lines by name: their values and positions.
TopologyLines = dict[str, tuple[Values, Where]]


def read_topology_conf(
    folder: str, plugin: str, nodes: tuple[str, ...], findings: Findings
) -> tuple[Topology, tuple[str, ...]]:
    """Reads the topology; returns it and the files read. Without the file the topology is flat, as in Slurm."""
    kind = plugin.partition("/")[2]
    path = os.path.join(folder, "topology.conf")
    if kind == "flat":
        return Topology(), ()
    if not os.path.lexists(path):
        text = f"TopologyPlugin={plugin} reads this file, and it is not there: all nodes are alike"
        findings.warn(Where(path, 0), text)
        return Topology(), ()
    statements, files = read_statements(path, findings)
    reader = LineReader(TOPOLOGY, findings)
    lines: TopologyLines = {}
    sizes: tuple[int, ...] = ()
    word = "switch" if kind == "tree" else "block"
    for statement in statements:
        first = statement.tokens[0]
        if TOPOLOGY.find(first.key) is None:
            findings.error(first.where, unknown(first.key, TOPOLOGY))
            continue
        values = reader.read(statement.tokens)
        sizes = read_sizes(values, sizes, findings)
        name = values.value(word)
        if name is None:
            if "switch" in values or "block" in values:
                findings.error(first.where, f"TopologyPlugin={plugin} reads {word} lines; {first.key} is none")
            continue
        if name in lines:
            findings.error(first.where, f"{word} {name} is given twice")
        lines[name] = (values, first.where)
    return Topology(kind, make_switches(kind, lines, sizes, nodes, findings), sizes), files


def make_switches(
    kind: str, lines: TopologyLines, sizes: tuple[int, ...], nodes: tuple[str, ...], findings: Findings
) -> tuple[Switch, ...]:
    """Returns the switches of a tree, or the blocks, that these lines describe."""
    return tuple((_tree if kind == "tree" else _blocks)(lines, sizes, nodes, findings))


def read_sizes(values: Values, before: tuple[int, ...], findings: Findings) -> tuple[int, ...]:
    """Reads BlockSizes of a line; returns `before` if it has none or they are invalid."""
    if "block_sizes" not in values:
        return before
    text, where = values["block_sizes"]
    sizes = tuple(int(word) for word in text.split(",") if word.isdigit())
    base = sizes[0] if sizes else 0
    good = [size for size in sizes if base and size % base == 0 and (size // base).bit_count() == 1]
    if not sizes or sizes != tuple(sorted(set(good))) or len(sizes) != len(text.split(",")):
        findings.error(where, f"BlockSizes: {text} is no rising list of a size and powers of two of it")
        return before
    return sizes


def _members(values: Values, where: Where, nodes: tuple[str, ...], findings: Findings) -> tuple[str, ...]:
    """Returns the nodes of a line that the cluster has."""
    text = values.value("nodes", "")
    if text.upper() == "ALL":
        return nodes
    try:
        wanted = expand(text)
    except BadValue as problem:
        findings.error(where, f"Nodes: {problem}")
        return ()
    known = frozenset(nodes)
    missing = [name for name in wanted if name not in known]
    if missing:
        findings.warn(where, f"{missing[0]} is not a node of this cluster; {len(missing)} such are left out")
    return tuple(name for name in wanted if name in known)


def _tree(lines: TopologyLines, sizes: tuple[int, ...], nodes: tuple[str, ...], findings: Findings) -> Iterator[Switch]:
    below = {name: _children(values, where, lines, findings) for name, (values, where) in lines.items()}
    own = {name: _members(values, where, nodes, findings) for name, (values, where) in lines.items()}
    made: dict[str, Switch] = {}
    waiting = dict.fromkeys(lines)
    while waiting:
        ready = [name for name in waiting if all(child in made for child in below[name])]
        if not ready:
            name = _in_a_ring(next(iter(waiting)), below, made)
            findings.error(lines[name][1], f"switch {name} is above itself")
            break
        for name in ready:
            made[name] = _switch(name, below[name], own[name], made, lines[name][1], findings)
            del waiting[name]
    _check_places(made, below, lines, findings)
    place = {name: i for i, name in enumerate(lines)}
    yield from sorted(made.values(), key=lambda s: (s.level, place[s.name]))


def _in_a_ring(name: str, below: dict[str, tuple[str, ...]], made: dict[str, Switch]) -> str:
    """Returns a switch of a cycle, given a switch that cannot be created because it is on or above one."""
    passed: dict[str, None] = {}
    while name not in passed:
        passed[name] = None
        name = next(child for child in below[name] if child not in made)
    return name


def _check_places(
    made: dict[str, Switch], below: dict[str, tuple[str, ...]], lines: TopologyLines, findings: Findings
) -> None:
    """Reports nodes below two leaf switches, and switches below two others."""
    place: dict[tuple[str, str], str] = {}
    for switch in made.values():
        inside = [("node", node) for node in switch.nodes] if switch.level == 0 else []
        inside += [("switch", child) for child in below[switch.name]]
        for what in inside:
            if place.setdefault(what, switch.name) != switch.name:
                text = f"{what[0]} {what[1]} is under {place[what]} and {switch.name}"
                findings.error(lines[switch.name][1], text)


def _children(values: Values, where: Where, lines: TopologyLines, findings: Findings) -> tuple[str, ...]:
    try:
        below = tuple(expand(values.value("switches", "")))
    except BadValue as problem:
        findings.error(where, f"Switches: {problem}")
        return ()
    unknown_ones = [child for child in below if child not in lines]
    if unknown_ones:
        findings.error(where, f"switch {unknown_ones[0]} is not described")
    return tuple(child for child in below if child in lines)


def _switch(
    name: str, below: tuple[str, ...], own: tuple[str, ...], made: dict[str, Switch], where: Where, findings: Findings
) -> Switch:
    if below and own:
        findings.error(where, f"switch {name} has both Nodes and Switches")
    if not below:
        return Switch(name, 0, own)
    inside = tuple(dict.fromkeys(node for child in below for node in made[child].nodes))
    return Switch(name, 1 + max(made[child].level for child in below), inside, below)


def _blocks(
    lines: TopologyLines, sizes: tuple[int, ...], nodes: tuple[str, ...], findings: Findings
) -> Iterator[Switch]:
    base: list[Switch] = []
    block_of: dict[str, str] = {}
    for name, (values, where) in lines.items():
        members = _members(values, where, nodes, findings)
        for node in members:
            if block_of.setdefault(node, name) != name:
                findings.error(where, f"node {node} is in {block_of[node]} and {name}")
        if sizes and len(members) < sizes[0]:
            findings.error(where, f"block {name} has {len(members)} nodes, BlockSizes asks for {sizes[0]}")
        base.append(Switch(name, 0, members))
    yield from base
    for level, size in enumerate(sizes[1:], start=1):
        step = size // sizes[0]
        for first in range(0, len(base), step):
            joined = base[first : first + step]
            inside = tuple(node for block in joined for node in block.nodes)
            names = tuple(b.name for b in joined)
            yield Switch(compress(names), level, inside, names)
