"""penstock report: use of the cluster in a time, as a page for people who decide.

penstock report --html=november.html --start=2026-11-01
"""

import os
import time
from pathlib import Path
from typing import Any

from cli.listing import now_us
from cli.options import YES, Command, Option, parse
from cli.run import CommandError
from penstock.client import Client
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

DAYS_DEFAULT = 30
DAYS_MAX = 400
_US = 1_000_000

COMMAND = Command(
    "penstock report",
    "--html=FILE [--start=TIME] [--end=TIME]",
    (
        Option("html", value=YES, metavar="file", help="write the page into this file"),
        Option("start", "S", value=YES, metavar="time", help=f"first day, {DAYS_DEFAULT} days ago if not given"),
        Option("end", "E", value=YES, metavar="time", help="day after the last; tomorrow if not given"),
    ),
)


def main(argv: list[str]) -> int:
    """Entry point."""
    line = parse(COMMAND, argv)
    file = line.values.get("html")
    if line.positional or not file:
        raise CommandError("expected --html=FILE")
    from cli.reportdata import load
    from cli.reportpage import page

    days = days_between(*_window(line.values))
    with Client.open() as client:
        text = page(load(client, days))
    write(file, text)
    print(f"{file}: {len(days)} days, {len(text) // 1024} KB")  # noqa: T201
    return 0


def write(file: str, text: str) -> None:
    """The whole file or, when the disk is full, the one that was there."""
    path = Path(file)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CommandError(f"{file}: {error.strerror}") from None


def _window(options: dict[str, Any]) -> tuple[int, int]:
    now = now_us()
    try:
        end_s = parse_date_us(options["end"], now) // _US if "end" in options else now // _US
        start_s = parse_date_us(options["start"], now) // _US if "start" in options else end_s - DAYS_DEFAULT * 86_400
    except BadValue as error:
        raise CommandError(str(error)) from None
    if start_s >= end_s:
        raise CommandError("--start is not before --end")
    return start_s, end_s


def days_between(start_s: int, end_s: int) -> list[tuple[int, int]]:
    """Whole local days from the one of the start until the one before the end; the last may be the present one."""
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
