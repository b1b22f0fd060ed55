"""One comparison of command lines: a folder with the lines and what Slurm answered to them, and the two sides that answer them.

FOLDER/commands/*.txt, recorded.json (Slurm's answers), known.toml (differences with a reason), open.txt (a debt that may only shrink).

    python -m PACKAGE [compare | record | ours | open] [PATTERN]

compare  both sides; prints what differs and is not known, exit status 1 if there is any
record   Slurm alone: writes recorded.json
ours     Penstock alone, against recorded.json
open     the same; writes open.txt
PATTERN  only lines in which this regular expression is found (compare and ours)
"""

import difflib
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from differential import lines, shape
from differential.judge import PROSE, Known, known
from differential.normal import normal
from differential.peers import Answer, Ours, Side, Slurm

SLOW_S = 3.0
SHOWN_LINES = 12


class Comparison(NamedTuple):
    """The lines of a folder, and who answers them."""

    folder: Path
    slurm: type[Slurm]
    ours: type[Ours]

    def lines(self) -> list[str]:
        """All command lines, in their order."""
        return lines.lines(self.folder / "commands")

    def known(self) -> Known:
        """Differences that have a reason."""
        return known(self.folder / "known.toml")

    def open_lines(self) -> set[str]:
        """Lines that still differ without a reason."""
        return set((self.folder / "open.txt").read_text().splitlines())

    def recorded(self) -> dict[str, Answer]:
        """What Slurm answered when it was asked."""
        kept = json.loads((self.folder / "recorded.json").read_text())
        return {line: Answer(*answer) for line, answer in kept.items()}

    def record(self) -> None:
        """Asks Slurm and writes recorded.json: facts, not texts."""
        answers = ask(self.slurm, self.lines())
        kept = {line: [a.status, "", ""] if PROSE.search(line) else list(a) for line, a in answers.items()}
        (self.folder / "recorded.json").write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")

    def new_differences(self) -> dict[str, tuple[Answer, Answer]]:
        """Slurm's recorded answer and ours, where they differ and neither a reason nor a debt is known."""
        slurm, debts = self.recorded(), self.open_lines()
        chosen = [line for line in self.lines() if line in slurm]
        ours = ask(self.ours, chosen)
        judge = self.known().judge
        return {
            line: (slurm[line], ours[line])
            for line in chosen
            if line not in debts and not judge(line, slurm[line], ours[line])
        }


def ask(kind: type[Slurm] | type[Ours], chosen: Iterable[str]) -> dict[str, Answer]:
    """What one side answers to each line."""
    # Recorded columns are padded after the folder's name, so it is as long wherever temporary files are.
    work = Path(tempfile.mkdtemp(prefix="differential-", dir="/tmp"))
    work.chmod(0o777)
    try:
        with kind(work) as side:
            return {line: told(side, line) for line in chosen}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def told(side: Side, line: str) -> Answer:
    """One line's answer, normalised."""
    began = time.monotonic()
    answer = side.run(shape.words_of(line, side.ids))
    if time.monotonic() - began > SLOW_S:
        sys.stderr.write(f"{line}: {time.monotonic() - began:.1f} s\n")
    return Answer(answer.status, normal(answer.out, side.paths), normal(answer.err, side.paths))


def show(line: str, slurm: Answer, ours: Answer) -> None:
    """How the two differ."""
    print(f"$ {line}")
    if slurm.status != ours.status:
        print(f"    exit status: Slurm {slurm.status}, ours {ours.status}")
    for name, theirs, own in (("stdout", slurm.out, ours.out), ("stderr", slurm.err, ours.err)):
        pairs = difflib.unified_diff(theirs.splitlines(), own.splitlines(), lineterm="", n=0)
        found = [text for text in pairs if not text.startswith(("---", "+++", "@@"))]
        for text in found[:SHOWN_LINES]:
            print(f"    {name} {text}")
        if len(found) > SHOWN_LINES:
            print(f"    {name} ... and {len(found) - SHOWN_LINES} more")


def main(comparison: Comparison, arguments: Sequence[str]) -> int:
    """The command line of a comparison."""
    what = arguments[0] if arguments else "compare"
    pattern = re.compile(arguments[1] if len(arguments) > 1 else "")
    if what == "record":
        comparison.record()
        return 0
    chosen = [line for line in comparison.lines() if what == "open" or pattern.search(line)]
    slurm = ask(comparison.slurm, chosen) if what == "compare" else comparison.recorded()
    ours = ask(comparison.ours, chosen)
    judge = comparison.known().judge
    different = [line for line in chosen if line in slurm and not judge(line, slurm[line], ours[line])]
    for line in different:
        show(line, slurm[line], ours[line])
    if what == "open":
        (comparison.folder / "open.txt").write_text("".join(f"{line}\n" for line in different))
    known_open = comparison.open_lines()
    paid = len(known_open & (set(chosen) - set(different)))
    new = len(set(different) - known_open)
    print(f"{len(chosen)} lines, {len(different)} differ ({new} of them are new, {paid} are paid)")
    return 1 if different else 0
