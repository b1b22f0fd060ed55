"""Common parts of `penstock`'s own commands: --json and --yaml, and the name in their error messages."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TypeVar, cast

import click

from cli.base.run import CommandError, status_of
from penstock.commandline import Edge
from penstock.errors import PenstockError
from penstock.values.errors import BadValue

_Function = TypeVar("_Function", bound=Callable[..., object])


def documents(function: _Function) -> _Function:
    """The options; the command gets `language`: "json", "yaml" or "" for text. An error is a document, too, beside the
    line on stderr."""

    @wraps(function)
    def reporting(*args: object, language: str, **more: object) -> object:
        with errors_in(language):
            return function(*args, language=language, **more)

    result = cast("_Function", reporting)
    for name in ("yaml", "json"):
        result = click.option(
            f"--{name}", "language", flag_value=name, default="", help=f"Print {name.upper()} for programs."
        )(result)
    return result


@contextmanager
def errors_in(language: str) -> Iterator[None]:
    """Writes an error as a document in that language ("" = not), before the caller reports it."""
    try:
        yield
    except (CommandError, PenstockError, BadValue) as error:
        if language:
            write({"errors": [{"error": str(error), "description": getattr(error, "detail", "")}]}, language)
        raise


def write(document: Mapping[str, object], language: str) -> int:
    """Prints a document; returns status 0."""
    from cli.base.document import write_document
    from cli.base.options import OptionValues

    write_document({**document}, OptionValues({language: ""}))
    return 0


def put(text: str) -> None:
    """Prints a text."""
    sys.stdout.write(text + "\n")


def errors_as(name: str) -> Edge:
    """The error handler of a group whose errors begin with its own name. Wrong use is raised to
    `commandline.invoke`."""

    def run(act: Callable[[], int | None]) -> int:
        of_click: list[Exception] = []

        def body(argv: list[str]) -> int:
            try:
                return int(act() or 0)
            except (click.ClickException, click.exceptions.Exit, click.Abort) as error:
                of_click.append(error)
                return 0

        status = status_of(name, body, [])
        if of_click:
            raise of_click[0]
        return status

    return run
