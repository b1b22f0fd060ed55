"""Virtual environments with MPI libraries and torch, made by `make mpi-tools`; a test that needs one is skipped without.

PENSTOCK_MPI_TOOLS names their folder (default: .venv/mpi of this checkout).
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("PENSTOCK_MPI_TOOLS") or ROOT / ".venv" / "mpi")


def programs_of(group: str) -> Path:
    """The folder of an environment's programs; skips the test when it is not there."""
    if not (FOLDER / group / ".done").exists():
        pytest.skip(f"no {group} in {FOLDER}: `make mpi-tools` installs it")
    return FOLDER / group / "bin"
