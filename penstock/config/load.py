"""Loads a cluster's configuration: `slurm.conf`, the files that it includes, and `gres.conf` and `cgroup.conf` beside
it.

Everything is read and checked first: `load` returns a complete `Config`, or raises `ConfigError` with all problems, so
that a caller can keep the old configuration. Parameters of the whole cluster are processed first, regardless of their
position, because node and partition lines depend on some of them.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.config.cgroupconf import read_cgroup_conf
from penstock.config.containerconf import read_container_conf
from penstock.config.deliveries import read_deliveries
from penstock.config.gresconf import read_gres_conf
from penstock.config.keys import GLOBALS, LINES
from penstock.config.kinds import HOST
from penstock.config.lines import LineReader, Value, Values
from penstock.config.nodes import NodeReader
from penstock.config.partitions import PartitionReader
from penstock.config.preemption import read_preemption
from penstock.config.problem import Findings, Ignored, Where
from penstock.config.resourcesyaml import read_resources
from penstock.config.schedparams import read_scheduler_parameters
from penstock.config.shown import find_uid, shown_parameters
from penstock.config.sidefiles import LUA_FILES, read_side_files
from penstock.config.syntax import Statement, Token, read_statements
from penstock.config.topologyconf import read_topology_conf
from penstock.config.topologyyaml import read_topology_yaml
from penstock.config.xidfile import read_gpu_keys
from penstock.config.zone import utc_offsets
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from penstock.values.hostlist import compress
from penstock.values.topology import Topology

#: The default path of the configuration.
DEFAULT_PATH = "/etc/penstock/slurm.conf"

_DEFAULTS = Config()
_SLURMCTLD_HOST = re.compile(r"([^()]+)(?:\(([^()]+)\))?")
_Lines = list[tuple[str, tuple[Token, ...]]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, its warnings, and the files that were read."""

    config: Config
    warnings: tuple[str, ...]
    files: tuple[str, ...]
    ignored: tuple[Ignored, ...] = ()


def load(path: str) -> Loaded:
    """Reads and checks a configuration. Raises `ConfigError` with all problems."""
    findings = Findings()
    statements, files = read_statements(path, findings)
    if not files:
        findings.raise_if_any(files)
    global_tokens, lines = _split(statements)
    reader = LineReader(GLOBALS, findings)
    values = _read_globals(reader, global_tokens, findings)
    fields = _config_fields(values, findings)
    container, container_files = read_container_conf(os.path.dirname(path), fields, values, findings)
    fields |= container
    files += container_files

    used = {name for name, plugins in LUA_FILES.items() if "lua" in values.value(plugins, ())}
    beside, more = read_side_files(os.path.dirname(path), values.value("private_data", ()), used, findings)
    fields |= beside
    files += more

    xids, xid_files = read_gpu_keys(os.path.dirname(path), values, findings)
    fields |= xids
    files += xid_files

    hooks, more = read_deliveries(values, findings)
    fields |= hooks
    files += more

    nodes = _node_reader(values, findings)
    _read_lines(lines, "nodename", nodes.node_line)
    _read_lines(lines, "downnodes", nodes.down_line)
    table = nodes.finish()
    files += read_gres_conf(os.path.dirname(path), table, nodes.gres_types, findings)

    if fields.get("gpu_settings") == "read-only" and (divided := [n.name for n in table.nodes.values() if n.mig]):
        where, names = table.gres_where[divided[0]], compress(divided)
        findings.warn(where, f"PenstockGpuSettings=read-only: PenstockMigLayouts of {names} is not used")

    topology, plugin, more = _read_topology(os.path.dirname(path), values, tuple(table.nodes), findings)
    fields |= plugin
    files += more

    licenses = dict(values.value("licenses", ()))
    hres, more = read_resources(os.path.dirname(path), table.nodes, licenses, findings)
    files += more

    cgroup, more = read_cgroup_conf(os.path.dirname(path), findings)
    files += more

    partitions = PartitionReader(findings, table, values.value("DisableRootJobs", False), values)
    _read_lines(lines, "nodeset", partitions.node_set_line)
    _read_lines(lines, "partitionname", partitions.partition_line)
    _read_lines(lines, "frontendname", LineReader(LINES["frontendname"], findings).read)
    _check_presence(values, lines, "maxnodecount" in reader.texts, Where(path, 0), findings)
    findings.raise_if_any(files)

    config = replace(
        made_of(Config, fields),
        hres=hres,
        topology=topology,
        cgroup=cgroup,
        nodes=tuple(table.nodes.values()),
        partitions=tuple(partitions.partitions.values()),
        utc_offsets=utc_offsets(),
    )
    config = replace(config, shown=shown_parameters(config, reader.texts, os.path.abspath(path)))
    return Loaded(config, findings.warning_lines(files), files, findings.ignored_ones(files))


def _read_lines(lines: _Lines, kind: str, read: Callable[[tuple[Token, ...]], object]) -> None:
    """Reads the lines of one kind, in their order."""
    for tokens in (tokens for key, tokens in lines if key == kind):
        read(tokens)


