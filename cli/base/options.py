"""Option tables of the commands, parsed with the rules of Slurm's own option parser (getopt_long).

Not click, for two reasons. Its rules differ: it has no unique-prefix abbreviations (`--part=x`), no optional value that
must be attached (`--exclusive` beside `--exclusive=user`), and other messages and exit statuses; and importing it is a
good part of a short command's time. The rules needed are few and fixed, so this is a table and one loop.

- `--opt=value`, `--opt value`, `-ovalue`, `-o value`, clusters (`-HQ`), unique prefixes of long options, `--` ends.
- An optional value (`MAYBE`) must be attached; without it the option's `const` is stored.
- Interspersed commands (squeue, scancel, scontrol) take options anywhere; others (sbatch) stop at the first positional.
- The last one wins. The command line overrides the environment. - A flag's variable sets the flag when it is empty,
  `yes` or a number other than 0.
- All options that Slurm has are in the tables, with their status: `DONE` ones do what Slurm's do; `ACCEPTED` ones are
  parsed (an invalid value is an error) and have no effect except a warning; `REFUSED` ones fail with the reason. So an
  abbreviation never changes its meaning later, and docs/compatibility.md is generated from the tables.
- `--help`, `--usage` and `--version` are added to every table and end the command with their text (`run.RemoteAnswer`).

Values stay text unless the option has `convert`, which raises BadValue. A line that cannot be read ends the command
with its `wrong_status`, one with a LateValue with 1. Only options that were given are in the result.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cli.base.optiontable import ACCEPTED as ACCEPTED
from cli.base.optiontable import DONE as DONE
from cli.base.optiontable import INVALID
from cli.base.optiontable import MAYBE as MAYBE
from cli.base.optiontable import NO as NO
from cli.base.optiontable import REFUSED as REFUSED
from cli.base.optiontable import SHARES as SHARES
from cli.base.optiontable import STATUS_WRONG_LINE as STATUS_WRONG_LINE
from cli.base.optiontable import VALUES as VALUES
from cli.base.optiontable import YES as YES
from cli.base.optiontable import Command as Command
from cli.base.optiontable import Option as Option
from cli.base.optiontable import OptionValues as OptionValues
from cli.base.optiontable import with_common as with_common
from cli.base.run import CommandError, RemoteAnswer, warn
from penstock import SLURM_VERSION
from penstock.values.errors import BadValue
from penstock.values.text import SHOWN_CHARS_MAX, shown

#: The answer of --version, exactly Slurm's: programs take its last word.
VERSION_TEXT = f"slurm {SLURM_VERSION}"
NUMERIC = 'Invalid numeric value "{value}" for --{name}.'


class WholeText(BadValue):
    """An invalid value, with the whole message for it: Slurm's own words."""


class LateValue(BadValue):
    """An invalid value for which every command of Slurm's ends with 1: it is a number, or it is checked after the line
    has been read, often by the controller alone.
    """


class LateText(LateValue, WholeText):
    """A LateValue with the whole message for it."""


class Parsed(NamedTuple):
    """The options that were given, by key, and the other arguments."""

    values: OptionValues
    positional: list[str]


def later(*names: str, value: str = YES, note: str = "") -> tuple[Option, ...]:
    """Options of Slurm that are not supported: `name` or `name/short`."""
    return _of_status(REFUSED, names, value, note)


def accepted(*names: str, value: str = YES, note: str) -> tuple[Option, ...]:
    """Options of Slurm that have no effect here: `name` or `name/short`."""
    return _of_status(ACCEPTED, names, value, note)


def _of_status(status: str, names: tuple[str, ...], value: str, note: str) -> tuple[Option, ...]:
    pairs = (name.partition("/") for name in names)
    return tuple(Option(name, short, value, status=status, note=note) for name, _, short in pairs)


