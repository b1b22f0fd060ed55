"""Whole numbers of variable length, as protobuf's base-128 varints: seven bits a byte, the lowest first.

Pure, and imports nothing: time lines of steps use it, and a stepd is forked for each.
"""


def put_varint(out: bytearray, number: int) -> None:
    """Appends a number that is not negative."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def varint(number: int) -> bytes:
    """Returns a number that is not negative."""
    out = bytearray()
    put_varint(out, number)
    return bytes(out)
