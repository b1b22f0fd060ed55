"""Which Python `make build` takes (tools/prerequisites.sh), of interpreters that the test makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tidytree as tree
from patience import ANSWER_S

#: An interpreter whose answer to "were you built for production?" is a given exit status.
PYTHON = """#!/bin/sh
[ "$1" != - ] || exit {status}
exec {real} "$@"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with a plain python3 and an optimised python3.14."""
    for name, status in (("python3", 1), ("python3.14", 0)):
        (tmp_path / name).write_text(PYTHON.format(status=status, real=sys.executable))
        (tmp_path / name).chmod(0o755)
    return tmp_path


def taken(machine: Path, *words: str) -> str:
    path = f"{machine}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "tools/prerequisites.sh", *words], cwd=tree.ROOT, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=True, timeout=ANSWER_S,
    )  # fmt: skip
    return done.stdout.strip()


def test_an_optimised_interpreter_goes_before_the_first_one(machine: Path) -> None:
    assert taken(machine) == "python3.14"


def test_the_one_that_is_asked_for_is_taken_whatever_its_build(machine: Path) -> None:
    assert taken(machine, "python3") == "python3"
    assert taken(machine, str(machine / "python3")) == str(machine / "python3")


def test_the_first_of_several_optimised_ones_is_taken(machine: Path) -> None:
    (machine / "python3").write_text((machine / "python3.14").read_text())
    assert taken(machine) == "python3"
