"""Exemption from the kernel's OOM killer: an exempt daemon passes the exemption on to no process that it starts.

Imports nothing but `os`: stepds are forked with it loaded, and a process that becomes a user loads it by itself.
"""

import os

_STANDARD_SCORE = b"0"


def allow_oom_kill(pid: int = 0) -> None:
    """Gives a process the standard score; 0 = the calling one. Before it becomes a user: then the file is no longer its
    own.
    """
    try:
        fd = os.open(f"/proc/{pid or 'self'}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, _STANDARD_SCORE)
        finally:
            os.close(fd)
    except OSError:  # it has ended, or a container forbids it: then the daemon is not exempt either
        return
