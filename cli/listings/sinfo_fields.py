"""The fields of sinfo: each letter of `-o` and each name of `-O`.

A line of sinfo is a `NodeGroup`: a partition and those of its nodes that are equal in the shown fields. A field with
`splits` separates nodes with different values; the others group them (`4+` = at least 4, `1.2-3.4` = between). With
`-e` these separate nodes too. Fields of a partition come from the first partition of the group; fields of the nodes'
state or equipment come from any node of it, since they are equal.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from cli.base.format import DisplayClock, FormatField
from cli.base.listing import ListingKey
from cli.base.users import named
from cli.listings.nodegres import gres, gres_used
from cli.listings.nodestate import BUSY, compact_word, complete_word, cpus_for_jobs, long_word, number
from penstock.v1.controller_pb2 import NodeInfo, PartitionInfo
from penstock.values.duration import format_elapsed
from penstock.values.hostlist import compress

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

AVAIL = {"UP": "up", "DOWN": "down", "DRAIN": "drain", "INACTIVE": "inact"}


class NodeGroup(NamedTuple):
    """A line: nodes of a partition that are equal in the shown fields."""

    partition: PartitionInfo
    nodes: list[NodeInfo]
    position: int = 0  # of the partition in the configuration

    @property
    def names(self) -> str:
        """The nodes as a hostlist."""
        return compress(node.name for node in self.nodes)


class NodeView(NamedTuple):
    """The further inputs of a column."""

    clock: DisplayClock
    convert: bool = True
    cluster: str = ""


_Value = Callable[[NodeGroup, NodeView], str]
_Field = FormatField[NodeGroup, NodeView]


def counts(group: NodeGroup) -> tuple[int, int, int, int]:
    """Nodes that are allocated, idle, neither, and all."""
    allocated = sum(node.base_state in BUSY or "COMPLETING" in node.flags for node in group.nodes)
    other = sum(
        _is_out(node) and node.base_state not in BUSY and "COMPLETING" not in node.flags for node in group.nodes
    )
    return allocated, len(group.nodes) - allocated - other, other, len(group.nodes)


def cpu_counts(group: NodeGroup) -> tuple[int, int, int, int]:
    """CPUs that are allocated, idle, unavailable, and all."""
    allocated = sum(node.cpus_alloc for node in group.nodes)
    total = sum(cpus_for_jobs(node) for node in group.nodes)
    other = sum(cpus_for_jobs(node) - node.cpus_alloc for node in group.nodes if _is_out(node))
    return allocated, total - allocated - other, other, total


def _is_out(node: NodeInfo) -> bool:
    return node.base_state == "DOWN" or not {"DRAIN", "INVAL", "FAIL"}.isdisjoint(node.flags)


def slashes(numbers: Iterable[int]) -> str:
    """`3/1/0/4`."""
    return "/".join(map(str, numbers))


def least(numbers: Iterable[int], convert: bool = True) -> str:
    """The smallest of some numbers, with `+` when they differ."""
    found = sorted(set(numbers))
    return f"{found[0]}+" if len(found) > 1 else str(found[0]) if found else "0"


def between(texts: Iterable[str]) -> str:
    """`1.20-3.40`, numbers first, `N/A` last; one value alone."""
    found = set(texts)
    ordered = sorted((text for text in found if text != "N/A"), key=float) + [t for t in found if t == "N/A"]
    if not ordered:
        return "N/A"
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}-{ordered[-1]}"


def cpu_load(node: NodeInfo) -> str:
    """Load average; N/A for a node that has never registered."""
    return f"{node.cpu_load_centi / 100:.2f}" if node.version else "N/A"


def free_memory(node: NodeInfo) -> str:
    """Free memory in megabytes, as the node's system reports it."""
    return str(node.free_memory_mb) if node.version else "N/A"


def duration(seconds: int, none: str) -> str:
    """A partition's time limit."""
    if seconds < 0:
        return "infinite"
    return format_elapsed(seconds) if seconds else none


def job_size(partition: PartitionInfo) -> str:
    """`1-infinite`, or `4` when smallest and largest are the same."""
    low = max(partition.min_nodes, 1)
    if partition.max_nodes <= 0:
        return f"{low}-infinite"
    return str(low) if low == partition.max_nodes else f"{low}-{partition.max_nodes}"


def over_subscribe(partition: PartitionInfo) -> str:
    """NO, EXCLUSIV, YES:4, FORCE:4."""
    return partition.over_subscribe or "NO"


def reason_user(node: NodeInfo) -> str:
    """The user who set the reason."""
    return node.reason_user or "Unknown"


