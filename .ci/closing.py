"""pytest's closing lines of several runs as one: `python3 .ci/closing.py NAME=LOG...` prints them and, last, their sum.

A log without such a line is a run that never came to its tests; it counts as an error and is named. The status is 1 if
anything failed.
"""

import collections
import re
import sys

LINE = re.compile(r"^=*\s*((?:no tests ran|\d+ [a-z]+)(?:, \d+ [a-z]+)*) in ([0-9.]+)s\b.*$")
#: In pytest's own order.
WORDS = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors", "rerun")
PLURALS = {"warning": "warnings", "error": "errors"}


def closing(log: str) -> tuple[dict[str, int], float] | None:
    """The counts and seconds of a log's last closing line; None = it has none."""
    found = [match for match in map(LINE.match, log.splitlines()) if match]
    if not found:
        return None
    counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", found[-1][1])}
    return {PLURALS.get(word, word): number for word, number in counts.items()}, float(found[-1][2])


def total(logs: dict[str, str]) -> tuple[str, int]:
    """The line for all logs, and 1 if something in it is not well."""
    counts: collections.Counter[str] = collections.Counter()
    seconds = 0.0
    missing = []
    for name, log in logs.items():
        found = closing(log)
        if found is None:
            missing.append(name)
            counts["errors"] += 1
            continue
        counts.update(found[0])
        seconds += found[1]
    words = [*WORDS, *sorted(counts.keys() - set(WORDS))]
    said = ", ".join(f"{counts[word]} {word}" for word in words if counts[word]) or "no tests ran"
    more = f" ({', '.join(missing)}: pytest did not run, see above)" if missing else ""
    return f"{said} in {seconds:.2f}s{more}", int(bool(counts["failed"] or counts["errors"]))


if __name__ == "__main__":
    read = {}
    for argument in sys.argv[1:]:
        run, _, path = argument.partition("=")
        with open(path, encoding="utf-8", errors="replace") as file:
            read[run] = file.read()
    line, status = total(read)
    for run, log in read.items() if len(read) > 1 else ():
        print(f"{run}: {total({run: log})[0]}")
    print(line)
    sys.exit(status)
