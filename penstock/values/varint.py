"""Whole numbers of variable length, as protobuf's base-128 varints: seven bits a byte, the lowest first.

Pure, and imports nothing: time lines of steps use it, and a stepd is forked for each.
"""


def put_varint(out: bytearray, number: int) -> None:
    """Appends a number that is not negative."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


#: Numbers of one byte.
_SMALL = tuple(bytes((number,)) for number in range(0x80))
_NUMBER, _TEXT = 0, 2


def varint(number: int) -> bytes:
    """Returns a number that is not negative."""
    if number < 0x80:
        return _SMALL[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    put_varint(out, number)
    return bytes(out)


def number_tag(field: int) -> bytes:
    """Returns the tag of a protobuf field whose value is a varint."""
    return varint(field << 3 | _NUMBER)


def text_tag(field: int) -> bytes:
    """Returns the tag of a protobuf field whose value has a length: text, bytes, a message."""
    return varint(field << 3 | _TEXT)
