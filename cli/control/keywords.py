"""Common parts of scontrol's keywords: their tables, their words, their requests and their messages for refusals.

A table has a row for each keyword: how many words it takes and the function that does it. Most errors of scontrol have
no prefix `scontrol: error:`; tools match them exactly.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from cli.base.format import DisplayClock
from cli.base.jobids import is_known, selector_text
from cli.base.options import OptionValues
from cli.base.run import CommandError
from cli.listings import show
from penstock.client import Client, ReplyMessage
from penstock.errors import PenstockError
from penstock.values.dates import UNKNOWN
from penstock.values.errors import BadValue
from penstock.values.jobid import JOB_ID_MAX, SLUID_LENGTH, parse_selectors, parse_sluid
from penstock.values.numbers import parse_int

if TYPE_CHECKING:
    from penstock.client import Message
    from penstock.v1.controller_pb2 import JobInfo, ListJobsRequest

NAME = "scontrol"


class KeywordCall(NamedTuple):
    """One keyword with its words and its options."""

    words: list[str]
    options: OptionValues

    def report(self) -> show.ShownReport:
        """The settings for showing records."""
        style = os.environ.get("SLURM_TIME_FORMAT") or "standard"
        return show.ShownReport(time.time_ns() // 1000, style, self.options.flag("details"))

    def put(self, records: list[show.ShownRecord]) -> None:
        """Prints records."""
        one_line = self.options.flag("oneliner")
        sys.stdout.write("".join(show.layout(record, one_line=one_line) for record in records))

    def put_update_time(self, records: int, *, single: bool = False) -> None:
        """With -v: when the records were read, and how many came. Slurm has no time for a single job."""
        if not self.options.flag("verbose"):
            return
        clock = DisplayClock.of_environment(self.report().now_us)
        when = UNKNOWN if single else clock.text(clock.now_us)
        sys.stdout.write(f"last_update_time={when}, records={records}\n")

    def wants_document(self) -> bool:
        """Whether JSON or YAML is requested."""
        return "json" in self.options or "yaml" in self.options

    def put_document(self, maker: str, items: object, cluster: str) -> None:
        """Prints a document of cli.listings.jsonpart."""
        from cli.base.document import write_document
        from cli.listings import jsonpart

        write_document(getattr(jsonpart, maker)(items, cluster, self.report().now_us), self.options)


class Verb(NamedTuple):
    """A keyword's number of words (most = -1: any) and its function."""

    least: int
    most: int
    run: Callable[[KeywordCall], int]


def lazily(module: str, name: str) -> Callable[[KeywordCall], int]:
    """Wraps a keyword's function by name: its module is imported only when the keyword is used."""

    def do(call: KeywordCall) -> int:
        from importlib import import_module

        status: int = getattr(import_module(module), name)(call)
        return status

    return do


def of_steps(name: str) -> Callable[[KeywordCall], int]:
    """A keyword about steps."""
    return lazily("cli.control.showsteps", name)


def words_of(text: str) -> frozenset[str]:
    """A set of words written as one text."""
    return frozenset(text.split())


def find_word(word: str, *tables: Iterable[str]) -> str | None:
    """The name that `word` is or begins; among several, the one that begins all others (`req` is requeue).

    Names that are not supported yet count, so that an abbreviation never changes its meaning later.
    """
    lowered = word.lower()
    near = sorted(name for table in tables for name in table if name.startswith(lowered))
    return near[0] if near and all(name.startswith(near[0]) for name in near) else None


def check_count(verb: Verb, words: list[str], name: str) -> None:
    if len(words) < verb.least:
        text = f"{name} keyword" if name in ("update", "create", "delete") else f"keyword:{name}"
        raise CommandError(f"too few arguments for {text}", plain=True)
    if 0 <= verb.most < len(words):
        raise CommandError(f"too many arguments for keyword:{name}", plain=True)


def ask(method: str, request: "Message", words: str, timeout_s: float | None = None) -> ReplyMessage:
    """Sends one request; a refusal is shown after Slurm's name of the action."""
    with Client.open() as client:
        try:
            return client.call(method, request, timeout_s)
        except PenstockError as error:
            raise refused(words, error) from error


def refused(words: str, error: PenstockError) -> CommandError:
    """A refusal in scontrol's form."""
    detail = f"\n{NAME}: {error.detail}" if error.detail else ""
    return CommandError(f"{words} error: {error.text}{detail}", plain=True)


def list_jobs(request: "ListJobsRequest") -> "list[JobInfo]":
    """Returns all jobs of a listing."""
    with Client.open() as client:
        try:
            return [job for page in client.stream("ListJobs", request) for job in page.jobs]
        except PenstockError as error:
            raise refused("slurm_load_jobs", error) from error


def check_ids(words: list[str], error_text: str = "", more: str = "") -> list[str]:
    """Validates the syntax of job ids as the controller does. Raises CommandError. `more`: a text to append to the
    message.
    """
    ids: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        word = value if equals and name.lower() in ("job", "jobid") else word  # `hold jobid=5`, as Slurm takes it
        try:
            for selector in parse_selectors(word):
                if selector.step_id is not None:
                    raise CommandError(f"{word}: steps are not supported yet by Penstock")
                ids.append(selector_text(selector))
        except BadValue as error:
            text = error_text or f"Invalid job id specified for job {word}"
            raise CommandError(f"{text}: {error}{more}", plain=True) from error
    return ids


def _of_sluid(word: str) -> int:
    job_id = parse_sluid(word)[1]
    with Client.open() as client:
        if not is_known(client, word):
            raise BadValue("no job has this SLUID")
    return job_id


def job_number(word: str) -> int:
    """A plain job id, also by a SLUID that the controller knows: the id in it may be another job's."""
    try:
        if len(word) == SLUID_LENGTH and word[0] == "s":
            return _of_sluid(word)
        return parse_int(word, 1, JOB_ID_MAX, "job id")
    except BadValue as error:
        raise CommandError(f"Invalid job id specified\n{NAME}: {error}", plain=True) from error
