"""Reads `resources.yaml`, beside slurm.conf: hierarchical resources. JSON is YAML, too.

The file is a list of resources (resources.yaml(5) of Slurm 25.05 and later), each with a mode and layers of nodes with
a count. A layer without `layer_name`, as in the first releases, is named by its nodes. Under MODE_3 the layers are a tree by
`parent_name`, and have the nodes of the layers below them. What Penstock does not have is an error, since a job would get
what it should not have: layers that are disabled, and a block topology that has to be that of the layers.
"""

import os
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.config.problem import Findings, Where
from penstock.config.yamlfile import read_yaml
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.hres import MODE_1, MODE_2, MODE_3, Hres, HresLayer
from penstock.values.licenses import LICENSES_MAX

#: A waiting job has a row for the planner for each layer, so this bounds its cost.
LAYERS_MAX: Final = 256
RESOURCES_MAX: Final = 64
_MODES: Final = {"MODE_1": MODE_1, "MODE_2": MODE_2, "MODE_3": MODE_3}
_NAME: Final = re.compile(r"[A-Za-z0-9_.@+-]{1,64}")
_LAYER: Final = re.compile(r"[^\s,;|:=()*]{1,128}")
_KEYS: Final = frozenset(("resource", "mode", "layers", "variables", "disable_hres", "topology"))
_LAYER_KEYS: Final = frozenset(("layer_name", "nodes", "count", "base", "disable_layer", "parent_name"))

_Entry = dict[object, object]


class _Wrong(Exception):
    """What is wrong with an entry, in words."""


def read_resources(
    folder: str, nodes: Collection[str], licenses: Collection[str], findings: Findings
) -> tuple[tuple[Hres, ...], tuple[str, ...]]:
    """Returns the resources, and the files read. Problems are in `findings`, with the file's name."""
    path = os.path.join(folder, "resources.yaml")
    if not os.path.lexists(path):
        return (), ()
    where = Where(path, 0)
    content = read_yaml(path, where, findings)
    entries = [] if content is None else content
    if not isinstance(entries, list) or len(entries) > RESOURCES_MAX:
        findings.error(where, f"expected a list of at most {RESOURCES_MAX} resources: - resource: NAME")
        return (), (path,)
    found: dict[str, Hres] = {}
    for entry in entries:
        try:
            one = _resource(entry, nodes)
            if one.name in found:
                raise _Wrong(f"resource {one.name} is given twice")
            if one.name in licenses:
                raise _Wrong(f"resource {one.name}: Licenses of slurm.conf has that name; choose another one")
            found[one.name] = one
        except (_Wrong, BadValue) as problem:
            findings.error(where, str(problem))
    return tuple(found.values()), (path,)


