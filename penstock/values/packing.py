"""Packs lists of byte strings, and typed values, into one byte string: the encoding between small processes and their
clients.

Both ends of a step's streams (stepframes.py), the node daemon's launcher and stepds use it. Stepds are forked by the
thousand, and each fork pays for the imported modules, so this one needs only `struct` and `itertools`.
"""

import struct
from itertools import accumulate, pairwise


class Damaged(Exception):
    """The error for bytes that `pack` did not make."""


def pack(parts: list[bytes]) -> bytes:
    """Packs byte strings into one: their number, their lengths, their bytes."""
    return struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)) + b"".join(parts)


def unpack(data: bytes) -> list[bytes]:
    """Unpacks byte strings. Raises Damaged."""
    try:
        (count,) = struct.unpack_from("<I", data)
        lengths = struct.unpack_from(f"<{count}I", data, 4)
    except struct.error as error:
        raise Damaged("cut short") from error
    places = list(accumulate(lengths, initial=4 + 4 * count))
    if places[-1] != len(data):
        raise Damaged("the lengths do not add up")
    return [data[begin:end] for begin, end in pairwise(places)]


def pack_values(*values: int | str | bytes) -> bytes:
    """Packs numbers and texts into one byte string."""
    return pack([v if isinstance(v, bytes) else str(v).encode() for v in values])


#: The types that `dump` encodes.
PackedValue = int | str | bytes | None | list["PackedValue"] | dict[str, "PackedValue"]


def dump(value: "PackedValue") -> bytes:
    """Encodes a value, nested to any depth, with its type."""
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


def load(data: bytes) -> "PackedValue":
    """Decodes a value that `dump` encoded. Raises Damaged."""
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
