"""The node daemon's record of its last contact with the controller, which limits the leases of steps (base/lease.py).

A thread of its own writes it: while the disk stands still the recorded contact gets older, and heartbeats continue.
"""

import os

from nodedaemon.base import lease
from nodedaemon.base.lease import RESTING_NS, VALUE, open_contact, read_contact
from penstock.threads import started_pool


class ControllerContact:
    """The writer's side. Times are nanoseconds of CLOCK_BOOTTIME."""

    def __init__(self, dir_fd: int) -> None:
        self._fd = open_contact(dir_fd)
        self._thread = started_pool(1, "contact")
        held_ns = read_contact(self._fd)
        self._rests = held_ns == RESTING_NS
        self._at_ns = held_ns if held_ns <= lease.now_ns() else 0
        if not self._rests and not self._at_ns:  # written in an earlier boot
            self._write(0)
            self.flush()

    def renew(self, at_ns: int) -> None:
        """Records a contact at that time."""
        if at_ns > self._at_ns:
            self._at_ns = at_ns
            self._rests = False
            self._write(at_ns)

    def no_controller(self, at_ns: int) -> None:
        """Records that there was no controller at that time: counts as contact, but does not end a suspension."""
        if not self._rests:
            self.renew(at_ns)

    def rest(self) -> None:
        """Suspends the leases until the next contact."""
        self._rests = True
        self._write(RESTING_NS)

    def flush(self) -> None:
        """Waits until everything recorded is in the file."""
        self._thread.submit(int).result()

    def close(self) -> None:
        """Writes what was recorded, and closes the file, which stays."""
        self._thread.shutdown(wait=True)
        os.close(self._fd)

    def _write(self, value: int) -> None:
        self._thread.submit(os.pwrite, self._fd, VALUE.pack(value), 0)
