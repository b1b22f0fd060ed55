"""The one parser of whole numbers that users type.

`int()` is too kind for a wire and command-line contract: it takes "1_000", "+5", " 5 ", full-width digits and texts
of any length. Here a number is an optional minus sign and ASCII digits, nothing else, inside a range that the caller
names. Sizes with units live in memory.py, times in duration.py; both come back to this function for their digits.
"""

from penstock.values.errors import BadValue
from penstock.values.text import shown

# A 64-bit number has at most 20 digits; int() does quadratic work on longer texts, so they are refused first.
NUMBER_DIGITS_MAX = 20


def is_digits(text: str) -> bool:
    """Only ASCII digits, at least one (str.isdigit alone also takes superscripts and full-width digits)."""
    return text.isascii() and text.isdigit()


def parse_int(text: str, low: int, high: int, what: str) -> int:
    """The number in `text`, or BadValue naming `what` and the range low..high (both allowed)."""
    digits = text[1:] if text.startswith("-") else text
    if not is_digits(digits):
        raise BadValue(f"Invalid {what}: {shown(text)} is not a whole number (allowed: {low} to {high})")
    if len(digits) <= NUMBER_DIGITS_MAX:
        value = int(text)
        if low <= value <= high:
            return value
    raise BadValue(f"Invalid {what}: {shown(text)} is out of range (allowed: {low} to {high})")
