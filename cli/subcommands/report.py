"""penstock report: usage of the cluster in a period, as a page for managers.

penstock report --html=november.html --start=2026-11-01
"""

import os
import time
from pathlib import Path

import click

from cli.base.listing import now_us
from cli.base.run import CommandError
from cli.subcommands.documents import documents, put
from cli.subcommands.documents import write as write_document
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

DAYS_DEFAULT = 30
DAYS_MAX = 400
_US = 1_000_000


@click.command(
    cls=CommandLine,
    help="Write the usage of the cluster in a period as a page for managers.",
    examples=(("penstock report --html=november.html --start=2026-11-01", "from the first of November until now"),),
)
@documents
@click.option("--html", "file", metavar="FILE", required=True, help="Write the page into this file.")
@click.option("-S", "--start", metavar="TIME", help=f"First day; {DAYS_DEFAULT} days ago if not given.")
@click.option("-E", "--end", metavar="TIME", help="Day after the last; tomorrow if not given.")
def command(file: str, start: str | None, end: str | None, language: str) -> int:
    """One run of `penstock report`."""
    from cli.subcommands.reportdata import load
    from cli.subcommands.reportpage import page

    days = days_between(*_window(start, end))
    with Client.open() as client:
        text = page(load(client, days))
    write(file, text)
    if language:
        return write_document({"file": file, "days": len(days), "bytes": len(text.encode())}, language)
    put(f"{file}: {len(days)} days, {len(text) // 1024} KB")
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock report ...`; its status."""
    return invoke(command, "penstock report", argv)


def write(file: str, text: str) -> None:
    """Writes the file atomically: when the disk is full, the old one stays."""
    path = Path(file)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CommandError(f"{file}: {error.strerror}") from None


def _window(start: str | None, end: str | None) -> tuple[int, int]:
    now = now_us()
    try:
        end_s = parse_date_us(end, now) // _US if end is not None else now // _US
        start_s = parse_date_us(start, now) // _US if start is not None else end_s - DAYS_DEFAULT * 86_400
    except BadValue as error:
        raise CommandError(str(error)) from None
    if start_s >= end_s:
        raise CommandError("--start is not before --end")
    return start_s, end_s


def days_between(start_s: int, end_s: int) -> list[tuple[int, int]]:
    """Whole local days from the one of the start until the one before the end; the last may be today."""
    found: list[tuple[int, int]] = []
    day = time.localtime(start_s)
    while True:
        begin_s = int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1)))
        day = time.localtime(time.mktime((day.tm_year, day.tm_mon, day.tm_mday + 1, 12, 0, 0, 0, 0, -1)))
        next_s = int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1)))
        if begin_s >= end_s:
            return found
        if len(found) >= DAYS_MAX:
            raise CommandError(f"more than {DAYS_MAX} days: take a later --start")
        found.append((begin_s * _US, next_s * _US))
