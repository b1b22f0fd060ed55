"""The witness: the database's last acknowledged position, in a small file outside of it.

A database can lose its end unnoticed: its log was truncated by a bad disk, a file system or a user, or it was replaced
by a backup. It is consistent then, only older; acknowledged jobs are lost, and their ids would be assigned again. The
witness stores what the database cannot: the last acknowledged batch, and upper bounds of all ids and epochs ever
assigned.

    before COMMIT of batch N    the acknowledged batch (N-1), and the bounds with N: written, synced beside the COMMIT
    after COMMIT                N: written; synced with the next batch, or within seconds

So after a crash of the process it is exact. After a power failure it is at most one batch behind, whose bounds are
stored nevertheless: no id is assigned twice. A database that is ahead of it is never refused.

The file has two records in two pages, written alternately, each with a checksum and a serial number: a torn write
leaves the other one valid. It is allocated once, so that it needs no space later, and no write of it waits for the file
system's journal.

If the witness cannot be written, that is reported once, and the controller continues: a safeguard must not cause an
outage. A file that is removed or replaced meanwhile is written again at the next `sync`: an older one in its place would
vouch for an older database. Deliberately absent: the contents of the database.
"""

import logging
import os
import struct
import zlib
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

from penstock.threads import started_pool

log = logging.getLogger("penstock.ctld")

_PAGE: Final = 4096
_MAGIC: Final = b"pstkwit1"
#: Magic, serial number, the seven numbers of a mark.
_RECORD: Final = struct.Struct("<8sQqQQQQQ")
_CRC: Final = struct.Struct("<I")


class Mark(NamedTuple):
    """The position of a database. `lineage`: when it was created, which its copies and backups share."""

    lineage: int
    epoch: int  # of the last acknowledged batch
    sequence: int
    epoch_reached: int  # the highest ever used
    next_job_id: int  # above all that were ever assigned
    next_request_id: int

    def is_behind(self, other: "Mark") -> bool:
        """Whether batches that the other one has are missing here."""
        return self.lineage != other.lineage or (self.epoch, self.sequence) < (other.epoch, other.sequence)

    def shown(self) -> str:
        """Formats the mark for messages."""
        return f"epoch {self.epoch}, batch {self.sequence}, next job {self.next_job_id}"


class Witness:
    """The witness file. One thread at a time; a thread of its own waits for the disk."""

    def __init__(self, path: Path) -> None:
        """Opens or creates it. Raises OSError."""
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        self._serial = 0
        self.found = self._read()
        self.is_damaged = self.found is None and any(os.pread(self._fd, 2 * _PAGE, 0))
        self._is_broken = False
        self._is_missing = False
        self._syncing: Future[None] | None = None
        self._thread = started_pool(1, "witness")
        if os.fstat(self._fd).st_size < 2 * _PAGE:
            os.pwrite(self._fd, bytes(2 * _PAGE), 0)
            os.fsync(self._fd)
            _sync_folder(path.parent)

    def close(self) -> None:
        """Makes the last mark durable, and closes."""
        self._await()
        self.sync()
        self._await()
        self._thread.shutdown(wait=True)
        os.close(self._fd)

    def begin(self, mark: Mark) -> None:
        """Writes the mark of a batch that is about to be committed; it is on the disk before the batch's effects leave
        (`end`)."""
        self._await()
        if self._write(mark):
            self._syncing = self._thread.submit(os.fdatasync, self._fd)

    def end(self, mark: Mark) -> None:
        """Writes the mark of a committed batch, once that of `begin` is on the disk."""
        self._await()
        self._write(mark)

    def sync(self) -> None:
        """Starts to sync what was written, in the file of this path; waits for nothing."""
        if self._syncing is None:
            self._syncing = self._thread.submit(self._keep)

    def _keep(self) -> None:
        """Syncs the file, or writes it again if the path names another one or none. In the thread; raises OSError."""
        os.fdatasync(self._fd)
        try:
            is_here = os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self._fd))
        except FileNotFoundError:
            is_here = False
        if is_here:
            self._is_missing = False
            return
        if not self._is_missing:
            log.error("the witness %s was removed or replaced while it is in use: it is written again", self.path)
        self._is_missing = True  # it is said once, also if this fails
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        fresh = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fresh, os.pread(self._fd, 2 * _PAGE, 0), 0)
            os.fsync(fresh)
            os.rename(draft, self.path)
        except OSError:
            os.close(fresh)
            draft.unlink(missing_ok=True)
            raise
        self._fd, old = fresh, self._fd
        os.close(old)
        _sync_folder(self.path.parent)
        self._is_missing = False

    def _await(self) -> None:
        future = self._syncing
        self._syncing = None
        if future is not None:
            error = future.exception()
            if isinstance(error, OSError):
                self._complain(error)
            elif error is not None:
                raise error

    def _write(self, mark: Mark) -> bool:
        self._serial += 1
        data = _RECORD.pack(_MAGIC, self._serial, *mark)
        data += _CRC.pack(zlib.crc32(data))
        try:
            os.pwrite(self._fd, data, self._serial % 2 * _PAGE)
        except OSError as error:
            self._complain(error)
            return False
        if not self._is_missing:
            self._is_broken = False
        return True

    def _complain(self, error: OSError) -> None:
        if not self._is_broken:
            log.error(
                "the witness %s cannot be written: %s; a loss of the database's end would not be noticed",
                self.path, error.strerror,
            )  # fmt: skip
        self._is_broken = True

    def _read(self) -> Mark | None:
        best: Mark | None = None
        for page in range(2):
            data = os.pread(self._fd, _RECORD.size + _CRC.size, page * _PAGE)
            if len(data) < _RECORD.size + _CRC.size:
                continue
            body = data[: _RECORD.size]
            magic, serial, *numbers = _RECORD.unpack(body)
            if magic == _MAGIC and _CRC.unpack(data[_RECORD.size :])[0] == zlib.crc32(body) and serial > self._serial:
                self._serial = serial
                best = Mark(*numbers)
        return best


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
