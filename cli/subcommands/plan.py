"""`penstock plan --without-nodes`: shows which planned starts would move if nodes went, by asking the planner."""

from typing import TYPE_CHECKING

import click

from cli.base.format import DisplayClock, aligned
from cli.base.listing import emit, now_us
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.values.duration import format_elapsed

if TYPE_CHECKING:
    from penstock.v1.explain_pb2 import MovedJob, PlanChangeReply

TIMEOUT_S = 60.0
US = 1_000_000
HEADINGS = ("JOB", "NAME", "USER", "CHANGE", "BEFORE", "ON", "AFTER", "ON")


@click.command(
    cls=CommandLine,
    help="Show which planned starts would move if nodes went. Nothing is changed.",
    examples=(
        ("penstock plan --without-nodes n[3-4]", "if both failed: their jobs end, or are requeued"),
        ("penstock plan --without-nodes n3 --drain", "if it was drained: its jobs run to their ends"),
    ),
)
@documents
@click.option("--without-nodes", "nodes", metavar="NODES", required=True, help="Hostlist of the nodes that go.")
@click.option("--drain", is_flag=True, help="The jobs on these nodes run on; no other starts there.")
def command(nodes: str, drain: bool, language: str) -> int:
    """One run of `penstock plan`."""
    from penstock.v1.explain_pb2 import ShowPlanChangeRequest

    with Client.open(TIMEOUT_S) as client:
        reply = client.call("ShowPlanChange", ShowPlanChangeRequest(nodes=[nodes], jobs_run_on=drain))
    if language:
        from cli.base.document import message_object

        return write(message_object(reply), language)
    emit(report(reply, DisplayClock.of_environment(now_us())))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock plan ...`; its status."""
    return invoke(command, "penstock plan", argv)


def report(found: "PlanChangeReply", clock: DisplayClock) -> list[str]:
    """The report as text."""
    rows = [HEADINGS, *(_row(one, clock) for one in found.jobs)]
    lines = aligned(rows)
    if not found.jobs:
        lines = [
            "no job of yours would start at another time" if found.unseen else "no job would start at another time"
        ]
    counts = (
        (found.more, "more like these"),
        (found.unseen, "of other users"),
        (found.not_asked, "requeued, not planned"),
    )
    return [*lines, *(f"and {count} {what}" for count, what in counts if count)]


def _row(one: "MovedJob", clock: DisplayClock) -> tuple[str, ...]:
    change = one.change
    if change in ("later", "sooner") and one.before_at_us:
        change = f"{format_elapsed(abs(one.after_at_us - one.before_at_us) // US)} {change}"
    before, after = (clock.text(at_us) if at_us else "-" for at_us in (one.before_at_us, one.after_at_us))
    nodes = (one.before_node_list or "-", one.after_node_list or "-")
    return (one.shown_id, one.name, one.user_name, change, before, nodes[0], after, nodes[1])
