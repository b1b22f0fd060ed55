"""Reads a file whose size has a limit: a wrong path may lead to a log or to a device without an end."""

import errno
import os
from typing import BinaryIO


def read_bounded(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """Returns the content of a file. Raises OSError: EFBIG for more than `bytes_max`."""
    with open(path, "rb") as file:
        return read_all(file, bytes_max)


def read_all(file: BinaryIO, bytes_max: int) -> bytes:
    """Returns what an open file still has. Raises OSError: EFBIG for more than `bytes_max`."""
    data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max} bytes")
    return data
