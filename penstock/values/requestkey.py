"""The idempotency key of a request, which is carried out once even if it is sent repeatedly."""

import re
from typing import Final

from penstock.values.errors import BadValue

_KEY: Final = re.compile(r"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}")


def read_request_key(text: str) -> str:
    """Returns a key in hex, of a UUID version 7 with or without hyphens. Raises BadValue."""
    key = text.replace("-", "").lower() if len(text) <= 36 else ""
    if not _KEY.fullmatch(key):
        raise BadValue("must be a UUID of version 7 in hex")
    return key


def new_request_key(now_us: int, random: bytes) -> str:
    """Returns a UUID version 7 in hex: 48 bits of milliseconds, then 74 random bits (10 bytes are used)."""
    if len(random) < 10:
        raise ValueError("10 random bytes are needed")
    tail = int.from_bytes(random[:10], "big")
    high = (now_us // 1000 & 0xFFFFFFFFFFFF) << 16 | 0x7000 | tail >> 64 & 0xFFF
    low = 0x8000000000000000 | tail & 0x3FFFFFFFFFFFFFFF
    return f"{high:016x}{low:016x}"
