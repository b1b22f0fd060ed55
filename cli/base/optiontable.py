"""The tables of options: what an option and a command are. `cli.base.options` parses a command line by them, and
`cli.base.helptext` writes --help and --usage from them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self, TypeVar

NO = "no"  # does the option take a value
YES = "yes"
MAYBE = "maybe"
VALUES, SHARES = "values", "shares"  # shapes of --help
DONE = "done"  # an option's status
ACCEPTED = "accepted"
REFUSED = "refused"
INVALID = "Invalid --{name} specification"
#: `Command.wrong_status` of sbatch, salloc and srun: the exit status for an unknown option or an invalid value,
#: and of sbatch for a directive that cannot be read.
STATUS_WRONG_LINE = 255


_Kind = TypeVar("_Kind")


class OptionValues(dict[str, object]):
    """The values of the options that were given, by `dest`. Each is text, the result of the option's `convert`, its
    `const`, or a count. Who reads a value says of which kind it is; one of another kind is a mistake in the table.
    """

    def flag(self, key: str, default: bool = False) -> bool:
        """Whether a flag is set."""
        return bool(self.get(key, default))

    def text(self, key: str, default: str = "") -> str:
        """A value that is text."""
        found = self.of(str, key)
        return default if found is None else found

    def number(self, key: str, default: int = 0) -> int:
        """A value that is a number, or how often an option was given."""
        found = self.of(int, key)
        return default if found is None else found

    def numbers(self, key: str, *default: int) -> tuple[int, ...]:
        """A value that is several numbers."""
        return self.each(int, key) if key in self else default

    def each(self, kind: type[_Kind], key: str) -> tuple[_Kind, ...]:
        """A value that is a list with items of a kind; empty if the option was not given."""
        items = self.get(key, ())
        if isinstance(items, list | tuple) and all(isinstance(item, kind) for item in items):
            return tuple(items)
        raise TypeError(f"{key} is no list of {kind.__name__}: {items!r}")

    def of(self, kind: type[_Kind], key: str) -> _Kind | None:
        """A value of a kind; None if the option was not given."""
        value = self.get(key)
        if value is None or isinstance(value, kind):
            return value
        raise TypeError(f"{key} is no {kind.__name__}: {value!r}")

    def only(self, *keys: str) -> Self:
        """Those of some options."""
        return self.__class__({key: self[key] for key in keys if key in self})

    def over(self, lower: Mapping[str, object]) -> Self:
        """These values, and those of a lower source for the options that have none here."""
        return self.__class__({**lower, **self})


class Option(NamedTuple):
    """One option. `dest` defaults to the name with `-` as `_`."""

    name: str
    short: str = ""
    value: str = NO
    env: str = ""  # the variable that sets the option
    help: str = ""
    metavar: str = "value"
    dest: str = ""
    const: object = True  # stored when there is no value
    convert: Callable[[str], object] | None = None
    invalid: str = INVALID  # Slurm's message for a value that does not convert
    counted: bool = False  # count the occurrences (-vv)
    joined: bool = False  # each occurrence adds to the list
    status: str = DONE
    note: str = ""  # why it has no effect, or why it is refused; what differs from Slurm: for docs/compatibility.md too
    own: bool = False  # not Slurm's: recognised by its full name only, so that Slurm's abbreviations keep their meaning
    field: str = ""  # the field of the request that takes the value unchanged

    @property
    def key(self) -> str:
        """The option's name in the result."""
        return self.dest or self.name.replace("-", "_")


class Command(NamedTuple):
    """The options and arguments of one command."""

    name: str
    synopsis: str  # after "Usage: NAME "
    options: tuple[Option, ...]
    interspersed: bool = True
    footer: str = ""  # more help text
    shape: str = ""  # of --help: cli.base.helptext
    usage: str = ""  # what --usage prints after the command's name, where it is not the list of the options
    usage_end: str = ""  # what follows that list, where it is not in the synopsis
    groups: tuple[tuple[str, frozenset[str]], ...] = ()  # of --help: headings, and the names of the options below them
    wrong_status: int = 1  # the exit status for a command line that cannot be read
    hints: bool = True  # a second line then refers to --help; Slurm's sacct and sstat have none


_COMMON = (
    Option("help", "h", help="show this help message"),
    Option("usage", help="display brief usage message"),
    Option("version", "V", help="output version information and exit"),
)


def with_common(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """A command's options and those common to all; a common option loses a letter that the command uses."""
    taken = {o.short for o in options}
    return options + tuple(o if o.short not in taken else o._replace(short="") for o in _COMMON)