def reason_user_long(node: NodeInfo) -> str:
    """The same with the uid."""
    if not node.reason_user:
        return "Unknown"
    entry = named(node.reason_user)
    return node.reason_user if entry is None else f"{node.reason_user}({entry.pw_uid})"


def _of_partition(header: str, value: Callable[[PartitionInfo], str]) -> _Field:
    return FormatField(header, lambda group, view: value(group.partition), splits=True)


def _of_node(header: str, value: Callable[[NodeInfo], str], none: str = "(null)") -> _Field:
    return FormatField(header, lambda group, view: value(group.nodes[0]) if group.nodes else none, splits=True)


def _smallest(header: str, value: Callable[[NodeInfo], int]) -> _Field:
    return FormatField(header, lambda group, view: least(value(node) for node in group.nodes))


def _range(header: str, value: Callable[[NodeInfo], str]) -> _Field:
    return FormatField(header, lambda group, view: between(value(node) for node in group.nodes))


def _shape(group: NodeGroup, view: NodeView) -> str:
    shape = ("sockets", "cores_per_socket", "threads_per_core")
    return ":".join(least(int(getattr(node, part)) for node in group.nodes) for part in shape)


def _version(group: NodeGroup, view: NodeView) -> str:
    return next((node.version for node in group.nodes if node.version), "N/A")


LETTERS: dict[str, _Field] = {
    "a": _of_partition("AVAIL", lambda p: AVAIL.get(p.state, p.state.lower())),
    "b": _of_node("ACTIVE_FEATURES", lambda n: ",".join(n.features) or "(null)"),
    "c": _smallest("CPUS", lambda n: n.cpus),
    "d": _smallest("TMP_DISK", lambda n: n.tmp_disk_mb),
    "e": _range("FREE_MEM", free_memory),
    "f": _of_node("AVAIL_FEATURES", lambda n: ",".join(n.features) or "(null)"),
    "g": _of_partition("GROUPS", lambda p: ",".join(p.allow_groups) or "all"),
    "h": _of_partition("OVERSUBSCRIBE", over_subscribe),
    "i": FormatField("RESERVATION", lambda g, v: g.nodes[0].reservation if g.nodes else ""),
    "l": _of_partition("TIMELIMIT", lambda p: duration(p.max_time_s, "infinite")),
    "m": _smallest("MEMORY", lambda n: n.real_memory_mb),
    "n": _of_node("HOSTNAMES", lambda n: n.hostname or n.name, ""),
    "o": _of_node("NODE_ADDR", lambda n: n.addr or n.name, ""),
    "p": _of_partition("PRIO_TIER", lambda p: str(p.priority_tier)),
    "r": _of_partition("ROOT", lambda p: "yes" if p.root_only else "no"),
    "s": _of_partition("JOB_SIZE", job_size),
    "t": _of_node("STATE", compact_word, "n/a"),
    "u": _of_node("USER", reason_user, "Unknown"),
    "v": FormatField("VERSION", _version),
    "w": _smallest("WEIGHT", lambda n: n.weight),
    "z": FormatField("S:C:T", _shape),
    "A": FormatField("NODES(A/I)", lambda g, v: slashes(counts(g)[:2])),
    "B": _of_partition(
        "MAX_CPUS_PER_NODE", lambda p: str(p.max_cpus_per_node) if p.max_cpus_per_node > 0 else "UNLIMITED"
    ),
    "C": FormatField("CPUS(A/I/O/T)", lambda g, v: slashes(cpu_counts(g))),
    "D": FormatField("NODES", lambda g, v: str(len(g.nodes))),
    "E": _of_node("REASON", lambda n: n.reason or "none", "none"),
    "F": FormatField("NODES(A/I/O/T)", lambda g, v: slashes(counts(g))),
    "G": _of_node("GRES", gres),
    "H": FormatField(
        "TIMESTAMP", lambda g, v: v.clock.text(g.nodes[0].reason_at_us if g.nodes else 0, "Unknown"), splits=True
    ),
    "I": _of_partition("PRIO_JOB_FACTOR", lambda p: str(p.priority_job_factor)),
    "L": _of_partition("DEFAULTTIME", lambda p: duration(p.default_time_s, "n/a")),
    "M": _of_partition("PREEMPT_MODE", lambda p: p.preempt_mode or "OFF"),
    "N": FormatField("NODELIST", lambda g, v: g.names),
    "O": _range("CPU_LOAD", cpu_load),
    "P": _of_partition("PARTITION", lambda p: p.name + ("*" if p.is_default else ""))._replace(mark="*"),
    "R": _of_partition("PARTITION", lambda p: p.name),
    "S": FormatField("ALLOCNODES", lambda g, v: "all"),
    "T": _of_node("STATE", long_word, "n/a"),
    "U": _of_node("USER", reason_user_long, "Unknown"),
    "V": FormatField("CLUSTER", lambda g, v: "N/A"),
    "X": _smallest("SOCKETS", lambda n: n.sockets),
    "Y": _smallest("CORES", lambda n: n.cores_per_socket),
    "Z": _smallest("THREADS", lambda n: n.threads_per_core),
}

