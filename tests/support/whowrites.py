"""Who writes to the files of users, of the processes that get its environment (whowrites.c).

notes = WhoWrites(tmp_path / "notes")
cluster.start(**notes.env())
...
assert notes.of_root() == []
"""

from pathlib import Path
from typing import NamedTuple, TypedDict

from clibrary import built

SOURCE = Path(__file__).with_name("whowrites.c")
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")


class Env(TypedDict):
    """The environment of a process that is watched."""

    LD_PRELOAD: str
    WHOWRITES_LOG: str


class NotedWrite(NamedTuple):
    """One call: the uid by which the kernel judges it, and that of the file, or of its folder."""

    call: str
    fsuid: int
    owner: int
    path: str


class WhoWrites:
    """`log`: a file, which is made; every user may append to it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        log.touch()
        log.chmod(0o666)

    def env(self) -> Env:
        """The environment of a process that is watched."""
        return {"LD_PRELOAD": str(built(SOURCE, FLAGS, "libwhowrites.so")), "WHOWRITES_LOG": str(self._log)}

    def all(self) -> list[NotedWrite]:
        """The calls on what is not root's."""
        rows = (line.split(" ", 3) for line in self._log.read_text().splitlines())
        return [NotedWrite(call, int(fsuid), int(owner), path) for call, fsuid, owner, path in rows]

    def of_root(self) -> list[NotedWrite]:
        """Those that root's rights allowed."""
        return [one for one in self.all() if one.fsuid == 0]