def parse(command: Command, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Parsed:
    """Parses a command line, with the environment for defaults."""
    table = _table_of(command)
    given = OptionValues()
    positional = _Reader(command, table).read(list(argv), given) if argv else []
    said = tuple(o for o in table.with_variables if o.env in env and o.key not in given) if env else ()
    if said and env:
        given = given.over(_from_environment(said, env, command.wrong_status))
    return Parsed(given, positional)


class _Reader:
    """One pass over an argument list."""

    def __init__(self, command: Command, table: "_Table") -> None:
        self.command = command
        self.table = table.options
        self.names = table.names
        self.shorts = table.shorts

    def read(self, rest: list[str], values: OptionValues) -> list[str]:
        positional: list[str] = []
        rest.reverse()  # popped from the end
        while rest:
            word = rest.pop()
            if word == "--":
                return positional + rest[::-1]
            if word.startswith("--"):
                self.long(word, rest, values)
            elif word.startswith("-") and word != "-":
                self.cluster(word[1:], rest, values)
            elif self.command.interspersed:
                positional.append(word)
            else:
                return [word, *rest[::-1]]
        return positional

    def long(self, word: str, rest: list[str], values: OptionValues) -> None:
        name, equals, text = word[2:].partition("=")
        option = self.find(name, word)
        if equals and option.value == NO:
            raise self.wrong(f"option '--{option.name}' doesn't allow an argument")
        value = text if equals else None
        if option.value == YES and not equals:
            if not rest:
                raise self.wrong(f"option '--{option.name}' requires an argument")
            value = rest.pop()
        self.store(option, value, values)

    def cluster(self, letters: str, rest: list[str], values: OptionValues) -> None:
        while letters:
            option = self.shorts.get(letters[0])
            if option is None:
                raise self.wrong(f"invalid option -- '{letters[0]}'")
            letters, value = letters[1:], None
            if option.value != NO:
                letters, value = "", letters or None
            if option.value == YES and value is None:
                if not rest:
                    raise self.wrong(f"option requires an argument -- '{option.short}'")
                value = rest.pop()
            self.store(option, value, values)

    def find(self, name: str, word: str) -> Option:
        exact = self.names.get(name)
        if exact is not None:
            return exact
        near = [o for o in self.table if o.name.startswith(name) and not o.own]
        if not near:
            raise self.wrong(f"unrecognized option '--{name}'")
        if len({(o.key, o.value, o.status) for o in near}) > 1:
            names = " ".join(f"'--{o.name}'" for o in sorted(near))
            raise self.wrong(f"option '{word}' is ambiguous; possibilities: {names}")
        return near[0]

    def store(self, option: Option, value: str | None, values: OptionValues) -> None:
        if option.name in _ANSWERS:
            raise RemoteAnswer(_answer(self.command, option.name))
        is_first = option.key not in values
        _store(option, value, values, "", self.command.wrong_status)
        if option.status == ACCEPTED and is_first:
            warn(self.command.name, f"option --{option.name} is accepted and has no effect: {option.note}")

    def wrong(self, text: str) -> CommandError:
        name = self.command.name
        words = f'{name}: {text}\nTry "{name} --help" for more information' if self.command.hints else f"{name}: {text}"
        return CommandError(words, self.command.wrong_status, plain=True)


def _from_environment(table: tuple[Option, ...], env: Mapping[str, str], wrong_status: int) -> OptionValues:
    """The values of options whose variables are set."""
    values = OptionValues()
    for option in table:
        text = env[option.env]
        if option.value == YES and not text:
            continue
        if option.value == NO and not flag_is_on(text):
            continue
        if option.counted and text.isascii() and text.isdigit():
            values[option.key] = int(text[:9])
            continue
        value = text if option.value != NO and text else None
        _store(option, value, values, f" (from the environment variable {option.env})", wrong_status)
    return values


def flag_is_on(text: str) -> bool:
    """Whether the variable of a flag sets it."""
    if text in ("", "yes"):
        return True
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and int(digits[:20]) != 0


def _store(option: Option, value: str | None, values: OptionValues, source: str, wrong_status: int) -> None:
    if option.status == REFUSED:
        why = f": {option.note}" if option.note else ""
        own = f"option --{option.name} is not supported yet by Penstock"
        words = own if option.invalid == INVALID else f"{option.invalid}: {own}"
        raise CommandError(f"{words}{why}{source}")
    if option.counted:
        values[option.key] = values.number(option.key) + 1
    elif value is None:
        values[option.key] = option.const
    elif option.joined and values.flag(option.key):
        values[option.key] = f"{values.text(option.key)},{value}"
    elif option.convert is None:
        values[option.key] = value
    else:
        try:
            values[option.key] = option.convert(value)
        except BadValue as error:
            status = 1 if isinstance(error, LateValue) else wrong_status
            if isinstance(error, WholeText):
                raise CommandError(f"{error}{source}", status) from error
            words = option.invalid.format(name=option.name, value=message_text(value))
            raise CommandError(words, status, detail=f"{error}{source}") from error


def message_text(text: str) -> str:
    """A value as a message quotes it: shortened, and without control sequences."""
    return shown(text)[1:-1] if len(text) <= SHOWN_CHARS_MAX else shown(text)


_ANSWERS = ("help", "usage", "version")


def _answer(command: Command, name: str) -> str:
    """The text that ends the command."""
    if name == "version":
        return VERSION_TEXT
    from cli.base.helptext import help_text, usage_text

    return help_text(command) if name == "help" else usage_text(command)


class _Table(NamedTuple):
    """A command's options, and how they are found."""

    own: tuple[Option, ...]  # those without the common ones
    options: tuple[Option, ...]
    names: dict[str, Option]
    shorts: dict[str, Option]
    with_variables: tuple[Option, ...]


_tables: dict[str, _Table] = {}  # by command


def _table_of(command: Command) -> _Table:
    """Returns the table of a command, made once: a line is parsed in layers."""
    table = _tables.get(command.name)
    if table is None or table.own is not command.options:
        options = with_common(command.options)
        table = _tables[command.name] = _Table(
            command.options,
            options,
            {o.name: o for o in reversed(options)},  # of two with one name the first counts
            {o.short: o for o in options if o.short},
            tuple(o for o in options if o.env),
        )
    return table
