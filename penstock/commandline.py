"""Building blocks of the click application `penstock`: commands with examples, groups that import a command when it is
first used.

    invoke(command, "penstock gpus", argv)  ->  the exit status

The command line is click's. Everything else is the project's: wrong use is one line and a hint on stderr, with status 1
as in Slurm's commands unless the command says otherwise; exceptions of a
command propagate, and the caller of `invoke` reports them.

A group is a table of command names with "module:attribute" and help, like entry points: `penstock --help` imports no
command, and no command imports another one. A daemon parses its own arguments (penstock/daemonline.py).
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# Any: click passes arguments and values through untyped
from typing import Any, NamedTuple

import click

from penstock.daemonline import DaemonLine
from penstock.values.errors import BadValue
from penstock.values.text import clean_line

#: Columns of a help text, whatever the terminal has.
HELP_WIDTH = 100
STATUS_WRONG_USE = 1
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH}

#: What a shell completes for an option's value.
_VALUES = {"FILE": click.Path(dir_okay=False), "DIR": click.Path(file_okay=False)}
#: A command line and what it does.
Example = tuple[str, str]
#: Runs the body of a command and reports its errors; returns the status.
Edge = Callable[[Callable[[], int | None]], int]


class Entry(NamedTuple):
    """A name of a group, and its command."""

    word: str
    target: str  # module:attribute, a click.Command; of a daemon a function (argv) -> status
    help: str
    section: str = "Commands"
    line: str = ""  # module:attribute, of a daemon: the function that returns its DaemonLine


class CommandLine(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[Example] = (), wrong_use: int = 0, **more: Any) -> None:
        more["context_settings"] = CONTEXT
        super().__init__(*args, **more)
        self.examples = tuple(examples)
        self.wrong_use = wrong_use

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click; an error refers to its command."""
        with _knowing(ctx):
            return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, and further text at the end."""
        _write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class CommandGroup(click.Group):
    """Commands under one word.

    `edge`: reports their errors, in place of the caller of `invoke`. `is_helpful`: the group without a command shows
    help.
    """

    def __init__(
        self,
        *args: Any,
        entries: Sequence[Entry] = (),
        examples: Sequence[Example] = (),
        wrong_use: int = 0,
        edge: Edge | None = None,
        is_helpful: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more | {"context_settings": CONTEXT, "no_args_is_help": False})
        self.entries = {entry.word: entry for entry in entries}
        self.examples = tuple(examples)
        self.wrong_use = wrong_use
        self._edge = edge
        self._is_helpful = is_helpful

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return [*self.entries, *(name for name in self.commands if name not in self.entries)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported at the first use."""
        entry = self.entries.get(cmd_name)
        if entry is not None and cmd_name not in self.commands:
            self.add_command(DaemonCommand(entry) if entry.line else load(entry.target), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, with the names of the other commands for an unknown one."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            raise click.UsageError(f"unrecognized command {args[0]!r}", ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The group's own options."""
        if not args and not ctx.resilient_parsing:
            if self._is_helpful:
                args = ["--help"]
            else:
                raise click.UsageError(f"after {ctx.info_name} comes: {', '.join(self.list_commands(ctx))}", ctx)
        with _knowing(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command after the group's name."""
        if self._edge is None:
            return super().invoke(ctx)
        return self._edge(lambda: click.Group.invoke(self, ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = self.entries.get(name)
            section = entry.section if entry else "Commands"
            text = entry.help if entry else self.commands[name].get_short_help_str(HELP_WIDTH)
            sections.setdefault(section, []).append((name, text))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, and what else is said at the end."""
        _write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class DaemonCommand(click.Command):
    """A daemon: click knows its options, for completion, and passes its arguments on."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.word, help=entry.help, add_help_option=False, context_settings=CONTEXT)
        self._entry = entry

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """As the daemon's table has them."""
        line: DaemonLine = load(self._entry.line)()
        return [
            click.Option(
                [*option.flags], is_flag=option.is_switch, help=option.help.partition(" (default: %")[0],
                type=click.Choice(option.choices) if option.choices else _VALUES.get(option.metavar),
            )
            for option in line.options
        ]  # fmt: skip

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses for completion only."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        ctx.params["argv"] = args
        return []

    def invoke(self, ctx: click.Context) -> int:
        """Runs the daemon in this process."""
        return int(load(self._entry.target)(ctx.params["argv"]))


class Converted(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer releases of click
    """A value that a function parses, which raises BadValue."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The parsed value; a default is parsed already."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)


def load(target: str) -> Any:
    """The object of "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def invoke(command: click.Command, path: str, argv: Sequence[str]) -> int:
    """Runs a command that is invoked as `path`; returns its status. Usage errors have been reported then, and --help
    shown."""
    try:
        with command.make_context(path, list(argv)) as context:
            status = command.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        return report_wrong_use(error, path)
    except click.ClickException as error:
        sys.stderr.write(f"{path}: {clean_line(error.format_message())}\n")
        return 1
    except click.Abort:
        raise KeyboardInterrupt from None
    return int(status or 0)


def report_wrong_use(error: click.UsageError, path: str) -> int:
    """Prints the error and the hint; returns the status."""
    context = error.ctx
    name = context.command_path if context else path
    status = 0
    while context is not None and not status:
        status = getattr(context.command, "wrong_use", 0)
        context = context.parent
    sys.stdout.flush()
    text = clean_line(error.format_message().rstrip(".").replace("\n", " "))
    sys.stderr.write(f'{name}: {text}\nTry "{name} --help" for more information\n')
    return status or STATUS_WRONG_USE


@contextmanager
def _knowing(ctx: click.Context) -> Iterator[None]:
    """Adds the context to an error of the parser; click omits it for some of them."""
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or ctx
        raise


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[Example]) -> None:
    if examples:
        with formatter.section("Examples"):
            for line, meaning in examples:
                formatter.write_text(f"{line}")
                formatter.write_text(f"    {meaning}")
