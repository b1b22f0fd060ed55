"""Draws the life cycles in docs/jobs.md from the controller's tables, or checks that the drawings are current.

The tables are TRANSITIONS in ctld/core/lifecycle/job_life.py and ctld/core/steps/life.py. Each is shown twice, between
markers in the page: as a diagram and as a table, since not every reader sees diagrams. End states that are reached
together are one box.

    python tools/lifecycles.py          write docs/jobs.md
    python tools/lifecycles.py --check  exit 1 when it differs
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ctld.core.lifecycle import job_life  # noqa: E402 (the tree that this file is in, whatever is installed)
from ctld.core.steps import life as step_life  # noqa: E402 (the tree that this file is in, whatever is installed)
from penstock.values.states import END_STATES, JobState  # noqa: E402

PAGE = ROOT / "docs" / "jobs.md"
_Table = Mapping[JobState, frozenset[JobState]]
TABLES: dict[str, _Table] = {"job": job_life.TRANSITIONS, "step": step_life.TRANSITIONS}
#: The box of the end states in a diagram.
BOX = "ended"


def together(table: _Table) -> frozenset[JobState]:
    """The end states reached by every state that reaches more than a few of them."""
    sets = [to & END_STATES for to in table.values()]
    return max(sets, key=len)


def rows(table: _Table) -> list[tuple[str, list[str]]]:
    """Each non-final state with its successors; the box represents all of `together`."""
    box, found = together(table), []
    for state in sorted(table):
        to = table[state]
        if not to:
            continue
        whole = box <= to
        names = [one.name for one in sorted(to) if not (whole and one in box)]
        found.append((state.name, names + ([BOX] if whole else [])))
    return found


def diagram(table: _Table) -> list[str]:
    """A state diagram in Mermaid's language."""
    first = min(table).name
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {state} --> {name}" for state, names in rows(table) for name in names]
    inside = [f"        {state.name}" for state in sorted(together(table))]
    return [*lines, f"    state {BOX} {{", *inside, "    }", "```"]


def listing(table: _Table) -> list[str]:
    """The same as a table; says of end states that they are final where that is so."""
    lines = ["| from | to |", "|---|---|"]
    lines += [f"| {state} | {', '.join(names)} |" for state, names in rows(table)]
    ends = ", ".join(state.name for state in sorted(together(table)))
    final = not any(table[state] for state in together(table))
    return [*lines, "", f"*{BOX}* is any of {ends}." + (" They are final." if final else "")]


def drawn(text: str) -> str:
    """The page with every diagram as generated from the tables."""
    for name, table in TABLES.items():
        start, end = f"<!-- life of a {name}: made by tools/lifecycles.py -->", f"<!-- end of the life of a {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            sys.exit(f"{PAGE}: the marks {start!r} and {end!r} are needed once each")
        body = "\n".join([start, *diagram(table), "", *listing(table), end])
        text = text[: text.index(start)] + body + text[text.index(end) + len(end) :]
    return text


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Draw the life cycles in docs/jobs.md from the core's tables.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    new = drawn(text)
    if check and new != text:
        print(f"{PAGE}: the life cycles are drawn otherwise than the tables; run python tools/lifecycles.py")
        return 1
    if not check:
        PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
