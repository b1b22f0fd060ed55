"""Reads XIDs from the kernel's log: those that NVML's events miss, and the process that caused each.

    6,1234,5678901234,-;NVRM: Xid (PCI:0000:61:00): 119, pid=4242, name=python, Timeout waiting for RPC from GSP!

/dev/kmsg returns one record a read and can be polled. Records are numbered from the machine's start, so a daemon that
knows the last one it read first reads those written while no daemon ran (`catch_up`), as far as the kernel still has
them; else it reads only new ones. Where the log may not be opened (not root), NVML's events are the only source.
"""

import logging
import os
import re
import stat
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable

from nodedaemon.core.gpumessages import Xid

log = logging.getLogger("penstock.noded")

KMSG = "/dev/kmsg"
#: Largest record of the kernel, in bytes.
_RECORD_MAX = 8192
#: Records read at a time, so that a flood of messages does not hold up the daemon.
RECORDS_PER_TURN = 64
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)(?:, *(.*))?")
_PID = re.compile(r"\bpid='?(\d+)")
TEXT_MAX = 400
#: Limit of records read at the daemon's start: more than a kernel keeps.
BACKLOG_MAX = 1_000_000


def parse_record(line: str, now_us: int, uptime_us: int) -> Xid | None:
    """Returns the XID in a record. Its time is counted from the machine's start, as is `uptime_us`."""
    head, _, message = line.partition(";")
    found = _XID.search(message)
    if found is None:
        return None
    bus_id, xid, rest = found.groups()
    stamp = head.split(",")[2:3]
    number = sequence(line)
    age_us = max(uptime_us - int(stamp[0]), 0) if stamp and stamp[0].isdigit() else 0
    pid = _PID.search(rest or "")
    return Xid(now_us - age_us, int(xid), "", bus_id, int(pid[1]) if pid else 0, (rest or "")[:TEXT_MAX], number)


def sequence(line: str) -> int:
    """The number of a record; -1 = a continuation line without one."""
    number = line.partition(";")[0].split(",")[1:2]
    return int(number[0]) if number and number[0].isdigit() and not line.startswith(" ") else -1


def collapse(found: list[Xid], within_us: int) -> list[Xid]:
    """Removes repetitions within that time: they count as one, as they do in live events."""
    last: dict[tuple[str, int, int], int] = {}
    kept = []
    for xid in found:
        key = (xid.bus_id, xid.xid, xid.pid)
        if xid.at_us - last.get(key, -within_us) >= within_us:
            last[key] = xid.at_us
            kept.append(xid)
    return kept


class Kmsg:
    """The log, open until it is closed. Reading starts at its end, unless `catch_up` is called first."""

    def __init__(self, path: str = KMSG) -> None:
        self.last = -1  # number of the last record with an XID; after `catch_up` also of one without
        self._fd = -1
        self._rest = b""
        self._is_listening = False
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            log.info("%s: %s; XIDs are received from NVML only", path, error.strerror or error)

    @property
    def is_open(self) -> bool:
        """Whether the log can be read."""
        return self._fd >= 0

    def catch_up(self, after: int | None) -> list[Xid]:
        """Returns the XIDs in the records after that number, up to now; None: of none, but `last` becomes the last
        record's number."""
        found: list[Xid] = []
        if self._fd < 0 or stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            return found
        for _ in range(BACKLOG_MAX):
            lines = self._lines()
            if lines is None:
                break
            for line in lines:
                self.last = max(self.last, sequence(line))
                xid = _parse(line)
                if xid is not None and after is not None and xid.sequence > after:
                    found.append(xid)
        return found

    def listen(self, loop: AbstractEventLoop, on_message: Callable[[Xid], None], from_end: bool) -> None:
        """Reads new records, or (not `from_end`) those since the catch-up."""
        if self._fd < 0 or self._is_listening:
            return
        self._loop = loop
        self._on_message = on_message
        try:
            if from_end and self._path == KMSG:
                os.lseek(self._fd, 0, os.SEEK_END)
            loop.add_reader(self._fd, self._read)
            self._is_listening = True
        except OSError as error:
            log.info("%s: %s; XIDs are received from NVML only", self._path, error.strerror or error)
            self.close()

    def close(self) -> None:
        """Closes the log."""
        if self._fd >= 0:
            if self._is_listening:
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        for _ in range(RECORDS_PER_TURN):
            lines = self._lines()
            if lines is None:
                return
            for line in lines:
                xid = _parse(line)
                if xid is not None:
                    self.last = max(self.last, xid.sequence)
                    self._on_message(xid)

    def _lines(self) -> list[str] | None:
        """Returns the records of one read; None = there are no more now."""
        try:
            data = os.read(self._fd, _RECORD_MAX)
        except BlockingIOError:
            return None
        except BrokenPipeError:
            return []  # records were overwritten before they were read: the next read continues after them
        except OSError as error:
            log.warning("the kernel's log: %s; XIDs are received from NVML only", error.strerror or error)
            data = b""
        if not data:
            if self._is_listening:
                self.close()
            return None
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_RECORD_MAX:]
        return [line.decode("utf-8", "replace") for line in lines]


def _parse(line: str) -> Xid | None:
    return parse_record(line, time.time_ns() // 1000, time.clock_gettime_ns(_UPTIME) // 1000)


#: The clock of the kernel's log does not advance while the machine sleeps, as this one does not.
_UPTIME = time.CLOCK_MONOTONIC
