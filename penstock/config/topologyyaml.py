"""Reads `topology.yaml`, the newer format for switches and blocks; if it exists, topology.conf is not read.

The file is a list of topologies (topology.yaml(5)). The cluster's is the one with `cluster_default: true`, else the
first: its kind takes precedence over TopologyPlugin. The others are for partitions and nodes that select them, which
Penstock does not support; each causes a warning. The contents follow the rules of topology.conf, and are checked by the
same code.
"""

from penstock.config.lines import Value, Values
from penstock.config.problem import Findings, Ignored, Where
from penstock.config.topologyconf import TopologyLines, make_switches, read_sizes
from penstock.config.yamlfile import read_yaml
from penstock.values.topology import Topology

_FLAT = Topology()


def read_topology_yaml(path: str, nodes: tuple[str, ...], findings: Findings) -> Topology:
    """Reads the cluster's topology. Any error is reported with the file's name, and leaves the topology flat."""
    where = Where(path, 0)
    content = read_yaml(path, where, findings)
    if content is None:
        return _FLAT
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content) or not content:
        findings.error(where, "expected a list of topologies: - topology: NAME")
        return _FLAT
    chosen = next((one for one in content if one.get("cluster_default") is True), content[0])
    for other in content:
        if other is not chosen:
            why = "all partitions use the cluster's topology"
            findings.ignore(Ignored(where, "topology", str(other.get("topology", "")), "", "", why))
    return _topology(chosen, nodes, where, findings)


def _topology(chosen: dict[object, object], nodes: tuple[str, ...], where: Where, findings: Findings) -> Topology:
    if chosen.get("tree") is not None:
        lines = _lines(
            chosen["tree"], "switches", "switch", {"children": "switches", "nodes": "nodes"}, where, findings
        )
        return Topology("tree", make_switches("tree", lines, (), nodes, findings))
    if chosen.get("block") is not None:
        block = chosen["block"]
        lines = _lines(block, "blocks", "block", {"nodes": "nodes"}, where, findings)
        listed = block.get("block_sizes", []) if isinstance(block, dict) else []
        text = ",".join(str(size) for size in (listed if isinstance(listed, list) else [listed]))
        sizes = read_sizes(Values({"block_sizes": Value(text, where)}), (), findings) if text else ()
        return Topology("block", make_switches("block", lines, sizes, nodes, findings), sizes)
    if not chosen.get("flat"):
        name = str(chosen.get("topology", ""))[:64]
        findings.error(where, f"topology {name}: expected tree, block or flat (others are not there)")
    return _FLAT


def _lines(
    content: object, name: str, item: str, fields: dict[str, str], where: Where, findings: Findings
) -> TopologyLines:
    """Converts the entries to lines of topology.conf."""
    entries = content.get(name) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        findings.error(where, f"{name} is no list")
        return {}
    lines: TopologyLines = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get(item), str | int):
            findings.error(where, f"{name}: each entry needs `{item}: NAME`")
            continue
        own = str(entry[item])
        if own in lines:
            findings.error(where, f"{item} {own} is given twice")
        texts = {field: entry[key] for key, field in fields.items() if entry.get(key) is not None}
        lines[own] = (Values({field: Value(str(text), where) for field, text in texts.items()}), where)
    return lines
