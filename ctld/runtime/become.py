"""Switches to a user and executes a program: run as a process of its own, by programs.start.

    python -I -S become.py FD UID GID GID,GID... PROGRAM [WORD...]

A failure is written to descriptor FD as an errno; if FD is closed without one, the program was executed. It is a
separate process, because Python forks to start a program with a uid, and a fork of the controller copies its page
tables on the loop: tens of milliseconds for each GB. This one is started without a uid, and loads nothing but the
standard library and two small modules of the project.
"""

import errno
import os
import signal
import sys

if __name__ == "__main__":  # -I omits the project; it comes last, so that it cannot shadow the standard library
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from penstock.inherited import begin_empty_session_keyring, leave_real_time
from penstock.oom import allow_oom_kill


def main(fd: int, uid: int, gid: int, groups: list[int], words: list[str]) -> None:
    """Runs the program. Never returns."""
    os.set_inheritable(fd, False)
    try:
        allow_oom_kill()  # first: after the switch the file is not writable
        begin_empty_session_keyring()
        leave_real_time()
        os.umask(0o022)
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
            raise OSError(errno.EPERM, "")
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(ignored, signal.SIG_DFL)
        os.environ.pop("LC_CTYPE", None)  # set by Python itself where no locale is set
        os.execvp(words[0], words)  # noqa: S606 (as the user whose program it is)
    except OSError as error:
        os.write(fd, b"%d" % (error.errno or errno.EPERM))
    finally:
        os._exit(127)


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        [int(g) for g in sys.argv[4].split(",") if g],
        sys.argv[5:],
    )
