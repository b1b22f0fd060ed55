"""`penstock fits`: the largest jobs that would start now, partition by partition."""

from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.listing import words
from cli.options import YES, Command, Option, parse
from cli.run import CommandError
from penstock.client import Client
from penstock.values.duration import format_elapsed
from penstock.values.memory import format_mb

TIMEOUT_S = 60.0
COMMAND = Command(
    "penstock fits",
    "[--json] [-p PARTITION]",
    (
        *DOCUMENT_OPTIONS,
        Option("partition", "p", YES, help="comma separated list of partitions to look at", metavar="partition(s)"),
    ),
)
TITLES = {
    "node": "largest job on one node",
    "cpu_node": "most CPUs on one node",
    "whole_nodes": "whole nodes",
    "gpu_nodes": "nodes with GPUs",
}
WIDTH = 26


def main(argv: list[str]) -> int:
    """One run of `penstock fits`."""
    line = parse(COMMAND, argv)
    if line.positional:
        raise CommandError(f"unexpected word {line.positional[0]!r}: a partition is named with -p")
    from penstock.v1.explain_pb2 import FitsRequest

    with Client.open(TIMEOUT_S) as client:
        reply = client.call("Fits", FitsRequest(partitions=words(line.values.get("partition"))))
    if is_wanted(line.values):
        from cli.document import message_object, write_document

        write_document(message_object(reply), line.values)
        return 0
    print("\n".join(report(reply)))  # noqa: T201
    return 0


def report(reply: Any) -> list[str]:
    """The lines for a person."""
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


def options(shape: Any) -> str:
    """The shape as one would ask for it."""
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
