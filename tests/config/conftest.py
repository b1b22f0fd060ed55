"""Helpers for tests that write configuration files."""

from collections.abc import Callable
from pathlib import Path

import pytest

BASE = """\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
"""

NODES = "NodeName=n[1-4] CPUs=8 RealMemory=16000\n"
PARTITION = "PartitionName=main Nodes=ALL Default=YES\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes files into a new folder and makes it the current one, so that messages have short names; returns the main
    file's."""
    monkeypatch.chdir(tmp_path)

    def write_files(text: str | bytes, **others: str) -> str:
        data = text.encode() if isinstance(text, str) else text
        (tmp_path / "slurm.conf").write_bytes(data)
        for name, content in others.items():
            (tmp_path / name.replace("_", ".")).write_text(content)
        return "slurm.conf"

    return write_files


@pytest.fixture
def base() -> str:
    """Three lines that every file needs."""
    return BASE


@pytest.fixture
def whole() -> str:
    """A small valid file of five lines; a test's own text begins on line 6."""
    return BASE + NODES + PARTITION
