"""Parses license lists: `matlab:10,ansys@server:2`. A name may include its license server; a missing count means 1."""

from collections.abc import Mapping

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

LICENSES_MAX = 1_000_000_000  # per license
_NAME_EXTRA = frozenset("_-.+@")


def parse_licenses(text: str, words: Mapping[str, Mapping[str, int]] | None = None) -> tuple[tuple[str, int], ...]:
    """Parses names and counts; keeps their order. `words`: by name, words that may stand for a count (variables of
    resources.yaml). Alternatives with `|` are not supported. Raises BadValue."""
    found = {}
    for name, count in split_licenses(text):
        known = words.get(name, {}) if words else {}
        if count in known:
            found[name] = known[count]
        else:
            found[name] = parse_int(count, 0, LICENSES_MAX, f"number of {name} licenses") if count else 1
    return tuple(found.items())


def split_licenses(text: str) -> tuple[tuple[str, str], ...]:
    """Parses names and the texts of their counts, without their meaning. Raises BadValue."""
    if "|" in text:
        raise BadValue(f"Invalid license specification {shown(text)}: '|' (one or the other) is not supported")
    found: dict[str, str] = {}
    for word in text.replace(";", ",").split(","):
        name, _, count = word.strip().replace("=", ":").partition(":")
        if not name or not all(c.isalnum() or c in _NAME_EXTRA for c in name):
            raise BadValue(f"Invalid license specification {shown(text)}: expected NAME[:COUNT], not {shown(word)}")
        if name in found:
            raise BadValue(f"Invalid license specification {shown(text)}: {name} is given twice")
        found[name] = count
    return tuple(found.items())


def format_licenses(licenses: tuple[tuple[str, int], ...]) -> str:
    """Formats licenses as in slurm.conf and jobs."""
    return ",".join(f"{name}:{count}" for name, count in licenses)
