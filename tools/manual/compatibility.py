"""docs/compatibility.md from the option tables: each option of each command as done, accepted or refused.

What differs between Slurm and Penstock in their output, found by running both, is in known.toml of the differential test
(tests/support/differential) and printed below the options, each difference with its reason; so are those of accounting,
and differences between the resources of jobs and steps (tests/support/differential/grants).
"""

import json
import re
import tomllib
from pathlib import Path

from cli.base.options import ACCEPTED, DONE, REFUSED
from tools.manual.surface import ROOT, Page, meaning

GRANTS = ROOT / "tests" / "support" / "differential" / "grants" / "known.toml"
EXAMPLES = Path(__file__).with_name("examples.toml")
KNOWN = ROOT / "tests" / "support" / "differential" / "known.toml"
PLAYS = ROOT / "tests" / "support" / "differential" / "plays"
ACCOUNTS = KNOWN.parent / "accounts" / "known.toml"
NAMES = ("sbatch", "salloc", "srun", "squeue", "sinfo", "scontrol", "sacct", "sacctmgr", "sreport", "sshare")
HEAD = """# Compatibility

<!-- Written by `tools/manual` from the option tables of the commands; do not edit. -->

For each option of Slurm's commands, the tables say how it is supported:

- **done**: it does what Slurm's does. Differences are noted beside it, also where it has no effect.
- **accepted**: it is parsed, and an invalid value is an error. It has no effect, and a warning says so.
- **refused**: the command prints the reason, and exits with 1.

[For Slurm users](for-slurm-users.md) describes the differences of a running cluster, and [parameters](parameters.md) those of
the keys of slurm.conf.

"""


def compatibility_page(found: list[Page]) -> str:
    """The whole page."""
    parts = [HEAD, "| command | done | accepted | refused |\n|---|---|---|---|\n"]
    found = [page for page in found if page.command.options]
    for page in found:
        counts = [sum(o.status == status for o in page.options) for status in (DONE, ACCEPTED, REFUSED)]
        parts.append(f"| [{page.name}](#{page.name}) | {' | '.join(map(str, counts))} |\n")
    parts += [_options(page) for page in found]
    parts += [
        _differences(KNOWN, "Known differences", PLAIN),
        _differences(ACCOUNTS, "Known differences in accounting", BOOKS),
        _plays(PLAYS),
        _grants(GRANTS),
        _examples(EXAMPLES),
    ]
    return "".join(parts)


def _options(page: Page) -> str:
    lines = [f"\n## {page.name}\n", "| option | | variable | what it does |", "|---|---|---|---|"]
    for option in sorted(page.options, key=lambda o: (o.name.lower(), o.name)):
        short = f", `-{option.short}`" if option.short else ""
        env = f"`{option.env}`" if option.env else ""
        lines.append(f"| `--{option.name}`{short} | {option.status} | {env} | {cell(meaning(page, option))} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


#: What the differences are of.
PLAIN = "Differences in the output of the same command lines on Slurm 22.05 and on Penstock."
BOOKS = (
    "The same of sacctmgr, sacct, sreport and sshare, on a Slurm with slurmdbd and MariaDB. A line is run with what the\n"
    "lines before it have left."
)


def _differences(path: Path, title: str, about: str) -> str:
    if not path.exists():
        return ""
    known = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons: dict[str, set[str]] = {}
    for one in (*known["rule"], *known["known"]):
        reasons.setdefault(one["reason"], set()).update(
            name for name in NAMES if re.search(rf"(?<![a-z]){name}(?![a-z])", one.get("command", ""))
        )
    lines = [
        f"\n## {title}\n",
        f"{about}\n",
    ]
    lines += ["| commands | difference and reason |", "|---|---|"]
    lines += [f"| {', '.join(n for n in NAMES if n in reasons[text]) or 'all'} | {cell(text)} |" for text in reasons]
    return "\n".join(lines) + "\n"


def _plays(folder: Path) -> str:
    if not folder.exists():
        return ""
    known = tomllib.loads((folder / "known.toml").read_text(encoding="utf-8"))["play"]
    recorded = json.loads((folder / "recorded.json").read_text(encoding="utf-8"))
    lines = [
        "\n## What happens over time\n",
        f"In {len(recorded)} plays, {sum(map(len, recorded.values()))} commands in all, jobs are submitted, awaited, changed\n"
        "and signalled on Slurm 22.05 and on Penstock. Compared are states, messages, exit codes and the output of jobs.\n"
        "Intended differences, and peculiarities of 22.05:\n",
    ]
    return "\n".join([*lines, *(f"- {cell(one['reason'])}" for one in known)]) + "\n"


def _grants(path: Path) -> str:
    if not path.exists():
        return ""
    known = tomllib.loads(path.read_text(encoding="utf-8"))
    lines = ["\n## What jobs get\n"]
    lines.append(
        "The same requests were submitted to Slurm 22.05 and to Penstock: resource options generated from a grammar, and srun\n"
        "steps in such jobs. The comparison covers whether a request is refused, waits or runs; the nodes, with their CPUs,\n"
        "memory and GPUs; the variables of the script; and the ranks on each node. Of 1,500 recorded jobs at least 95 % get the\n"
        "same, of 500 steps at least 95 %. A request that both refuse counts as the same; both then report the same error\n"
        "for at least 94 % of such jobs and 85 % of such steps. Intended differences, and peculiarities of 22.05:\n"
    )
    lines += ["| what | difference and reason |", "|---|---|"]
    lines += [f"| {cell(one['family'])} | {cell(one['reason'])}{_mended(one)} |" for one in known["known"]]
    lines += [f"| messages and variables | {cell(one['reason'])} |" for one in known["rule"]]
    return "\n".join(lines) + "\n"


def _examples(path: Path) -> str:
    tried: dict[str, list[tuple[str, str]]] = tomllib.loads(path.read_text(encoding="utf-8"))
    same = sum(not differs for lines in tried.values() for _, differs in lines)
    lines = ["\n## Examples of the manual pages\n"]
    lines.append(
        f"The command lines of the examples in the manual pages of Slurm 26.05 are played on a cluster of eight nodes by\n"
        f"tests/clients/test_examples.py, with its names, and with shorter times and other programs where the page's are\n"
        f"not there: {same} of {sum(map(len, tried.values()))} behave as the page shows without any remark.\n"
    )
    lines += ["| page | example | what differs |", "|---|---|---|"]
    lines += [
        f"| {name} | `{cell(line)}` | {cell(differs)} |" for name, found in tried.items() for line, differs in found
    ]
    return "\n".join(lines) + "\n"


def _mended(one: dict[str, str]) -> str:
    return f" Fixed in Slurm {one['since']}." if one.get("since") else ""
