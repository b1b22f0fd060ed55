"""A list of byte strings as one: what the node's processes and the clients of a step's streams write to each other.

Light on purpose: the launcher and every stepd are forked by the thousand, and need nothing beyond `struct` for it.
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
