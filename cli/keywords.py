"""What the keywords of scontrol share: their tables, their words, how they ask and how they tell a refusal.

A table has a row for each keyword: how many words it takes and the function that does it. Most errors of scontrol have
no `scontrol: error:` before them; tools match them as they are.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cli import show
from cli.jobids import selector_text
from cli.run import CommandError
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.values.errors import BadValue
from penstock.values.jobid import JOB_ID_MAX, parse_selectors
from penstock.values.numbers import parse_int

NAME = "scontrol"


class Call(NamedTuple):
    """One keyword with its words and the options that hold for it."""

    words: list[str]
    options: dict[str, Any]

    def report(self) -> show.Report:
        """How records are shown."""
        style = os.environ.get("SLURM_TIME_FORMAT") or "standard"
        return show.Report(time.time_ns() // 1000, style, bool(self.options.get("details")))

    def put(self, records: list[show.Record]) -> None:
        """Print records."""
        one_line = bool(self.options.get("oneliner"))
        sys.stdout.write("".join(show.layout(record, one_line=one_line) for record in records))

    def wants_document(self) -> bool:
        """Whether JSON or YAML is asked for."""
        return "json" in self.options or "yaml" in self.options

    def put_document(self, maker: str, items: Any, cluster: str) -> None:
        """Print a document of cli.jsonpart."""
        from cli import jsonpart
        from cli.document import write_document

        write_document(getattr(jsonpart, maker)(items, cluster, self.report().now_us), self.options)


class Verb(NamedTuple):
    """How many words a keyword takes (most: -1 = any number) and who does it."""

    least: int
    most: int
    run: Callable[[Call], int]


def lazily(module: str, name: str) -> Callable[[Call], int]:
    """A keyword by the name of its function: the module and what it needs are loaded only for these."""

    def do(call: Call) -> int:
        from importlib import import_module

        status: int = getattr(import_module(module), name)(call)
        return status

    return do


def of_steps(name: str) -> Callable[[Call], int]:
    """A keyword about steps."""
    return lazily("cli.showsteps", name)


def words_of(text: str) -> frozenset[str]:
    """A set of words written as one text."""
    return frozenset(text.split())


def find_word(word: str, *tables: Any) -> str | None:
    """The name that `word` is or begins; among several, the one that begins all others (`req` is requeue).

    Names that are not there yet count, so that an abbreviation never changes its meaning later.
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


def ask(method: str, request: Any, words: str, timeout_s: float | None = None) -> Any:
    """One request; a refusal is told behind Slurm's word for what was tried."""
    with Client.open() as client:
        try:
            return client.call(method, request, timeout_s)
        except PenstockError as error:
            raise refused(words, error) from error


def refused(words: str, error: PenstockError) -> CommandError:
    """A refusal in scontrol's form."""
    detail = f"\n{NAME}: {error.detail}" if error.detail else ""
    return CommandError(f"{words} error: {error.text}{detail}", plain=True)


def list_jobs(request: Any) -> list[Any]:
    """All jobs of a listing."""
    with Client.open() as client:
        try:
            return [job for page in client.stream("ListJobs", request) for job in page.jobs]
        except PenstockError as error:
            raise refused("slurm_load_jobs", error) from error


def check_ids(words: list[str], error_text: str = "", more: str = "") -> list[str]:
    """Job ids as the controller reads them; what is none of its forms is refused here. `more`: what is said behind it."""
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


def job_number(word: str) -> int:
    """A plain job id."""
    try:
        return parse_int(word, 1, JOB_ID_MAX, "job id")
    except BadValue as error:
        raise CommandError(f"Invalid job id specified\n{NAME}: {error}", plain=True) from error
