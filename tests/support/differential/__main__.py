"""See the package. Usage: python -m differential [compare | record | ours | open] [PATTERN]

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
from collections.abc import Iterable
from pathlib import Path

from differential import shape
from differential.judge import OPEN, PROSE, RECORDED, known, open_lines
from differential.lines import lines
from differential.normal import normal
from differential.peers import Answer, Ours, Side, Slurm

SLOW_S = 3.0
SHOWN_LINES = 12


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


def record() -> None:
    """recorded.json: facts, not texts."""
    answers = ask(Slurm, lines())
    kept = {line: [a.status, "", ""] if PROSE.search(line) else list(a) for line, a in answers.items()}
    RECORDED.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")


def recorded() -> dict[str, Answer]:
    """What Slurm answered when it was asked."""
    return {line: Answer(*answer) for line, answer in json.loads(RECORDED.read_text()).items()}


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


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else "compare"
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    if what == "record":
        record()
        return 0
    chosen = [line for line in lines() if what == "open" or pattern.search(line)]
    slurm = ask(Slurm, chosen) if what == "compare" else recorded()
    ours = ask(Ours, chosen)
    judge = known().judge
    different = [line for line in chosen if line in slurm and not judge(line, slurm[line], ours[line])]
    for line in different:
        show(line, slurm[line], ours[line])
    if what == "open":
        OPEN.write_text("".join(f"{line}\n" for line in different))
    known_open = open_lines()
    paid = len(known_open & (set(chosen) - set(different)))
    print(
        f"{len(chosen)} lines, {len(different)} differ ({len(set(different) - known_open)} of them are new, {paid} are paid)"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