def _read_topology(
    folder: str, values: Values, nodes: tuple[str, ...], findings: Findings
) -> tuple[Topology, Fields, tuple[str, ...]]:
    """Reads topology.yaml if there is one, else topology.conf. Returns the topology, the plugin if the file determines
    it, and the files read.
    """
    newer = os.path.join(folder, "topology.yaml")
    if os.path.lexists(newer):
        topology = read_topology_yaml(newer, nodes, findings)
        return topology, {"topology_plugin": f"topology/{topology.kind}"}, (newer,)
    plugin = values.value("topology_plugin", _DEFAULTS.topology_plugin)
    topology, files = read_topology_conf(folder, plugin, nodes, findings)
    return topology, {}, files


def _split(statements: list[Statement]) -> tuple[list[Token], _Lines]:
    """Separates the tokens of the whole cluster from the lines of other kinds."""
    global_tokens: list[Token] = []
    lines: _Lines = []
    for statement in statements:
        for position, token in enumerate(statement.tokens):
            if token.key.lower() in LINES:
                lines.append((token.key.lower(), statement.tokens[position:]))
                break
            global_tokens.append(token)
    return global_tokens, lines


def _read_globals(reader: LineReader, tokens: list[Token], findings: Findings) -> Values:
    """Reads the cluster's parameters; of several SlurmctldHost lines the first is the controller."""
    hosts = [token for token in tokens if (key := GLOBALS.find(token.key)) and key.name == "SlurmctldHost"]
    values = reader.read(token for token in tokens if token not in hosts)
    for backup in hosts[1:]:
        findings.warn(backup.where, f"{backup.value} is a backup controller, which Penstock does not use")
    if not hosts:
        return values
    match, where = _SLURMCTLD_HOST.fullmatch(hosts[0].value), hosts[0].where
    try:
        host = HOST.read(match[1] if match else hosts[0].value, "SlurmctldHost")
        addr = HOST.read(match[2], "SlurmctldHost") if match and match[2] else host
    except BadValue as problem:
        findings.error(where, f"{problem}; write NAME or NAME(ADDRESS)")
        return values
    values["controller_host"] = Value(host, where)
    values.setdefault("controller_addr", Value(addr, where))
    return values


def _node_reader(values: Values, findings: Findings) -> NodeReader:
    is_first = any(word == "spec_cores_first" for word, _ in values.value("scheduler_parameters", ()))
    port = values.value("slurmd_port", _DEFAULTS.slurmd_port)
    return NodeReader(findings, values.value("gres_types", ()), port, first_cores=is_first)


def _config_fields(values: Values, findings: Findings) -> Fields:
    """Returns fields of `Config`, including those set by SchedulerParameters, after checking them against each other."""
    fields = {name: found.value for name, found in values.items() if hasattr(_DEFAULTS, name)}
    defaults = values.value("JobDefaults", {})
    fields = {**defaults, **fields}
    if "wckeys" in fields.get("enforce", ()):  # implies TrackWCKey (slurm.conf(5))
        fields["track_wckey"] = True
    if "scheduler_parameters" in values:
        pairs, where = values["scheduler_parameters"]
        fields |= read_scheduler_parameters(pairs, where, findings)
    fields |= read_preemption(values, findings)
    if "propagate_resource_limits" in values and "propagate_resource_limits_except" in values:
        where = values["propagate_resource_limits_except"].where
        findings.error(where, "PropagateResourceLimits and PropagateResourceLimitsExcept exclude each other")
    for limit in ("Def", "Max"):
        cpu, node = f"{limit.lower()}_mem_per_cpu_mb", f"{limit.lower()}_mem_per_node_mb"
        if cpu in values and node in values:
            word = f"{limit}MemPer"
            findings.warn(values[node].where, f"{word}CPU and {word}Node exclude each other; {word}CPU is used")
            del fields[node]
    ports = [fields.get(name, getattr(_DEFAULTS, name)) for name in ("slurmctld_port", "penstock_node_port")]
    if ports[0] == ports[1]:
        where = (values.get("penstock_node_port") or values["slurmctld_port"]).where
        findings.error(
            where, f"SlurmctldPort and PenstockNodePort are both {ports[0]}; node daemons need their own port"
        )
    _check_metrics_port(values, fields, ports, findings)
    if "slurm_user" in values and find_uid(values["slurm_user"].value) is None:
        findings.warn(values["slurm_user"].where, f"SlurmUser {values['slurm_user'].value} is no user of this machine")
    return fields


def _check_metrics_port(values: Values, fields: Fields, ports: list[int], findings: Findings) -> None:
    if fields.get("metrics_type") and (port := fields.get("metrics_port", _DEFAULTS.metrics_port)) in ports:
        where = (values.get("metrics_port") or values["metrics_type"]).where
        findings.error(where, f"PenstockMetricsPort is {port}, as is another port of the controller; choose a free one")


def _check_presence(values: Values, lines: _Lines, has_dynamic: bool, where: Where, findings: Findings) -> None:
    """Checks that required lines and parameters are present; a truncated file often fails here.

    `has_dynamic`: MaxNodeCount is set, for nodes that register dynamically.
    """
    kinds = {kind for kind, _ in lines}
    if "cluster_name" not in values and not any("ClusterName" in problem.text for problem in findings.problems):
        findings.error(where, "ClusterName is not set")
    if "controller_host" not in values and not any("SlurmctldHost" in problem.text for problem in findings.problems):
        findings.error(where, "SlurmctldHost is not set")
    if "nodename" not in kinds:
        say = findings.warn if has_dynamic else findings.error
        say(where, "there is no NodeName line" + (", and nodes do not register by themselves" if has_dynamic else ""))
    if "partitionname" not in kinds:
        findings.error(where, "there is no PartitionName line")
