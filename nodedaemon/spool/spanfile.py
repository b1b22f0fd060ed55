"""The file of a step's place in a trace, in its folder: written by noded at the launch of a traced step, read by a later noded.

Not synced: a step does not outlive a loss of power.
"""

import os
from typing import Final

NAME: Final = "span"
_READ_BYTES_MAX: Final = 64


def write_span(steps_fd: int, folder: str, span: bytes) -> None:
    """Writes the ids of a step. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(f"{folder}/{NAME}", flags, 0o600, dir_fd=steps_fd), "wb") as file:
        file.write(span)


def read_span(steps_fd: int, folder: str) -> bytes:
    """The ids of a step; empty where it has none."""
    try:
        fd = os.open(f"{folder}/{NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=steps_fd)
    except OSError:
        return b""
    with open(fd, "rb") as file:
        return file.read(_READ_BYTES_MAX)
