"""The journal: one append-only file of checksummed records, from which a restarted daemon restores its state.

A record is length, CRC-32 and payload. `append` writes, `sync` (called in a worker thread) makes it durable: records
that gather while one sync runs share the next. A power failure may leave a truncated or damaged record
at the end: reading stops there and the file is truncated to the last whole record; by the order rule no effect of the
rest had left.

When the file has grown, a snapshot replaces it by rename. Deliberately absent: what the records mean.
"""

import os
from collections.abc import Iterable

import msgspec

from nodedaemon.base.framing import HEAD_BYTES, frame, unframe
from nodedaemon.core.messages import AnyRecord
from penstock.crash import crash_point

#: Rewritten when larger. About 30,000 jobs; reading it takes well under a second.
COMPACT_BYTES = 8 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyRecord)


class Journal:
    """The file `name` in folder `dir_fd`. One daemon at a time (the spool's lock)."""

    def __init__(self, dir_fd: int, name: str = "journal") -> None:
        self._dir_fd = dir_fd
        self._name = name
        self._fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
        self.size = os.fstat(self._fd).st_size
        self.cut_bytes = 0  # bytes that were truncated when it was read
        os.fsync(dir_fd)

    def read(self) -> list[AnyRecord]:
        """Reads all whole records; the rest of the file is truncated."""
        data = _read_all(self._fd, self.size)
        records: list[AnyRecord] = []
        at = 0
        while (payload := unframe(data, at)) is not None:
            records.append(_decoder.decode(payload))
            at += HEAD_BYTES + len(payload)
        self.cut_bytes = len(data) - at
        if self.cut_bytes:
            os.ftruncate(self._fd, at)
            os.fsync(self._fd)
            self.size = at
        return records

    def append(self, records: Iterable[AnyRecord]) -> None:
        """Writes records; they survive this process now, and a crash of the machine after `sync`."""
        crash_point("journal.write")
        data = b"".join(frame(_encoder.encode(r)) for r in records)
        try:
            _write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, self.size)  # removes a partial record, so that the write can be retried
            raise
        self.size += len(data)
        crash_point("journal.written")

    def sync(self) -> None:
        """Makes everything appended so far durable."""
        os.fdatasync(self._fd)

    def compact(self, snapshot: Iterable[AnyRecord]) -> None:
        """Replaces everything by a snapshot. Blocks; not while a sync runs."""
        data = b"".join(frame(_encoder.encode(r)) for r in snapshot)
        new = self._name + ".new"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(new, flags, 0o600, dir_fd=self._dir_fd)
        _write_all(fd, data)
        os.fsync(fd)
        os.rename(new, self._name, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
        os.fsync(self._dir_fd)
        os.close(self._fd)
        self._fd = fd
        self.size = len(data)

    def close(self) -> None:
        """Closes the file without writing."""
        os.close(self._fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_all(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
