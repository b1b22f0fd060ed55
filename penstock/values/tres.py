"""Parses and formats trackable resources: `cpu=4,mem=100M,node=1,billing=4,gres/gpu=2`.

The value is a mapping from name to whole number; memory (`mem`, `vmem`) is in megabytes, and has units in text. The
order is Slurm's: the built-in TRES, then the others by name. The configuration defines which TRES are tracked.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from penstock.values.errors import BadValue
from penstock.values.gres import Gres
from penstock.values.memory import format_mb, parse_mb
from penstock.values.numbers import parse_int
from penstock.values.text import shown

TRES_ITEMS_MAX = 128  # far more than any site tracks
TRES_COUNT_MAX = 2**53  # leaves room for sums over all jobs in a 64-bit column
_NAME_CHARS_MAX = 128
#: Cached texts: the jobs of a cluster request few different amounts.
TEXTS_KEPT = 4_096

_ORDER = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_RANK = {name: rank for rank, name in enumerate(_ORDER)}
_MEMORY = ("mem", "vmem")
_PUNCTUATION = frozenset("/:_-.")


def parse_tres(text: str) -> dict[str, int]:
    """Parses TRES to amounts by name, in the order given; "" gives {}. Raises BadValue."""
    amounts: dict[str, int] = {}
    if not text:
        return amounts
    items = text.split(",", TRES_ITEMS_MAX)
    if len(items) > TRES_ITEMS_MAX:
        raise BadValue(f"Invalid TRES list: more than {TRES_ITEMS_MAX} items")
    for item in items:
        name, equals, amount = item.partition("=")
        name = name.lower() if name.lower() in _RANK else name
        if not equals or not _is_name(name):
            raise BadValue(f"Invalid TRES {shown(item)}: write name=amount, as in cpu=4,mem=100M,gres/gpu=2")
        if name in amounts:
            raise BadValue(f"Invalid TRES list: {name} is given twice")
        what = f"TRES {name}"
        amounts[name] = parse_mb(amount, what) if name in _MEMORY else parse_int(amount, 0, TRES_COUNT_MAX, what)
    return amounts


def _is_name(name: str) -> bool:
    plain = "".join(char for char in name[: _NAME_CHARS_MAX + 1] if char not in _PUNCTUATION)
    return plain.isascii() and plain.isalnum() and len(name) <= _NAME_CHARS_MAX


def format_tres(amounts: Mapping[str, int]) -> str:
    """Formats all amounts in Slurm's order, including zeros."""
    return _formatted(tuple(amounts.items()))


@lru_cache(maxsize=TEXTS_KEPT)
def _formatted(amounts: tuple[tuple[str, int], ...]) -> str:
    found = sorted(amounts, key=lambda item: (_RANK.get(item[0], len(_RANK)), item[0]))
    return ",".join([f"{name}={format_mb(amount) if name in _MEMORY else amount}" for name, amount in found])


def gres_keys(name: str, type_: str) -> tuple[str, ...]:
    """Returns the names under which a kind of GRES is counted: gres/gpu, and with a type gres/gpu:a100, too."""
    return (f"gres/{name}", f"gres/{name}:{type_}") if type_ else (f"gres/{name}",)


def there_is(nodes: Iterable[tuple[int, int, Iterable[Gres]]]) -> dict[str, int]:
    """Returns the totals of nodes by TRES, from (CPUs, MB, GRES) of each. Licenses and billing do not belong to nodes."""
    tres = {"cpu": 0, "mem": 0, "node": 0}
    for cpus, mem_mb, kinds in nodes:
        tres["cpu"] += cpus
        tres["mem"] += mem_mb
        tres["node"] += 1
        for gres in kinds:
            for key in gres_keys(gres.name, gres.type):
                tres[key] = tres.get(key, 0) + gres.count
    return tres
