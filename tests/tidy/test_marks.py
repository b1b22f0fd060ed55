"""A test marked `root` runs whenever pytest is root: the conftest turns a skip of it into a failure. This proves that it does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tidytree as tree

SAMPLE = """
import pytest

@pytest.mark.root
def test_runs():
    pass

@pytest.mark.root
@pytest.mark.skipif(True, reason="not today")
def test_skips_itself():
    pass

@pytest.mark.root
def test_skips_inside():
    pytest.skip("no")

@pytest.mark.root
def test_cannot():
    pytest.skip("machine lacks cgroups")

@pytest.mark.realgpu
def test_gpu():
    pass

def test_other():
    pytest.skip("anything")
"""


def outcomes(folder: Path, is_root: bool) -> dict[str, str]:
    """Run the sample under the project's conftest, as root or not."""
    conftest = (tree.ROOT / "tests" / "conftest.py").read_text().replace("os.geteuid() == 0", str(is_root))
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {tree.ROOT / 'tests' / 'support'} {tree.ROOT}\nmarkers =\n    root: r\n    realgpu: g\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("PENSTOCK_REAL_GPU", "PYTEST_ADDOPTS")}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-v",
        "--tb=no",
        "-rN",
        "--color=no",
        str(folder),
    ]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if "::" in line]
    return {words[0].rpartition("::")[2]: words[1] for words in lines}


def test_as_root_a_root_test_may_not_be_skipped(tmp_path: Path) -> None:
    assert outcomes(tmp_path, is_root=True) == {
        "test_runs": "PASSED",
        "test_skips_itself": "ERROR",  # before its body, so pytest calls the failure an error
        "test_skips_inside": "FAILED",
        "test_cannot": "SKIPPED",
        "test_gpu": "SKIPPED",
        "test_other": "SKIPPED",
    }


def test_otherwise_root_tests_are_skipped(tmp_path: Path) -> None:
    found = outcomes(tmp_path, is_root=False)
    assert {name for name, outcome in found.items() if outcome == "SKIPPED"} == set(found)
    assert len(found) == 6


@pytest.mark.root
def test_this_runs_when_root() -> None:
    assert os.geteuid() == 0
