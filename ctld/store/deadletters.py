"""Events that a receiver did not take: a bounded file in the state folder, which `penstock db dead-letters` prints.

A line is JSON. At FILE_BYTES_MAX the file becomes `.1`, in place of the one before: the last events are kept, at most
twice that size. A line that a full disk or a crash has truncated is no letter, and ends before the next one begins.
"""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "deadletters.jsonl"
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


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
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data
            if os.write(fd, data) < len(data):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        finally:
            os.close(fd)


def dead_letters(state_folder: Path) -> Iterator[DeadLetter]:
    """Yields those in the files, the oldest first. Raises OSError."""
    path = state_folder / FILE_NAME
    for one in (_older(path), path):
        if not one.exists():
            continue
        with one.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if (letter := _parsed(line)) is not None:
                    yield letter


def _parsed(line: str) -> DeadLetter | None:
    try:
        return DeadLetter(**json.loads(line))
    except (ValueError, TypeError):  # truncated
        return None


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")
