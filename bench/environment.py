"""Selects the interpreter of the benchmarks: an optimised one, if the machine has one.

    python -m bench.environment [PYTHON]

Prints the interpreter from which `make bench` makes the environment .venv/bench, or nothing where the environment
that runs this will do. PYTHON is used regardless of its build. Each report names the build (penstock.interpreter).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.interpreter import running_build

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv" / "bench"
#: As tools/prerequisites.sh looks for them.
NAMES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
FOLDERS = ("/usr/bin", "/usr/local/bin")
PROBE_LIMIT_S = 20
#: Prints an interpreter's real path if it can make an environment, and how it was built.
PROBE = """\
import ensurepip, os, sys, sysconfig, venv
sys.path.insert(0, sys.argv[1])
assert sys.version_info >= (3, 11) and os.path.exists(sysconfig.get_path("include") + "/Python.h")
from penstock.interpreter import running_build
build = running_build()
print(build.path, build.is_optimised)
"""


def chosen(asked: str, running: str, is_optimised: bool, others: Iterable[str]) -> str:
    """The interpreter for an environment of the benchmarks' own; "" for the running one. `others` are optimised."""
    if asked:
        return "" if asked == running else asked
    return "" if is_optimised else next(iter(others), "")


def optimised() -> Iterator[str]:
    """Optimised interpreters of this machine that can make an environment, by their real paths."""
    folders = [*os.environ.get("PATH", "").split(":"), *FOLDERS]
    found = (shutil.which(name, path=folder) for name in NAMES for folder in folders if folder)
    for path in dict.fromkeys(filter(None, found)):
        real, _, is_optimised = probe(path).rpartition(" ")
        if is_optimised == "True":
            yield real


def probe(python: str) -> str:
    """What PROBE prints; "" for an interpreter that cannot be used."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE, str(ROOT)], capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def forget_other(environment: Path, python: str) -> None:
    """Removes an environment that was made from another interpreter."""
    settings = environment / "pyvenv.cfg"
    if settings.exists() and f"executable = {python}" not in settings.read_text().splitlines():
        shutil.rmtree(environment)


def main(words: list[str]) -> int:
    """Prints the choice."""
    asked = words[0] if words else ""
    if asked and not (real := probe(asked).rpartition(" ")[0]):
        print(f"{asked}: not a Python 3.11 or newer with venv and headers", file=sys.stderr)
        return 1
    build = running_build()
    python = chosen(real if asked else "", build.path, build.is_optimised, optimised())
    if python:
        forget_other(ENVIRONMENT, python)
    elif not (asked or build.is_optimised):
        print(f"bench: {build.text()}: no optimised python3 with venv and headers is here", file=sys.stderr)
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
