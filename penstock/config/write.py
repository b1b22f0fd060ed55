"""Writes a configuration as a short `slurm.conf` that people can read and edit, and that `load` reads back as equal.

Only values other than Penstock's defaults are written, from the same table that reading uses. Adjacent nodes with equal
settings share a line. GRES are on the node lines, so no `gres.conf` is needed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from penstock.config.keys import GLOBALS, NODES, PARTITIONS, Key
from penstock.config.schedparams import FIELD_OF_PARAMETER
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.cpusets import format_cpus
from penstock.values.gres import format_node_gres
from penstock.values.hostlist import compress

#: Nodes per line. Longer lines are legal, but editors show them badly.
NODES_PER_LINE_MAX = 1024

#: Written even if they are defaults, since readers look for them.
_ALWAYS = frozenset(
    {"cluster_name", "slurmctld_port", "penstock_node_port", "slurm_user", "state_save_location", "slurmd_spool_dir"}
)

#: Fields that are not written from the table.
_BY_HAND = frozenset({"topology_plugin", "controller_host", "controller_addr", "scheduler_parameters", "nodes", "name"})

_TOPOLOGY = ("cpus", "boards", "sockets", "cores_per_socket", "threads_per_core")
_SPECIALIZED = ("core_spec_count", "cpu_spec_list")
_SAME_ON_A_LINE = ("name", "hostname", "addr", "port")


def render(config: Config) -> str:
    """Returns the text of the file. Raises ValueError for a value that the syntax cannot represent (quotes, line breaks)."""
    lines = [
        "# Configuration of the cluster, in Slurm's syntax. Check a change: penstock config check FILE",
        *_globals(config),
        "",
        *_nodes(config),
        "",
        *(_partition(partition, config.nodes) for partition in config.partitions),
    ]
    return "\n".join(lines) + "\n"


def _globals(config: Config) -> Iterator[str]:
    default = Config()
    for key in GLOBALS.keys:
        if key.name == "SlurmctldHost":
            same = config.controller_addr == config.controller_host
            yield _pair(key.name, config.controller_host + ("" if same else f"({config.controller_addr})"))
        elif key.field and key.kind is not None and key.field not in _BY_HAND:
            value = getattr(config, key.field)
            if key.field in _ALWAYS or value != getattr(default, key.field):
                yield _pair(key.name, key.kind.write(value))
    if pairs := _scheduler_parameters(config):
        yield _pair("SchedulerParameters", ",".join(f"{name}={value}" if value else name for name, value in pairs))


def _scheduler_parameters(config: Config) -> list[tuple[str, str]]:
    """Returns the pairs, and adds those that are fields of their own."""
    pairs, default = list(config.scheduler_parameters), Config()
    names = {name for name, _ in pairs}
    for name, field in FIELD_OF_PARAMETER.items():
        value = getattr(config, field)
        if name not in names and value != getattr(default, field):
            pairs.append((name, str(value)))
    return pairs


def _nodes(config: Config) -> Iterator[str]:
    for _, group in groupby(config.nodes, key=_line_key):
        nodes = list(group)
        for start in range(0, len(nodes), NODES_PER_LINE_MAX):
            yield _node_line(nodes[start : start + NODES_PER_LINE_MAX], config)


def _line_key(node: NodeConfig) -> tuple[object, ...]:
    """Returns a key that is equal for nodes that may share a line."""
    hostname = "" if node.hostname == node.name else node.hostname
    addr = "" if node.addr == node.hostname else node.addr
    return replace(node, name="", hostname="", addr="", port=0), hostname, addr, node.port


def _node_line(nodes: list[NodeConfig], config: Config) -> str:
    first = nodes[0]
    default = NodeConfig(name="", hostname="", addr="", cpus=1)
    words = [_pair("NodeName", compress((node.name for node in nodes), keep_order=True))]
    if first.hostname != first.name:
        words.append(_pair("NodeHostname", first.hostname))
    if first.addr != first.hostname:
        words.append(_pair("NodeAddr", first.addr))
    if first.port != config.slurmd_port:
        words.append(_pair("Port", str(first.port)))
    words.append(_pair("CPUs", str(first.cpus)))
    if (first.boards, first.sockets, first.cores_per_socket, first.threads_per_core) != (1, first.cpus, 1, 1):
        if first.boards > 1:
            words.append(_pair("Boards", str(first.boards)))
        words += [
            _pair("SocketsPerBoard" if first.boards > 1 else "Sockets", str(first.sockets // first.boards)),
            _pair("CoresPerSocket", str(first.cores_per_socket)),
            _pair("ThreadsPerCore", str(first.threads_per_core)),
        ]
    if first.specialized_cpus:
        words.append(_pair("CpuSpecList", format_cpus(first.specialized_cpus)))
    if first.gres:
        words.append(_pair("Gres", format_node_gres(first.gres)))
    by_hand = {*_SAME_ON_A_LINE, *_TOPOLOGY, *_SPECIALIZED, "gres"}
    words += _fields(first, default, (key for key in NODES.keys if key.field not in by_hand))
    return " ".join(words)


def _partition(partition: PartitionConfig, nodes: tuple[NodeConfig, ...]) -> str:
    words = [_pair("PartitionName", partition.name)]
    if partition.nodes and partition.nodes == tuple(node.name for node in nodes):
        words.append("Nodes=ALL")
    elif partition.nodes:
        words.append(_pair("Nodes", compress(partition.nodes, keep_order=True)))
    default = PartitionConfig(name="", nodes=())
    words += _fields(partition, default, (key for key in PARTITIONS.keys if key.field not in _BY_HAND))
    return " ".join(words)


def _fields(record: object, default: object, keys: Iterable[Key]) -> list[str]:
    """Returns `Key=Value` for each field that differs from its default."""
    words = []
    for key in keys:
        if key.kind is not None and hasattr(default, key.field):
            value = getattr(record, key.field)
            if value != getattr(default, key.field):
                words.append(_pair(key.name, key.kind.write(value)))
    return words


def _pair(key: str, value: str) -> str:
    """Formats `Key=Value`, quoted and escaped as the syntax requires."""
    if not value or '"' in value or re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", value):
        raise ValueError(f"{key}: {value!r} cannot be written to a configuration file")
    escaped = value.replace("\\", "\\\\").replace("#", "\\#")
    return f'{key}="{escaped}"' if re.search(r"\s", value) else f"{key}={escaped}"
