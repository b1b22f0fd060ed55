"""A disk that stands still, for the processes that get its environment (stalldisk.c).

disk = StalledDisk(tmp_path / "gate")
cluster.start_controller(**disk.env())
with disk.still():                      # what writes to a file waits; reading goes on
    ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from clibrary import built

SOURCE = Path(__file__).with_name("stalldisk.c")
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")


class Env(TypedDict):
    """The environment of a process that writes to it."""

    LD_PRELOAD: str
    STALLDISK_GATE: str


class StalledDisk:
    """`gate`: the disk stands still while this file exists."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def env(self) -> Env:
        """The environment of a process that writes to it."""
        return {"LD_PRELOAD": str(built(SOURCE, FLAGS, "libstalldisk.so")), "STALLDISK_GATE": str(self._gate)}

    def is_waited_for(self) -> bool:
        """Whether a process has come to wait for it."""
        return self._gate.with_name(self._gate.name + ".waited").exists()

    @contextmanager
    def still(self) -> Iterator[None]:
        """The disk stands still in the block."""
        self._gate.touch()
        try:
            yield
        finally:
            self._gate.unlink()
