"""Compares two configurations: the changes that a reload makes, and the problems that forbid it.

A reload is all or nothing. It is refused if it would remove resources that running jobs use (nodes, GPUs), or change
what requires a restart (the state's location, ports). The scheduler's own limits may become lower than current usage:
running jobs keep what they have. The caller supplies the nodes with jobs and the GRES in use; this module does not
access the cluster's state.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields

# Any: records of all kinds of lines are compared field by field
from typing import Any, NamedTuple

from penstock.config.keys import CGROUP, GLOBALS, NODES, PARTITIONS, Table
from penstock.config.kinds import ValueKind
from penstock.values.config import Config, NodeConfig
from penstock.values.cpusets import format_cpus
from penstock.values.gres import Gres, format_node_gres
from penstock.values.hostlist import compress
from penstock.values.mig import extra_places
from penstock.values.urls import place_without_secret, server_of, without_password

#: Fields that are read only at the controller's start.
_NEEDS_RESTART = (
    "cluster_name",
    "slurm_user",
    "state_save_location",
    "penstock_database_url",
    "penstock_database_read_url",
    "penstock_database_schema",
    "penstock_witness_file",
    "slurmctld_port",
    "penstock_node_port",
    "metrics_type",
    "metrics_port",
    "metrics_addr",
    "metrics_token_file",
    "metrics_tls",
)

#: Of a node or partition that only one of the two has, instead of a value.
ADDED = "present"
#: The number of changes that are listed individually.
CHANGES_MAX = 200


def reload_problems(
    old: Config, new: Config, nodes_with_jobs: Collection[str], gres_in_use: Mapping[str, tuple[Gres, ...]]
) -> list[str]:
    """Returns why `new` may not replace `old` now; empty if it may. `gres_in_use`: GRES of jobs by node."""
    problems = []
    for name in _NEEDS_RESTART:
        if getattr(old, name) != getattr(new, name):
            problems.append(f"{_key_name(GLOBALS, name)} cannot change while the controller runs; restart it instead")
    nodes = {node.name: node for node in new.nodes}
    removed = [node.name for node in old.nodes if node.name not in nodes and node.name in nodes_with_jobs]
    if removed:
        problems.append(f"nodes with running jobs would be removed: {compress(removed)}; drain them first")
    for was in old.nodes:
        if was.name in nodes_with_jobs and (node := nodes.get(was.name)):
            problems += _shrunk(was, node)
    for name in sorted(gres_in_use):
        if node := nodes.get(name):
            problems += _missing_gres(node, gres_in_use[name])
    return problems


class ConfigChange(NamedTuple):
    """One difference. `what`: "node" or "partition" with its `names`; "" is a global parameter. `key` "": it is added
    (`running` is "") or removed (`file` is "")."""

    what: str
    names: str
    key: str
    running: str
    file: str
    needs_restart: bool = False

    def text(self) -> str:
        """The difference as a line."""
        if self.key:
            place = f"{self.what} {self.names}: " if self.what else ""
            return f"{place}{self.key}: {self.running} -> {self.file}"
        act = "removed" if self.running else "added"
        return f"nodes {act}: {self.names}" if self.what == "node" else f"{self.what} {self.names} {act}"


def differences(old: Config, new: Config) -> Iterator[ConfigChange]:
    """Yields the differences: of the parameters, of the nodes, of the partitions."""
    yield from _global_changes(old, new)
    yield from _node_changes(old, new)
    yield from _partition_changes(old, new)


def changes(old: Config, new: Config) -> list[str]:
    """Describes the differences, one per line."""
    lines = [one.text() for one in differences(old, new)]
    if len(lines) > CHANGES_MAX:
        return [*lines[:CHANGES_MAX], f"and {len(lines) - CHANGES_MAX} more changes"]
    return lines


def _shrunk(was: NodeConfig, node: NodeConfig) -> Iterator[str]:
    """Yields a problem for each reduction of a node's CPUs or memory, which its jobs may be using."""
    for sizes in (
        (("CPUs", was.cpus, node.cpus), ("the CPUs for jobs", was.cpus_for_jobs(), node.cpus_for_jobs())),
        (
            ("RealMemory", was.real_memory_mb, node.real_memory_mb),
            ("the memory for jobs", was.memory_for_jobs_mb(), node.memory_for_jobs_mb()),
        ),
    ):
        for key, before, after in sizes:
            if after < before:
                yield f"node {node.name} has running jobs: {key} cannot go from {before} to {after}; drain it first"
                break


