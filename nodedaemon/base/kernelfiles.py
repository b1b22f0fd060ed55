"""Reads and writes small kernel files (cgroups, /proc, sysfs) whole, in one call. Imports nothing but `os`."""

import os

READ_BYTES = 65536


def write_text(path: str, text: str) -> None:
    """Writes a value. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_bytes(path: str) -> bytes:
    """Returns the whole file; b"" when it does not exist or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = part = os.read(fd, READ_BYTES)
        while part:
            part = os.read(fd, READ_BYTES)
            data += part
    except OSError:  # ESRCH, ENODEV: it disappeared while we read it
        return b""
    finally:
        os.close(fd)
    return data


def read_text(path: str) -> str:
    """Returns the whole file as text; "" when it does not exist or cannot be read."""
    return read_bytes(path).decode("utf-8", "replace")
