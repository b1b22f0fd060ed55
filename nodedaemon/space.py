"""Room in the spool: before it runs out no new steps are taken, and what runs can still say how it ended.

    SPOOL/reserve   1 MiB that is really allocated. It is given up when the journal cannot be written any more, and taken
                    again as soon as there is room.

Without room the node drains itself ("spool full"): a launch that still comes is answered as never tried, so that the job
goes back to the queue. Running steps go on; the journal of their ends is small (a hundred bytes each), and a step's own
exit record fits into the block that its claim has already.
"""

import errno
import os

RESERVE_NAME = "reserve"
RESERVE_BYTES = 1024 * 1024
#: Below this no step is taken: room for the largest script, and for what runs.
FREE_BYTES_MIN = 6 * 1024 * 1024
#: How often it is looked whether there is room again.
LOOK_S = 10.0
SPOOL_FULL = "spool full"
#: What the system says when there is no room.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Space:
    """The reserve, and how much is free beside it."""

    def __init__(self, dir_fd: int) -> None:
        self._dir_fd = dir_fd
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(RESERVE_NAME, flags, 0o600, dir_fd=dir_fd)
        self.take()

    def is_low(self) -> bool:
        """True when no new step should be taken."""
        status = os.fstatvfs(self._dir_fd)
        return status.f_bavail * status.f_frsize < FREE_BYTES_MIN

    def take(self) -> bool:
        """Have the reserve; False when there is no room for it."""
        try:
            os.posix_fallocate(self._fd, 0, RESERVE_BYTES)
        except OSError:
            return False
        return True

    def give(self) -> bool:
        """Free the reserve; False when there was none."""
        had = os.fstat(self._fd).st_size > 0
        os.ftruncate(self._fd, 0)
        return had

    def close(self) -> None:
        """The file stays."""
        os.close(self._fd)
