"""`penstock submit FILE`: submits a job that a file describes: the body of REST's job/submit, checked by the same table.

What sbatch would take from the shell, and the file does not say, is taken from there: environment, folder, limits, umask. An
unknown member is an error here and not a warning: nobody reads what a file that works has been told. All errors of a file
are told at once, each with line and column.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final, cast

import click

from cli.base.environment import current_umask, job_environment, soft_limits
from cli.base.optiontable import OptionValues
from cli.base.requestkey import new_key
from cli.base.run import CommandError, complain
from cli.jobs.jobrequest import current_folder, shown, submit_line
from cli.jobs.submitting import submit
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.v1.common_pb2 import JobRequest
from penstock.v1.controller_pb2 import SubmitJobRequest
from rest.answers import RestError
from rest.contract.facts import NEWEST, ListOf, ObjectOf, Schema, load
from rest.contract.parse import parse
from rest.handlers.jobfields import check_hosts
from rest.handlers.members import Members
from rest.handlers.submission import components_of, job_of, script_of, spec_of
from rest.jobfiles.places import FilePlaces, place_of
from rest.jobfiles.reading import STDIN, FileError, JobFile, parse_text, read_text

NAME: Final = "penstock submit"
_PATH: Final = "/slurm/{v}/job/submit"
_UNKNOWN: Final = "Unknown field: "
_FOLDER: Final = "current_working_directory"


@click.command(
    cls=CommandLine,
    help="Submit the job that FILE describes, in YAML, TOML or JSON by its suffix: the body of job/submit of the REST interface "
    "(docs/rest.md). - reads standard input, as YAML.\n\n"
    "What the file does not say of environment, folder, limits and umask is this shell's, as with sbatch.",
    examples=(
        ("penstock submit job.yaml", "one job, an array, or a heterogeneous job"),
        ("penstock submit --test-only job.toml", "when and where it would start; nothing is queued"),
    ),
)
@click.option("--test-only", is_flag=True, help="Show when and where the job would start, submit nothing.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended, exit with its code.")
@click.option("--parsable", is_flag=True, help="Print only the job id.")
@click.option("--request-key", metavar="KEY", default="", help="Repeat a submission that was not answered.")
@click.argument("file")
def command(file: str, test_only: bool, wait: bool, parsable: bool, request_key: str) -> int:
    """One run of `penstock submit`."""
    request = request_of(file)
    request.request_key = request_key or new_key()
    request.test_only = test_only
    with Client.open() as client:
        return submit(NAME, client, request, OptionValues({"wait": wait, "parsable": parsable}))


def main(argv: list[str]) -> int:
    """Run `penstock submit ...`; its status."""
    return invoke(command, NAME, argv)


def request_of(path: str) -> SubmitJobRequest:
    """The request that a file describes, without its key. Raises CommandError with all that is wrong."""
    text = read_text(path)
    try:
        found = parse_text(text, PurePath(path).suffix if path != STDIN else "")
    except FileError as error:
        at = f"{path}:{error.place.line}:{error.place.column}" if error.place else path
        raise CommandError(f"{at}: {error.text}") from None
    try:
        return _request(path, _checked(path, found), found.places)
    except RestError as error:
        raise CommandError("\n".join(_told(path, found.places, error))) from error


def _checked(path: str, file: JobFile) -> Members:
    """The body in the types of the contract, with its coercions. Raises CommandError for what it cannot be, and for unknown
    members.
    """
    schema = _schema()
    body, findings = parse(file.value, schema)
    lines = [_line(path, file.places, one.source, one.text) for one in findings.errors]
    lines += [
        _line(path, file.places, one.source, f"unknown member{_near(one.source, schema)}")
        for one in findings.warnings
        if one.text.startswith(_UNKNOWN)
    ]
    if lines:
        raise CommandError("\n".join(lines))
    return cast("Members", body) if isinstance(body, dict) else {}


def _schema() -> Schema:
    operation = load().versions[NEWEST].operations[_PATH]["post"]
    assert operation.body is not None
    return operation.body


def _request(path: str, body: Members, places: FilePlaces) -> SubmitJobRequest:
    def warn(text: str, source: str) -> None:
        complain(NAME, _line(path, places, source, text), level="warning")

    components = [(source, _completed(path, members)) for source, members in components_of(body, "jobs")]
    check_hosts(components)
    jobs = [_finished(path, job_of(members, source, warn)) for source, members in components]
    first = components[0][1]
    spec = spec_of(first, script_of(body, first), job_environment("", "", os.environb))
    return SubmitJobRequest(job=jobs[0], spec=spec, components=jobs[1:])


def _completed(path: str, members: Members) -> Members:
    """The description with a name and a folder; a relative one begins at the working directory, as with sbatch."""
    here = os.fsdecode(current_folder())
    folder = os.path.join(here, str(members.get(_FOLDER) or "")).rstrip("/") or "/"
    name = {} if path == STDIN else {"name": PurePath(path).stem}
    return {**name, **members, _FOLDER: folder}


def _finished(path: str, job: JobRequest) -> JobRequest:
    """The request with what is the shell's."""
    job.submit_dir = current_folder()
    job.submit_host = os.uname().nodename
    job.submit_line = submit_line(NAME, [path])
    if path != STDIN:
        job.command = shown(os.path.abspath(path))
    job.umask = current_umask()
    job.rlimits.update({name: value for name, value in soft_limits("").items() if name not in job.rlimits})
    return job


# ---- what is said


def _told(path: str, places: FilePlaces, error: RestError) -> Iterator[str]:
    """A line for each error."""
    for one in error.errors:
        yield _line(path, places, str(one["source"]), str(one["description"]))


def _line(path: str, places: FilePlaces, source: str, text: str) -> str:
    place = place_of(source, places)
    at = f"{path}:{place.line}:{place.column}" if place else path
    member = source.lstrip("#").removeprefix("/")
    said = " ".join(text.split())  # a line for each error: some texts of sbatch's have several
    return f"{at}: {member}: {said}" if member else f"{at}: {said}"


def _near(source: str, schema: Schema) -> str:
    """A hint at the member that was meant."""
    *above, name = source.split("/")[1:]
    for step in above:
        if isinstance(schema, ListOf):
            schema = schema.item
        elif isinstance(schema, ObjectOf) and step in schema.members:
            schema = schema.members[step]
    known: Mapping[str, Schema] = schema.members if isinstance(schema, ObjectOf) else {}
    near = difflib.get_close_matches(name, known, 1)
    return f": is {near[0]} meant?" if near else ""
