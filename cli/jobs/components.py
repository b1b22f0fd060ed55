"""Several components of one job on a command line: `sbatch -n1 : -n8 -p gpu script`.

A bare `:` between options separates components. A component has its own options, and inherits those that are not about
resources (name, account, time limit, ...) from the first one. Variables of the environment apply to all.
"""

from collections.abc import Iterable, Sequence

from cli.base.options import Command, OptionValues, Parsed, parse
from cli.jobs.jobrequest import merge

SEPARATOR = ":"
#: The options that a component inherits from the first one.
SHARED = (
    "job_name", "account", "qos", "time", "time_min", "wckey", "comment", "chdir", "begin", "deadline", "reservation",
    "requeue", "no_requeue", "nice", "priority", "signal", "export", "export_file", "no_kill", "node_fail_policy",
)  # fmt: skip


def parse_components(command: Command, argv: Sequence[str]) -> tuple[list[OptionValues], list[str]]:
    """Parses the options of each component, and the words after them."""
    found: list[OptionValues] = []
    line = Parsed(OptionValues(), [SEPARATOR, *argv])
    while line.positional[:1] == [SEPARATOR]:
        line = parse(command, line.positional[1:])
        found.append(line.values)
    return found, line.positional


def split_words(argv: Iterable[str]) -> list[list[str]]:
    """Splits all words at each separator, for components that may each have a command."""
    found: list[list[str]] = [[]]
    for word in argv:
        if word == SEPARATOR:
            found.append([])
        else:
            found[-1].append(word)
    return found


def join(
    scripted: Sequence[OptionValues], environment: OptionValues, lines: Sequence[OptionValues]
) -> list[OptionValues]:
    """Merges the values of each component: the command line overrides the environment, and that the script's lines."""
    found: list[OptionValues] = []
    for i in range(max(len(scripted), len(lines))):
        own = scripted[i] if i < len(scripted) else OptionValues()
        said = lines[i] if i < len(lines) else OptionValues()
        inherited = found[0].only(*SHARED) if found else OptionValues()
        found.append(merge(inherited, own, environment, said))
    return found
