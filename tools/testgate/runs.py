"""Starts pytest with the recorder, and reads what it recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.testgate.verdict import Failure, PytestRun

#: Set to "1" in repeats: tests then wait longer (tests/support/patience.py).
REPEAT = "PENSTOCK_TEST_REPEAT"
#: Without byte code, each pytest would compile its plugins again.
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"


def environment() -> dict[str, str]:
    """What pytest is started with."""
    return {name: value for name, value in os.environ.items() if name != NO_BYTE_CODE}


def pytest_run(arguments: list[str], record: Path, cache: Path, repeat: bool = False) -> PytestRun:
    """One run of pytest in a process of its own, whose output is ours."""
    record.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-p", "tools.testgate.recorder", f"--gate-record={record}"]
    environ = {**environment(), REPEAT: "1" if repeat else "0"}
    done = subprocess.run([*words, "-o", f"cache_dir={cache}", *arguments], env=environ, check=False)
    # A process that a signal ended: the status that a shell would show.
    return read(record, done.returncode if done.returncode >= 0 else 128 - done.returncode)


def read(record: Path, status: int) -> PytestRun:
    """The recorded run; one whose pytest ended before it could write has neither tests nor a good status."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return PytestRun(status or 3, (), {}, (), ())
    failures = tuple(Failure(name, why["line"], why["load"]) for name, why in found["failures"].items())
    costs = {name: (wall_s, cpu_s) for name, (wall_s, cpu_s) in found["costs"].items()}
    return PytestRun(status, tuple(found["collected"]), found["outcomes"], failures, tuple(found["errors"]), costs)
