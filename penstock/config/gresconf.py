"""Reads `gres.conf`, beside `slurm.conf`, and checks it against the nodes.

`Gres=` on a NodeName line counts a node's GRES; `gres.conf` lists the devices. It may add types that the node line
omits, and must not list fewer devices than the node line: Slurm would drain such a node when it registers. With
AutoDetect the node detects the counts. Cores and Links give the affinity of devices to cores and to each other, which
the controller uses to place jobs. Flags select the variables that name a job's GPUs (gresflags.py).

A device may have several files (MultipleFiles); within this module they are one text, separated by commas.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.config.gresflags import UNUSED_FLAGS, pinned_by
from penstock.config.gresmig import KEY as MIG_LAYOUTS
from penstock.config.gresmig import LayoutLine as MigLine
from penstock.config.gresmig import with_mig
from penstock.config.gresshares import with_shares
from penstock.config.keys import GRES
from penstock.config.lines import LineReader, Values
from penstock.config.nodes import NodeTable
from penstock.config.problem import Findings, Where
from penstock.config.syntax import Statement, read_statements
from penstock.config.unknown import unknown
from penstock.values.config import DeviceConfig, NodeConfig
from penstock.values.errors import BadValue
from penstock.values.gres import GRES_COUNT_MAX, SHARED_NAMES, Gres
from penstock.values.hostlist import expand
from penstock.values.mig import GpuLayout, parse_layouts
from penstock.values.numbers import parse_int
from penstock.values.taskset import TaskSet

_COUNT = re.compile(r"([0-9]{1,15})([KMGTP]?)\Z", re.IGNORECASE)
_FILES = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")


@dataclass(frozen=True, slots=True)
class _Record:
    """One line of gres.conf; empty `nodes` means all nodes."""

    nodes: frozenset[str]
    name: str
    type: str
    count: int
    where: Where
    cores: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    mig: tuple[GpuLayout, ...] = ()
    flags: tuple[str, ...] = ()


def read_gres_conf(folder: str, table: NodeTable, gres_types: tuple[str, ...], findings: Findings) -> tuple[str, ...]:
    """Reads the file if it exists, adds types to the nodes in `table`, and returns the files read."""
    path = os.path.join(folder, "gres.conf")
    reader = _GresReader(findings, gres_types)
    files: tuple[str, ...] = ()
    if os.path.lexists(path):
        statements, files = read_statements(path, findings)
        for statement in statements:
            reader.line(statement)
    for name, node in table.nodes.items():
        if node.gres:
            table.nodes[name] = reader.apply(node, table.gres_where[name])
        table.nodes[name] = reader.with_detection(table.nodes[name])
    reader.check_nodes(table)
    return files


class _GresReader:
    def __init__(self, findings: Findings, gres_types: tuple[str, ...]) -> None:
        self.findings = findings
        self.gres_types = gres_types
        self.lines = LineReader(GRES, findings)
        self.records: dict[str, list[_Record]] = {}
        self.detects: list[tuple[frozenset[str], str]] = []  # nodes (none = all) and their value of AutoDetect
        self.uncounted = False  # counts are detected on nodes, or a line is invalid

    def line(self, statement: Statement) -> None:
        """Reads one line of the file."""
        first = statement.tokens[0]
        if GRES.find(first.key) is None:
            self.findings.error(first.where, unknown(first.key, GRES))
            return
        before = self.findings.number()
        values = self.lines.read(statement.tokens)
        if self.findings.number() > before:  # without this count, counts cannot be compared
            self.uncounted = True
            return
        if values.value("autodetect", "off") != "off":
            self.uncounted = True
        name = values.value("name")
        if "autodetect" in values:
            self._detect(values, first.where)
        if name is None:
            if "autodetect" not in values:
                self.findings.error(first.where, "a line of gres.conf needs Name or AutoDetect")
            return
        if name not in self.gres_types:
            self.findings.warn(first.where, f"{name} is not among GresTypes; the line is not used")
            return
        try:
            nodes = frozenset(expand(values.value("nodes", "")))
            device_files = _files(values)
            count = _count(name, values, device_files)
            cores = tuple(TaskSet.parse(values.value("cores"))) if "cores" in values else ()
            links = _links(values.value("links", ""))
            mig = _mig(name, values)
        except BadValue as problem:
            self.findings.error(first.where, f"{name}: {problem}")
            self.uncounted = True
            return
        flags = values.value("flags", ())
        self._warn_of_flags(flags, first.where)
        record = _Record(
            nodes, name, values.value("type", ""), count, first.where, cores, links, device_files, mig, flags
        )
        self.records.setdefault(name, []).append(record)

    def _detect(self, values: Values, where: Where) -> None:
        try:
            nodes = frozenset(expand(values.value("nodes", "")))
        except BadValue as problem:
            self.findings.error(where, f"AutoDetect: {problem}")
            return
        self.detects.append((nodes, values.value("autodetect")))

    def _warn_of_flags(self, flags: tuple[str, ...], where: Where) -> None:
        for flag in flags:
            if flag in UNUSED_FLAGS:
                self.findings.warn(where, f"Flags={flag} is known to Slurm and not used by Penstock")

    def with_detection(self, node: NodeConfig) -> NodeConfig:
        """Returns the node with detection and naming of GPUs (AutoDetect, Flags). Lines with its name override lines for all
        nodes.
        """
        own = [word for nodes, word in self.detects if node.name in nodes]
        every = [word for nodes, word in self.detects if not nodes]
        detect = (own or every or [""])[-1]
        lines = [r.flags for r in self.records.get("gpu", ()) if not r.nodes or node.name in r.nodes]
        env, by_uuid = pinned_by(detect, lines)
        if (detect, env, by_uuid) == (node.gpu_detect, node.gpu_env, node.gpu_env_uuid):
            return node
        return replace(node, gpu_detect=detect, gpu_env=env, gpu_env_uuid=by_uuid)

    def apply(self, node: NodeConfig, where: Where) -> NodeConfig:
        """Adds the types of its records to the node, after checking the counts."""
        gres: list[Gres] = []
        for name in dict.fromkeys(one.name for one in node.gres):
            configured = [one for one in node.gres if one.name == name]
            records = [r for r in self.records.get(name, ()) if not r.nodes or node.name in r.nodes]
            gres += self._typed(configured, records)
            if not self.uncounted:
                self._check_counts(node, configured, records, where)
        node = replace(
            node, gres=tuple(gres), devices=self._devices(node, gres), device_files=tuple(self._files(node, gres))
        )
        here = [r for r in self.records.get("gpu", ()) if not r.nodes or node.name in r.nodes]
        if any(r.mig for r in here):
            node = with_mig(node, [MigLine(r.type, r.count, r.mig, r.where) for r in here], self.findings)
        return self._shares(node, where) if any(one.name in SHARED_NAMES for one in gres) else node

    def _shares(self, node: NodeConfig, where: Where) -> NodeConfig:
        here = {
            name: [r for r in self.records.get(name, ()) if not r.nodes or node.name in r.nodes]
            for name in ("gpu", *SHARED_NAMES)
        }
        lines = {name: [(r.type, r.count, r.files) for r in here[name]] for name in SHARED_NAMES}
        files: list[str] = []
        for one in node.gres:
            if one.name == "gpu":
                of = [file for r in here["gpu"] if r.type in ("", one.type) for file in r.files][: one.count]
                if len(of) < one.count:
                    return with_shares(node, lines, (), where, self.findings)
                files += of
        return with_shares(node, lines, tuple(files), where, self.findings)

    def _devices(self, node: NodeConfig, gres: list[Gres]) -> tuple[DeviceConfig, ...]:
        """Returns devices ordered by index: type by type, as on the node. Empty if no line sets Cores or Links."""
        found: list[DeviceConfig] = []
        for one in gres:
            if one.name in SHARED_NAMES:  # shares have the affinity of their GPUs
                continue
            here = [r for r in self.records.get(one.name, ()) if not r.nodes or node.name in r.nodes]
            here = [r for r in here if not one.type or not r.type or r.type == one.type]
            each = [DeviceConfig(one.name, r.cores, r.links) for r in here for _ in range(r.count)]
            found += (each + [DeviceConfig(one.name)] * one.count)[: one.count]
        return tuple(found) if any(device.cores or device.links for device in found) else ()

    def _files(self, node: NodeConfig, gres: list[Gres]) -> Iterator[tuple[str, int, str]]:
        """Yields each device's files, ordered by the index of the device."""
        first: dict[str, int] = {}
        for one in gres:
            here = [r for r in self.records.get(one.name, ()) if not r.nodes or node.name in r.nodes]
            here = [r for r in here if not one.type or not r.type or r.type == one.type]
            files = [file for r in here for file in r.files or ("",) * r.count]
            low = first.get(one.name, 0)
            first[one.name] = low + one.count
            if one.name not in SHARED_NAMES:
                for i, several in enumerate(files[: one.count]):
                    yield from ((one.name, low + i, file) for file in several.split(",") if file)

    def check_nodes(self, table: NodeTable) -> None:
        """Warns of names in the file that are not nodes, or nodes without that GRES."""
        for record in (record for records in self.records.values() for record in records):
            for name in sorted(record.nodes):
                node = table.nodes.get(name)
                if node is None and table.complete:
                    self.findings.warn(record.where, f"{name} is not a node of this cluster; it is left out")
                elif node and all(one.name != record.name for one in node.gres):
                    self.findings.warn(record.where, f"node {name} has no Gres={record.name} in slurm.conf; not used")

    def _typed(self, configured: list[Gres], records: list[_Record]) -> list[Gres]:
        """Replaces one untyped count by the records' typed ones, if these are all typed and add up to it."""
        if len(configured) != 1 or configured[0].type or not records or not all(r.type for r in records):
            return configured
        if sum(r.count for r in records) != configured[0].count:
            return configured
        types = dict.fromkeys(r.type for r in records)
        counts = {kind: sum(r.count for r in records if r.type == kind) for kind in types}
        return [Gres(configured[0].name, kind, count) for kind, count in counts.items()]

    def _check_counts(self, node: NodeConfig, configured: list[Gres], records: list[_Record], where: Where) -> None:
        if not records:
            return
        for one in configured:
            matching = [r for r in records if not one.type or not r.type or r.type == one.type]
            found = sum(r.count for r in matching)
            if found < one.count:
                label = f"{one.name}:{one.type}" if one.type else one.name
                place = records[0].where
                self.findings.error(
                    where, f"node {node.name} has {one.count} {label}, gres.conf ({place}) only {found}"
                )


