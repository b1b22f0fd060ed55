"""Leases: a job that may run again elsewhere stops itself on a node that nobody can reach.

    SPOOL/contact   eight bytes: when the controller was last in contact both ways, on CLOCK_BOOTTIME

noded writes it (`Contact`), stepds read it (`Lease`): the one who stops a job is its own supervisor, so it also happens
when noded is dead or stopped. The controller counts from when it lost the node, adds the grace for SIGTERM and a
margin, and only then starts the job again.

Rules
    - Contact is dated back to when the node asked, not to when it heard the answer: an answer may have waited in a buffer
      while the controller gave the node up. A new stream counts from its registration, a heartbeat from its sending.
    - A restart of noded is no contact.
    - A controller that stops in good order says farewell: nobody is there to start jobs again, and its successor does so
      by lease only on nodes that have registered with it. So leases rest until the next contact.
    - A controller's machine that refuses connections on both of its ports has no controller, which is the same (link.py).
    - CLOCK_BOOTTIME goes on while a machine sleeps, and nobody can set it.

Honest limit: a stepd that is stopped or dead, or a process that SIGKILL does not end, keeps nothing. Only a reboot or
cutting the power is proof then, as with any lease.
"""

import os
import signal
import struct
import time

CONTACT_NAME = "contact"
#: In place of a time: leases rest until the next contact.
RESTING_NS = 1 << 62
#: A supervisor looks at least so often in a lease's time (every 15 s of 240), since a poll that sleeps does not count the
#: time that the machine has slept. A quarter of the margin that the controller adds.
LOOKS = 16
#: What the end of a step that stopped itself says as its failure. The wire has a field for it (wire.py).
LAPSED = "stopped itself: this node had lost contact with the controller"
_VALUE = struct.Struct("<q")
_NS = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds since the machine booted, with those that it slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def open_contact(dir_fd: int) -> int:
    """The file, made if it is missing. It is written in place: a full file system does not end contact."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(CONTACT_NAME, flags, 0o600, dir_fd=dir_fd)


def read_contact(fd: int) -> int:
    """When there was contact; 0 = never."""
    data = os.pread(fd, _VALUE.size, 0)
    return int(_VALUE.unpack(data)[0]) if len(data) == _VALUE.size else 0


class Contact:
    """noded's side."""

    def __init__(self, dir_fd: int) -> None:
        self._fd = open_contact(dir_fd)
        held_ns = read_contact(self._fd)
        self._rests = held_ns == RESTING_NS
        self._at_ns = held_ns if held_ns <= now_ns() else 0
        if not self._rests and not self._at_ns:  # of an earlier boot
            self._write(0)

    def renew(self, at_ns: int) -> None:
        """There was contact at that time."""
        if at_ns > self._at_ns:
            self._at_ns, self._rests = at_ns, False
            self._write(at_ns)

    def nobody_there(self, at_ns: int) -> None:
        """There was no controller at that time: as good as contact, and no reason to end a rest."""
        if not self._rests:
            self.renew(at_ns)

    def rest(self) -> None:
        """Leases do not run until the next contact."""
        self._rests = True
        self._write(RESTING_NS)

    def close(self) -> None:
        """The file stays."""
        os.close(self._fd)

    def _write(self, value: int) -> None:
        os.pwrite(self._fd, _VALUE.pack(value), 0)


class Lease:
    """A supervisor's side, for one step."""

    __slots__ = ("_fd", "_grace_ns", "_kill_at_ns", "_lease_ns", "_since_ns")

    def __init__(self, contact_fd: int, lease_s: int, grace_s: int) -> None:
        self._fd = contact_fd
        self._lease_ns, self._grace_ns = lease_s * _NS, grace_s * _NS
        self._since_ns = now_ns()  # the launch came from a controller
        self._kill_at_ns = 0  # 0 = the lease is in force

    @property
    def has_lapsed(self) -> bool:
        """True from the moment on at which the step had to stop; contact that comes later does not help."""
        return self._kill_at_ns > 0

    def look(self) -> int:
        """SIGTERM when the lease has just run out, SIGKILL when the grace has too, else 0."""
        now = now_ns()
        if self._kill_at_ns:
            return int(signal.SIGKILL) if now >= self._kill_at_ns else 0
        if now < self._ends_at_ns():
            return 0
        self._kill_at_ns = now + self._grace_ns
        return int(signal.SIGTERM)

    def wait_s(self) -> float:
        """When to look again."""
        at_ns = self._kill_at_ns or self._ends_at_ns()
        if at_ns == self._kill_at_ns <= now_ns():
            at_ns += self._lease_ns  # killed already
        return min(max(at_ns - now_ns(), 0), self._lease_ns // LOOKS) / _NS + 0.001

    def _ends_at_ns(self) -> int:
        contact_ns = read_contact(self._fd)
        if contact_ns == RESTING_NS:
            return RESTING_NS
        return max(contact_ns, self._since_ns) + self._lease_ns
