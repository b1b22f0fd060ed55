"""Runs the tests, runs a few that failed again, prints the closing lines; exits with pytest's status or 1."""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.testgate import costs
from tools.testgate.closing import lines, save
from tools.testgate.runs import pytest_run
from tools.testgate.verdict import PytestRun, Verdict, beyond_chance, broken, judge

#: Before the third run: what disturbed the second one has time to end.
PAUSE_S = 20.0
#: A repeat that lasts longer ends between two tests, and the run is red: what waits for long again and again is no chance.
REPEAT_LIMIT_S = 900.0
#: One worker, so that a test that kills its process does not end the run; only what failed in the run before.
AGAIN = ["-n", "1", "--last-failed", "--last-failed-no-failures", "none"]


def run_all(arguments: list[str], workers: str, out: Path, pause_s: float, limit_s: float) -> list[PytestRun]:
    """The first run; then, as long as there are failures that may be chance, a second and a third run of these alone."""
    cache = out / "cache"
    done = [pytest_run(["-n", workers, "--dist", "worksteal", *arguments], out / "run1.json", cache)]
    if beyond_chance(done[0]):
        return done
    for number, wait_s in ((2, 0.0), (3, pause_s)):
        failed = done[-1].failed
        if not failed or broken(done[-1]):
            break
        print(f"\n{len(failed)} failed; run {number}, of {'it' if len(failed) == 1 else 'them'} alone:", flush=True)
        time.sleep(wait_s)
        again = [*AGAIN, f"--session-timeout={limit_s}", *arguments]
        done.append(pytest_run(again, out / f"run{number}.json", cache, repeat=True))
    return done


def show_costs(run: PytestRun, path: Path) -> None:
    """Writes the table of costs, and prints it after a run of minutes."""
    found = {name: costs.Cost(*cost) for name, cost in run.costs.items()}
    text = "\n".join(costs.table(found))
    path.write_text(text + "\n", encoding="utf-8")
    if costs.added(list(found.values())).wall_s > costs.SHOWN_FROM_WALL_S:
        print(f"\n{text}\n", flush=True)


def commit() -> str:
    """The commit that is tested; "" outside a repository."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def note_unsteady(verdict: Verdict, path: Path) -> None:
    """Appends a line for each unsteady test to a file that lasts over runs."""
    if verdict.unsteady:
        tested = commit()
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({**failure._asdict(), "commit": tested}) + "\n" for failure in verdict.unsteady)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.testgate", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("build/gate"), help="folder of records; it is recreated (%(default)s)"
    )
    parser.add_argument("--workers", default="4", help="processes of the first run (%(default)s)")
    parser.add_argument("--pause-s", type=float, default=PAUSE_S, help="seconds before the third run (%(default)s)")
    parser.add_argument(
        "--repeat-limit-s", type=float, default=REPEAT_LIMIT_S, help="seconds of each further run (%(default)s)"
    )
    parser.add_argument("arguments", nargs="*", help="of pytest, after --")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    out = given.out.resolve()
    runs = run_all(given.arguments, given.workers, out, given.pause_s, given.repeat_limit_s)
    show_costs(runs[0], out / "costs.txt")
    verdict = judge(runs)
    save(verdict, out)
    note_unsteady(verdict, out.parent / "unsteady.jsonl")
    print("\n".join(lines(verdict)), flush=True)
    return verdict.status


if __name__ == "__main__":
    sys.exit(main())