def _resource(entry: object, nodes: Collection[str]) -> Hres:
    if not isinstance(entry, dict) or next(iter(entry), None) != "resource":
        raise _Wrong("each entry begins with `resource: NAME`")
    name = entry["resource"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _Wrong(f"resource {str(name)[:64]!r}: a name has letters, digits and _ . @ + - only")
    what = f"resource {name}"
    _known(entry, _KEYS, what)
    mode = entry.get("mode")
    if mode not in _MODES:
        raise _Wrong(f"{what}: mode is {str(mode)[:64]}, expected MODE_1, MODE_2 or MODE_3")
    if "topology" in entry:
        raise _Wrong(f"{what}: topology is not supported; without it the layers do not depend on blocks")
    if entry.get("disable_hres", False) is not False:
        raise _Wrong(f"{what}: disable_hres is not supported; set the counts of its layers to 0")
    listed = entry.get("layers")
    if not isinstance(listed, list) or not 1 <= len(listed) <= LAYERS_MAX:
        raise _Wrong(f"{what}: layers is a list of 1 to {LAYERS_MAX} layers")
    layers = [_layer(one, what, nodes) for one in listed]
    names = [layer.name.lower() for layer in layers]
    twice = next((layer.name for layer in layers if names.count(layer.name.lower()) > 1), None)
    if twice is not None:
        raise _Wrong(f"{what}: layer {twice} is given twice")
    if mode == "MODE_3":
        layers = _tree(layers, [str(one.get("parent_name", "")) for one in listed], what)
    elif any("parent_name" in one for one in listed):
        raise _Wrong(f"{what}: parent_name is of MODE_3")
    return Hres(name, _MODES[str(mode)], tuple(layers), _pairs(entry, "variables", what))


def _tree(layers: list[HresLayer], parents: list[str], what: str) -> list[HresLayer]:
    """Returns the layers with the nodes of those below them. `parents`: the name of the layer above each, "" = the root."""
    at = {layer.name.lower(): index for index, layer in enumerate(layers)}
    if parents.count("") != 1:
        raise _Wrong(f"{what}: one layer is the root, all others have a parent_name")
    nodes: list[dict[str, None]] = [{} for _ in layers]
    leaf_of: dict[str, str] = {}
    for index, layer in enumerate(layers):
        if layer.nodes and layer.name.lower() in (parent.lower() for parent in parents):
            raise _Wrong(f"{what}, layer {layer.name}: it has the nodes of the layers below it, and lists none itself")
        for node in layer.nodes:
            if leaf_of.setdefault(node, layer.name) != layer.name:
                raise _Wrong(f"{what}: node {node} is in two layers, {leaf_of[node]} and {layer.name}")
        above, path = index, set[int]()
        while True:
            if above in path:
                raise _Wrong(f"{what}, layer {layer.name}: it is below itself")
            path.add(above)
            nodes[above] |= dict.fromkeys(layer.nodes)
            parent = parents[above].lower()
            if not parent:
                break
            if parent not in at:
                raise _Wrong(f"{what}, layer {layers[above].name}: there is no layer {parents[above][:64]}")
            above = at[parent]
    return [replace(layer, nodes=tuple(held)) for layer, held in zip(layers, nodes, strict=True)]


def _layer(entry: object, what: str, nodes: Collection[str]) -> HresLayer:
    if not isinstance(entry, dict):
        raise _Wrong(f"{what}: each layer has nodes and a count")
    members = _nodes(entry, what, nodes)
    name = entry.get("layer_name", compress(members))
    what = f"{what}, layer {str(name)[:64]}"
    if not isinstance(name, str) or ("layer_name" in entry and not _LAYER.fullmatch(name)):
        raise _Wrong(f"{what}: a name has no spaces and none of , ; | : = ( ) *")
    if name.count("[") != name.count("]"):
        raise _Wrong(f"{what}: a bracket of the name is not closed")
    if not name:
        raise _Wrong(f"{what}: it has neither layer_name nor nodes")
    _known(entry, _LAYER_KEYS, what)
    if entry.get("disable_layer", False) is not False:
        raise _Wrong(f"{what}: disable_layer is not supported; set its count to 0")
    configured, base = _number(entry.get("count", 0), f"{what}: count", -1), _pairs(entry, "base", what)
    used = sum(value for _, value in base)
    if 0 <= configured < used:
        raise _Wrong(f"{what}: base uses {used}, more than its count {configured}")
    return HresLayer(name, members, configured - used if configured >= 0 else -1, configured, base)


def _nodes(entry: _Entry, what: str, nodes: Collection[str]) -> tuple[str, ...]:
    listed = entry.get("nodes", [])
    texts = [listed] if isinstance(listed, str) else listed
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _Wrong(f"{what}: nodes is a list of host lists")
    members = tuple(dict.fromkeys(name for text in texts for name in expand(text)))
    unknown = [name for name in members if name not in nodes]
    if unknown:
        raise _Wrong(f"{what}: slurm.conf has no node {compress(unknown[:100])}")
    return members


def _pairs(entry: _Entry, key: str, what: str) -> tuple[tuple[str, int], ...]:
    listed = entry.get(key, [])
    if not isinstance(listed, list):
        raise _Wrong(f"{what}: {key} is a list of names and values")
    found: dict[str, int] = {}
    for one in listed:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(name, str) or not _NAME.fullmatch(name) or name in found:
            raise _Wrong(f"{what}: {key} has for each entry a name of its own, and a value")
        found[name] = _number(one.get("value"), f"{what}: {key} {name}", 0)
    return tuple(found.items())


def _number(value: object, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LICENSES_MAX:
        raise _Wrong(f"{what} is {str(value)[:64]}, expected a number from {least} to {LICENSES_MAX}")
    return value


def _known(entry: _Entry, keys: Collection[object], what: str) -> None:
    unknown = next((key for key in entry if key not in keys), None)
    if unknown is not None:
        raise _Wrong(f"{what}: {str(unknown)[:64]!r} is no key of resources.yaml")
