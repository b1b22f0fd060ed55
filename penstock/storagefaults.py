"""Whether an error came from storage that takes no writes now: full, over quota, read-only, failing.

Such an error passes when space has been freed or the file system has been mounted again. So a daemon ends with 75
(EX_TEMPFAIL), and its supervisor starts it again, where other files that cannot be used mean 78 (EX_CONFIG), which
needs an administrator. The error's own text names the file; `advice_of` says what to do.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ROOM: Final = "make room in its file system"
_INODES_TOO: Final = f"{_ROOM} (`df` and `df -i` show what is used up)"
_KERNEL: Final = "its device fails or is away: see the kernel's log (`dmesg`)"
_LATER: Final = "; then another start will do"
#: What to do, by the number of the error.
_ADVICE: Final = {
    errno.ENOSPC: _INODES_TOO,
    errno.EDQUOT: f"{_ROOM}, or raise the quota",
    errno.EROFS: "its file system is mounted read-only: see the kernel's log (`dmesg`), mount it writable",
    errno.EIO: _KERNEL,
    errno.ESTALE: _KERNEL,
    errno.ETIMEDOUT: _KERNEL,
    errno.ENFILE: "the machine has too many open files",
    errno.EMFILE: "this process has too many open files",
}
#: The same for SQLite's primary result codes. As numbers: commands do not load the module sqlite3.
_SQLITE_BUSY: Final = 5
_SQLITE_IOERR: Final = 10
_SQLITE_FULL: Final = 13
_SQLITE_ADVICE: Final = {
    _SQLITE_FULL: _INODES_TOO,
    _SQLITE_IOERR: f"{_ROOM}, or see the kernel's log (`dmesg`)",
    _SQLITE_BUSY: "another program has locked the database: wait for its end",
}


def advice_of(error: BaseException) -> str:
    """What to do when storage is the cause of the error; "" = it is not."""
    cause: BaseException | None = error
    while cause is not None:
        advice = ""
        if isinstance(cause, OSError):
            advice = _ADVICE.get(cause.errno or 0, "")
        elif isinstance(code := getattr(cause, "sqlite_errorcode", None), int):
            advice = _SQLITE_ADVICE.get(code & 0xFF, "")
        if advice:
            return f"{advice}{_LATER}"
        cause = cause.__cause__
    return ""


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Has errors of the block name the file: those of a write do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise
