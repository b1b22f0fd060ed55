"""`penstock sim worlds`: run fault worlds, and say of each that fails what is needed to look at it again."""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from sim.checkers import Broken
from sim.world import STEPS, World

STORY_LINES = 40
#: Each world is a fraction of a second; more than this in one call is a slip of the pen.
SEEDS_MAX = 1_000_000


class Outcome(NamedTuple):
    """What became of a seed. `report` "" = every oracle was content."""

    digest: str
    report: str
    processes: int
    story: list[str]


def play(seed: int, steps: int) -> Outcome:
    """Run one world."""
    world = World(seed, steps)
    try:
        digest = world.run()
    except Broken as broken:
        return Outcome("", _report(world, broken), len(world.checkers.launched), world.timeline.story(last=10**9))
    return Outcome(digest, "", len(world.checkers.launched), world.timeline.story(last=10**9))


def _report(world: World, broken: Broken) -> str:
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds such as 1-200")
    seeds = range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} holds {len(seeds)} seeds; between 1 and {SEEDS_MAX} can be run")
    return seeds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("penstock sim worlds", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(1, 201), metavar="A-B", help="which worlds (1-200)")
    parser.add_argument("--seed", type=int, metavar="N", help="one world only")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"deeds and faults in each ({STEPS})")
    parser.add_argument("--verbose", action="store_true", help="print everything that happens")
    return parser


def main(argv: list[str]) -> int:
    """The command. Exit status 1: a seed has failed."""
    args = _parser().parse_args(argv)
    seeds = args.seeds if args.seed is None else range(args.seed, args.seed + 1)
    failed, processes, begun = [], 0, time.perf_counter()
    for number, seed in enumerate(seeds, 1):
        outcome = play(seed, args.steps)
        processes += outcome.processes
        if args.verbose:
            _say("\n".join(outcome.story))
        if outcome.report:
            failed.append(seed)
            _say(outcome.report)
        elif args.seed is not None:
            _say(f"seed {seed}: digest {outcome.digest}")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number} of {len(seeds)} worlds, {len(failed)} failed ")
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    _say(f"{len(seeds)} worlds, {processes} processes, {time.perf_counter() - begun:.1f} s: {_verdict(failed)}")
    return 1 if failed else 0


def _verdict(failed: list[int]) -> str:
    return f"these seeds failed: {', '.join(map(str, failed))}" if failed else "all oracles content"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
