"""Trackable resources as text: `cpu=4,mem=100M,node=1,billing=4,gres/gpu=2`.

Inside a mapping from name to whole number; memory (`mem`, `vmem`) is in megabytes and has units outside. The order is
Slurm's: the built-in ones, then the rest by name. What may be counted at all is the configuration's business.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from penstock.values.errors import BadValue
from penstock.values.gres import Gres
from penstock.values.memory import format_mb, parse_mb
from penstock.values.numbers import parse_int
from penstock.values.text import shown

TRES_ITEMS_MAX = 128  # far more kinds than a site has
TRES_COUNT_MAX = 2**53  # room below a 64-bit column for sums over all jobs
_NAME_CHARS_MAX = 128
#: Texts that are remembered: the jobs of a cluster ask for few different amounts, and each has the same text as the last.
TEXTS_KEPT = 4_096

_ORDER = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_RANK = {name: rank for rank, name in enumerate(_ORDER)}
_MEMORY = ("mem", "vmem")
_PUNCTUATION = frozenset("/:_-.")


def parse_tres(text: str) -> dict[str, int]:
    """Name to amount, in the order given; "" gives {}."""
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
    """All amounts in Slurm's order; leaving out zeros is up to the caller."""
    return _formatted(tuple(amounts.items()))


@lru_cache(maxsize=TEXTS_KEPT)
def _formatted(amounts: tuple[tuple[str, int], ...]) -> str:
    found = sorted(amounts, key=lambda item: (_RANK.get(item[0], len(_RANK)), item[0]))
    return ",".join([f"{name}={format_mb(amount) if name in _MEMORY else amount}" for name, amount in found])


def gres_keys(name: str, type_: str) -> tuple[str, ...]:
    """The names under which one kind of GRES is counted: gres/gpu, and gres/gpu:a100 as well when it has a type."""
    return (f"gres/{name}", f"gres/{name}:{type_}") if type_ else (f"gres/{name}",)


def there_is(nodes: Iterable[tuple[int, int, Iterable[Gres]]]) -> dict[str, int]:
    """What nodes have together, by TRES: of (CPUs, MB, GRES) each. Licences and billing are the cluster's, not theirs."""
    tres = {"cpu": 0, "mem": 0, "node": 0}
    for cpus, mem_mb, kinds in nodes:
        tres["cpu"] += cpus
        tres["mem"] += mem_mb
        tres["node"] += 1
        for gres in kinds:
            for key in gres_keys(gres.name, gres.type):
                tres[key] = tres.get(key, 0) + gres.count
    return tres
