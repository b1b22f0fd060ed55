"""The file in a step's folder with what its GPUs did so far: written by noded (gpu/usage.py), read by stepd for sstat.

Two parts: what a later noded carries on with, which is opaque here, and the figures as metrics (sampling.py's form).
stepd is forked by the thousand, so there is nothing here but framing.
"""

import os

from nodedaemon.framing import Damaged, dump, frame, load, pack, unframe, unpack

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from penstock.values.packing import Value

NAME = "gpus"
_BYTES_MAX = 64 * 1024


def content(state: bytes, metrics: "list[Value]") -> bytes:
    """What stands in the file."""
    return frame(pack([state, dump(metrics)]))


def read_kept(path: str, folder_fd: int) -> "tuple[bytes, list[Value]] | None":
    """State and metrics; None when there is no such file, or it is damaged."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return None
    try:
        payload = unframe(os.read(fd, _BYTES_MAX))
    finally:
        os.close(fd)
    if payload is None:
        return None
    try:
        state, metrics = unpack(payload)
        found = load(metrics)
    except (Damaged, ValueError):
        return None
    return (state, found) if isinstance(found, list) else None
