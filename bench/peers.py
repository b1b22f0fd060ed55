"""An array of `true` on Penstock and on its peers, in turns in one run: Slurm (bench/slurmpeer.py) and HyperQueue.

    python -m bench peers

HyperQueue is a scheduler of tasks inside one user's allocation, without durability, accounts or users: what a start of a
process costs without them. `make peer-tools` installs it, for this comparison alone, in an environment of its own.
A peer that cannot run here is left out, with the reason.
"""

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import cluster, slurmpeer
from bench.local import private_cluster
from bench.measure import CannotMeasure, run

ROOT = Path(__file__).parents[1]
HYPERQUEUE = ROOT / ".venv" / "hyperqueue" / "bin" / "python"
LOAD = Path(__file__).with_name("hqload.py")

Turn = Callable[[], float]  # one array; tasks per second


class PeerFigures(NamedTuple):
    """Rates by name, and why other peers have none."""

    medians: dict[str, float]
    runs: dict[str, list[float]]
    reasons: dict[str, str]


def measure(tasks: int, turns: int, cpus: int) -> PeerFigures:
    """Each of them starts one array in each turn. Raises CannotMeasure for ours only."""
    sides: dict[str, Turn] = {}
    reasons: dict[str, str] = {}
    with ExitStack() as stack:
        local = stack.enter_context(private_cluster(1, cpus))
        cluster.run_array(local, cluster.WARM_UP_TASKS)
        sides["penstock"] = lambda: cluster.run_array(local, tasks)
        for name, prepare in (("slurm", _slurm), ("hyperqueue", hyperqueue_turn)):
            try:
                sides[name] = prepare(stack, tasks, cpus)
            except CannotMeasure as error:
                reasons[name] = str(error)
        runs = by_turns(sides, turns, reasons)
    return PeerFigures({name: statistics.median(found) for name, found in runs.items()}, runs, reasons)


def by_turns(sides: dict[str, Turn], turns: int, reasons: dict[str, str]) -> dict[str, list[float]]:
    """The rates of all sides. A peer that fails has none, and a reason; if ours fails, the part does."""
    runs: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name in list(runs):
            try:
                runs[name].append(sides[name]())
            except CannotMeasure as error:
                if name == "penstock":
                    raise
                reasons[name] = str(error)
                del runs[name]
    return runs


def _slurm(stack: ExitStack, tasks: int, cpus: int) -> Turn:
    env = stack.enter_context(slurmpeer.private_slurm(cpus))
    slurmpeer.run_array(env, slurmpeer.WARM_UP_TASKS)
    return lambda: slurmpeer.run_array(env, tasks)


def hyperqueue_turn(_stack: ExitStack, tasks: int, cpus: int) -> Turn:
    """A process a turn: it starts its own server. Raises CannotMeasure."""
    if not HYPERQUEUE.exists():
        raise CannotMeasure("HyperQueue is not installed for the benchmarks: run `make peer-tools`")
    return lambda: float(run([str(HYPERQUEUE), str(LOAD), str(tasks), str(cpus)]).split()[-1])
