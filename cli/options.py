"""Options of the commands: tables that are read with the rules of Slurm's own option parser (getopt_long).

Not click, for two reasons. Its rules are others: it has no unique-prefix abbreviations (`--part=x`), no optional value
that counts only when glued on (`--exclusive` beside `--exclusive=user`), other words and other exit statuses; and its
import is a good part of a short command's time. What is needed is small and fixed, so it is a table and one loop.

- `--opt=value`, `--opt value`, `-ovalue`, `-o value`, clusters (`-HQ`), unique prefixes of long options, `--` ends.
- An optional value (`MAYBE`) must be glued on; without it the option's `const` is stored.
- Interspersed commands (squeue, scancel, scontrol) take options anywhere; others (sbatch) stop at the first positional.
- The last one wins. The environment comes below the command line.
- A flag's variable is on when it is empty, `yes` or a number other than 0.
- All options that Slurm has are in the tables, with their standing: `DONE` ones do what Slurm's do; `ACCEPTED` ones are
  read (a wrong value is an error) and say in one warning that they have no effect; `REFUSED` ones say why and fail. So an
  abbreviation never changes its meaning later, and docs/compatibility.md is printed from the tables.
- `--help`, `--usage` and `--version` are added to every table and answer at once (`run.Answered`).

Values stay text unless the option has `convert`, which raises BadValue. Only options that were given are in the result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cli.run import Answered, CommandError, warn
from penstock import __version__
from penstock.values.errors import BadValue
from penstock.values.text import SHOWN_CHARS_MAX, shown

#: The version of Slurm whose surface is spoken; tools gate features on it.
SLURM_VERSION = "25.05.0"
VERSION_TEXT = f"slurm {SLURM_VERSION} (Penstock {__version__})"
HELP_COLUMN = 30
NO, YES, MAYBE = "no", "yes", "maybe"  # does the option take a value
DONE, ACCEPTED, REFUSED = "done", "accepted", "refused"  # an option's standing
_INVALID = "Invalid --{name} specification"
NUMERIC = 'Invalid numeric value "{value}" for --{name}.'


class WholeText(BadValue):
    """A value that cannot be read, and the whole of what is to be said of it: Slurm's own words."""


class Option(NamedTuple):
    """One option. `dest` defaults to the name with `-` as `_`."""

    name: str
    short: str = ""
    value: str = NO
    env: str = ""  # the variable that stands in for the option
    help: str = ""
    metavar: str = "value"
    dest: str = ""
    const: Any = True  # stored when there is no value
    convert: Callable[[str], Any] | None = None
    invalid: str = _INVALID  # Slurm's words for a value that does not convert
    counted: bool = False  # how often it was given (-vv)
    joined: bool = False  # given again, it adds to the list
    standing: str = DONE
    note: str = ""  # why it has no effect, or why it is refused; what differs from Slurm: for docs/compatibility.md too
    own: bool = False  # not Slurm's: known by its full name only, so that Slurm's abbreviations keep their meaning
    field: str = ""  # the request's field that takes the value as it is

    @property
    def key(self) -> str:
        """The option's name in the result."""
        return self.dest or self.name.replace("-", "_")


class Command(NamedTuple):
    """What one command's line may hold."""

    name: str
    synopsis: str  # behind "Usage: NAME "
    options: tuple[Option, ...]
    interspersed: bool = True
    footer: str = ""  # more help text


class Parsed(NamedTuple):
    """The options that were given, by key, and what was not an option."""

    values: dict[str, Any]
    positional: list[str]


def later(*names: str, value: str = YES, note: str = "") -> tuple[Option, ...]:
    """Options that Slurm has and this version has not: `name` or `name/short`."""
    return _of_standing(REFUSED, names, value, note)


def accepted(*names: str, value: str = YES, note: str) -> tuple[Option, ...]:
    """Options of Slurm that mean nothing here: `name` or `name/short`."""
    return _of_standing(ACCEPTED, names, value, note)


def _of_standing(standing: str, names: tuple[str, ...], value: str, note: str) -> tuple[Option, ...]:
    pairs = (name.partition("/") for name in names)
    return tuple(Option(name, short, value, standing=standing, note=note) for name, _, short in pairs)


