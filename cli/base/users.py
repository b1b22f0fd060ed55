"""Resolves users that a command line gives by name or by number. The message for an unknown one is the caller's.

`find_entry` takes either; `named` takes a name only, for records that identify users by name (accounts): a user may be
called 1000 and have another uid.
"""

from typing import TYPE_CHECKING, Final

from penstock.values.names import why_no_login

if TYPE_CHECKING:
    from pwd import struct_passwd

#: 2**32 - 1 is not a uid: to system calls it means "leave unchanged".
UID_MAX: Final = 2**32 - 2


def named(name: str) -> "struct_passwd | None":
    """The pwd entry of a name, None if there is none."""
    import pwd  # needed by few command lines

    if why_no_login(name):  # before it reaches NSS modules, which a long one ends
        return None
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def named_group(name: str) -> int | None:
    """The gid of a group's name, None if there is none."""
    import grp

    if why_no_login(name):
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def numbered(uid: int) -> "struct_passwd | None":
    """The pwd entry of a number, None if there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None


def find_entry(text: str) -> "struct_passwd | None":
    """The pwd entry of a name or number, None if there is none."""
    uid = _number(text)
    return named(text) if uid is None else numbered(uid) if uid <= UID_MAX else None


def find_uid(text: str) -> int | None:
    """The uid; a number is returned unchanged, whether or not it exists here. None for an unknown name."""
    uid = _number(text)
    if uid is not None:
        return uid if uid <= UID_MAX else None
    entry = named(text)
    return None if entry is None else int(entry.pw_uid)


def login_of(text: str) -> str:
    """A user's name; a number is resolved on this machine, and stays a number if it is unknown."""
    uid = _number(text)
    entry = numbered(uid) if uid is not None else None
    return text if entry is None else str(entry.pw_name)


def _number(text: str) -> int | None:
    """The number in a text, or None for a name. Too many digits give UID_MAX + 1."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= len(str(UID_MAX)) else UID_MAX + 1
