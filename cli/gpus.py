"""`penstock gpus`: every GPU of the cluster, what is thought of it and who has it.

A line is a GPU or, below it, a MIG instance of one. UUIDs are cut to what still tells them apart in this list; the
controller takes such a beginning for the whole. Nodes whose GPUs are only counted (given by gres.conf without NVML, or
never registered) are named below the table. Which nodes there are, and what is shown of states and places, is said as
`scontrol show node` says it (cli/nodegres.py).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock
from cli.listing import now_us, words
from cli.nodegres import divided, gres, health, place, xids
from cli.options import YES, Command, Option, parse
from cli.run import CommandError
from penstock.client import Client
from penstock.v1.controller_pb2 import GpuInfo, ListNodesRequest, NodeInfo
from penstock.values.gpustates import GpuState
from penstock.values.hostlist import expand

NAME = "penstock gpus"
STATES = tuple(state.name for state in GpuState)
COMMAND = Command(
    NAME,
    "[--json] [--long] [-N NODES] [--state=STATES]",
    (
        *DOCUMENT_OPTIONS,
        Option(
            "long", "l", help="whole UUIDs, and name, bus address, minor, capability, serial number, notes and XIDs too"
        ),
        Option("nodelist", "N", YES, help="only GPUs of these nodes", metavar="nodes"),
        Option("state", "t", YES, help=f"only GPUs in these states: {','.join(STATES).lower()}", metavar="states"),
    ),
)
#: Characters of a UUID that are shown at least: "GPU-" and its first group.
UUID_SHOWN = 12
MB_PER_GB = 1024
NONE = "-"


class Row(NamedTuple):
    """One GPU and where it is."""

    node: NodeInfo
    gpu: GpuInfo
    is_divided: bool


class View(NamedTuple):
    """What a column may depend on."""

    clock: Clock
    uuid_width: int


COLUMNS = (
    ("NODE", lambda r, v: r.node.name),
    ("GPU", lambda r, v: place(r.gpu)),
    ("TYPE", lambda r, v: r.gpu.type or NONE),
    ("MEMORY", lambda r, v: _memory(r.gpu.memory_mb)),
    ("STATE", lambda r, v: health(r.gpu, r.is_divided)),
    ("JOBS", lambda r, v: ",".join(map(str, r.gpu.job_ids)) or NONE),
    ("SINCE", lambda r, v: v.clock.text(r.gpu.since_us, NONE)),
    ("UUID", lambda r, v: r.gpu.uuid[: v.uuid_width]),
)
LONG_COLUMNS = (
    ("MINOR", lambda r, v: NONE if r.gpu.parent_uuid else str(r.gpu.minor)),
    ("BUS", lambda r, v: r.gpu.bus_id or NONE),
    ("CC", lambda r, v: r.gpu.capability or NONE),
    ("SERIAL", lambda r, v: r.gpu.serial or NONE),
    ("NOTES", lambda r, v: ",".join(r.gpu.notes) or NONE),
    ("XIDS", lambda r, v: xids(r.gpu) or NONE),
    ("NAME", lambda r, v: r.gpu.name or NONE),
)
LAST_COLUMN = (("REASON", lambda r, v: _reason(r.gpu)),)


def main(argv: list[str]) -> int:
    """One run of `penstock gpus`."""
    line = parse(COMMAND, argv)
    if line.positional:
        raise CommandError(f"unexpected word {line.positional[0]!r}: a node is named with -N")
    states = read_states(line.values.get("state"))
    names = expand(line.values["nodelist"]) if line.values.get("nodelist") else []
    with Client.open() as client:
        nodes = client.call("ListNodes", ListNodesRequest(names=names, gpus=True)).nodes
    missing = sorted(set(names) - {node.name for node in nodes})
    if missing:
        raise CommandError(f"Node {missing[0]} not found")
    found = [row for row in rows_of(nodes) if not states or row.gpu.state in states]
    if is_wanted(line.values):
        from cli.document import write_document
        from cli.jsonnode import gpu_object

        write_document({"gpus": [{"node": row.node.name} | gpu_object(row.gpu) for row in found]}, line.values)
        return 0
    is_long = bool(line.values.get("long"))
    print("\n".join(report(found, nodes, is_long, bool(states), Clock.of_environment(now_us()))))  # noqa: T201
    return 0


def read_states(text: str | None) -> frozenset[str]:
    """The states that were asked for; empty = all."""
    wanted = [word.upper() for word in words(text)]
    if unknown := [word for word in wanted if word not in STATES]:
        raise CommandError(f"--state={unknown[0]}: is no state of a GPU; known: {', '.join(STATES)}")
    return frozenset(wanted)


def rows_of(nodes: Iterable[NodeInfo]) -> list[Row]:
    """All GPUs, in the order of the nodes."""
    return [
        Row(node, gpu, gpu.uuid in parents) for node in nodes for parents in (divided(node.gpus),) for gpu in node.gpus
    ]


def report(found: list[Row], nodes: Iterable[NodeInfo], is_long: bool, is_part: bool, clock: Clock) -> list[str]:
    """The lines for a person. `is_part`: not all GPUs were asked for."""
    counted = [node for node in nodes if not node.gpus and any(one.name == "gpu" and one.count for one in node.gres)]
    remarks = (
        []
        if is_part
        else [f"{node.name}: {gpus_of(node)}, of which nothing more is known{_why(node)}" for node in counted]
    )
    if not found:
        return remarks or ["no GPU is in such a state" if is_part else "the cluster has no GPUs"]
    columns = [*COLUMNS, *(LONG_COLUMNS if is_long else ()), *LAST_COLUMN]
    return [*table(columns, found, View(clock, 0 if is_long else uuid_width(found))), *remarks]


def table(columns: Sequence[tuple[str, Any]], found: list[Row], view: View) -> list[str]:
    """Columns as wide as they need to be; what has no value anywhere at the end of the lines is not padded."""
    whole = view if view.uuid_width else view._replace(uuid_width=max(len(row.gpu.uuid) for row in found))
    cells = [[head for head, _ in columns]] + [[value(row, whole) for _, value in columns] for row in found]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def uuid_width(found: list[Row]) -> int:
    """How much of a UUID tells these apart."""
    uuids = {row.gpu.uuid for row in found}
    width = UUID_SHOWN
    while len({uuid[:width] for uuid in uuids}) < len(uuids):
        width += 1
    return width


def gpus_of(node: NodeInfo) -> str:
    """`gpu:mi300:8`, without the node's other devices."""
    return ",".join(item for item in gres(node).split(",") if item.partition(":")[0] == "gpu")


def _why(node: NodeInfo) -> str:
    if not node.version:
        return " (it has never registered)"
    return f" ({node.gpu_why})" if node.gpu_why else ""


def _memory(memory_mb: int) -> str:
    return f"{round(memory_mb / MB_PER_GB)}G" if memory_mb else NONE


def _reason(gpu: GpuInfo) -> str:
    who = f" [{gpu.reason_user}]" if gpu.reason_user else ""
    return f"{gpu.reason}{who}" if gpu.reason else ""
