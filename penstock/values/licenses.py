"""License lists: `matlab:10,ansys@server:2`. A name may carry the server that hands it out; no count means one."""

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

LICENSES_MAX = 1_000_000_000  # of one kind
_NAME_EXTRA = frozenset("_-.+@")


def parse_licenses(text: str) -> tuple[tuple[str, int], ...]:
    """Names and counts, in the order given. Raises BadValue; alternatives with `|` are not supported."""
    if "|" in text:
        raise BadValue(f"Invalid license specification {shown(text)}: '|' (one or the other) is not supported")
    found: dict[str, int] = {}
    for word in text.replace(";", ",").split(","):
        name, _, count = word.strip().replace("=", ":").partition(":")
        if not name or not all(c.isalnum() or c in _NAME_EXTRA for c in name):
            raise BadValue(f"Invalid license specification {shown(text)}: expected NAME[:COUNT], not {shown(word)}")
        if name in found:
            raise BadValue(f"Invalid license specification {shown(text)}: {name} is given twice")
        found[name] = parse_int(count, 0, LICENSES_MAX, f"number of {name} licenses") if count else 1
    return tuple(found.items())


def format_licenses(licenses: tuple[tuple[str, int], ...]) -> str:
    """As slurm.conf and jobs show it."""
    return ",".join(f"{name}:{count}" for name, count in licenses)
