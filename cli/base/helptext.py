"""The texts of --help and --usage, in the shape of Slurm's.

Programs look for their headings (`Help options:`, `Valid <OPTION> values are:`), and for the names of options. Three
shapes exist: `OPTIONS` lists each option on a line and ends with the help options, as most commands do; `VALUES` is that
of the commands of accounting and of scontrol; `SHARES` is sshare's alone. A command whose options are many divides them into
groups (`Command.groups`).
"""

from collections.abc import Iterable

from cli.base.optiontable import MAYBE, NO, REFUSED, SHARES, VALUES, YES, Command, Option, with_common

HELP_COLUMN = 30
USAGE_WIDTH = 78
#: The options that are listed at the end, below a heading of their own.
_HELP = ("help", "usage")
#: Commands that call their --usage a summary.
_SUMMARISED = ("squeue", "sprio")
#: Commands that write `-h or --help`, not `-h, --help`.
_WITH_OR = ("sacctmgr", "sreport")


def help_text(command: Command) -> str:
    """The text of --help."""
    if command.shape == VALUES:
        return "\n".join([f"{command.name} {command.synopsis}", *_values(command), *_footer(command)])
    if command.shape == SHARES:
        return "\n".join([f"Usage:  {command.name} {command.synopsis}", "  Valid OPTIONs are:", *_words(command)])
    lines = [f"Usage: {command.name} {command.synopsis}", *_groups(command), *_footer(command)]
    lines += ["", "Help options:", *(line for o in _help_options(command) for line in _help_lines(o))]
    if command.groups:
        lines += ["", "Other options:", *_help_lines(next(o for o in _shown(command) if o.name == "version"))]
    return "\n".join(lines)


def usage_text(command: Command) -> str:
    """The text of --usage: names only; all of --help for a command that has no other."""
    if command.usage:
        return f"Usage: {command.name} {command.usage}"
    if command.shape != "":
        return help_text(command)
    names = (f"[--{o.name}{_value_form(o)}]" for o in command.options if o.status != REFUSED and o.help)
    lines, line = [], f"Usage: {command.name}"
    for word in [*names, command.usage_end or command.synopsis.removeprefix("[OPTIONS]").strip()]:
        if len(line) + len(word) > USAGE_WIDTH:
            lines.append(line)
            line = " " * len(f"Usage: {command.name}")
        line += f" {word}" if word else ""
    return "\n".join([*lines, line])


def _shown(command: Command) -> list[Option]:
    return [o for o in with_common(command.options) if o.status != REFUSED and o.help]


def _footer(command: Command) -> list[str]:
    missing = [f"--{o.name}" for o in command.options if o.status == REFUSED]
    lines = ["", command.footer] if command.footer else []
    return [*lines, "", "Known to Slurm and not supported yet: " + " ".join(missing)] if missing else lines


def _groups(command: Command) -> list[str]:
    """The options but those of help, in the order of the table, group by group."""
    if not command.groups:
        return [line for o in _shown(command) if o.name not in _HELP for line in _help_lines(o)]
    grouped = {name for _, names in command.groups for name in names}
    first = [o for o in _shown(command) if o.name not in grouped and o.name not in (*_HELP, "version")]
    lines = ["", "Parallel run options:", *_sorted_lines(first)]
    for heading, names in command.groups:
        found = [o for o in _shown(command) if o.name in names]
        lines += ["", heading, *_sorted_lines(found)] if found else []
    return lines


def _sorted_lines(options: Iterable[Option]) -> list[str]:
    return [line for o in sorted(options, key=lambda o: o.name) for line in _help_lines(o)]


def _help_options(command: Command) -> list[Option]:
    found = [o for o in _shown(command) if o.name in _HELP]
    if command.name not in _SUMMARISED:
        return found
    return [
        o._replace(help=f"display a brief summary of {command.name} options") if o.name == "usage" else o for o in found
    ]


def _help_lines(option: Option) -> list[str]:
    short = f"-{option.short}, " if option.short else "    "
    left = f"  {short}--{option.name}" + (f"[={option.metavar}]" if option.value == MAYBE else _value_form(option))
    if len(left) < HELP_COLUMN:
        return [f"{left:<{HELP_COLUMN}}{option.help}"]
    return [left, " " * HELP_COLUMN + option.help]


def _values(command: Command) -> list[str]:
    """Options of the shape `VALUES`: a long name has its meaning on the next line."""
    lines = ["    Valid <OPTION> values are:"]
    between = " or " if command.name in _WITH_OR else ", "
    for option in sorted(_shown(command), key=lambda o: o.name.lower()):
        names = f"-{option.short}{between}--{option.name}:" if option.short else f"--{option.name}:"
        lines.append(
            f"     {names:<21} {option.help}" if len(names) <= 21 else f"     {names}\n{' ' * 27}{option.help}"
        )
    return lines


def _words(command: Command) -> list[str]:
    """Options of the shape `SHARES`."""
    forms = {NO: "", YES: "=", MAYBE: ""}
    lines = []
    for option in _shown(command):
        either = f"-{option.short} or " if option.short else " " * 6
        lines.append(f"    {either + '--' + option.name + forms[option.value]:<22} {option.help}")
    return lines


def _value_form(option: Option) -> str:
    """What follows an option's name; an optional value is left out."""
    return f"={option.metavar}" if option.value == YES else ""
