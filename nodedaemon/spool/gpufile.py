"""The file of GPU usage in a step's folder: written by noded (daemon/gpu_usage.py), read by stepd for sstat.

Two parts: the state for a later noded, which is opaque here, and the figures as metrics (in the form of
stepd/sampling.py). stepd is forked by the thousand, so this module contains only the framing.
"""

import os

from nodedaemon.base.framing import Damaged, dump, frame, load, pack, unframe, unpack

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from penstock.values.packing import PackedValue

NAME = "gpus"
_BYTES_MAX = 64 * 1024


def content(state: bytes, metrics: "list[PackedValue]") -> bytes:
    """The content of the file."""
    return frame(pack([state, dump(metrics)]))


def read_kept(path: str, folder_fd: int) -> "tuple[bytes, list[PackedValue]] | None":
    """Reads state and metrics; None when there is no such file, or it is damaged."""
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
