"""What the tests of a run cost: a table by folder, and the dearest tests.

`wall_s` is what a test and its fixtures lasted, as pytest reports it; `cpu_s` is the processor time of its worker and of the
processes that ended and were waited for meanwhile. Daemons that a warm process forked (tests/support/warmstart.py) count in
`wall_s` only.
A fixture of a module or a session counts for the test that wanted it first.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from tools.testgate.verdict import folder

DEAREST = 40
#: A run that is shorter prints no table.
SHOWN_FROM_WALL_S = 120.0


class Cost(NamedTuple):
    """Of a test, or of several."""

    wall_s: float
    cpu_s: float


def used_s() -> float:
    """The processor time of this process and of those it has waited for."""
    times = os.times()
    return sum(times[:4])


def added(costs: list[Cost]) -> Cost:
    return Cost(sum(one.wall_s for one in costs), sum(one.cpu_s for one in costs))


def table(costs: Mapping[str, Cost]) -> list[str]:
    """By folder, then the dearest tests; those that wait for long are dear, too."""
    folders: dict[str, list[Cost]] = defaultdict(list)
    for name, cost in costs.items():
        folders[folder(name) or "others"].append(cost)
    rows = [(name, len(found), added(found)) for name, found in folders.items()]
    rows.sort(key=lambda row: -row[2].wall_s)
    rows.append(("all", len(costs), added(list(costs.values()))))
    said = [f"{'folder':<12}{'tests':>7}{'wall s':>9}{'cpu s':>9}"]
    said += [f"{name:<12}{count:>7}{cost.wall_s:>9.1f}{cost.cpu_s:>9.1f}" for name, count, cost in rows]
    said += ["", f"{'wall s':>7}{'cpu s':>9}  the {DEAREST} dearest tests"]
    dearest = sorted(costs.items(), key=lambda item: -item[1].wall_s)[:DEAREST]
    return said + [f"{cost.wall_s:>7.1f}{cost.cpu_s:>9.1f}  {name}" for name, cost in dearest]