_NAMED_LETTERS = {
    "available": "a", "features_act": "b", "cpus": "c", "disk": "d", "freemem": "e", "features": "f", "groups": "g",
    "oversubscribe": "h", "share": "h", "reservation": "i", "time": "l", "memory": "m", "nodehost": "n",
    "nodeaddr": "o",
    "prioritytier": "p", "priority": "p", "root": "r", "size": "s", "statecompact": "t", "user": "u", "version": "v",
    "weight": "w", "socketcorethread": "z", "nodeai": "A", "maxcpuspernode": "B", "cpusstate": "C", "nodes": "D",
    "reason": "E", "nodeaiot": "F", "gres": "G", "timestamp": "H", "priorityjobfactor": "I", "defaulttime": "L",
    "preemptmode": "M", "nodelist": "N", "cpusload": "O", "partition": "P", "partitionname": "R", "allocnodes": "S",
    "statelong": "T", "userlong": "U", "cluster": "V", "sockets": "X", "cores": "Y", "threads": "Z",
}  # fmt: skip

#: Every name of -O, in lower case.
NAMES: dict[str, _Field] = {name: LETTERS[letter] for name, letter in _NAMED_LETTERS.items()} | {
    "allocmem": _of_node("ALLOCMEM", lambda n: str(n.mem_alloc_mb), "0"),
    "comment": _of_node("COMMENT", lambda n: n.comment or "(null)"),
    "extra": _of_node("EXTRA", lambda n: n.extra or "(null)"),
    "gresused": _of_node("GRES_USED", gres_used, "gpu:0"),
    "instanceid": _of_node("INSTANCE_ID", lambda n: n.instance_id or "(null)"),
    "instancetype": _of_node("INSTANCE_TYPE", lambda n: n.instance_type or "(null)"),
    "port": FormatField("PORT", lambda g, v: "0"),
    "statecomplete": _of_node("STATECOMPLETE", complete_word, "n/a"),
}


def state_number(group: NodeGroup) -> int:
    """The sort key of `-t` and `-T`."""
    return number(group.nodes[0]) if group.nodes else -1


_NUMBERS: dict[str, Callable[[NodeGroup], "SupportsRichComparison"]] = {
    "t": state_number,
    "T": state_number,
    "c": lambda g: min((n.cpus for n in g.nodes), default=0),
    "d": lambda g: min((n.tmp_disk_mb for n in g.nodes), default=0),
    "m": lambda g: min((n.real_memory_mb for n in g.nodes), default=0),
    "w": lambda g: min((n.weight for n in g.nodes), default=0),
    "e": lambda g: min((n.free_memory_mb for n in g.nodes), default=0),
    "O": lambda g: min((n.cpu_load_centi for n in g.nodes), default=0),
    "X": lambda g: min((n.sockets for n in g.nodes), default=0),
    "Y": lambda g: min((n.cores_per_socket for n in g.nodes), default=0),
    "Z": lambda g: min((n.threads_per_core for n in g.nodes), default=0),
    "D": lambda g: len(g.nodes),
    "A": counts,
    "F": counts,
    "C": cpu_counts,
    "H": lambda g: g.nodes[0].reason_at_us if g.nodes else 0,
    "l": lambda g: g.partition.max_time_s % 2**63,
    "L": lambda g: g.partition.default_time_s % 2**63,
    "p": lambda g: g.partition.priority_tier,
    "I": lambda g: g.partition.priority_job_factor,
    "P": lambda g: g.partition.name,
    "N": lambda g: natural(g.nodes[0].name) if g.nodes else (),
}


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """A key that puts n2 before n10."""
    parts: list[tuple[str, int]] = []
    text, digits = "", ""
    for char in name + " ":
        if char.isascii() and char.isdigit():
            digits += char
        else:
            if digits:
                parts.append((text, int(digits)))
                text, digits = "", ""
            text += char
    return (*parts, (text, -1))


def sort_key(letter: str) -> ListingKey[NodeGroup, NodeView] | None:
    """The sort key of a letter of -S; `#P` is the order of the configuration."""
    if letter == "#P":
        return lambda group, view: group.position
    if letter in _NUMBERS:
        value = _NUMBERS[letter]
        return lambda group, view: value(group)
    field = LETTERS.get(letter)
    return field.value if field else None
