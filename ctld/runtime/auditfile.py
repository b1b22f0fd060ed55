"""PenstockAuditFile and PenstockAuditSyslog: copies of the audit log outside of the database.

The table is the log; the file follows it. Records are appended after their commit, in a thread of their own, and synced. What
could not be written (a full disk, a crash) is read from the table and appended with the next record or at the next start:
a record is written when its number is one above the last that the file has. `audit.position` in the state folder keeps that
number, as a file that was just rotated is empty. The file is only ever appended to: a line that a crash has left half
written is completed.

Rotation is by renaming: before each write the name is looked at, and what has it now is opened or made (mode 0600).
The table and the file disagree when somebody has changed one of them; that is an error in the log, and `penstock audit verify`
says where. syslog gets what it can take, once, and is not caught up.
"""

import json
import logging
import os
import syslog
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from accounting.traces import AuditQuestion, Traces, TracesUnavailable
from ctld.core.audit import AuditRow
from ctld.core.effects import Batch
from penstock.values.auditchain import GENESIS, line_of, link_of
from penstock.values.config import Config

log = logging.getLogger("penstock.ctld")

POSITION: Final = "audit.position"
#: How much of the end of a file is read at a time to find its last lines.
_BLOCK: Final = 64 * 1024
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditCopies:
    """Belongs to the loop's thread; what it does runs in another one, in order."""

    def __init__(self, traces: Traces, state_folder: Path, config: Callable[[], Config]) -> None:
        """Begins by bringing the file up to the table."""
        self._config = config
        self._file = AuditFile(traces, state_folder / POSITION)
        self._thread: Executor = ThreadPoolExecutor(1, "audit")
        if path := config().penstock_audit_file:
            self._thread.submit(partial(self._file.append, path, ()))

    def committed(self, batch: Batch) -> None:
        """Take the records of a committed batch."""
        if not batch.audit:
            return
        config = self._config()
        if config.penstock_audit_file:
            self._thread.submit(partial(self._file.append, config.penstock_audit_file, tuple(batch.audit)))
        if config.penstock_audit_syslog:
            self._thread.submit(partial(to_syslog, tuple(batch.audit)))

    def stop(self) -> None:
        """Write what was taken."""
        self._thread.shutdown(wait=True)
        self._file.close()


def to_syslog(rows: Sequence[AuditRow]) -> None:
    """One message a record."""
    syslog.openlog("penstock-audit", 0, syslog.LOG_AUTHPRIV)
    for row in rows:
        syslog.syslog(syslog.LOG_NOTICE, row.record)


class AuditFile:
    """The file. `position` is where the last number is kept."""

    def __init__(self, traces: Traces, position: Path) -> None:
        self._traces = traces
        self._position = position
        self._path = ""
        self._descriptor = -1
        self._last_id = 0
        self._last_hash = GENESIS
        self._troubled = False

    def close(self) -> None:
        """Twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def append(self, path: str, rows: Sequence[AuditRow]) -> None:
        """Append what the file does not have yet. An error is told in the log, once until it is over."""
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

    def _write(self, rows: Sequence[Any]) -> None:
        for row in rows:
            if row.audit_id <= self._last_id:
                continue
            self._put(line_of(row.record, self._last_hash, row.hash) + "\n")
            self._last_id, self._last_hash = row.audit_id, row.hash
        os.fdatasync(self._descriptor)

    def _put(self, text: str) -> None:
        left = memoryview(text.encode())
        while left:
            left = left[os.write(self._descriptor, left) :]

    # ---- where the file ends -------------------------------------------------------------------------------------

    def _open(self, path: str) -> None:
        """Open the file that has the name now, unless it is open already."""
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
        """Which record the file ends with. A line that is cut off is completed."""
        lines, rest = _last_lines(self._descriptor)
        last = link_of(lines[-1]) if lines else None
        self._last_id, self._last_hash = (last.record_id, last.hash) if last else self._kept_position(path)
        if rest:
            self._complete(rest)
        known = self._traces.hash_of(self._last_id) if self._last_id else GENESIS
        if known != self._last_hash:
            what = "was changed there or here" if known else "is not in the database: its log was cut"
            log.critical("audit file %s: its record %d %s", path, self._last_id, what)
        if not known:  # what is written from now on has lower numbers
            last_id, last_hash = self._traces.head()
            self._last_id, self._last_hash = last_id, last_hash or GENESIS

    def _complete(self, rest: str) -> None:
        """`rest`: what a crash has left of a line."""
        pages = self._traces.audit(AuditQuestion(from_id=self._last_id + 1, records_max=1))
        row = next((page[0] for page in pages), None)
        line = line_of(row.record, self._last_hash, row.hash) if row is not None else ""
        if row is not None and line.startswith(rest):
            self._put(line[len(rest) :] + "\n")
            self._last_id, self._last_hash = row.audit_id, row.hash
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
    """The last whole line of a file (none if there is none), and what stands behind it."""
    at, found = os.fstat(descriptor).st_size, b""
    while at > 0 and found.count(b"\n") < 2:
        start = max(0, at - _BLOCK)
        found = os.pread(descriptor, at - start, start) + found
        at = start
    *whole, rest = found.decode("utf-8", "surrogateescape").split("\n")
    return whole[-1:], rest
