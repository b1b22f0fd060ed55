"""Small codecs for light processes: a list of byte strings as one, values with their kinds, and a checked payload.

The launcher and every stepd are forked by the thousand, and what a process has imported is paid at each fork. So
this, and all that they import, needs nothing beyond `struct` and `zlib`.
"""

import struct
import zlib

from penstock.values.packing import Damaged as Damaged
from penstock.values.packing import pack as pack
from penstock.values.packing import pack_values as pack_values
from penstock.values.packing import unpack as unpack

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size
#: A framed payload is a record of a few hundred bytes; a length beyond this is damage, not data.
PAYLOAD_BYTES_MAX = 64 * 1024


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


def frame(payload: bytes) -> bytes:
    """A payload with its length and checksum."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def unframe(data: bytes, at: int = 0) -> bytes | None:
    """The payload that begins at `at`, or None when it is not whole."""
    if at + HEAD_BYTES > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, at)
    payload = data[at + HEAD_BYTES : at + HEAD_BYTES + length]
    if length > PAYLOAD_BYTES_MAX or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return payload
