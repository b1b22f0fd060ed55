"""Amendments of a configuration: changes that scontrol makes to nodes and partitions, in the syntax of the file.

Pure, except that gres.conf is read for the devices of a new node. The readers of the file parse a change, so that keys
have the same meaning, and the same values are refused. Lists accept `+a,b` and `-a` as additions and removals; they are
resolved before an amendment is stored (`resolved`), so that stored values are complete.

Rules
    - At a start, the amendments of a cluster are applied to the configuration file in their order (`amend_all`). One
      that no longer fits the file is skipped and reported.
    - When the file is read again on request, it takes precedence: changes of its nodes and partitions are dropped, as in
      Slurm, unless ReconfigFlags contains KeepPartInfo. Nodes and partitions that were created stay, until the file
      defines one of the same name (`kept`).
    - A new node joins the partitions that contain all nodes (Nodes=ALL), and a deleted one leaves its partitions.
"""

import os
from collections.abc import Iterable
from dataclasses import replace

from penstock.config.gresconf import read_gres_conf
from penstock.config.keys import NODES, PARTITIONS, Key, Table
from penstock.config.lines import LineReader
from penstock.config.nodes import NodeReader, NodeTable
from penstock.config.partitions import PartitionReader
from penstock.config.problem import Findings, Where
from penstock.config.syntax import Token
from penstock.values.amendment import NODE, PARTITION, Amendment
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand

HERE = Where("scontrol", 0)
#: The states in which scontrol may create a node (scontrol(1)).
NEW_NODE_STATES = ("FUTURE", "CLOUD", "EXTERNAL")
#: The keys of an existing node that may change.
NODE_KEYS = ("Weight", "Feature", "Gres", "NodeAddr", "NodeHostname")


def amend_all(config: Config, amendments: Iterable[Amendment], folder: str) -> tuple[Config, list[str]]:
    """Applies all amendments that fit; returns the configuration, and a message for each of the others."""
    problems = []
    for amendment in amendments:
        try:
            config = amend(config, amendment, folder)
        except BadValue as problem:
            problems.append(f"{amendment.kind} {amendment.name}: {problem}")
    return config, problems


def kept(config: Config, amendments: Iterable[Amendment], *, keep_partitions: bool) -> list[Amendment]:
    """Returns the amendments that still apply after the file has been read again."""
    named = {(NODE, node.name) for node in config.nodes} | {(PARTITION, part.name) for part in config.partitions}
    return [
        one
        for one in amendments
        if (one.made and one.key not in named)
        or (keep_partitions and one.kind == PARTITION and not one.made and one.key in named)
    ]


def amend(config: Config, amendment: Amendment, folder: str) -> Config:
    """Applies one amendment. Raises BadValue."""
    if amendment.kind == PARTITION:
        return _with_partition(config, amendment)
    return _with_node(config, amendment, folder)


def canonical(kind: str, name: str) -> str:
    """Returns a key in the spelling of slurm.conf. Raises BadValue if it is unknown or not used."""
    table = PARTITIONS if kind == PARTITION else NODES
    key = table.find(name)
    if key is None:
        raise BadValue(f"unknown parameter {name}")
    if key.kind is None:
        raise BadValue(f"{key.name} on {table.what} lines is known to Slurm and not used by Penstock")
    return key.name


def resolved(config: Config, kind: str, name: str, key: str, text: str) -> str:
    """Resolves `+a,b` and `-a` of a list to the whole list; any other value (`-1`) stays as it is. Raises BadValue."""
    if text[:1] not in ("+", "-"):
        return text
    entries: Iterable[PartitionConfig | NodeConfig] = config.partitions if kind == PARTITION else config.nodes
    entry = next((one for one in entries if one.name == name), None)
    found = _key(PARTITIONS if kind == PARTITION else NODES, key)
    now = getattr(entry, found.field, None)
    if not isinstance(now, tuple) or not all(isinstance(word, str) for word in now):
        if text[0] == "-":
            return text
        raise BadValue(f"{key} takes no += and -=")
    words = expand(text[1:]) if found.field == "nodes" else [word for word in text[1:].split(",") if word]
    if text[0] == "+":
        whole = list(dict.fromkeys((*now, *words)))
    else:
        whole = [word for word in now if word not in words]
    return compress(whole, keep_order=True) if found.field == "nodes" else ",".join(whole)


