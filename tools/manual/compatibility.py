"""docs/compatibility.md from the option tables: each option of each command as done, accepted or refused.

What differs between Slurm and Penstock in their output, found by running both, is in known.toml of the differential test
(tests/support/differential) and printed below the options, each difference with its reason.
"""

import tomllib
from pathlib import Path

from cli.options import ACCEPTED, DONE, REFUSED
from tools.manual.surface import ROOT, Page, meaning

KNOWN = ROOT / "tests" / "support" / "differential" / "known.toml"
NAMES = ("sbatch", "salloc", "srun", "squeue", "sinfo", "scontrol", "sacct")
HEAD = """# Compatibility

<!-- Written by `tools/manual` from the option tables of the commands; do not edit. -->

Each option that Slurm has is one of three:

- **done**: it does what Slurm's does. What differs is said beside it.
- **accepted**: it is read, and a wrong value is an error. It has no effect, and one warning says so.
- **refused**: the command says why, and exits with 1. Nothing is silently ignored.

What a running cluster does differently is on the page [For Slurm users](for-slurm-users.md); keys of slurm.conf are on
the page [Configuration](configuration.md).

"""


def compatibility_page(found: list[Page]) -> str:
    """The whole page."""
    parts = [HEAD, "| command | done | accepted | refused |\n|---|---|---|---|\n"]
    found = [page for page in found if page.command.options]
    for page in found:
        counts = [sum(o.standing == standing for o in page.options) for standing in (DONE, ACCEPTED, REFUSED)]
        parts.append(f"| [{page.name}](#{page.name}) | {' | '.join(map(str, counts))} |\n")
    parts += [_options(page) for page in found]
    parts.append(_differences(KNOWN))
    return "".join(parts)


def _options(page: Page) -> str:
    lines = [f"\n## {page.name}\n", "| option | | variable | what it does |", "|---|---|---|---|"]
    for option in sorted(page.options, key=lambda o: (o.name.lower(), o.name)):
        short = f", `-{option.short}`" if option.short else ""
        env = f"`{option.env}`" if option.env else ""
        lines.append(f"| `--{option.name}`{short} | {option.standing} | {env} | {cell(meaning(page, option))} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def _differences(path: Path) -> str:
    if not path.exists():
        return ""
    known = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons: dict[str, set[str]] = {}
    for one in (*known["rule"], *known["known"]):
        reasons.setdefault(one["reason"], set()).update(name for name in NAMES if name in one.get("command", ""))
    lines = ["\n## Known differences\n", "Found by running the same command lines on Slurm 22.05 and on Penstock.\n"]
    lines += ["| commands | what differs, and why |", "|---|---|"]
    lines += [f"| {', '.join(n for n in NAMES if n in reasons[text]) or 'all'} | {cell(text)} |" for text in reasons]
    return "\n".join(lines) + "\n"
