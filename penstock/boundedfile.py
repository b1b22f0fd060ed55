"""Reads a file whose size has a limit: a wrong path may lead to a log or to a device without an end."""

import errno
import os
from typing import BinaryIO, Final

#: Read at a time: the memory for what is asked for is taken before the file is found to be shorter.
PART_BYTES: Final = 16 * 1024 * 1024


def read_bounded(path: str | os.PathLike[str] | int, bytes_max: int) -> bytes:
    """Returns the content of a file, or what an open descriptor (a number) still has; of a pipe, when its writers have closed
    it. Raises OSError with the path: EFBIG for more than `bytes_max`."""
    with open(path, "rb") as file:
        return read_all(file, bytes_max, path if isinstance(path, int) else os.fspath(path))


def read_all(file: BinaryIO, bytes_max: int, path: str | int | None = None) -> bytes:
    """Returns what an open file still has. Raises OSError: EFBIG for more than `bytes_max`, with the `path`."""
    parts: list[bytes] = []
    left = bytes_max + 1
    while True:
        asked = min(left, PART_BYTES)
        part = file.read(asked) or b""  # None of a pipe that is not waited for
        parts.append(part)
        left -= len(part)
        if not left:
            raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes", path)
        if len(part) < asked:
            return part if len(parts) == 1 else b"".join(parts)
