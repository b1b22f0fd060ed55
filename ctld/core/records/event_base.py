"""The base class of all events (events.py), and the caller."""

from enum import IntEnum

import msgspec


class Role(IntEnum):
    """The caller's level, as Slurm's AdminLevel."""

    USER = 0
    OPERATOR = 1
    ADMINISTRATOR = 2


class Actor(msgspec.Struct, frozen=True, gc=False):
    """The authenticated caller: never from a request's fields."""

    uid: int
    gid: int
    user_name: str
    group_name: str
    groups: tuple[str, ...] = ()
    role: Role = Role.USER
    via: str = ""  # the authentication method: socket, token, jwt, certificate
    origin: str = ""  # the host that vouches for them, and the address of the call
    by: "Actor | None" = None  # with --uid: the user who acts as them


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of all events; the tag names them in the flight recorder."""
