"""A list of byte strings as one, and values with their kinds: what small processes and their clients say to each other.

Both sides of a step's streams (stepframes.py) use it, and the node daemon's launcher and stepds, which are forked by the
thousand: what a process has imported is paid at each fork. So this needs nothing beyond `struct`.
"""

import struct


class Damaged(Exception):
    """The bytes are not what `pack` made."""


def pack(parts: list[bytes]) -> bytes:
    """Byte strings as one: their number, their lengths, their bytes."""
    return struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)) + b"".join(parts)


def unpack(data: bytes) -> list[bytes]:
    """What was packed."""
    try:
        (count,) = struct.unpack_from("<I", data)
        lengths = struct.unpack_from(f"<{count}I", data, 4)
    except struct.error as error:
        raise Damaged("cut short") from error
    parts = []
    at = 4 + 4 * count
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    if at != len(data):
        raise Damaged("the lengths do not add up")
    return parts


def pack_values(*values: int | str | bytes) -> bytes:
    """Numbers and texts as one."""
    return pack([v if isinstance(v, bytes) else str(v).encode() for v in values])


#: What `dump` can hold.
Value = int | str | bytes | None | list["Value"] | dict[str, "Value"]


def dump(value: "Value") -> bytes:
    """A value with its kind, whatever it is made of."""
    if value is None:
        return b"n"
    if isinstance(value, int):
        return b"i%d" % value
    if isinstance(value, str):
        return b"s" + value.encode()
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, list):
        return b"l" + pack([dump(item) for item in value])
    return b"d" + pack([part for name, item in value.items() for part in (name.encode(), dump(item))])


def load(data: bytes) -> "Value":
    """The reverse of `dump`. Raises Damaged."""
    kind, rest = data[:1], data[1:]
    if kind == b"n":
        return None
    if kind == b"i":
        return int(rest)
    if kind == b"s":
        return rest.decode()
    if kind == b"b":
        return rest
    if kind == b"l":
        return [load(item) for item in unpack(rest)]
    if kind == b"d":
        parts = unpack(rest)
        return {name.decode(): load(item) for name, item in zip(parts[::2], parts[1::2], strict=True)}
    raise Damaged("a value of a kind that is not known")
