"""The output files of a job, as this machine sees them: the folder is shared with the nodes, or the job ran here."""

import codecs
import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from cli.base.userfile import open_as
from penstock.values.refusals import Code
from sdk.errors import RequestRefused
from sdk.records import JobRecord

#: What one call reads at most, from the end of the file.
BYTES_MAX: Final = 64 * 1024 * 1024
#: Lines of the output in the message of a job that failed.
LINES_OF_FAILURE: Final = 20
#: What is read at once.
BLOCK_BYTES: Final = 64 * 1024


class OutputNotHere(RequestRefused, FileNotFoundError):
    """The file is not there, or not on this machine."""


def read_output(record: JobRecord, lines: int | None, error: bool) -> str:
    """The output, or its last lines; "" while the job waits. Raises OutputNotHere."""
    if record.start_time is None:
        return ""
    path = _path(record, error)
    try:
        with _opened(path, record.user) as file:
            size = os.fstat(file.fileno()).st_size
            if lines is not None:
                return _last_lines(file.fileno(), size, lines).decode(errors="replace")
            file.seek(max(0, size - BYTES_MAX))
            return file.read(BYTES_MAX).decode(errors="replace")
    except OSError as problem:
        raise _not_here(record, path, problem) from problem


def last_words(record: JobRecord) -> str:
    """The end of the output of a job that failed, or why it cannot be read."""
    try:
        return read_output(record, LINES_OF_FAILURE, error=True)
    except OutputNotHere as problem:
        return problem.text


class GrowingOutput:
    """The output of a job as it is written: each part once. A file that was begun anew (a requeue) is read anew. `error`: the
    error output, if it has a file of its own."""

    def __init__(self, error: bool = False) -> None:
        self.offset = 0
        self.was_found = False
        self._error = error
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def given_bytes(self) -> int:
        """Where what has been given ends in the file: the bytes of a character that is cut are still to come."""
        return self.offset - len(self._decoder.getstate()[0])

    def path(self, record: JobRecord) -> str:
        """The file that it reads."""
        return _path(record, self._error)

    def skip_to_last(self, record: JobRecord, lines: int) -> None:
        """Begins with so many lines before the present end, if the file is here."""
        with contextlib.suppress(OSError), _opened(self.path(record), record.user) as file:
            size = os.fstat(file.fileno()).st_size
            self.offset = size - len(_last_lines(file.fileno(), size, lines))

    def more(self, record: JobRecord) -> Iterator[str]:
        """What was added, in blocks. Raises OutputNotHere."""
        if record.start_time is None:
            return
        path = self.path(record)
        try:
            with _opened(path, record.user) as file:
                self.was_found = True
                if os.fstat(file.fileno()).st_size < self.offset:
                    self.offset = 0
                file.seek(self.offset)
                while block := file.read(BLOCK_BYTES):
                    self.offset += len(block)
                    if text := self._decoder.decode(block):
                        yield text
        except FileNotFoundError as problem:
            if record.has_ended:
                raise _not_here(record, path, problem) from problem
        except OSError as problem:
            raise _not_here(record, path, problem) from problem

    def missing(self, record: JobRecord) -> OutputNotHere:
        """The error that the file is not there."""
        return _not_here(record, self.path(record), FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def _opened(path: str, user: str) -> BinaryIO:
    """The file, to be read; root opens it as the job's user. Raises OSError, also if it is no file: a device or a pipe may
    have no end, and none of it is the job's output. (/dev/null is empty.)
    """
    descriptor = open_as(path, user)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) and path != os.devnull:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(descriptor, "rb")


def _path(record: JobRecord, error: bool) -> str:
    return record.stderr_path if error and record.stderr_path else record.stdout_path


def _not_here(record: JobRecord, path: str, problem: OSError) -> OutputNotHere:
    where = f"{path or 'the output'} of job {record.shown_id}"
    return OutputNotHere(Code.INVALID_JOB_ID, f"{where} cannot be read here: {problem.strerror}")


def _last_lines(file: int, size: int, lines: int) -> bytes:
    """Read from the end, block by block, at most BYTES_MAX."""
    blocks: list[bytes] = []
    start, ends = size, 0
    while start > 0 and size - start < BYTES_MAX and ends <= lines:  # the last line may have no end, or be the last end
        begin = max(0, start - BLOCK_BYTES)
        blocks.append(os.pread(file, start - begin, begin))
        ends += blocks[-1].count(b"\n")
        start = begin
    found = b"".join(reversed(blocks)).split(b"\n")
    keep = lines + (found[-1] == b"")
    return b"\n".join(found[-keep:]) if lines > 0 else b""
