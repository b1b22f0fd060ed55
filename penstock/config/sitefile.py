"""Files of a site that make the controller do something: who may have written them."""

import os
import stat

from penstock.boundedfile import read_all
from penstock.config.shown import find_uid


class SiteFileError(Exception):
    """The file cannot be used. The text names it, and what to do."""


def read_site_file(path: str, slurm_user: str, bytes_max: int) -> tuple[bytes, int]:
    """Returns a file that only root, SlurmUser and the process's own user can have written, and its mode. Raises
    SiteFileError."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise SiteFileError(f"{path}: not a regular file")
            if found.st_mode & 0o022:
                raise SiteFileError(f"{path}: others than its owner can write to it: chmod go-w {path}")
            if found.st_uid not in {0, os.geteuid(), find_uid(slurm_user)}:
                raise SiteFileError(f"{path}: it belongs to uid {found.st_uid}, and not to root or {slurm_user}")
            return read_all(file, bytes_max), found.st_mode
    except OSError as error:
        raise SiteFileError(f"{path}: {error.strerror}") from None


def decoded(data: bytes, path: str) -> str:
    """Returns the text of a file. Raises SiteFileError with the line that is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SiteFileError(f"{path}:{line}: not UTF-8") from None


def _open_at_once(path: str, flags: int) -> int:
    """Opens it without waiting for a writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)
