"""`penstock fits`: shows the largest jobs that would start now, partition by partition."""

from typing import TYPE_CHECKING

import click

from cli.base.listing import emit, words
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.values.duration import format_elapsed
from penstock.values.memory import format_mb

if TYPE_CHECKING:
    from penstock.v1.explain_pb2 import FitsReply, FittingShape

TIMEOUT_S = 60.0
TITLES = {
    "node": "largest job on one node",
    "cpu_node": "most CPUs on one node",
    "whole_nodes": "whole nodes",
    "gpu_nodes": "nodes with GPUs",
}
WIDTH = 26


@click.command(
    cls=CommandLine,
    help="List the largest jobs that would start now, partition by partition.",
    examples=(("penstock fits", "in all partitions"), ("penstock fits -p gpu,debug", "in two of them")),
)
@documents
@click.option("-p", "--partition", metavar="PARTITIONS", help="Comma separated list of partitions.")
def command(partition: str | None, language: str) -> int:
    """One run of `penstock fits`."""
    from penstock.v1.explain_pb2 import FitsRequest

    with Client.open(TIMEOUT_S) as client:
        reply = client.call("Fits", FitsRequest(partitions=words(partition)))
    if language:
        from cli.base.document import message_object

        return write(message_object(reply), language)
    emit(report(reply))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock fits ...`; its status."""
    return invoke(command, "penstock fits", argv)


def report(reply: "FitsReply") -> list[str]:
    """The report as text."""
    lines = []
    for partition in reply.partitions:
        lines.append(f"partition {partition.partition}: {partition.state}, {_up(partition.nodes_up)}")
        for shape in partition.shapes:
            limit = f"for at least {format_elapsed(shape.limit_s)}" if shape.limit_s >= 0 else "for any time"
            lines.append(f"  {TITLES.get(shape.kind, shape.kind):<{WIDTH}}{options(shape)}  {limit}  {shape.node_list}")
        if not partition.shapes:
            lines.append("  nothing would start now")
    return lines


def _up(nodes: int) -> str:
    return "1 node is up" if nodes == 1 else f"{nodes} nodes are up"


def options(shape: "FittingShape") -> str:
    """The options that request this shape."""
    found = []
    if shape.kind in ("whole_nodes", "gpu_nodes"):
        found.append(f"--nodes={shape.nodes}")
    if shape.kind == "whole_nodes":
        found.append("--exclusive")
    elif shape.kind != "gpu_nodes":
        found.append(f"--cpus-per-task={shape.cpus}")
        if shape.mem_mb:
            found.append(f"--mem={format_mb(shape.mem_mb)}")
    if shape.gres and shape.kind != "whole_nodes":
        found.append(f"--gres={shape.gres_name}:{shape.gres}")
    return " ".join(found)
