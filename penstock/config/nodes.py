"""Reads NodeName and DownNodes lines to `NodeConfig` records.

A line describes all nodes of its range. The numbers of CPUs, sockets, cores and threads follow Slurm's rules: missing
ones are derived from the others, and CPUs may count sockets, cores or threads; any other number of CPUs is replaced by
the number of threads, with a warning. Addresses, host names and ports are common to all nodes, or one per node.
"""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.config.keys import DOWN_NODES, NODES
from penstock.config.lines import LineReader, Values
from penstock.config.problem import Findings, Where
from penstock.config.syntax import Token
from penstock.values.config import NodeConfig
from penstock.values.cpusets import last_cores, parse_cpus, whole_cores
from penstock.values.errors import BadValue
from penstock.values.gres import Gres, parse_gres
from penstock.values.hostlist import HOSTLIST_NODES_MAX, compress, expand
from penstock.values.numbers import parse_int

T = TypeVar("T")

#: Slurm's tools store CPUs, cores and threads of a node in 16-bit fields.
CPUS_MAX = 65533

#: Fields that are copied from the line to each of its nodes.
_PLAIN = ("real_memory_mb", "mem_spec_limit_mb", "tmp_disk_mb", "features", "weight", "state", "reason")


@dataclass(slots=True)
class NodeTable:
    """All nodes in file order. If a range could not be parsed, `complete` is False, and an unknown name is no error."""

    nodes: dict[str, NodeConfig] = field(default_factory=dict)
    where: dict[str, Where] = field(default_factory=dict)
    gres_where: dict[str, Where] = field(default_factory=dict)
    complete: bool = True


