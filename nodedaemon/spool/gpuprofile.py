"""The file of GPU time lines in a step's folder: written by noded (daemon/gpu_profiles.py) after each poll, read by stepd when
the step's profile is asked for, and by a later noded. It is replaced as a whole.
"""

import os

from penstock.values.packing import Damaged, pack, unpack
from penstock.values.timeline import SampleLine

NAME = "gpuprofile"
COLUMNS = 5  # as penstock.values.profile says for GPU
#: Bytes of the lines of one step.
BYTES_MAX = 256 * 1024
_READ_BYTES_MAX = BYTES_MAX * 2


def content(lines: dict[str, SampleLine]) -> bytes:
    """The content of the file, of lines by UUID."""
    return pack([part for uuid, line in lines.items() for part in (uuid.encode(), line.data)])


def read_lines(folder_fd: int, folder: str, name: str = NAME, columns: int = COLUMNS) -> dict[str, SampleLine]:
    """The lines of a file in a step's folder (`folder`: below the descriptor, "" = itself); none if it is absent or damaged."""
    try:
        path = f"{folder}/{name}" if folder else name
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        try:
            parts = unpack(os.read(fd, _READ_BYTES_MAX))
        finally:
            os.close(fd)
        named = zip(parts[::2], parts[1::2], strict=True)
        return {uuid.decode("ascii"): SampleLine.restored(data, columns) for uuid, data in named}
    except (OSError, Damaged, ValueError):
        return {}
