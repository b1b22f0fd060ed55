"""`penstock sim worlds`: runs fault worlds, and prints how to reproduce each failure."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click

from penstock.commandline import CommandLine, Converted, invoke
from penstock.values.errors import BadValue
from sim.checkers import Broken
from sim.world import STEPS, SimWorld

STORY_LINES = 40
#: The most worlds in one call, each of which takes a fraction of a second.
SEEDS_MAX = 1_000_000


class WorldOutcome(NamedTuple):
    """The outcome of a seed. `report` "" = no violation."""

    digest: str
    report: str
    processes: int
    story: list[str]


def play(seed: int, steps: int) -> WorldOutcome:
    """Run one world."""
    world = SimWorld(seed, steps)
    try:
        digest = world.run()
    except Broken as broken:
        return WorldOutcome("", _report(world, broken), len(world.checkers.launched), world.timeline.story(last=10**9))
    return WorldOutcome(digest, "", len(world.checkers.launched), world.timeline.story(last=10**9))


def _report(world: SimWorld, broken: Broken) -> str:
    options = world.options
    ids = (broken.job_id,) if broken.job_id else ()
    return "\n".join(
        [
            f"seed {options.seed}: {broken}",
            f"commit: {_commit()}",
            options.text(),
            f"run it again: penstock sim worlds --seed {options.seed} --steps {options.steps} --verbose",
            f"the last lines{f' about job {broken.job_id} and the cluster' if ids else ''}, in seconds:",
            *world.timeline.story(ids, STORY_LINES),
        ]
    )


def _commit() -> str:
    """The commit of the sources, if they are a checkout."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "not known (no git here)"
    return answer.stdout.strip() or "not known (not a checkout)"


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        raise BadValue(f"{text!r} is not a range of seeds such as 1-200")
    seeds = range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise BadValue(f"{text!r} holds {len(seeds)} seeds; between 1 and {SEEDS_MAX} can be run")
    return seeds


@click.command(
    "worlds",
    cls=CommandLine,
    wrong_use=2,
    help="Run fault worlds, and print how to reproduce each failure. Exit status: 1 a seed has failed.",
    examples=(
        ("penstock sim worlds --seeds 1-50", "fifty of them"),
        ("penstock sim worlds --seed 24 --steps 60 --verbose", "one, with everything that happens"),
    ),
)
@click.option(
    "--seeds", type=Converted("seeds", _seeds), default="1-200", show_default=True, metavar="A-B", help="Which worlds."
)
@click.option("--seed", type=int, metavar="N", help="One world only.")
@click.option("--steps", type=int, default=STEPS, show_default=True, metavar="N", help="Actions and faults in each.")
@click.option("--verbose", is_flag=True, help="Print everything that happens.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, and nothing else.")
def command(seeds: range, seed: int | None, steps: int, verbose: bool, as_json: bool) -> int:
    """Run them one after the other."""
    worlds = seeds if seed is None else range(seed, seed + 1)
    failed: dict[int, str] = {}
    digests: dict[int, str] = {}
    processes, begun = 0, time.perf_counter()
    for number, one in enumerate(worlds, 1):
        outcome = play(one, steps)
        processes += outcome.processes
        if verbose and not as_json:
            _say("\n".join(outcome.story))
        if outcome.report:
            failed[one] = outcome.report
        else:
            digests[one] = outcome.digest
        if not as_json and (outcome.report or seed is not None):
            _say(outcome.report or f"seed {one}: digest {outcome.digest}")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number} of {len(worlds)} worlds, {len(failed)} failed ")
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    if as_json:
        _say(json.dumps({"worlds": len(worlds), "processes": processes, "failed": failed, "digests": digests}))
    else:
        spent_s = time.perf_counter() - begun
        _say(f"{len(worlds)} worlds, {processes} processes, {spent_s:.1f} s: {_verdict(list(failed))}")
    return 1 if failed else 0


def main(argv: list[str]) -> int:
    """Run `penstock sim worlds ...`; its status."""
    return invoke(command, "penstock sim worlds", argv)


def _verdict(failed: list[int]) -> str:
    return f"these seeds failed: {', '.join(map(str, failed))}" if failed else "all oracles content"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
