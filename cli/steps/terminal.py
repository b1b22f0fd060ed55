"""The terminal of srun --pty: raw while the step runs, so that keys go to the task and are not turned into signals
here.
"""

import fcntl
import os
import struct
import termios
import tty

# Any: the attribute list of termios, which is only passed back
from typing import Any

_SIZE = struct.Struct("HHHH")
ROWS, COLUMNS = 24, 80


class Terminal:
    """The terminal of a descriptor; for other descriptors nothing is changed."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_raw = False
        self._before: list[Any] | None = None

    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        try:
            rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(self.fd, termios.TIOCGWINSZ, bytes(_SIZE.size)))
        except OSError:
            return ROWS, COLUMNS
        return rows or ROWS, columns or COLUMNS

    def make_raw(self) -> None:
        """Switches to raw mode: keys are passed on unchanged."""
        if not os.isatty(self.fd) or self.is_raw:
            return
        self._before = termios.tcgetattr(self.fd)
        tty.setraw(self.fd)
        self.is_raw = True

    def restore(self) -> None:
        """Restores the mode."""
        if self.is_raw and self._before is not None:
            self.is_raw = False
            try:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)
            except termios.error:
                return  # it hung up
