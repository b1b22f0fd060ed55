"""Several components of one job on a command line: `sbatch -n1 : -n8 -p gpu script`.

A bare `:` between options separates components. A component has its own options, and what is not about resources (name,
account, time limit, ...) from the first one where it does not say so itself. Variables of the environment count for all.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from cli.jobrequest import merge
from cli.options import Command, Parsed, parse

SEPARATOR = ":"
#: What a component takes from the first one.
SHARED = (
    "job_name", "account", "qos", "time", "time_min", "wckey", "comment", "chdir", "begin", "deadline", "reservation",
    "requeue", "no_requeue", "nice", "priority", "signal", "export", "export_file", "no_kill", "node_fail_policy",
)  # fmt: skip


def parse_components(command: Command, argv: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The options of each component, and the words after them."""
    found: list[dict[str, Any]] = []
    line = Parsed({}, [SEPARATOR, *argv])
    while line.positional[:1] == [SEPARATOR]:
        line = parse(command, line.positional[1:])
        found.append(line.values)
    return found, line.positional


def split_words(argv: Iterable[str]) -> list[list[str]]:
    """All words, cut at each separator: where every component may have a command of its own."""
    found: list[list[str]] = [[]]
    for word in argv:
        if word == SEPARATOR:
            found.append([])
        else:
            found[-1].append(word)
    return found


def join(
    scripted: Sequence[dict[str, Any]], environment: dict[str, Any], lines: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """All values of each component: a script's lines, below the environment's variables, below the command line."""
    found: list[dict[str, Any]] = []
    for i in range(max(len(scripted), len(lines))):
        own = scripted[i] if i < len(scripted) else {}
        said = lines[i] if i < len(lines) else {}
        inherited = {key: found[0][key] for key in SHARED if key in found[0]} if found else {}
        found.append(merge(inherited, own, environment, said))
    return found
