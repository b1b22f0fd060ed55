"""Parses and formats memory sizes: `4G`, `512K`, `1500` as text, whole megabytes (1024-based) as values.

The unit is K, M, G, T or P in either case, with an optional B; without one the number is megabytes. Kilobytes are
rounded up, so that a job never gets less than it requested. Fractions, signs and exponents are refused: a size has one
spelling. Callers define the meaning of 0 (all memory of a node).
"""

from penstock.values.errors import BadValue
from penstock.values.numbers import NUMBER_DIGITS_MAX, is_digits
from penstock.values.text import shown

MEM_MB_MAX = 2**40  # an exabyte: sums over any cluster stay far inside a 64-bit database column

_SUFFIXES = "MGTP"  # each is 1024 times the previous one


def parse_mb(text: str, what: str = "memory") -> int:
    """Parses a memory size to megabytes. Raises BadValue."""
    unit = text.upper()
    if len(unit) > 2 and unit[-1] == "B" and not unit[-2].isdigit():
        unit = unit[:-1]
    suffix = unit[-1:] if unit[-1:] and unit[-1:] in "K" + _SUFFIXES else ""
    digits = unit[: len(unit) - len(suffix)]
    if not is_digits(digits):
        raise BadValue(f"Invalid {what} {shown(text)}: write a whole number and K, M, G, T or P (default M)")
    if len(digits) <= NUMBER_DIGITS_MAX:
        number = int(digits)
        mb = -(-number // 1024) if suffix == "K" else number << 10 * _SUFFIXES.index(suffix or "M")
        if mb <= MEM_MB_MAX:
            return mb
    raise BadValue(f"Invalid {what} {shown(text)}: more than the limit of {format_mb(MEM_MB_MAX)}")


def format_mb(mb: int) -> str:
    """Formats a size with the largest unit that represents it exactly: 4096 is `4G`, 1000 is `1000M`, 0 is `0`."""
    if mb == 0:
        return "0"
    power = 0
    while power < len(_SUFFIXES) - 1 and mb % 1024 == 0:
        mb //= 1024
        power += 1
    return f"{mb}{_SUFFIXES[power]}"
