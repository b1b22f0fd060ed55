"""`penstock gpus`: lists every GPU of the cluster, its health, the jobs that have it, and what it does now.

A line is a GPU or, below it, a MIG instance of one. UUIDs are shortened to a prefix that is unique in this list; the
controller accepts such a prefix. What a GPU does is of its node's last heartbeat; `-` is what is not known, as of MIG
instances, and of nodes that do not answer. Nodes whose GPUs are only counted (given by gres.conf without NVML, or never
registered) are named below the table. States and places are written as by `scontrol show node`
(cli/listings/nodegres.py).
"""

from collections.abc import Iterable, Sequence

# Any: a column is a heading and a function of a row and a view, for which the caller has the table
from typing import Any, NamedTuple

import click

from cli.base.format import DisplayClock, aligned
from cli.base.listing import emit, now_us, words
from cli.base.run import CommandError
from cli.listings.nodegres import divided, gres, health, index_of, xids
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.v1.controller_pb2 import GpuInfo, GpuReadingInfo, ListGpuReadingsRequest, ListNodesRequest, NodeInfo
from penstock.values.gpustates import GpuState
from penstock.values.hostlist import as_lists, expand

STATES = tuple(state.name for state in GpuState)
#: The least characters of a UUID that are shown: "GPU-" and its first group.
UUID_SHOWN = 12
MB_PER_GB = 1024
NONE = "-"


class GpuRow(NamedTuple):
    """One GPU, where it is, and what it does."""

    node: NodeInfo
    gpu: GpuInfo
    is_divided: bool
    reading: GpuReadingInfo | None


class GpuView(NamedTuple):
    """The inputs of a column."""

    clock: DisplayClock
    uuid_width: int


COLUMNS = (
    ("NODE", lambda r, v: r.node.name),
    ("GPU", lambda r, v: index_of(r.gpu)),
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
READING_COLUMNS = (
    ("UTIL", lambda r, v: _figure(r.reading, "utilization_percent", "%")),
    ("POWER", lambda r, v: _figure(r.reading, "power_w", "W")),
    ("TEMP", lambda r, v: _figure(r.reading, "temperature_c", "C")),
    ("ECC", lambda r, v: ecc(r.reading)),
)
LAST_COLUMN = (("REASON", lambda r, v: _reason(r.gpu)),)


@click.command(
    cls=CommandLine,
    help="List the GPUs of the cluster: their state, their jobs, what they do now, and why one is out of service.",
    examples=(
        ("penstock gpus -N n[1-4]", "of four nodes"),
        ("penstock gpus --state=drained,failed", "GPUs that are out of service"),
    ),
)
@documents
@click.option(
    "-l",
    "--long",
    "is_long",
    is_flag=True,
    help="Whole UUIDs, and name, bus address, minor, capability, serial number, notes and XIDs too.",
)
@click.option("-N", "--nodelist", metavar="NODES", default="", help="Only GPUs of these nodes.")
@click.option("-t", "--state", metavar="STATES", help=f"Only GPUs in these states: {','.join(STATES).lower()}.")
def command(is_long: bool, nodelist: str, state: str | None, language: str) -> int:
    """One run of `penstock gpus`."""
    states = read_states(state)
    names = expand(nodelist) if nodelist else []
    with Client.open() as client:
        nodes = client.call("ListNodes", ListNodesRequest(names=as_lists(names), gpus=True)).nodes
        readings = client.call("ListGpuReadings", ListGpuReadingsRequest(names=as_lists(names))).readings
    missing = sorted(set(names) - {node.name for node in nodes})
    if missing:
        raise CommandError(f"Node {missing[0]} not found")
    found = [row for row in rows_of(nodes, readings) if not states or row.gpu.state in states]
    if language:
        from cli.listings.jsonnode import gpu_object, reading_member

        objects = [{"node": row.node.name} | gpu_object(row.gpu) | reading_member(row.reading) for row in found]
        return write({"gpus": objects}, language)
    emit(report(found, nodes, is_long, bool(states), DisplayClock.of_environment(now_us())))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock gpus ...`; its status."""
    return invoke(command, "penstock gpus", argv)


def read_states(text: str | None) -> frozenset[str]:
    """The requested states; empty = all."""
    wanted = [word.upper() for word in words(text)]
    if unknown := [word for word in wanted if word not in STATES]:
        raise CommandError(f"--state={unknown[0]}: is no state of a GPU; known: {', '.join(STATES)}")
    return frozenset(wanted)


def rows_of(nodes: Iterable[NodeInfo], readings: Iterable[GpuReadingInfo] = ()) -> list[GpuRow]:
    """All GPUs, in the order of the nodes."""
    known = {(reading.node, reading.uuid): reading for reading in readings}
    return [
        GpuRow(node, gpu, gpu.uuid in parents, known.get((node.name, gpu.uuid)))
        for node in nodes
        for parents in (divided(node.gpus),)
        for gpu in node.gpus
    ]


def report(
    found: list[GpuRow], nodes: Iterable[NodeInfo], is_long: bool, is_part: bool, clock: DisplayClock
) -> list[str]:
    """The report as text. `is_part`: the list is filtered."""
    counted = [node for node in nodes if not node.gpus and any(one.name == "gpu" and one.count for one in node.gres)]
    remarks = (
        []
        if is_part
        else [f"{node.name}: {gpus_of(node)}, of which nothing more is known{_why(node)}" for node in counted]
    )
    if not found:
        return remarks or ["no GPU is in such a state" if is_part else "the cluster has no GPUs"]
    columns = [*COLUMNS, *(LONG_COLUMNS if is_long else ()), *READING_COLUMNS, *LAST_COLUMN]
    return [*table(columns, found, GpuView(clock, 0 if is_long else uuid_width(found))), *remarks]


def table(columns: Sequence[tuple[str, Any]], found: list[GpuRow], view: GpuView) -> list[str]:
    """A table with columns as wide as their content; trailing empty columns are not padded."""
    whole = view if view.uuid_width else view._replace(uuid_width=max(len(row.gpu.uuid) for row in found))
    cells = [[head for head, _ in columns]] + [[value(row, whole) for _, value in columns] for row in found]
    return aligned(cells)


def uuid_width(found: list[GpuRow]) -> int:
    """The length of the shortest distinct prefixes of these UUIDs."""
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


def _figure(reading: GpuReadingInfo | None, name: str, unit: str) -> str:
    return f"{getattr(reading, name)}{unit}" if reading is not None and reading.HasField(name) else NONE


def ecc(reading: GpuReadingInfo | None) -> str:
    """`12/0`: corrected and uncorrected memory errors since the driver was loaded."""
    parts = [_figure(reading, name, "") for name in ("ecc_corrected", "ecc_uncorrected")]
    return NONE if parts == [NONE, NONE] else "/".join(parts)


def _reason(gpu: GpuInfo) -> str:
    who = f" [{gpu.reason_user}]" if gpu.reason_user else ""
    return f"{gpu.reason}{who}" if gpu.reason else ""
