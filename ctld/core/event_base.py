"""What all events have in common (events.py): who asks, and their base."""

from enum import IntEnum

import msgspec


class Role(IntEnum):
    """What a caller may do, as Slurm's AdminLevel."""

    USER = 0
    OPERATOR = 1
    ADMINISTRATOR = 2


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who asks: from authentication, never from a request's fields."""

    uid: int
    gid: int
    user_name: str
    group_name: str
    groups: tuple[str, ...] = ()
    role: Role = Role.USER
    via: str = ""  # how he was known: socket, token, jwt, certificate
    origin: str = ""  # from where: the host that speaks for him, and the address of the call
    by: "Actor | None" = None  # with --uid: who it is that acts as him


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of all events; the tag names them in the flight recorder."""
