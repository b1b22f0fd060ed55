"""Runs tests many times on a busy machine and prints how often each failed: `make steady TESTS="FILE..."`.

    python -m tools.testgate.steady [--times N] [--at-once N] [--busy N] [TEST...]

Without a name: the files of tests that differ from origin/main, and new ones. Each run is a pytest of its own, one worker;
some are at work at the same time, beside loops that keep the processors busy. The output of a run with failures is kept in
build/steady. The status is 1 if a test failed in any run, 2 if there is nothing to run.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from penstock.threads import started_pool
from tools.testgate.runs import read
from tools.testgate.verdict import PytestRun, broken

TIMES = 30
AT_ONCE = 4
BUSY = 2
BASE = "origin/main"
OUT = Path("build/steady")


def git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.splitlines()


def changed() -> list[str]:
    """The files of tests that differ from BASE, or are not known to git yet."""
    names = {
        *git("diff", "--name-only", "--diff-filter=d", BASE, "--", "tests"),
        *git("ls-files", "-o", "--exclude-standard", "tests"),
    }
    return sorted(name for name in names if Path(name).match("test_*.py"))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that do nothing but take time, for as long as the block lasts."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def one_run(number: int, slots: SimpleQueue[int], slots_count: int, tests: list[str]) -> PytestRun:
    """One pytest on these tests. A slot at a time is given to one run only: with it go ports (tests/support/livecluster.py)."""
    slot = slots.get()
    record, log = OUT / f"{number}.json", OUT / f"{number}.log"
    environment = {**os.environ, "PYTEST_XDIST_WORKER": f"gw{slot}", "PYTEST_XDIST_WORKER_COUNT": str(slots_count)}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-p",
        "tools.testgate.recorder",
    ]
    words += [f"--gate-record={record}", "-m", "not slow", *tests]
    try:
        with log.open("wb") as output:
            done = subprocess.run(words, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    finally:
        slots.put(slot)
    run = read(record, done.returncode)
    if not run.failed and not broken(run):
        log.unlink()
    return run


def report(runs: list[PytestRun]) -> list[str]:
    """What was seen: each test that failed with its rate and how, each run that says nothing, and a count."""
    failed = Counter(name for run in runs for name in run.failed)
    how = {failure.name: failure.line for run in runs for failure in run.failures}
    said = [
        f"{name}: failed {count} of {len(runs)} ({100 * count / len(runs):.0f} %): {how[name]}"
        for name, count in failed.most_common()
    ]
    said += [f"run {number}: {problem}" for number, run in enumerate(runs, 1) for problem in broken(run)]
    tests = {name for run in runs for name in run.outcomes}
    return [*said, f"{len(tests)} tests, {len(runs)} runs, {len(failed)} of the tests failed at least once"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.testgate.steady", description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help="runs (%(default)s)")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="runs at the same time (%(default)s)")
    parser.add_argument("--busy", type=int, default=BUSY, help="loops beside them (%(default)s)")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    given = parser.parse_args()
    try:
        tests = given.tests or changed()
    except subprocess.CalledProcessError as error:
        print(f"steady: what differs from {BASE} is not known ({error.stderr.strip()}); name tests", file=sys.stderr)
        return 2
    if not tests:
        print(f"steady: no test differs from {BASE}; name some", file=sys.stderr)
        return 2
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    slots: SimpleQueue[int] = SimpleQueue()
    for slot in range(given.at_once):
        slots.put(slot)
    with busy(given.busy), started_pool(given.at_once, "steady") as pool:
        runs = list(pool.map(lambda number: one_run(number, slots, given.at_once, tests), range(1, given.times + 1)))
    print("\n".join(report(runs)))
    return int(any(run.failed or broken(run) for run in runs))


if __name__ == "__main__":
    sys.exit(main())