def _missing_gres(node: NodeConfig, used: tuple[Gres, ...]) -> Iterator[str]:
    """Yields a problem for each GRES that jobs use and the node would no longer have, by name and by type."""
    gres = (*node.gres, *(Gres("gpu", profile, count) for profile, count in extra_places(node.mig)))
    for name in sorted({one.name for one in used}):
        needed = sum(one.count for one in used if one.name == name)
        given = sum(one.count for one in gres if one.name == name)
        if given < needed:
            yield f"node {node.name}: jobs use {needed} {name}, the new configuration has {given}; drain it first"
            continue
        types = {one.type: one.count for one in gres if one.name == name}
        for one in used:
            if one.name == name and one.type and "" not in types and types.get(one.type, 0) < one.count:
                yield (
                    f"node {node.name}: jobs use {one.count} {name}:{one.type}, the new configuration has "
                    f"{types.get(one.type, 0)}; drain it first"
                )


def _global_changes(old: Config, new: Config) -> Iterator[ConfigChange]:
    for item in fields(Config):
        if item.name in ("nodes", "partitions", "shown"):
            continue
        before, after = getattr(old, item.name), getattr(new, item.name)
        if before == after:
            continue
        if item.name == "cgroup":
            yield from (ConfigChange("", "", *one) for one in _record_changes(CGROUP, before, after))
            continue
        texts = (_text(GLOBALS, item.name, before), _text(GLOBALS, item.name, after))
        yield ConfigChange("", "", _key_name(GLOBALS, item.name), *texts, item.name in _NEEDS_RESTART)


def _node_changes(old: Config, new: Config) -> Iterator[ConfigChange]:
    before, after = {node.name: node for node in old.nodes}, {node.name: node for node in new.nodes}
    if added := [name for name in after if name not in before]:
        yield ConfigChange("node", compress(added), "", "", ADDED)
    if removed := [name for name in before if name not in after]:
        yield ConfigChange("node", compress(removed), "", ADDED, "")
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for name, node in after.items():
        if name in before:
            for change in _record_changes(NODES, before[name], node):
                grouped.setdefault(change, []).append(name)
    for change, names in grouped.items():
        yield ConfigChange("node", compress(names), *change)


def _partition_changes(old: Config, new: Config) -> Iterator[ConfigChange]:
    before, after = {p.name: p for p in old.partitions}, {p.name: p for p in new.partitions}
    yield from (ConfigChange("partition", name, "", "", ADDED) for name in after if name not in before)
    for name, partition in before.items():
        if name not in after:
            yield ConfigChange("partition", name, "", ADDED, "")
            continue
        yield from (
            ConfigChange("partition", name, *one) for one in _record_changes(PARTITIONS, partition, after[name])
        )


def _record_changes(table: Table, before: Any, after: object) -> Iterator[tuple[str, str, str]]:
    """Yields key, value before, value after."""
    for item in fields(before):
        was, now = getattr(before, item.name), getattr(after, item.name)
        if was != now:
            yield _key_name(table, item.name), _text(table, item.name, was), _text(table, item.name, now)


def _key_name(table: Table, field: str) -> str:
    field = {"specialized_cpus": "cpu_spec_list"}.get(field, field)
    return next((key.name for key in table.keys if key.field == field), field)


def _text(table: Table, field: str, value: Any) -> str:
    """Formats a value as in the file."""
    if field == "gres":
        return format_node_gres(value) or "none"
    if field == "specialized_cpus":
        return format_cpus(value) or "none"
    if field == "nodes":
        return compress(value) or "none"
    if field in ("penstock_database_url", "penstock_database_read_url"):
        return without_password(value) or "none"
    if field in ("job_comp_loc", "trace_url"):
        return place_without_secret(value) or "none"
    if field == "webhooks":
        return ", ".join(f"{hook.name} ({server_of(hook.url)})" for hook in value) or "none"
    kind: ValueKind | None = next((key.kind for key in table.keys if key.field == field), None)
    return (kind.write(value) if kind else str(value)) or "none"
