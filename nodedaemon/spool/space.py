"""Free space in the spool: before it runs out no new steps are taken, and running ones can still record their ends.

    SPOOL/reserve   1 MiB of allocated blocks. Released when the journal can no longer be written, and allocated
                    again as soon as there is space.

Without space the node drains itself ("spool full"): a launch that still arrives is answered as never tried, so that the
job is requeued. Running steps continue; the journal of their ends is small (a hundred bytes each), and a step's own
exit record fits into the block that its claim occupies.
"""

import errno
import os

RESERVE_NAME = "reserve"
RESERVE_BYTES = 1024 * 1024
#: Below this no step is taken: enough for the largest script, and for running steps.
FREE_BYTES_MIN = 6 * 1024 * 1024
#: Interval of checks whether there is space again.
CHECK_S = 10.0
SPOOL_FULL = "spool full"
#: Errors of the system for lack of space.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Space:
    """The reserve, and the free space beside it."""

    def __init__(self, dir_fd: int) -> None:
        self._dir_fd = dir_fd
        self.is_given = False  # since the reserve was freed for the journal
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(RESERVE_NAME, flags, 0o600, dir_fd=dir_fd)
        self.take()

    def is_low(self) -> bool:
        """True when no new step should be taken."""
        status = os.fstatvfs(self._dir_fd)
        return status.f_bavail * status.f_frsize < FREE_BYTES_MIN

    def take(self) -> bool:
        """Allocates the reserve; False when there is no room for it."""
        try:
            os.posix_fallocate(self._fd, 0, RESERVE_BYTES)
        except OSError:
            return False
        self.is_given = False
        return True

    def give(self) -> bool:
        """Frees the reserve; False when there was none."""
        had = os.fstat(self._fd).st_size > 0
        os.ftruncate(self._fd, 0)
        self.is_given = True
        return had

    def close(self) -> None:
        """Closes the file, which stays."""
        os.close(self._fd)
