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
_NEW = ".new"
_BYTES_MAX = 64 * 1024


def write_kept(path: str, folder_fd: int, state: bytes, metrics: "list[Value]") -> None:
    """Replace the file as a whole. Not synced: what it counts does not outlive a loss of power. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path + _NEW, flags, 0o600, dir_fd=folder_fd)
    try:
        os.write(fd, frame(pack([state, dump(metrics)])))
    finally:
        os.close(fd)
    os.rename(path + _NEW, path, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


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
