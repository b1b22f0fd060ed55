"""Reads what a node has answered about a running step. A node may answer anything: what a value must not be is left out."""

from typing import Final

from penstock.values.numbers import within_int64
from penstock.values.text import clean_line

_TEXT_CHARS_MAX: Final = 400
#: Greater than all ranks and process numbers.
_ID_MAX: Final = 2**31 - 1


def lists(value: object, length: int) -> list[list[object]]:
    """The lists of this length in a list."""
    return [one for one in value if isinstance(one, list) and len(one) == length] if isinstance(value, list) else []


def number(value: object) -> int:
    """A number from 0; 0 for what is none."""
    return within_int64(max(value, 0)) if isinstance(value, int) else 0


def ids(value: object) -> list[int]:
    """The ranks or process numbers in a list."""
    return [one for one in value if is_id(one)] if isinstance(value, list) else []


def is_id(value: object) -> bool:
    """Whether it can be a rank or a process number."""
    return type(value) is int and 0 <= value <= _ID_MAX


def text(value: object) -> str:
    """A text as one line; "" for what is none."""
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return clean_line(found[:_TEXT_CHARS_MAX]) if isinstance(found, str) else ""