def _key(table: Table, name: str) -> Key:
    key = table.find(name)
    if key is None:
        raise BadValue(f"unknown parameter {name}")
    return key


def _tokens(word: str, amendment: Amendment) -> tuple[Token, ...]:
    return (Token(word, amendment.name, HERE), *(Token(key, value, HERE) for key, value in amendment.pairs))


def _raise(findings: Findings) -> None:
    """Raises BadValue for problems, and for keys that are not used, which in the file are only a warning."""
    texts = [problem.text for problem in findings.problems]
    texts += [text for _, text in findings.warnings if "not used by Penstock" in text]
    if texts:
        raise BadValue("; ".join(texts))


def _with_partition(config: Config, amendment: Amendment) -> Config:
    known = {part.name: part for part in config.partitions}
    old = known.get(amendment.name)
    if amendment.gone:
        known.pop(amendment.name, None)
        return replace(config, partitions=tuple(known.values()))
    if old is None and not amendment.made:
        raise BadValue("it is not in the configuration")
    findings = Findings()
    reader = PartitionReader(findings, NodeTable({node.name: node for node in config.nodes}), False)
    new = reader.amended(_tokens("PartitionName", amendment), old or PartitionConfig(amendment.name, ()))
    _raise(findings)
    if new.is_default:
        known = {name: replace(part, is_default=False) for name, part in known.items()}
    known[new.name] = new
    return replace(config, partitions=tuple(known.values()))


def _with_node(config: Config, amendment: Amendment, folder: str) -> Config:
    known = {node.name: node for node in config.nodes}
    if amendment.gone:
        known.pop(amendment.name, None)
        parts = (replace(p, nodes=tuple(n for n in p.nodes if n != amendment.name)) for p in config.partitions)
        return replace(config, nodes=tuple(known.values()), partitions=tuple(parts))
    old = known.get(amendment.name)
    if old is not None:
        known[amendment.name] = _changed_node(config, amendment, old)
        return replace(config, nodes=tuple(known.values()))
    if not amendment.made:
        raise BadValue("it is not in the configuration")
    node = _new_node(config, amendment, folder)
    everyone = tuple(known)
    parts = (replace(p, nodes=(*p.nodes, node.name)) if p.nodes == everyone else p for p in config.partitions)
    return replace(config, nodes=(*config.nodes, node), partitions=tuple(parts))


def _new_node(config: Config, amendment: Amendment, folder: str) -> NodeConfig:
    findings = Findings()
    reader = NodeReader(findings, config.gres_types, config.slurmd_port)
    reader.node_line(_tokens("NodeName", amendment))
    table = reader.finish()
    _raise(findings)
    if table.nodes[amendment.name].gres and os.path.isdir(folder):
        read_gres_conf(folder, table, reader.gres_types, findings)
        # problems in gres.conf of other nodes do not concern the new one
        _raise(Findings([problem for problem in findings.problems if amendment.name in problem.text]))
    return table.nodes[amendment.name]


def _changed_node(config: Config, amendment: Amendment, old: NodeConfig) -> NodeConfig:
    findings = Findings()
    values = LineReader(NODES, findings).read(_tokens("NodeName", amendment))
    fields = {name: found.value for name, found in values.items() if name in ("weight", "features", "addr", "hostname")}
    if "gres" in values:
        fields["gres"] = NodeReader(findings, config.gres_types, config.slurmd_port).gres(values)
    _raise(findings)
    return replace(old, **fields)
