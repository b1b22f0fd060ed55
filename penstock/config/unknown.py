"""The message for a key that a line does not have."""

from difflib import get_close_matches
from functools import lru_cache

from penstock.config.keys import GLOBALS, KEY_CHARS_MAX, NODES, PARTITIONS, Table


@lru_cache(maxsize=256)
def unknown(name: str, table: Table) -> str:
    """Returns the message for a key in no table: the most similar name, or the kind of line that has this key."""
    if len(name) > KEY_CHARS_MAX:
        return f"unknown parameter {name[:KEY_CHARS_MAX]}..."
    close = get_close_matches(name.lower(), table.by_name, n=1, cutoff=0.75)
    if close:
        return f"unknown parameter {name} (did you mean {table.by_name[close[0]].name}?)"
    for other in (GLOBALS, NODES, PARTITIONS):
        if other is not table and (key := other.find(name)):
            place = f"on a {other.what} line" if other.what else "on a line of its own"
            return f"parameter {key.name} belongs {place}"
    close = get_close_matches(name.lower(), table.by_name, n=1, cutoff=0.4)
    return f"unknown parameter {name}" + (f" (did you mean {table.by_name[close[0]].name}?)" if close else "")