class NodeReader:
    """Reads lines in order into `table`."""

    def __init__(
        self, findings: Findings, gres_types: tuple[str, ...], slurmd_port: int, first_cores: bool = False
    ) -> None:
        self.findings = findings
        self.first_cores = first_cores  # spec_cores_first: CoreSpecCount takes the first cores, not the last
        self.gres_types = gres_types
        self.slurmd_port = slurmd_port
        self.table = NodeTable()
        self._lines = LineReader(NODES, findings)
        self._down_lines = LineReader(DOWN_NODES, findings)
        self._down: list[tuple[Values, Where]] = []

    def node_line(self, tokens: tuple[Token, ...]) -> None:
        """Reads one NodeName line."""
        values = self._lines.read_named(tokens)
        if values is None:
            return
        where = tokens[0].where
        names = self._names(tokens[0].value, "NodeName", where)
        if names is None:
            self.table.complete = False
            return
        cpus, boards, sockets, cores, threads = self._topology(values, where)
        template = NodeConfig(
            name="",
            hostname="",
            addr="",
            cpus=cpus,
            boards=boards,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            gres=self.gres(values),
            **{name: values[name].value for name in _PLAIN if name in values},
        )
        template = self._specialized(template, values, where)
        hostnames = self._spread(values, "hostname", names) or names
        addrs = self._spread(values, "addr", names) or hostnames
        ports = self._ports(values, names)
        gres_where = values["gres"].where if "gres" in values else where
        for name, hostname, addr, port in zip(names, hostnames, addrs, ports, strict=True):
            self._add(replace(template, name=name, hostname=hostname, addr=addr, port=port), where, gres_where)

    def down_line(self, tokens: tuple[Token, ...]) -> None:
        """Reads one DownNodes line; it may precede the nodes that it names."""
        self._down.append((self._down_lines.read(tokens), tokens[0].where))

    def finish(self) -> NodeTable:
        """Applies the DownNodes lines and returns the table."""
        for values, where in self._down:
            names = self._names(values.value("nodes", ""), "DownNodes", where) or []
            unknown = [name for name in names if name not in self.table.nodes]
            if unknown and self.table.complete:
                self.findings.error(where, f"DownNodes names unknown nodes: {compress(unknown)}")
            state, reason = values.value("state", "DOWN"), values.value("reason", "")
            for name in names:
                if node := self.table.nodes.get(name):
                    self.table.nodes[name] = replace(node, state=state, reason=reason)
        return self.table

    def _names(self, text: str, what: str, where: Where) -> list[str] | None:
        try:
            names = expand(text)
        except BadValue as problem:
            self.findings.error(where, f"{what}: {problem}")
            return None
        if not names or any(name.upper() in ("ALL", "DEFAULT") for name in names):
            self.findings.error(where, f"{what}: {text} is not the name of a node")
            return None
        return names

    def _add(self, node: NodeConfig, where: Where, gres_where: Where) -> None:
        table = self.table
        if node.name in table.nodes:
            self.findings.error(where, f"duplicate node {node.name}: it is already defined at {table.where[node.name]}")
        elif len(table.nodes) == HOSTLIST_NODES_MAX:
            self.findings.error(where, f"more than {HOSTLIST_NODES_MAX} nodes, the limit of a cluster")
            table.complete = False
        elif len(table.nodes) < HOSTLIST_NODES_MAX:
            table.nodes[node.name] = node
            table.where[node.name] = where
            table.gres_where[node.name] = gres_where

    def _topology(self, values: Values, where: Where) -> tuple[int, int, int, int, int]:
        """Returns CPUs, boards, sockets of all boards, cores per socket, threads per core."""
        boards = values.value("boards", 1)
        cores, threads = values.value("cores_per_socket", 1), values.value("threads_per_core", 1)
        per_board, sockets_key = values.value("sockets_per_board"), values.value("sockets")
        if per_board is not None and sockets_key is not None:
            self.findings.error(where, "Sockets and SocketsPerBoard exclude each other")
        per_board = per_board if per_board is not None else sockets_key
        cpus = values.value("cpus")
        if cpus is None:
            sockets = boards * (per_board or 1)
            return self._checked_cpus(sockets * cores * threads, where), boards, sockets, cores, threads
        if per_board is None:
            per_board = max(1, cpus // (boards * cores * threads))
        sockets = boards * per_board
        if cpus != sockets and "cores_per_socket" not in values and "threads_per_core" not in values:
            self.findings.warn(where, f"CPUs={cpus} does not match Sockets={sockets}; {cpus} sockets are used")
            return cpus, 1, cpus, 1, 1
        if cpus not in (sockets, sockets * cores, sockets * cores * threads):
            total = sockets * cores * threads
            self.findings.warn(
                where,
                f"CPUs={cpus} is neither the sockets ({sockets}), nor the cores ({sockets * cores}), nor the threads "
                f"({total}) of the node; {total} is used",
            )
            cpus = self._checked_cpus(total, where)
        return cpus, boards, sockets, cores, threads

    def _specialized(self, node: NodeConfig, values: Values, where: Where) -> NodeConfig:
        """Returns the node with its CPUs and memory for the system; jobs must have some of both."""
        if 0 < node.real_memory_mb <= node.mem_spec_limit_mb:
            said = f"MemSpecLimit={node.mem_spec_limit_mb} leaves nothing of RealMemory={node.real_memory_mb} for jobs"
            self.findings.warn(where, f"{said}; it is not used")
            node = replace(node, mem_spec_limit_mb=0)
        if "core_spec_count" in values and "cpu_spec_list" in values:
            self.findings.error(where, "CoreSpecCount and CpuSpecList exclude each other")
            return node
        core = node.cpus_per_core()
        cores = node.cpus // core // node.sockets
        count: int = values.value("core_spec_count", 0)
        mask = last_cores(count, node.sockets, cores, core, self.first_cores) if count else 0
        if "cpu_spec_list" in values:
            try:
                mask = whole_cores(parse_cpus(values.value("cpu_spec_list"), node.cpus), core)
            except BadValue as problem:
                self.findings.error(where, f"CpuSpecList: {problem}")
        if mask.bit_count() >= node.cpus:
            key = "CoreSpecCount" if count else "CpuSpecList"
            self.findings.error(where, f"{key} leaves no core of {node.cpus // core} for jobs")
            return node
        return replace(node, specialized_cpus=mask)

    def _checked_cpus(self, cpus: int, where: Where) -> int:
        if cpus > CPUS_MAX:
            self.findings.error(where, f"the node would have {cpus} CPUs, the limit is {CPUS_MAX}")
        return min(cpus, CPUS_MAX)

    def gres(self, values: Values) -> tuple[Gres, ...]:
        """Parses the value of Gres."""
        if "gres" not in values:
            return ()
        text, where = values["gres"]
        if text.lower() in ("none", "(null)"):
            return ()
        try:
            gres = parse_gres(text)
        except BadValue as problem:
            self.findings.error(where, f"Gres: {problem}")
            return ()
        for name in dict.fromkeys(one.name for one in gres):
            if name not in self.gres_types:
                listed = ",".join(self.gres_types) or "not set"
                self.findings.error(where, f"Gres: {name} is not among GresTypes ({listed})")
        return gres

    def _spread(self, values: Values, name: str, names: list[str]) -> list[str] | None:
        """Returns host names or addresses, one per node; None if the line has none or they are invalid."""
        if name not in values:
            return None
        text, where = values[name]
        key = "NodeAddr" if name == "addr" else "NodeHostname"
        if ":" in text:  # an IPv6 address is one name
            listed = [text]
        else:
            found = self._names(text, key, where)
            if found is None:
                return None
            listed = found
        return self._one_each(listed, key, names, where)

    def _ports(self, values: Values, names: list[str]) -> list[int]:
        default = [self.slurmd_port] * len(names)
        if "port" not in values:
            return default
        text, where = values["port"]
        try:
            listed = [parse_int(port, 1, 65535, "Port") for port in expand(text)]
        except BadValue as problem:
            self.findings.error(where, f"Port: {problem}")
            return default
        return self._one_each(listed, "Port", names, where) or default

    def _one_each(self, listed: list[T], key: str, names: list[str], where: Where) -> list[T] | None:
        if len(listed) == 1:
            return listed * len(names)
        if len(listed) != len(names):
            self.findings.error(where, f"{key} names {len(listed)}, NodeName {len(names)}; one for all or one for each")
            return None
        return listed
