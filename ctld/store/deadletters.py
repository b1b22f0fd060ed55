"""Events that a receiver did not take: a bounded file in the state folder, which `penstock db dead-letters` prints.

A line is JSON. At FILE_BYTES_MAX the file becomes `.1`, in place of the one before: the last events are kept, at most
twice that size.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "deadletters.jsonl"
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class DeadLetter(NamedTuple):
    """An event that was given up. `sequence` 0: several, which had been deleted before they were sent."""

    at_us: int
    receiver: str
    sequence: int
    kind: str
    why: str
    body: str


class DeadLetters:
    """The file. Belongs to one thread."""

    def __init__(self, state_folder: Path) -> None:
        self._path = state_folder / FILE_NAME

    def add(self, letter: DeadLetter) -> None:
        """Appends one, durably. Raises OSError."""
        data = (json.dumps(letter._asdict()) + "\n").encode()
        if self._path.exists() and self._path.stat().st_size + len(data) > FILE_BYTES_MAX:
            self._path.replace(_older(self._path))
        fd = os.open(self._path, _FLAGS, 0o600)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)


def dead_letters(state_folder: Path) -> Iterator[DeadLetter]:
    """Yields those in the files, the oldest first. Raises OSError."""
    path = state_folder / FILE_NAME
    for one in (_older(path), path):
        if not one.exists():
            continue
        with one.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):  # else a crash has truncated it
                    yield DeadLetter(**json.loads(line))


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")
