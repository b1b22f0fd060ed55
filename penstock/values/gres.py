"""Parses and formats generic resources: `gpu`, `gpu:2`, `gpu:a100:2`, `tmp:1G`, several with commas.

A missing count means 1. Counts may have a suffix K, M, G, T or P (1024-based). The middle word is a type unless it has
the form of a count, so `gpu:1g.5gb` is a type and `gpu:2` a count. The prefix `gres/` or `gres:`, and `=` before the
count, as in TRES, are accepted. A count of 0 is omitted; `none` is the empty request. The configuration defines which
names and types exist.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.values.errors import BadValue
from penstock.values.numbers import NUMBER_DIGITS_MAX, is_digits
from penstock.values.text import shown

GRES_ITEMS_MAX = 64  # kinds of devices in one request or on one node
GRES_COUNT_MAX = 2**48  # counts may be bytes of disk; sums fit 64 bits
_WORD_CHARS_MAX = 64

GPU = "gpu"
#: GRES that are shares of a GPU (gres.conf(5)): they do not count devices.
SHARED_NAMES = ("mps", "shard")
#: Maximum shares per GPU: the smallest share is a thousandth.
SHARES_OF_GPU_MAX = 1_000

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}  # powers of two
_PUNCTUATION = frozenset("_-.")


@dataclass(frozen=True, slots=True, order=True)
class Gres:
    name: str
    type: str  # "" = any
    count: int
    units: tuple[int, ...] = ()  # shares of each GPU of a node, if gres.conf sets them; () = evenly distributed


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Parses a request; keeps its order. Raises BadValue."""
    if text.lower() in ("", "none", "(null)"):
        return ()
    items = text.split(",", GRES_ITEMS_MAX)
    if len(items) > GRES_ITEMS_MAX:
        raise BadValue(f"Invalid generic resource list: more than {GRES_ITEMS_MAX} items")
    parsed = [_parse_item(item) for item in items]
    seen: set[tuple[str, str]] = set()
    for gres in parsed:
        if (gres.name, gres.type) in seen:
            raise BadValue(
                f"Invalid generic resource list: {gres.name}{':' if gres.type else ''}{gres.type} is given twice"
            )
        seen.add((gres.name, gres.type))
    return tuple(gres for gres in parsed if gres.count)


def _parse_item(item: str) -> Gres:
    bare = item[5:] if item[:5] in ("gres/", "gres:") else item
    head, equals, count_text = bare.partition("=")
    name, *rest = head.split(":", 3)
    if not equals and rest and (len(rest) == 2 or _has_count_form(rest[-1])):
        count_text = rest.pop()
    elif not equals:
        count_text = "1"
    gres_type = rest[0] if rest else ""
    if len(rest) > 1 or not _is_word(name) or (rest and not _is_type(gres_type)) or not _has_count_form(count_text):
        raise BadValue(
            f"Invalid generic resource {shown(item)}: write name, name:count or name:type:count, as in gpu:a100:2"
        )
    return Gres(name, gres_type, _count(count_text, item))


def _has_count_form(text: str) -> bool:
    return is_digits(text) or (is_digits(text[:-1]) and text[-1].upper() in _UNITS)


def _count(text: str, item: str) -> int:
    unit = "" if is_digits(text) else text[-1].upper()
    digits = text[: len(text) - len(unit)]
    count = int(digits) << _UNITS[unit] if len(digits) <= NUMBER_DIGITS_MAX else GRES_COUNT_MAX + 1
    if count > GRES_COUNT_MAX:
        raise BadValue(f"Invalid generic resource {shown(item)}: the count is above the limit of {GRES_COUNT_MAX}")
    return count


def _is_word(text: str) -> bool:
    plain = "".join(char for char in text[: _WORD_CHARS_MAX + 1] if char not in _PUNCTUATION)
    return plain.isascii() and plain.isalnum() and text[0].isalnum() and len(text) <= _WORD_CHARS_MAX


def _is_type(text: str) -> bool:
    """Returns whether `text` is a word, but not a number in a notation that counts do not have (1_000, 1e3, 0x10): a
    mistake.
    """
    return _is_word(text) and (is_digits(text) or not (_reads_as(float, text) or _reads_as(lambda t: int(t, 0), text)))


def _reads_as(number: Callable[[str], float], text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return True


def format_node_gres(gres: tuple[Gres, ...]) -> str:
    """Formats GRES as nodes show them: `gpu:a100:2`; "" for none."""
    return ",".join(":".join(filter(None, (one.name, one.type, str(one.count)))) for one in gres)


def format_gres(gres: tuple[Gres, ...]) -> str:
    """Formats GRES as jobs show them: `gres/gpu:a100:2`; "" for none."""
    return ",".join(f"gres/{format_node_gres((one,))}" for one in gres)
