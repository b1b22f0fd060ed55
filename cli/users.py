"""Users as commands are told of them: by name or by number. Who tells what of an unknown one is the caller's."""

from typing import Any, Final

#: 2**32 - 1 is no user: system calls take it for "leave as it is".
UID_MAX: Final = 2**32 - 2


def find_entry(text: str) -> Any:
    """The pwd entry of a name or number, None if there is nobody."""
    import pwd  # needed by few command lines

    try:
        return pwd.getpwuid(int(text)) if text.isascii() and text.isdigit() else pwd.getpwnam(text)
    except (KeyError, OverflowError, ValueError):
        return None


def find_uid(text: str) -> int | None:
    """The uid; a number is taken as it is, whether or not somebody has it here. None if nobody is called so."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(UID_MAX)):
        return int(text) if int(text) <= UID_MAX else None
    entry = find_entry(text)
    return None if entry is None else int(entry.pw_uid)
