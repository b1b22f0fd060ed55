"""See the package. Usage: python -m differential.grants [compare [SEED [COUNT]] | record | ours [PATTERN]]

compare  both sides, live, with a new seed (or SEED); prints what differs and has no reason
record   Slurm alone: writes recorded.json (SEED, COUNT and STEPS below)
ours     Penstock alone, against recorded.json
"""

import re
import sys
import threading
import time
from collections import Counter

from differential.grants import grammar, recorded
from differential.grants.answers import of_raw
from differential.grants.compared import Count, compare
from differential.grants.judge import read_known
from differential.grants.ours import Ours
from differential.grants.recorded import Record
from differential.grants.slurm import Reference

SEED, COUNT, STEPS = 14, 1500, 500
#: Live, by default: some three minutes.
LIVE_COUNT, LIVE_STEPS = 300, 100
#: Private Slurms that are asked side by side: most of an answer is waiting.
CLUSTERS = 4

Wish = tuple[str, tuple[str, ...]]


def wishes(seed: int, count: int, steps: int) -> list[Wish]:
    """Requests, and jobs with steps."""
    found: list[Wish] = [(line, tuple(lines)) for line, lines in grammar.steps(seed, steps)]
    return found + [(line, ()) for line in grammar.requests(seed, count)]


def answers_of_slurm(wanted: list[Wish]) -> list[Record]:
    """What Slurm says to each, in their order."""
    found: dict[int, Record] = {}
    failed: list[BaseException] = []

    def ask(part: int) -> None:
        try:
            with Reference() as slurm:
                for place in range(part, len(wanted), CLUSTERS):
                    line, steps = wanted[place]
                    raw = slurm.steps(line, list(steps)) if steps else slurm.job(line)
                    found[place] = Record(line, steps, *of_raw(*raw))
        except BaseException as error:  # shown by the thread that waits
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(part,)) for part in range(CLUSTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[place] for place in range(len(wanted))]


def compared(records: list[Record]) -> tuple[Count, Count]:
    """Penstock's answers against these."""
    ours = Ours()
    try:
        return compare(records, lambda one: ours.ask(one.line, one.steps), read_known())
    finally:
        ours.close()


def show(what: str, count: Count) -> None:
    families = Counter(one.family or "(no reason)" for one in count.differences)
    print(f"{what}: {count.total} asked, {count.equal():.1f} % get the same")
    print(
        f"    {count.nothing} get nothing on both sides, {count.same_words():.1f} % of them with the same first complaint"
    )
    for family, number in families.most_common():
        print(f"    {number:4} {family}")


def main() -> int:
    what, *more = sys.argv[1:] or ["compare"]
    if what == "record":
        recorded.write(answers_of_slurm(wishes(SEED, COUNT, STEPS)))
        return 0
    if what == "ours":
        pattern = re.compile(more[0] if more else "")
        records = [one for one in recorded.read() if pattern.search(one.line)]
    else:
        seed = int(more[0]) if more else int(time.time())
        count = int(more[1]) if len(more) > 1 else LIVE_COUNT
        print(f"seed {seed}", flush=True)
        records = answers_of_slurm(wishes(seed, count, LIVE_STEPS))
    counts = compared(records)
    for one in (*counts[0].unexplained(), *counts[1].unexplained()):
        print(one)
    for name, count_of in zip(("jobs", "steps"), counts, strict=True):
        show(name, count_of)
    return 1 if any(one.unexplained() for one in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
