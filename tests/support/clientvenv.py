"""Virtual environments with third-party programs, created by `make client-tools`; a test that needs one fails without
it.

PENSTOCK_CLIENT_TOOLS names their folder (default: .venv/clients of this checkout). One environment a file in
tests/clients/requirements, as some of them need different releases of the same library.
"""

import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "clients" / "cases"
FOLDER = Path(os.environ.get("PENSTOCK_CLIENT_TOOLS") or ROOT / ".venv" / "clients")
#: The group of cases that need only Python.
STANDARD_LIBRARY = "none"


def group_of(case: Path) -> str:
    """The environment that a case names after `# requires:`."""
    found = re.search(r"^# requires: *(\S+)$", case.read_text(), re.M)
    assert found, f"{case} does not say what it requires"
    return found.group(1)


def python_of(group: str) -> Path:
    """The interpreter of an environment; fails the test when it does not exist."""
    if group == STANDARD_LIBRARY:
        return Path(sys.executable)
    if not (FOLDER / group / ".done").exists():
        pytest.fail(
            f"no {group} in {FOLDER}: `make client-tools` installs it from the package index (no index, no test)",
            pytrace=False,
        )
    return FOLDER / group / "bin" / "python"
