"""The one parser of whole numbers in user text, and the range of numbers that are stored and sent.

`int()` accepts too much for a wire and command-line contract: "1_000", "+5", " 5 ", full-width digits and texts of any
length. Here a number is an optional minus sign and ASCII digits, within a range that the caller gives. Sizes with units
are parsed by memory.py, times by duration.py; both use this module for their digits.

Sums of numbers that nodes or users report saturate (`within_int64`): a sum that its column or message cannot hold would
fail each commit, or each answer, that includes it.
"""

from penstock.values.errors import BadValue
from penstock.values.text import shown

# A 64-bit number has at most 20 digits. int() takes quadratic time on longer texts, so they are refused first.
NUMBER_DIGITS_MAX = 20
#: The largest number of a BIGINT column and of an int64 on the wire.
INT64_MAX = (1 << 63) - 1


def within_int64(value: int) -> int:
    """Returns the number, or the nearest that is stored and sent. The range is symmetric: its negation fits as well."""
    return max(-INT64_MAX, min(value, INT64_MAX))


def is_digits(text: str) -> bool:
    """Returns whether `text` is one or more ASCII digits (str.isdigit also accepts superscripts and full-width digits)."""
    return text.isascii() and text.isdigit()


def parse_int(text: str, low: int, high: int, what: str) -> int:
    """Parses a number in the range low..high, both included. Raises BadValue, which names `what` and the range."""
    digits = text[1:] if text.startswith("-") else text
    if not is_digits(digits):
        raise BadValue(f"Invalid {what}: {shown(text)} is not a whole number (allowed: {low} to {high})")
    if len(digits) <= NUMBER_DIGITS_MAX:
        value = int(text)
        if low <= value <= high:
            return value
    raise BadValue(f"Invalid {what}: {shown(text)} is out of range (allowed: {low} to {high})")