def parse(command: Command, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Parsed:
    """Read a command line, with the environment below it."""
    table = with_common(command.options)
    given: dict[str, Any] = {}
    positional = _Reader(command, table).read(list(argv), given)
    said = tuple(o for o in table if o.env and o.env in env and o.key not in given) if env else ()
    return Parsed(_from_environment(said, env or {}) | given, positional)


def help_text(command: Command) -> str:
    """The text of --help."""
    lines = [f"Usage: {command.name} {command.synopsis}", ""]
    for option in with_common(command.options):
        if option.standing != REFUSED and option.help:
            lines += _help_lines(option)
    if command.footer:
        lines += ["", command.footer]
    missing = [f"--{o.name}" for o in command.options if o.standing == REFUSED]
    if missing:
        lines += ["", "Known to Slurm and not supported yet: " + " ".join(missing)]
    return "\n".join(lines)


def usage_text(command: Command) -> str:
    """The text of --usage: names only."""
    names = (f"[--{o.name}{_value_form(o)}]" for o in command.options if o.standing != REFUSED and o.help)
    lines, line = [], f"Usage: {command.name}"
    for word in [*names, command.synopsis]:
        if len(line) + len(word) > 78:
            lines.append(line)
            line = " " * len(f"Usage: {command.name}")
        line += f" {word}"
    return "\n".join([*lines, line])


class _Reader:
    """One pass over an argument list."""

    def __init__(self, command: Command, table: tuple[Option, ...]) -> None:
        self.command = command
        self.table = table
        self.shorts = {o.short: o for o in table if o.short}

    def read(self, rest: list[str], values: dict[str, Any]) -> list[str]:
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

    def long(self, word: str, rest: list[str], values: dict[str, Any]) -> None:
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

    def cluster(self, letters: str, rest: list[str], values: dict[str, Any]) -> None:
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
        near = [o for o in self.table if o.name.startswith(name) and (not o.own or o.name == name)]
        for option in near:
            if option.name == name:
                return option
        if not near:
            raise self.wrong(f"unrecognized option '--{name}'")
        if len({(o.key, o.value, o.standing) for o in near}) > 1:
            names = " ".join(f"'--{o.name}'" for o in sorted(near))
            raise self.wrong(f"option '{word}' is ambiguous; possibilities: {names}")
        return near[0]

    def store(self, option: Option, value: str | None, values: dict[str, Any]) -> None:
        if option.name in _ANSWERS:
            raise Answered(_ANSWERS[option.name](self.command))
        is_first = option.key not in values
        _store(option, value, values, "")
        if option.standing == ACCEPTED and is_first:
            warn(self.command.name, f"option --{option.name} is accepted and has no effect: {option.note}")

    def wrong(self, text: str) -> CommandError:
        name = self.command.name
        return CommandError(f'{name}: {text}\nTry "{name} --help" for more information', plain=True)


def _from_environment(table: tuple[Option, ...], env: Mapping[str, str]) -> dict[str, Any]:
    """The values of options whose variables are set."""
    values: dict[str, Any] = {}
    for option in table:
        text = env[option.env]
        if option.value == YES and not text:
            continue
        if option.value == NO and not flag_is_on(text):
            continue
        value = text if option.value != NO and text else None
        _store(option, value, values, f" (from the environment variable {option.env})")
    return values


def flag_is_on(text: str) -> bool:
    """Whether a variable that stands for a flag switches it on."""
    if text in ("", "yes"):
        return True
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and int(digits[:20]) != 0


def _store(option: Option, value: str | None, values: dict[str, Any], source: str) -> None:
    if option.standing == REFUSED:
        why = f": {option.note}" if option.note else ""
        own = f"option --{option.name} is not supported yet by Penstock"
        words = own if option.invalid == _INVALID else f"{option.invalid}: {own}"
        raise CommandError(f"{words}{why}{source}")
    if option.counted:
        values[option.key] = values.get(option.key, 0) + 1
    elif value is None:
        values[option.key] = option.const
    elif option.joined and values.get(option.key):
        values[option.key] += f",{value}"
    elif option.convert is None:
        values[option.key] = value
    else:
        try:
            values[option.key] = option.convert(value)
        except WholeText as error:
            raise CommandError(f"{error}{source}") from error
        except BadValue as error:
            words = option.invalid.format(name=option.name, value=plain(value))
            raise CommandError(words, detail=f"{error}{source}") from error


def plain(text: str) -> str:
    """A value as a message repeats it: short, and without what a terminal would obey."""
    return shown(text)[1:-1] if len(text) <= SHOWN_CHARS_MAX else shown(text)


_COMMON = (
    Option("help", "h", help="show this help message"),
    Option("usage", help="display brief usage message"),
    Option("version", "V", help="output version information and exit"),
)
_ANSWERS: dict[str, Callable[[Command], str]] = {
    "help": help_text,
    "usage": usage_text,
    "version": lambda command: VERSION_TEXT,
}


def with_common(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """A command's options and those that every command has; a letter that is taken is not theirs."""
    taken = {o.short for o in options}
    return options + tuple(o if o.short not in taken else o._replace(short="") for o in _COMMON)


def _value_form(option: Option) -> str:
    return {NO: "", YES: f"={option.metavar}", MAYBE: f"[={option.metavar}]"}[option.value]


def _help_lines(option: Option) -> list[str]:
    short = f"-{option.short}, " if option.short else "    "
    left = f"  {short}--{option.name}{_value_form(option)}"
    if len(left) < HELP_COLUMN:
        return [f"{left:<{HELP_COLUMN}}{option.help}"]
    return [left, " " * HELP_COLUMN + option.help]
