"""The kernel's session keyring: who has inherited it possesses its keys, whoever owns them (keyrings(7)).

So a daemon that is root leaves the one of the login that started it, and each step, and each program that runs as a user, begins
with an empty one: it has neither root's tickets of Kerberos and of network file systems, nor those of another user.

Imports nothing but `os` and, where it acts, ctypes: stepds are forked with it loaded, and a process that becomes a user loads it
by itself.
"""

import os

_NUMBERS = {"x86_64": 250}  # keyctl(2); machines with the generic table have the other one
_NUMBER_ELSEWHERE = 219
_JOIN_SESSION_KEYRING = 1


def begin_empty_session_keyring() -> None:
    """Gives the calling thread, and what it starts, an empty session keyring; nothing unless it is root.

    A kernel without keyrings, and a container that forbids them, do nothing: jobs there have no keys either. Raises OSError
    when the kernel has no room for one.
    """
    if os.geteuid() != 0:
        return
    import ctypes
    import errno

    libc = ctypes.CDLL(None, use_errno=True)
    number = _NUMBERS.get(os.uname().machine, _NUMBER_ELSEWHERE)
    if libc.syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None) < 0:
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            raise OSError(code, f"no session keyring: {os.strerror(code)}")
