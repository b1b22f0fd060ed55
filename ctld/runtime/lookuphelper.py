"""Looks up users and groups in the system's databases: run as a process of its own, by lookups.py.

    python -I -S lookuphelper.py FD

NSS modules (nss-systemd, sssd, LDAP) run in the process that asks, and one that aborts or hangs takes it along: this
process, and not the controller. As root it becomes NOBODY first; every user may ask the same questions. It ends with the
socket FD, on which a question is the JSON list of a name in ASKED and its arguments, and an answer the function's, each
after its length in four bytes. Loads nothing but the standard library and one small module of the project.
"""

import grp
import json
import os
import pwd
import resource
import socket
import struct
import sys

if __name__ == "__main__":  # -I omits the project; it comes last, so that it cannot shadow the standard library
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from penstock.oom import allow_oom_kill

TYPE_CHECKING = False  # avoids importing `typing`, which would double the time of the start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

LENGTH = struct.Struct(">I")
#: The kernel's overflow uid and gid: rights that every user has. No name is looked up before the switch.
NOBODY = 65_534


def _text(name: str) -> str:
    """A name as UTF-8: bytes that are none are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def uid_of(name: str) -> int:
    """The uid of a user's name."""
    return pwd.getpwnam(name).pw_uid


def name_of(uid: int) -> str:
    """The name of a uid."""
    return _text(pwd.getpwuid(uid).pw_name)


def group_name(gid: int) -> str:
    """The name of a gid."""
    return _text(grp.getgrgid(gid).gr_name)


def members(group: str) -> list[int]:
    """The uids of a group's listed members."""
    return [uid for name in grp.getgrnam(group).gr_mem if (uid := _found(uid_of, name)) is not None]


def account(uid: int) -> list[object]:
    """A uid's name, primary gid, and (gid, name) of all its groups; a group without a name has its number for one."""
    entry = pwd.getpwuid(uid)
    gids = dict.fromkeys((entry.pw_gid, *os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return [_text(entry.pw_name), entry.pw_gid, [(gid, _found(group_name, gid) or str(gid)) for gid in gids]]


def identity(name: str) -> list[object]:
    """The uid, gid and all gids of a user's name."""
    entry = pwd.getpwnam(name)
    return [entry.pw_uid, entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)]


def groups(name: str, gid: int) -> list[int]:
    """The gids of a user whose primary one is `gid`."""
    return os.getgrouplist(name, gid)


ASKED: "dict[str, Callable[..., object]]" = {
    one.__name__: one for one in (uid_of, name_of, group_name, members, account, identity, groups)
}


def _found(ask: "Callable[..., T]", *values: object) -> "T | None":
    """The answer; None for what is not known."""
    try:
        return ask(*values)
    except (KeyError, ValueError, OverflowError):  # ValueError: a NUL byte; OverflowError: no uid has that number
        return None


def receive(wire: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; b"" at the end of the stream."""
    data = b""
    while len(data) < size:
        piece = wire.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data


def main(fd: int) -> None:
    """Answers until the other side closes."""
    allow_oom_kill()  # first: after the switch the file is not writable
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a module that aborts again and again fills no disk
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    with socket.socket(fileno=fd) as wire:
        while head := receive(wire, LENGTH.size):
            name, *values = json.loads(receive(wire, *LENGTH.unpack(head)))
            answer = json.dumps(_found(ASKED[name], *values)).encode()
            wire.sendall(LENGTH.pack(len(answer)) + answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
