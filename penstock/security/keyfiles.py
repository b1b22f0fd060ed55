"""Private keys and other secrets in files: written readable only by their owner, refused if other users can read them.

A key that is readable by others, owned by another user or reached through a symbolic link is refused, not silently
repaired: it may have been disclosed already. Writing uses a temporary file in the same folder, which is synced, then
renamed.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.boundedfile import read_all, read_bounded
from penstock.errors import BadSetup

#: Modes of files: for their owner alone, and for all users.
SECRET: Final = 0o600
PUBLIC: Final = 0o644
#: Keys and certificates take a few kilobytes, the table of join tokens at most some megabytes.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


def read_secret(path: Path, what: str = "private key") -> bytes:
    """Reads the file if no other user can have read it. Raises BadSetup."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check(os.fstat(file.fileno()), path, what)
            return read_all(file, FILE_BYTES_MAX)
    except OSError as error:
        raise BadSetup(f"{path}: {what} cannot be read: {error.strerror}") from error


def read_public(path: Path, what: str = "certificate") -> bytes:
    """Reads a file that all users may read. Raises BadSetup."""
    try:
        return read_bounded(path, FILE_BYTES_MAX)
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
    """Replaces the file atomically, with mode 0600 from its first byte."""
    write_files((path, data, SECRET))


def write_public(path: Path, data: bytes) -> None:
    """Replaces the file atomically, readable by all users regardless of the umask."""
    write_files((path, data, PUBLIC))


def write_files(*files: tuple[Path, bytes, int]) -> None:
    """Replaces files of one folder, given with their modes: all of them or, when one cannot be written, none. A process
    that dies between two renames leaves the first ones replaced. Raises BadSetup.
    """
    drafts: list[Path] = []
    try:
        for path, data, mode in files:
            with _named(path):
                drafts.append(path.with_name(f".{path.name}.{os.getpid()}"))
                _write(drafts[-1], data, mode)
        for (path, _, _), draft in zip(files, drafts, strict=True):
            with _named(path):
                os.replace(draft, path)
    except BadSetup:
        for draft in drafts:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        raise
    with _named(files[0][0].parent):
        folder = os.open(files[0][0].parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadSetup(f"{path}: cannot be written: {error.strerror}") from error


def _write(draft: Path, data: bytes, mode: int) -> None:
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
