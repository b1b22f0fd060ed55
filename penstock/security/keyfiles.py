"""Private keys and other secrets in files: written so that only their owner can read them, refused when others can.

A key that is readable by others, owned by somebody else or reached through a symbolic link is not used, and not
repaired silently: somebody may have read it already. Writing goes through a draft in the same folder, synced, then
renamed.
"""

import os
import stat
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup

#: Keys and certificates are a few kilobytes, the table of join tokens at most some megabytes.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


def read_secret(path: Path, what: str = "private key") -> bytes:
    """The file's content, if nobody but this process's user can have read it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check(os.fstat(file.fileno()), path, what)
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise BadSetup(f"{path}: {what} cannot be read: {error.strerror}") from error


def read_public(path: Path, what: str = "certificate") -> bytes:
    """The content of a file that everybody may read."""
    try:
        with open(path, "rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise BadSetup(f"{path}: {what} cannot be read: {error.strerror}") from error


def _check(status: os.stat_result, path: Path, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadSetup(f"{path}: {what} is not a regular file")
    if status.st_uid != os.geteuid():
        raise BadSetup(
            f"{path}: {what} belongs to uid {status.st_uid}, this program runs as uid {os.geteuid()}: "
            "give it the right owner, or make a new one if it may have been read"
        )
    if status.st_mode & 0o077:
        raise BadSetup(
            f"{path}: {what} is accessible by others (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"make a new one if it may have been read, else run `chmod 600 {path}`"
        )


def write_secret(path: Path, data: bytes) -> None:
    """Write the file in one step, mode 0600 from its first byte."""
    _write(path, data, 0o600)


def write_public(path: Path, data: bytes) -> None:
    """Write the file in one step, readable by all whatever the umask."""
    _write(path, data, 0o644)


def _write(path: Path, data: bytes, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise BadSetup(f"{path}: cannot be written: {error.strerror}") from error
