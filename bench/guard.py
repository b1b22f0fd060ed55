"""`make bench-guard`: is a change slower than its parent? Both are measured in one session, in turns.

    python -m bench.guard [--base REVISION] [--rounds 5] [PART ...]

The change is this working tree; its parent is built beside it (bench/guardtree.py). One process a tree measures the
parts of bench/guardload.py; the tree that begins alternates from round to round. A figure that looks worse
(bench/compare.py) is measured in as many rounds again and judged by those alone, so that one disturbance is no
verdict. Exit status: 0 nothing is worse, 1 something is worse or could not be measured, 2 wrong use.
"""

import argparse
import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.compare import Comparison, compare, table
from bench.guardload import PARTS
from bench.guardtree import ROOT, git, parent_of_change, parent_tree
from bench.measure import CannotMeasure
from bench.report import machine, write

OUT = Path(__file__).parent / "out" / "guard.json"
ROUNDS = 5
#: Fewer have no interval that excludes noise.
ROUNDS_LEAST = 5
#: One round of one part, the preparation included.
TURN_LIMIT_S = 600
STOP_LIMIT_S = 60

_Turn = Callable[[str], dict[str, float]]  # a part's figures in one tree
Rounds = dict[str, list[tuple[float, float]]]  # parent and change by figure


class Worker:
    """The process that measures one tree."""

    def __init__(self, tree: Path, log: Path) -> None:
        python = sys.executable if tree == ROOT else tree / ".venv" / "bin" / "python"
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", "bench.guardload"], cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors,
            )  # fmt: skip

    def measure(self, part: str) -> dict[str, float]:
        """One round of one part. Raises CannotMeasure."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{part}\n".encode())
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], TURN_LIMIT_S)[0]:
            raise CannotMeasure(f"{part}: no answer within {TURN_LIMIT_S} s")
        line = self._process.stdout.readline()
        if not line:
            raise CannotMeasure(f"{part}: the measuring process has ended: {self._log.read_text()[-500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise CannotMeasure(f"{part}: {answer['error']}")
        figures: dict[str, float] = answer["figures"]
        return figures

    def stop(self) -> None:
        """Ends the process, which stops its clusters."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def workers(base: str) -> Iterator[tuple[_Turn, _Turn]]:
    """The parent's turn and the change's."""
    with parent_tree(base) as tree:
        shutil.copyfile(ROOT / "bench" / "guardload.py", tree / "bench" / "guardload.py")
        running: list[Worker] = []
        try:
            for place in (tree, ROOT):
                running.append(Worker(place, tree.parent / f"{len(running)}.log"))
            yield running[0].measure, running[1].measure
        finally:
            for worker in running:
                worker.stop()


def take_turns(parent: _Turn, change: _Turn, part: str, rounds: int) -> Rounds:
    """Measures both sides so often. Figures that only one side has are left out."""
    found: Rounds = {}
    for number in range(rounds):
        order = (parent, change) if number % 2 == 0 else (change, parent)
        figures = {side: side(part) for side in order}
        for name in figures[change].keys() & figures[parent].keys():
            found.setdefault(name, []).append((figures[parent][name], figures[change][name]))
    return {name: found[name] for name in sorted(found)}


def judge(parent: _Turn, change: _Turn, part: str, rounds: int) -> list[Comparison]:
    """A part's figures; those that look worse are judged by a second series of rounds."""
    first = [compare(name, pairs) for name, pairs in take_turns(parent, change, part, rounds).items()]
    if not any(one.is_worse for one in first):
        return first
    _say(f"{part}: {', '.join(one.name for one in first if one.is_worse)} again ...", end=" ")
    second = take_turns(parent, change, part, rounds)
    return [compare(one.name, second[one.name]) if one.is_worse else one for one in first]


def guard(parent: _Turn, change: _Turn, parts: list[str], rounds: int) -> tuple[list[Comparison], dict[str, str]]:
    """All figures, and the errors of parts without figures."""
    found: list[Comparison] = []
    reasons: dict[str, str] = {}
    for part in parts:
        began = time.monotonic()
        _say(f"{part} ...", end=" ")
        try:
            found += judge(parent, change, part, rounds)
        except CannotMeasure as error:
            reasons[part] = str(error)
        _say(reasons.get(part) or f"{time.monotonic() - began:.0f} s")
    return found, reasons


def status_of(found: list[Comparison], reasons: dict[str, str]) -> int:
    """The exit status."""
    return 1 if reasons or not found or any(one.is_worse for one in found) else 0


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def main() -> int:
    """Measures, prints, writes; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description="Is this tree slower than its parent?")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--base", default="", help="what to compare with (HEAD^, or HEAD for uncommitted changes)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each tree (%(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes (%(default)s)")
    asked = parser.parse_args()
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if asked.rounds < ROUNDS_LEAST:
        parser.error(f"--rounds must be at least {ROUNDS_LEAST}: fewer have no interval")
    about = machine()
    try:
        base = asked.base or parent_of_change()
        about["base"] = git("rev-parse", "--short", base)
        _say(f"building the parent {about['base']} ...")
        with workers(base) as (parent, change):
            found, reasons = guard(parent, change, asked.parts or list(PARTS), asked.rounds)
    except CannotMeasure as error:
        print(f"bench-guard: {error}", file=sys.stderr)
        return 1
    write(asked.out, {"figures": [one._asdict() for one in found], "not_measured": reasons, "machine": about})
    print(f"change against {about['base']}, {asked.rounds} rounds in turns; {about['python_build']}")
    print(table(found))
    for part, why in reasons.items():
        print(f"not measured: {part}: {why}")
    worse = [one.name for one in found if one.is_worse]
    print(f"more than 5 % worse: {', '.join(worse)}" if worse else "nothing is more than 5 % worse")
    return status_of(found, reasons)


if __name__ == "__main__":
    sys.exit(main())
