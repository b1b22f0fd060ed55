"""Small files of the kernel (cgroups, /proc, sysfs): read and written whole, in one call. Imports nothing but `os`."""

import os

READ_BYTES = 65536


def write_text(path: str, text: str) -> None:
    """Write a value. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_bytes(path: str) -> bytes:
    """All of a file; b"" when it is not there or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = part = os.read(fd, READ_BYTES)
        while part:
            part = os.read(fd, READ_BYTES)
            data += part
    except OSError:  # ESRCH, ENODEV: it went while we looked
        return b""
    finally:
        os.close(fd)
    return data


def read_text(path: str) -> str:
    """The same as text."""
    return read_bytes(path).decode("utf-8", "replace")
