"""XIDs in the kernel's log: what NVML's events miss, and the process that is to blame.

    6,1234,5678901234,-;NVRM: Xid (PCI:0000:61:00): 119, pid=4242, name=python, Timeout waiting for RPC from GSP!

/dev/kmsg gives one record a read and says when there is one; reading starts at what comes from now on. Where it may not
be opened (not root) there is nothing, and NVML's events must do.
"""

import logging
import os
import re
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable

from nodedaemon.core.gpuwords import Xid

log = logging.getLogger("penstock.noded")

KMSG = "/dev/kmsg"
#: A record of the kernel is at most this.
_RECORD_MAX = 8192
#: Read at a time, so that a flood of messages does not hold up the daemon.
RECORDS_PER_TURN = 64
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)(?:, *(.*))?")
_PID = re.compile(r"\bpid='?(\d+)")
TEXT_MAX = 400


def parse_record(line: str, now_us: int, uptime_us: int) -> Xid | None:
    """The XID that a record tells of. Its time is counted from the machine's start, as is `uptime_us`."""
    head, _, message = line.partition(";")
    found = _XID.search(message)
    if found is None:
        return None
    bus_id, xid, rest = found.groups()
    stamp = head.split(",")[2:3]
    age_us = max(uptime_us - int(stamp[0]), 0) if stamp and stamp[0].isdigit() else 0
    pid = _PID.search(rest or "")
    return Xid(now_us - age_us, int(xid), "", bus_id, int(pid[1]) if pid else 0, (rest or "")[:TEXT_MAX])


class Kmsg:
    """Hears XIDs from now on, until closed."""

    def __init__(self, loop: AbstractEventLoop, heard: Callable[[Xid], None], path: str = KMSG) -> None:
        self._loop = loop
        self._heard = heard
        self._fd = -1
        self._rest = b""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if path == KMSG:
                os.lseek(self._fd, 0, os.SEEK_END)
            loop.add_reader(self._fd, self._read)
        except OSError as error:
            log.info("%s: %s; XIDs are heard from NVML only", path, error.strerror or error)
            self.close()

    @property
    def is_open(self) -> bool:
        """Whether anything can be heard."""
        return self._fd >= 0

    def close(self) -> None:
        """Hear no more."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        for _ in range(RECORDS_PER_TURN):
            try:
                data = os.read(self._fd, _RECORD_MAX)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # records were overwritten before they were read: the next read goes on behind them
            except OSError as error:
                log.warning("the kernel's log: %s; XIDs are heard from NVML only", error.strerror or error)
                data = b""
            if not data:
                self.close()
                return
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest[-_RECORD_MAX:]
            for line in lines:
                xid = parse_record(
                    line.decode("utf-8", "replace"), time.time_ns() // 1000, time.clock_gettime_ns(_UPTIME) // 1000
                )
                if xid is not None:
                    self._heard(xid)


#: The clock of the kernel's log stands still while the machine sleeps, as this one does.
_UPTIME = time.CLOCK_MONOTONIC
