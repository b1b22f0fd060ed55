"""Parses and applies weights of TRES as in slurm.conf: `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`.

A weight is a decimal number per unit of a TRES. A suffix sets that unit in powers of 1,024: `Mem=0.25G` is a quarter
per gigabyte. Weights are kept as whole millionths with the suffix beside them, so that results are exact and the text
can be reproduced.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.values.errors import BadValue
from penstock.values.text import shown

#: A weight of 1.
WEIGHT_ONE = 1_000_000
#: Far above any sensible weight; keeps the products of a rate within 64 bits.
WEIGHT_MAX = 1_000_000_000 * WEIGHT_ONE
WEIGHTS_MAX = 128

_ITEM = re.compile(
    r"([A-Za-z][\w/:.-]{0,127})[=*](?=\.?[0-9])([0-9]{0,10})(?:\.([0-9]{0,12}))?([KMGTP]?)[bB]?", re.ASCII | re.I
)
_BUILT_IN = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_SPELLED = {"cpu": "CPU", "mem": "Mem", "node": "Node", "energy": "Energy", "billing": "Billing"}
_MEMORY = ("mem", "vmem")
_UNITS = ("", "K", "M", "G", "T", "P")


class Weight(NamedTuple):
    """A weight in millionths (`micro`) per unit of a TRES; the unit of memory without a suffix is megabytes."""

    tres: str
    micro: int
    unit: str = ""

    def scaled(self, amount: int) -> int:
        """Returns amount x weight in millionths, rounded down. Amounts of memory are in megabytes."""
        base = 2 if self.tres in _MEMORY else 0
        shift = 10 * ((_UNITS.index(self.unit) if self.unit else base) - base)
        product = amount * self.micro
        return product >> shift if shift >= 0 else product << -shift


def parse_weights(text: str, what: str) -> tuple[Weight, ...]:
    """Parses weights. Raises BadValue."""
    found: dict[str, Weight] = {}
    items = text.split(",", WEIGHTS_MAX)
    if len(items) > WEIGHTS_MAX:
        raise BadValue(f"Invalid {what}: more than {WEIGHTS_MAX} items")
    for item in items:
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise BadValue(f"Invalid {what}: {shown(item)}; write NAME=NUMBER, as in CPU=1.0,Mem=0.25G,GRES/gpu=2.0")
        name, whole, part, unit = match.groups()
        tres = _name(name)
        micro = int(whole or 0) * WEIGHT_ONE + int(((part or "") + "000000")[:6])
        if micro > WEIGHT_MAX:
            raise BadValue(f"Invalid {what}: {shown(item)}: the largest weight is {WEIGHT_MAX // WEIGHT_ONE}")
        found[tres] = Weight(tres, micro, unit.upper())
    return tuple(found.values())


def _name(name: str) -> str:
    if name.lower() in _BUILT_IN:
        return name.lower()
    kind, slash, rest = name.partition("/")
    return f"{kind.lower()}/{rest}" if slash else name


def format_weights(weights: Iterable[Weight]) -> str:
    """Formats weights in the form that `parse_weights` accepts."""
    parts = []
    for tres, micro, unit in weights:
        whole, rest = divmod(micro, WEIGHT_ONE)
        digits = f"{rest:06d}".rstrip("0") or "0"
        parts.append(f"{_SPELLED.get(tres, tres)}={whole}.{digits}{unit}")
    return ",".join(parts)


def weigh(weights: Iterable[Weight], amounts: Mapping[str, int]) -> list[int]:
    """Returns the weighted part of each TRES of `amounts`, in millionths."""
    return [weight.scaled(amounts.get(weight.tres, 0)) for weight in weights]
