"""Opens a file at a path that a user chose: for root as that user.

A job's output may be a link to a file that its user may not read, or a device or a FIFO whose opening has an effect. So root
does not open it: a process of its own becomes the user, opens the file and hands over the descriptor. It has the socket FD,
on which the question is one line of JSON:

    python -I -S userfile.py FD

Loads nothing but the standard library when it runs as that process, since the user may not be able to read the project.
"""

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: The user's file system may not answer at all.
OPEN_S: Final = 20.0
END_S: Final = 2.0
_QUESTION_BYTES_MAX: Final = 1024 * 1024


def open_as(path: str, user: str) -> int:
    """Returns a descriptor of the file, to be read; as root with the user's own rights. Raises OSError."""
    from cli.base.users import find_entry

    if os.geteuid() != 0:
        return os.open(path, _FLAGS)
    entry = find_entry(user)
    if entry is None:
        raise OSError(errno.EPERM, f"its user {user!r} is not known on this machine")
    if entry.pw_uid == 0:
        return os.open(path, _FLAGS)
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return _opened({"uid": entry.pw_uid, "gid": entry.pw_gid, "groups": groups, "path": path})


def _opened(question: dict[str, object]) -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(theirs.fileno())],
            cwd="/", pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        ours.settimeout(OPEN_S)
        try:
            ours.sendall(json.dumps(question).encode() + b"\n")
            said, descriptors, _, _ = socket.recv_fds(ours, 16, 1)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        finally:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # killed in a system call that does not end
                child.wait(END_S)
    if descriptors:
        os.set_inheritable(descriptors[0], False)
        return int(descriptors[0])
    number = int(said or errno.EPERM)
    raise OSError(number, os.strerror(number))


def _become(uid: int, gid: int, groups: list[int]) -> None:
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _open_for_other_side(fd: int) -> None:
    """The process that becomes the user."""
    with socket.socket(fileno=fd) as wire, wire.makefile("rb") as lines:
        question = json.loads(lines.readline(_QUESTION_BYTES_MAX))
        try:
            _become(question["uid"], question["gid"], question["groups"])
            socket.send_fds(wire, [b"0"], [os.open(question["path"], _FLAGS)])
        except OSError as error:
            wire.sendall(b"%d" % (error.errno or errno.EPERM))


if __name__ == "__main__":
    _open_for_other_side(int(sys.argv[1]))
