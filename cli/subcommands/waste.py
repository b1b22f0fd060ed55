"""`penstock waste`: GPU hours that jobs had and did not use, by user, account or job name, and the worst job of each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.base.format import aligned
from cli.base.listing import emit, list_records, now_us
from cli.base.run import CommandError
from cli.listings.jobreports import WASTE_BY, command_lines, waste_object, waste_request, worst_jobs
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

if TYPE_CHECKING:
    from penstock.v1.governance_pb2 import ReportRow

NAME = "penstock waste"
SINCE_DEFAULT = "now-7days"
ROWS_DEFAULT = 10
_HOUR_S = 3_600
#: Characters of a command line in the table.
COMMAND_CHARS_MAX = 100


@click.command(
    cls=CommandLine,
    help="Rank users, accounts or job names by GPU hours allocated and not used.",
    examples=(
        ("penstock waste", "by user, of the jobs that ended in the last seven days"),
        ("penstock waste --by=name --since=2026-11-01", "by job name, since the first of November"),
    ),
)
@documents
@click.option("--since", metavar="TIME", default=SINCE_DEFAULT, show_default=True, help="Jobs that ended since then.")
@click.option("--by", type=click.Choice(WASTE_BY), default=WASTE_BY[0], show_default=True, help="What is ranked.")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 10_000), default=ROWS_DEFAULT, show_default=True, help="Lines at most."
)
def command(since: str, by: str, lines: int, language: str) -> int:
    """One run of `penstock waste`."""
    now = now_us()
    try:
        start_us = parse_date_us(since, now)
    except BadValue as error:
        raise CommandError(f"--since: {error}") from None
    with Client.open() as client:
        pages = client.stream("Report", waste_request(by, start_us, now))
        rows = [row for page in pages for row in page.rows][:lines]
        commands = _commands(client, rows)
    if language:
        return write(
            {"since": start_us // 1_000_000, "by": by, "rows": [waste_object(row, commands) for row in rows]}, language
        )
    emit(table(rows, by, commands) if rows else ["no job with measured GPUs has ended since then"])
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock waste ...`; its status."""
    return invoke(command, NAME, argv)


def _commands(client: Client, rows: "Sequence[ReportRow]") -> dict[int, str]:
    """The command lines of the worst jobs, of those that the caller may see."""
    request = worst_jobs(rows)
    return command_lines(list_records(client, request)) if request else {}


def table(rows: "Sequence[ReportRow]", by: str, commands: dict[int, str]) -> list[str]:
    """The ranking as text, hours of GPUs."""
    heads = (by.upper(), "JOBS", "UNUSED", "ALLOCATED", "BUSY", "WORST", "UNUSED", "COMMAND")
    return aligned([heads, *(_cells(row, commands) for row in rows)], right=(1, 2, 3, 4, 5, 6))


def _cells(row: "ReportRow", commands: dict[int, str]) -> tuple[str, ...]:
    jobs, unused_s, held_s, worst, most_s = row.values
    line = commands.get(worst) or "-"
    return (
        row.keys[0] or "-", str(jobs), _hours(unused_s), _hours(held_s), f"{100 * (held_s - unused_s) / max(held_s, 1):.0f}%",
        str(worst), _hours(most_s), line if len(line) <= COMMAND_CHARS_MAX else line[: COMMAND_CHARS_MAX - 3] + "...",
    )  # fmt: skip


def _hours(seconds: int) -> str:
    return f"{seconds / _HOUR_S:.2f}"
