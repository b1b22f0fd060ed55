"""Leases: a job that may be restarted elsewhere stops itself on a node that has lost contact with the controller.

    SPOOL/contact   eight bytes: when the controller was last in contact both ways, on CLOCK_BOOTTIME

noded writes it (spool/contact.py), stepds read it (`Lease`). A job is stopped by its own supervisor, so a dead or
stopped noded does not prevent it. The controller counts from when it lost the node, adds the grace for SIGTERM and a
margin, and only then starts the job again.

Rules
    - Contact counts from when the node sent its request, not from when the answer arrived: an answer may have waited in
      a buffer while the controller declared the node lost. A new stream counts from its registration, a heartbeat from
      its sending.
    - A restart of noded does not count as contact.
    - A controller that shuts down cleanly sends a farewell: it will restart no jobs, and its successor applies
      leases only to nodes that have registered with it. So leases are suspended until the next contact.
    - A controller's machine that refuses connections on both of its ports has no controller, which has the same effect
      (daemon/link.py).
    - CLOCK_BOOTTIME advances while a machine sleeps, and cannot be set.

Limit: a stepd that is stopped or dead, or a process that SIGKILL does not end, does not honour its lease. Only a
reboot or a power cut is proof then, as with any lease.
"""

import os
import signal
import struct
import time

CONTACT_NAME = "contact"
#: Stored in place of a time: leases are suspended until the next contact.
RESTING_NS = 1 << 62
#: A supervisor checks at least this often within a lease's time (every 15 s of 240), since a poll's timeout does not
#: count the time that the machine has slept. A quarter of the margin that the controller adds.
LOOKS = 16
#: The failure text of a step that stopped itself. The wire has a field for it (launch/wire.py).
LAPSED = "stopped itself: this node had lost contact with the controller"
VALUE = struct.Struct("<q")
_NS = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds since the machine booted, including time asleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def open_contact(dir_fd: int) -> int:
    """Opens the file, creating it if missing. It is written in place, so that a full file system does not end
    contact."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(CONTACT_NAME, flags, 0o600, dir_fd=dir_fd)


def read_contact(fd: int) -> int:
    """The time of the last contact; 0 = never."""
    data = os.pread(fd, VALUE.size, 0)
    return int(VALUE.unpack(data)[0]) if len(data) == VALUE.size else 0


class Lease:
    """The reader's side, in a supervisor, for one step."""

    __slots__ = ("_fd", "_grace_ns", "_kill_at_ns", "_lease_ns", "_since_ns")

    def __init__(self, contact_fd: int, lease_s: int, grace_s: int) -> None:
        self._fd = contact_fd
        self._lease_ns = lease_s * _NS
        self._grace_ns = grace_s * _NS
        self._since_ns = now_ns()  # the launch came from a controller
        self._kill_at_ns = 0  # 0 = the lease is in force

    @property
    def has_lapsed(self) -> bool:
        """True once the step had to stop; later contact does not change that."""
        return self._kill_at_ns > 0

    def signal_due(self) -> int:
        """Returns SIGTERM when the lease has just expired, SIGKILL when the grace has too, else 0."""
        now = now_ns()
        if self._kill_at_ns:
            return int(signal.SIGKILL) if now >= self._kill_at_ns else 0
        if now < self._ends_at_ns():
            return 0
        self._kill_at_ns = now + self._grace_ns
        return int(signal.SIGTERM)

    def wait_s(self) -> float:
        """The time until the next check."""
        at_ns = self._kill_at_ns or self._ends_at_ns()
        if at_ns == self._kill_at_ns <= now_ns():
            at_ns += self._lease_ns  # killed already
        return min(max(at_ns - now_ns(), 0), self._lease_ns // LOOKS) / _NS + 0.001

    def _ends_at_ns(self) -> int:
        contact_ns = read_contact(self._fd)
        if contact_ns == RESTING_NS:
            return RESTING_NS
        return max(contact_ns, self._since_ns) + self._lease_ns
