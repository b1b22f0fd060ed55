"""Frames a payload with its length and checksum, for files; payloads are encoded by `penstock.values.packing`.

Stepds are forked by the thousand, and each loaded module makes a fork slower. So this module, and all that they
import, needs nothing beyond `struct` and `zlib`.
"""

import struct
import zlib

from penstock.values.packing import Damaged, dump, load, pack, pack_values, unpack

__all__ = [
    "HEAD_BYTES",
    "PAYLOAD_BYTES_MAX",
    "Damaged",
    "dump",
    "frame",
    "load",
    "pack",
    "pack_values",
    "unframe",
    "unpack",
]

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size
#: A framed payload is a record of a few hundred bytes; a length beyond this is damage, not data.
PAYLOAD_BYTES_MAX = 64 * 1024


def frame(payload: bytes) -> bytes:
    """A payload with its length and checksum."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def unframe(data: bytes, at: int = 0) -> bytes | None:
    """Returns the payload that begins at `at`, or None when it is not complete."""
    if at + HEAD_BYTES > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, at)
    payload = data[at + HEAD_BYTES : at + HEAD_BYTES + length]
    if length > PAYLOAD_BYTES_MAX or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return payload
