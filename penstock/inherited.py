"""What a daemon that is root passes on to no program of a user.

    session keyring   who has inherited it possesses its keys, those of other owners too (keyrings(7)): root's tickets of
                      Kerberos and of network file systems, and those of other users
    real time         a scheduling policy, or a class of I/O, that a site gives the daemon would let a job starve a node

The kernel's priority (nice) is passed on, as Slurm documents.

Imports nothing but `os` and, where it acts, ctypes: stepds are forked with it loaded, and a process that becomes a user loads it
by itself.
"""

import os

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    import ctypes

_MACHINE = os.uname().machine
_X86_64 = "x86_64"  # the other machines have the generic table
_KEYCTL = {_X86_64: 250}
_KEYCTL_ELSEWHERE = 219
_IOPRIO_SET = {_X86_64: 251}
_IOPRIO_SET_ELSEWHERE = 30
_IOPRIO_GET = {_X86_64: 252}
_IOPRIO_GET_ELSEWHERE = 31
_JOIN_SESSION_KEYRING = 1
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_SHIFT = 13
_IOPRIO_CLASS_REAL_TIME = 1

#: Loaded at the first call. Each load makes a class, which only the collector would free, and stepds run without it.
_libc: "list[ctypes.CDLL]" = []


def begin_empty_session_keyring() -> None:
    """Gives the calling thread, and what it starts, an empty session keyring; nothing unless it is root.

    A kernel without keyrings, and a container that forbids them, do nothing: jobs there have no keys either. Raises OSError
    when the kernel has no room for one.
    """
    if os.geteuid() != 0:
        return
    import errno

    try:
        _call(_KEYCTL.get(_MACHINE, _KEYCTL_ELSEWHERE), _JOIN_SESSION_KEYRING, 0, 0)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            raise


def leave_real_time() -> None:
    """Gives the calling thread, and what it starts, the normal scheduling policy and class of I/O. Raises OSError."""
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK not in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        priority = _call(_IOPRIO_GET.get(_MACHINE, _IOPRIO_GET_ELSEWHERE), _IOPRIO_WHO_PROCESS, 0, 0)
    except OSError:  # a kernel without classes of I/O
        return
    if priority >> _IOPRIO_CLASS_SHIFT == _IOPRIO_CLASS_REAL_TIME:
        _call(_IOPRIO_SET.get(_MACHINE, _IOPRIO_SET_ELSEWHERE), _IOPRIO_WHO_PROCESS, 0, 0)


def _call(number: int, *operands: int) -> int:
    """A system call's result. Raises OSError."""
    import ctypes

    if not _libc:
        _libc.append(ctypes.CDLL(None, use_errno=True))
    result = int(_libc[0].syscall(*map(ctypes.c_long, (number, *operands))))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
