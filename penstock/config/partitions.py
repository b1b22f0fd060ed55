"""Reads PartitionName and NodeSet lines to `PartitionConfig` records.

`Nodes` accepts node names, ranges, names of node sets and ALL, in any combination; the order of first mention is kept.
Unknown node names are a problem, reported once per line, and so are two partitions of one name. Of several default
partitions the last one counts, with a warning.
"""

from dataclasses import dataclass, field, replace
from functools import partial

from penstock.config.keys import NODE_SETS, PARTITIONS
from penstock.config.lines import LineReader, Values
from penstock.config.nodes import NodeTable
from penstock.config.preemption import check_partition
from penstock.config.problem import Findings, Where
from penstock.config.syntax import Token
from penstock.values.config import PartitionConfig
from penstock.values.duration import UNLIMITED
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from penstock.values.hostlist import compress, expand

#: Partitions of a cluster. Every pass examines each of them; sites have at most a few hundred.
PARTITIONS_MAX = 4096

#: Keys whose values are stored in other fields.
_SPREAD = ("Exclusive", "Priority", "JobDefaults", "nodes", "name")


@dataclass(slots=True)
class PartitionReader:
    """Reads partitions, after the nodes."""

    findings: Findings
    table: NodeTable
    disable_root_jobs: bool
    cluster: Values = field(default_factory=Values)
    partitions: dict[str, PartitionConfig] = field(default_factory=dict)
    where: dict[str, Where] = field(default_factory=dict)
    node_sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lines: LineReader = field(init=False)
    set_lines: LineReader = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LineReader(PARTITIONS, self.findings)
        self.set_lines = LineReader(NODE_SETS, self.findings)

    def node_set_line(self, tokens: tuple[Token, ...]) -> None:
        """Reads one NodeSet line: nodes by name, by feature, or both."""
        values, where = self.set_lines.read(tokens), tokens[0].where
        name = values.value("name", "")
        if not name:
            return
        if name.upper() == "ALL" or name in self.table.nodes or name in self.node_sets:
            self.findings.error(where, f"NodeSet {name}: the name is taken")
            return
        if "nodes" not in values and "feature" not in values:
            self.findings.error(where, f"NodeSet {name}: give Nodes or Feature")
        members = list(self._nodes(values, where, "NodeSet"))
        if feature := values.value("feature"):
            members += [node.name for node in self.table.nodes.values() if feature in node.features]
        self.node_sets[name] = tuple(dict.fromkeys(members))

    def partition_line(self, tokens: tuple[Token, ...]) -> None:
        """Reads one PartitionName line."""
        values = self.lines.read_named(tokens)
        if values is None or "name" not in values:
            return
        where, name = tokens[0].where, tokens[0].value
        if name in self.partitions:
            self.findings.error(where, f"duplicate partition {name}: it is already defined at {self.where[name]}")
        elif len(self.partitions) == PARTITIONS_MAX:
            self.findings.error(where, f"more than {PARTITIONS_MAX} partitions")
        else:
            if name.upper() == "ALL":
                self.findings.warn(where, f"PartitionName: {name} is easily taken for all partitions")
            partition = made_of(
                PartitionConfig, {"name": name, "nodes": self._nodes(values, where, name), **self._fields(values)}
            )
            self._check(partition, values, where)
            if partition.is_default:
                self._only_default(partition, where)
            self.partitions[name] = partition
            self.where[name] = where

    def amended(self, tokens: tuple[Token, ...], old: PartitionConfig) -> PartitionConfig:
        """Applies tokens to an existing partition; other settings are unchanged."""
        values, where = self.lines.read(tokens), tokens[0].where
        fields = self._fields(values)
        if "disable_root_jobs" not in values:
            del fields["disable_root_jobs"]
        for limit in ("def", "max"):  # a limit per CPU replaces one per node, and vice versa
            for said, other in (("cpu", "node"), ("node", "cpu")):
                if f"{limit}_mem_per_{said}_mb" in fields:
                    fields.setdefault(f"{limit}_mem_per_{other}_mb", 0)
        gives_up_topo = old.exclusive_topo and fields.get("exclusive_topo") is False
        if old.over_subscribe == "EXCLUSIVE" and ("Exclusive" in values or gives_up_topo):
            fields.setdefault("over_subscribe", "NO")  # whole nodes came with what it had before
        if "nodes" in values:
            fields["nodes"] = self._nodes(values, where, old.name) if values["nodes"].value else ()
        new = made_of(partial(replace, old), fields)
        self._check(new, values, where)
        return new

    def _only_default(self, partition: PartitionConfig, where: Where) -> None:
        """Keeps the last of several default partitions, with a warning."""
        for other in self.partitions.values():
            if other.is_default:
                place = self.where[other.name]
                self.partitions[other.name] = replace(other, is_default=False)
                text = f"{partition.name}: Default=YES replaces that of {other.name} ({place}): the last one counts"
                self.findings.warn(where, text)

    def _fields(self, values: Values) -> Fields:
        fields: Fields = {"disable_root_jobs": self.disable_root_jobs}
        if "Priority" in values:
            fields |= {"priority_tier": values["Priority"].value, "priority_job_factor": values["Priority"].value}
        if "Exclusive" in values:
            exclusive = values["Exclusive"].value
            fields |= {"exclusive_user": exclusive == "USER", "exclusive_topo": exclusive == "TOPO"}
            if exclusive == "NODE":
                fields["over_subscribe"] = "EXCLUSIVE"
        fields |= values.value("JobDefaults", {})
        fields |= {name: found.value for name, found in values.items() if name not in _SPREAD}
        if fields.get("exclusive_topo"):
            fields["over_subscribe"] = "EXCLUSIVE"  # from Slurm 26.05 on it implies whole nodes
        for limit in ("def", "max"):
            cpu, node = f"{limit}_mem_per_cpu_mb", f"{limit}_mem_per_node_mb"
            if cpu in values and node in values:
                word = f"{limit.capitalize()}MemPer"
                self.findings.warn(
                    values[node].where, f"{word}CPU and {word}Node exclude each other; {word}CPU is used"
                )
                del fields[node]
        return fields

    def _nodes(self, values: Values, where: Where, name: str) -> tuple[str, ...]:
        """Returns the nodes of a line, without duplicates."""
        if "nodes" not in values:
            return ()
        text, where = values["nodes"]
        try:
            listed = expand(text)
        except BadValue as problem:
            self.findings.error(where, f"Nodes: {problem}")
            return ()
        members: dict[str, None] = {}
        unknown = []
        for word in dict.fromkeys(listed):
            if word in self.table.nodes:
                members[word] = None
            elif word.upper() == "ALL":
                members |= dict.fromkeys(self.table.nodes)
            elif word in self.node_sets:
                members |= dict.fromkeys(self.node_sets[word])
            else:
                unknown.append(word)
        if unknown and self.table.complete:
            self.findings.error(where, f"{name}: Nodes names unknown nodes: {compress(unknown)}")
        return tuple(members)

    def _check(self, partition: PartitionConfig, values: Values, where: Where) -> None:
        """Reports values that contradict each other."""
        find = self.findings
        if partition.max_nodes != UNLIMITED and partition.min_nodes > partition.max_nodes:
            find.error(
                where, f"{partition.name}: MinNodes={partition.min_nodes} exceeds MaxNodes={partition.max_nodes}"
            )
        if partition.max_time_s != UNLIMITED and (
            partition.default_time_s == UNLIMITED or partition.default_time_s > partition.max_time_s
        ):
            said = values.get("default_time_s")
            find.error(said.where if said else where, f"{partition.name}: DefaultTime exceeds MaxTime")
        check_partition(partition, values, self.cluster, find)