def _files(values: Values) -> tuple[str, ...]:
    text, several = values.value("files"), values.value("multiple_files")
    if text and several:
        raise BadValue("File and MultipleFiles exclude each other")
    if several:
        return (",".join(_expand_files(several)),)
    return tuple(_expand_files(text)) if text else ()


def _count(name: str, values: Values, files: tuple[str, ...]) -> int:
    """Returns the number of units that a line represents."""
    if "count" not in values:
        return max(1, len(files))
    text = values["count"].value
    match = _COUNT.match(text)
    if match is None:
        raise BadValue(f"Count: {text} is not a whole number")
    count = parse_int(match[1], 0, GRES_COUNT_MAX, "Count") << 10 * " KMGTP".index(match[2].upper() or " ")
    if count > GRES_COUNT_MAX:
        raise BadValue(f"Count: {text} is beyond {GRES_COUNT_MAX}")
    if files and name not in SHARED_NAMES and count != len(files):
        raise BadValue(f"Count={text} does not match the {len(files)} names of File")
    return count


def _mig(name: str, values: Values) -> tuple[GpuLayout, ...]:
    if "mig" not in values:
        return ()
    if name != "gpu":
        raise BadValue(f"{MIG_LAYOUTS} is for lines with Name=gpu")
    try:
        return parse_layouts(values["mig"].value)
    except BadValue as problem:
        raise BadValue(f"{MIG_LAYOUTS}: {problem}") from None


def _links(text: str) -> tuple[int, ...]:
    """Parses Links, as in `-1,4,2`: the number of links to each device of the name; -1 for the device itself."""
    try:
        return tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise BadValue(f"Links: {text} is no list of numbers") from None


def _expand_files(text: str) -> list[str]:
    """Expands `/dev/nvidia[0-3],/dev/nvidia7` to single names; only the last component of a path may contain a range."""
    files = []
    for part in _FILES.findall(text):
        folder, slash, name = part.rpartition("/")
        if not part.startswith("/") or "[" in folder:
            raise BadValue(f"File: {part} is not an absolute path with at most one range in its last part")
        files += [folder + slash + one for one in expand(name)]
    if not files:
        raise BadValue(f"File: {text} names no file")
    return files
