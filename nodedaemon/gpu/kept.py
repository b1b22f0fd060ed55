"""Small state files of the GPU agent in the spool: JSON, replaced as a whole by a rename.

    SPOOL/gpu-health.json   the health machine's state (gpuhealth_messages.Memory)
    SPOOL/gpu-steps.json    the GPUs of each step; without a sync: it has to outlive the daemon, not the machine
    SPOOL/gpu-works.json    maintenance of GPUs that was begun, and its results

A file that is damaged counts as missing, and the log says so: the health of the GPUs is then assessed again.
"""

import contextlib
import logging
import os
from typing import TypeVar

import msgspec

log = logging.getLogger("penstock.noded")

T = TypeVar("T")

#: Bytes of a file that are read: a node has a few GPUs of a few kB each.
BYTES_MAX = 16 * 1024 * 1024


def load(dir_fd: int, name: str, type_: type[T]) -> T | None:
    """The content of a file, or None when there is none or it is unreadable."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("spool file %s: %s; it is taken as missing", name, error.strerror)
        return None
    with open(fd, "rb") as file:
        data = file.read(BYTES_MAX)
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.DecodeError as error:
        log.warning("spool file %s is damaged (%s); it is taken as missing", name, error)
        return None


def exists(dir_fd: int, name: str) -> bool:
    """Whether the file exists."""
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def keep(dir_fd: int, name: str, data: bytes, else_: str, sync: bool = True) -> None:
    """Saves (`save`) a file that the daemon can do without; when it cannot be written, `else_` is logged as the
    consequence.
    """
    try:
        save(dir_fd, name, data, sync)
    except OSError as error:
        log.error("%s: %s; %s", name, error.strerror, else_)


def save(dir_fd: int, name: str, data: bytes, sync: bool = True) -> None:
    """Replaces a file. Raises OSError, and then the old one is still there."""
    new = f"{name}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(fd)
        os.rename(new, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=dir_fd)
        raise
