"""Users as commands are told of them: by name or by number. Who tells what of an unknown one is the caller's.

`find_entry` takes either; `named` takes a name and nothing else, for those who keep people by name (accounts): a user may be
called 1000, and is not whoever has that number.
"""

from typing import Any, Final

#: 2**32 - 1 is no user: system calls take it for "leave as it is".
UID_MAX: Final = 2**32 - 2


def named(name: str) -> Any:
    """The pwd entry of a name, None if nobody is called so."""
    import pwd  # needed by few command lines

    try:
        return pwd.getpwnam(name)
    except (KeyError, ValueError):  # ValueError: bytes that no name has
        return None


def numbered(uid: int) -> Any:
    """The pwd entry of a number, None if nobody has it."""
    import pwd

    try:
        return pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None


def find_entry(text: str) -> Any:
    """The pwd entry of a name or number, None if there is nobody."""
    uid = _number(text)
    return named(text) if uid is None else numbered(uid) if uid <= UID_MAX else None


def find_uid(text: str) -> int | None:
    """The uid; a number is taken as it is, whether or not somebody has it here. None if nobody is called so."""
    uid = _number(text)
    if uid is not None:
        return uid if uid <= UID_MAX else None
    entry = named(text)
    return None if entry is None else int(entry.pw_uid)


def login_of(text: str) -> str:
    """A user's name; a number is looked up here, and stays a number if nobody has it."""
    uid = _number(text)
    entry = numbered(uid) if uid is not None else None
    return text if entry is None else str(entry.pw_name)


def _number(text: str) -> int | None:
    """None: it is a name. So many digits that they are no number are UID_MAX + 1."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text.lstrip("0")) <= len(str(UID_MAX)) else UID_MAX + 1
