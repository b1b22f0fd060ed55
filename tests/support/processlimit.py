"""Full process tables: a control group in which processes, and what they start, may start nothing more."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodedaemon.base import proctree
from nodedaemon.cgroups import find

ROOT = Path("/sys/fs/cgroup/pids")


class ProcessLimit:
    """The group. `fill` leaves no room for a process or thread, `free` gives it back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, pid: int) -> None:
        """Moves a process and its descendants into the group, also those that are started or end meanwhile."""
        tried: set[int] = set()
        while new := {pid, *proctree.descendants(pid)} - tried:
            tried |= new
            for each in new:
                with suppress(ProcessLookupError):
                    (self._path / "cgroup.procs").write_text(str(each))

    def entering(self, words: list[str]) -> list[str]:
        """Returns a command that is the group's only member before it executes those words."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._path / "cgroup.procs"), *words]

    def fill(self) -> None:
        """Leaves no room."""
        (self._path / "pids.max").write_text("1")

    def free(self) -> None:
        """Leaves all the room that there is."""
        (self._path / "pids.max").write_text("max")

    def members(self) -> list[str]:
        """Pids in the group."""
        return (self._path / "cgroup.procs").read_text().split()


@contextmanager
def process_limit(folder: Path) -> Iterator[ProcessLimit]:
    """A group of its own; its members are moved out at the end. Skips the test where no v1 group can be made."""
    found = find.detect("look", str(folder))
    find.remove_subtree(found)
    if found.kind != "v1" or not found.can("pids"):
        pytest.skip("no v1 control groups of pids")
    path = ROOT / f"penstock-test-{os.getpid()}"
    path.mkdir()
    limit = ProcessLimit(path)
    try:
        yield limit
    finally:
        limit.free()
        while pids := limit.members():
            for pid in pids:
                with suppress(ProcessLookupError):
                    (ROOT / "cgroup.procs").write_text(pid)
        path.rmdir()
