"""`penstock db` on storage that takes no writes: 75, the file's name and what to do."""

import errno
import os
import sqlite3

import pytest

from ctld.dbtool.main import status_of
from ctld.store.errors import StoreError
from penstock.storagefaults import advice_of, naming


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [
        (errno.ENOSPC, 75, "make room"),
        (errno.EDQUOT, 75, "quota"),
        (errno.EROFS, 75, "mounted read-only"),
        (errno.EIO, 75, "dmesg"),
        (errno.EACCES, 78, ""),
        (errno.ENOENT, 78, ""),
    ],
)
def test_30_storage_that_takes_no_writes_is_75(
    capsys: pytest.CaptureFixture[str], number: int, status: int, word: str
) -> None:
    def fails() -> None:
        with naming("/backup/x.db"):
            raise OSError(number, os.strerror(number))

    assert status_of(fails) == status
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(f"/backup/x.db: {os.strerror(number)}")
    assert bool(rest) == bool(word) and word in "".join(rest)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_BUSY_SNAPSHOT])
def test_30_the_cause_of_a_stores_error_counts(code: int) -> None:
    cause = sqlite3.OperationalError("x")
    cause.sqlite_errorcode = code  # as the module sets it
    error = StoreError("database x")
    error.__cause__ = cause
    assert advice_of(error).endswith("then another start will do")
    assert advice_of(StoreError("database x")) == ""
