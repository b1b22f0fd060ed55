"""PenstockAuditFile and PenstockAuditSyslog: copies of the audit log outside of the database.

The table is the log; the file follows it. Records are appended after their commit, in a thread of their own, and
synced. What could not be written (a full disk, a crash) is read from the table and appended with the next record or at
the next start: a record is written when its number is one above the last that the file has. `audit.position` in the
state folder stores that number, as a file that was just rotated is empty. The file is append-only: a line that a crash
has truncated is completed.

Rotation is by renaming: before each write the file of that name is opened again if it has changed, or created (mode
0600). The table and the file differ when one of them was modified; that is an error in the log, and `penstock audit
verify` shows where. syslog gets each record at most once; missed ones are not repeated.
"""

import json
import logging
import os
import syslog
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final

from accounting.dbrow import DbRow
from accounting.traces import AuditQuestion, Traces, TracesUnavailable
from ctld.core.records.audit import AuditRow
from ctld.core.records.effects import Batch
from penstock.threads import started_pool
from penstock.values.auditchain import GENESIS, line_of, link_of
from penstock.values.config import Config

log = logging.getLogger("penstock.ctld")

POSITION: Final = "audit.position"
#: How long the controller's end waits for the last records.
STOP_S: Final = 5.0
#: Block size for reading backwards from the end of a file to find its last lines.
_BLOCK: Final = 64 * 1024
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditCopies:
    """Copies audit records. Belongs to the loop's thread; the writing runs in another one, in order."""

    def __init__(self, traces: Traces, state_folder: Path, config: Callable[[], Config]) -> None:
        """Begins by appending missing records to the file."""
        self._config = config
        self._file = AuditFile(traces, state_folder / POSITION)
        self._thread: Executor = started_pool(1, "audit")
        if path := config().penstock_audit_file:
            self._thread.submit(partial(self._file.append, path, ()))

    def committed(self, batch: Batch) -> None:
        """Queues the records of a committed batch."""
        if not batch.audit:
            return
        config = self._config()
        if config.penstock_audit_file:
            self._thread.submit(partial(self._file.append, config.penstock_audit_file, tuple(batch.audit)))
        if config.penstock_audit_syslog:
            self._thread.submit(partial(to_syslog, tuple(batch.audit)))

    def stop(self) -> None:
        """Writes the queued records. Those that a file system does not take within STOP_S are appended at the next start:
        the database, its lease and the state folder are still to be let go."""
        try:
            self._thread.submit(self._file.close).result(STOP_S)
        except TimeoutError:
            path = self._config().penstock_audit_file
            log.warning(
                "audit file %s: its file system has not answered for %.0f s; the next start appends the rest",
                path,
                STOP_S,
            )
        self._thread.shutdown(wait=False, cancel_futures=True)


def to_syslog(rows: Sequence[AuditRow]) -> None:
    """Sends one message a record."""
    syslog.openlog("penstock-audit", 0, syslog.LOG_AUTHPRIV)
    for row in rows:
        syslog.syslog(syslog.LOG_NOTICE, row.record)


class AuditFile:
    """The file. `position` is the path of the stored last number."""

    def __init__(self, traces: Traces, position: Path) -> None:
        self._traces = traces
        self._position = position
        self._path = ""
        self._descriptor = -1
        self._last_id = 0
        self._last_hash = GENESIS
        self._troubled = False

    def close(self) -> None:
        """Closes the file. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def append(self, path: str, rows: Sequence[AuditRow]) -> None:
        """Appends missing records. A persistent error is logged once."""
        try:
            self._open(path)
            if not rows or rows[0].audit_id > self._last_id + 1:
                for page in self._traces.audit(AuditQuestion(from_id=self._last_id + 1)):
                    self._write(page)
            self._write(rows)
            self._keep_position()
            self._troubled = False
        except (OSError, TracesUnavailable) as error:
            self.close()
            self._path = ""
            if not self._troubled:
                log.error("audit file %s: %s; it will be brought up to date when that is over", path, error)
            self._troubled = True

    def _write(self, rows: Sequence[AuditRow | DbRow]) -> None:
        for row in rows:
            if row.audit_id <= self._last_id:
                continue
            self._put(line_of(row.record, self._last_hash, row.hash) + "\n")
            self._last_id = row.audit_id
            self._last_hash = row.hash
        os.fdatasync(self._descriptor)

    def _put(self, text: str) -> None:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(self._descriptor, left) :]

    # ---- the end of the file -------------------------------------------------------------------------------------

    def _open(self, path: str) -> None:
        """Opens the file that has the name now, unless it is open already."""
        try:
            there = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if self._descriptor >= 0 and path == self._path and there is not None:
            mine = os.fstat(self._descriptor)
            if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
                return
        was_rotated = self._descriptor >= 0 and path == self._path
        self.close()
        self._descriptor = os.open(path, _FLAGS, 0o600)
        if not was_rotated:
            self._path = path
            self._find_end(path)

    def _find_end(self, path: str) -> None:
        """Finds the last record of the file. A truncated line is completed."""
        lines, rest = _last_lines(self._descriptor)
        last = link_of(lines[-1]) if lines else None
        self._last_id, self._last_hash = (last.record_id, last.hash) if last else self._kept_position(path)
        if rest:
            self._complete(rest)
        known = self._traces.hash_of(self._last_id) if self._last_id else GENESIS
        if known != self._last_hash:
            what = "was changed there or here" if known else "is not in the database: its log was cut"
            log.critical("audit file %s: its record %d %s", path, self._last_id, what)
        if not known:  # the following records have lower numbers
            last_id, last_hash = self._traces.head()
            self._last_id = last_id
            self._last_hash = last_hash or GENESIS

    def _complete(self, rest: str) -> None:
        """Completes a line. `rest`: its part that was written before a crash."""
        pages = self._traces.audit(AuditQuestion(from_id=self._last_id + 1, records_max=1))
        row = next((page[0] for page in pages), None)
        line = line_of(row.record, self._last_hash, row.hash) if row is not None else ""
        if row is not None and line.startswith(rest):
            self._put(line[len(rest) :] + "\n")
            self._last_id = row.audit_id
            self._last_hash = row.hash
        else:
            log.critical("audit file %s: its last line is no part of the log", self._path)
            self._put("\n")

    def _kept_position(self, path: str) -> tuple[int, str]:
        try:
            kept = json.loads(self._position.read_text())
            return (int(kept["id"]), str(kept["hash"])) if kept["path"] == path else (0, GENESIS)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0, GENESIS

    def _keep_position(self) -> None:
        fresh = self._position.with_suffix(".new")
        fresh.write_text(json.dumps({"path": self._path, "id": self._last_id, "hash": self._last_hash}))
        fresh.chmod(0o600)
        fresh.replace(self._position)


def _last_lines(descriptor: int) -> tuple[list[str], str]:
    """Returns the last complete line of a file (none if there is none), and the text after it."""
    at, found = os.fstat(descriptor).st_size, b""
    while at > 0 and found.count(b"\n") < 2:
        start = max(0, at - _BLOCK)
        found = os.pread(descriptor, at - start, start) + found
        at = start
    *whole, rest = found.decode("utf-8", "surrogateescape").split("\n")
    return whole[-1:], rest
