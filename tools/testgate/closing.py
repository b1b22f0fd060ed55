"""The closing lines of a run, and of several runs as those of one:

    python -m tools.testgate.closing [--missing WHAT]... NAME=FOLDER...

A test counts once, by its name: as failed if it failed in a run, else as passed if it passed in one. A run without a result
(its build failed) is named, and the status is 1 then. So is what was not installed, as tests are skipped without it.
"""

import argparse
import json
import sys
from pathlib import Path

from tools.testgate.verdict import FAILED, PASSED, Failure, Verdict

RESULT = "result.json"
OUTCOMES = ("passed", "failed", "skipped")
#: Later outcomes of a name outweigh earlier ones.
WEIGHTS = ("skipped", "passed", "failed")


def counts(outcomes: dict[str, str]) -> str:
    """`9012 passed, 0 failed, 11 skipped`"""
    found = list(outcomes.values())
    return ", ".join(f"{found.count(outcome)} {outcome}" for outcome in OUTCOMES)


def lines(verdict: Verdict) -> list[str]:
    """What is printed last; the count is the last line."""
    said = [f"gate: {problem}" for problem in verdict.problems]
    failed = [name for name, outcome in verdict.outcomes.items() if outcome == "failed"]
    unsteady = sorted({failure.name for failure in verdict.unsteady})
    said += [
        f"{word}: {len(names)}: {', '.join(names)}"
        for word, names in (("failed", failed), ("unsteady", unsteady))
        if names
    ]
    return [*said, counts(verdict.outcomes)]


def save(verdict: Verdict, folder: Path) -> None:
    (folder / RESULT).write_text(json.dumps(verdict._asdict()), encoding="utf-8")


def load(name: str, folder: Path) -> Verdict:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return Verdict(FAILED, {}, (), (f"{name}: no test ran, see above",))
    unsteady = tuple(Failure(*failure) for failure in found["unsteady"])
    return Verdict(found["status"], found["outcomes"], unsteady, tuple(found["problems"]))


def joined(verdicts: list[Verdict]) -> Verdict:
    """Several runs, of the same tests in part, as one."""
    outcomes: dict[str, str] = {}
    for verdict in verdicts:
        for name, outcome in verdict.outcomes.items():
            outcomes[name] = max(outcomes.get(name, WEIGHTS[0]), outcome, key=WEIGHTS.index)
    status = next((verdict.status for verdict in verdicts if verdict.status != PASSED), PASSED)
    return Verdict(
        status,
        outcomes,
        tuple(failure for verdict in verdicts for failure in verdict.unsteady),
        tuple(problem for verdict in verdicts for problem in verdict.problems),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.testgate.closing", description=__doc__)
    parser.add_argument(
        "--missing", action="append", default=[], help="what could not be installed; named before the count"
    )
    parser.add_argument("runs", nargs="+", metavar="NAME=FOLDER")
    given = parser.parse_args()
    runs = {name: load(name, Path(folder)) for name, _, folder in (run.partition("=") for run in given.runs)}
    for name, verdict in runs.items():
        print(f"{name}: {counts(verdict.outcomes)}, {len(verdict.unsteady)} unsteady")
    for missing in given.missing:
        print(f"not installed: {missing}")
    whole = joined(list(runs.values()))
    print("\n".join(lines(whole)))
    return whole.status


if __name__ == "__main__":
    sys.exit(main())
