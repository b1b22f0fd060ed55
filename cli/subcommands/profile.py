"""`penstock profile JOB[.STEP]`: what a job's steps and their GPUs did over time, also while they run."""

import io
import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from cli.base.jobids import wire_id
from cli.base.listing import emit, list_records
from cli.base.run import CommandError, complain
from cli.base.stepids import one_step
from cli.subcommands.documents import documents, put, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.listings.profiles import NodeProfile

NAME = "penstock profile"
JOBS_MAX = 100
WIDTH_DEFAULT = (100, 24)


@click.command(
    cls=CommandLine,
    help="Show CPU, memory, disk and GPU use of JOB's steps over time.",
    examples=(
        ("penstock profile 12", "of all steps of a job, also while it runs"),
        ("penstock profile 12.0 --csv=12.csv", "of one step, into a file for a spreadsheet"),
        ("penstock profile 12.0 --tasks", "with a line for each task, where a node has several"),
        ("penstock profile 12 --png=12.png", "as a picture"),
    ),
)
@documents
@click.option("--csv", "file", metavar="FILE", help="Write all points into this file as CSV; - is standard output.")
@click.option("--png", metavar="FILE", help="Draw the courses into this file (needs penstock[profile]).")
@click.option("--parquet", metavar="FILE", help="Write all points into this file as Parquet (needs penstock[profile]).")
@click.option("--tasks", is_flag=True, help="Also the lines of single tasks (of steps with 2 to 64 on a node).")
@click.argument("job")
def command(job: str, file: str | None, png: str | None, parquet: str | None, tasks: bool, language: str) -> int:
    """One run of `penstock profile`."""
    from cli.listings.profilechart import as_object, chart

    profiles = [one.with_tasks() for one in load(job)] if tasks else load(job)
    if file is not None:
        write_csv(file, profiles)
    if png is not None or parquet is not None:
        from cli.listings.profilefiles import write_parquet, write_png

        if png is not None:
            write_file(png, write_png, profiles)
        if parquet is not None:
            write_file(parquet, write_parquet, profiles)
    if file is not None or png is not None or parquet is not None:
        return 0
    if language:
        return write({**as_object(profiles)}, language)
    emit(chart(profiles, shutil.get_terminal_size(WIDTH_DEFAULT).columns))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock profile ...`; its status."""
    return invoke(command, NAME, argv)


def load(text: str) -> "list[NodeProfile]":
    """The profiles of a job or step. Raises CommandError when there is none."""
    from cli.listings.profiles import profiles_of
    from penstock.v1.accounting_pb2 import ListRecordsRequest

    ids = [wire_id(one_step(text, "job"))]
    with Client.open() as client:
        jobs = list_records(client, ListRecordsRequest(ids=ids))
        if not jobs:
            raise CommandError(f"job {text[:80]}: not found, or not yours to see")
        if len(jobs) > JOBS_MAX:
            raise CommandError(f"job {text[:80]}: {len(jobs)} jobs, at most {JOBS_MAX} are shown; name one, like 12_3")
        found = profiles_of(client, jobs, ids, lambda text: complain(NAME, text))
    if not found:
        raise CommandError(
            f"job {text[:80]}: no profile: it has not run for an interval (15 s, JobAcctGatherFrequency, --acctg-freq) yet, "
            "it or the site wants none (--profile, AcctGatherProfileType), or it was purged"
        )
    return found


def write_csv(file: str, profiles: "list[NodeProfile]") -> None:
    """Writes the points as CSV. Raises CommandError."""
    import csv

    from cli.listings.profilechart import csv_rows

    if file == "-":
        csv.writer(sys.stdout, lineterminator="\n").writerows(csv_rows(profiles))
        return
    try:
        with Path(file).open("w", encoding="utf-8", newline="") as opened:
            csv.writer(opened, lineterminator="\n").writerows(csv_rows(profiles))
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    put_written(file, profiles)


def write_file(
    file: str, write_into: "Callable[[list[NodeProfile], IO[bytes]], None]", profiles: "list[NodeProfile]"
) -> None:
    """Writes a file that is made in memory first: an error in between leaves the one of that name alone. Raises
    CommandError."""
    made = io.BytesIO()
    write_into(profiles, made)
    try:
        Path(file).write_bytes(made.getbuffer())
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    put_written(file, profiles)


def put_written(file: str, profiles: "list[NodeProfile]") -> None:
    """Says what was written."""
    put(f"{file}: {sum(len(line.points) for one in profiles for line in one.lines)} points")
