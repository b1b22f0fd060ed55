"""The order of many values, in slices: the oracle of ordering.pyx, and what is used where it was not built.

    order = PlainOrdering(); order.add(values, ids) ...; first = order.take(100)

A part is sorted when it is added; the ids of all parts are then taken in the order of their values, of equal values in the
order in which they were added. Texts are ordered by their characters' numbers, which is that of their bytes in UTF-8. The
values of one ordering are all texts, or all integers of 64 bits.
"""

from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import count as numbers
from itertools import islice
from typing import TypeAlias

#: A value, its place among those that were added, its id.
_Item: TypeAlias = tuple[str | int, int, int]


class PlainOrdering:
    """Values with ids. `skipped`: so many bytes, the same ones, begin each text."""

    def __init__(self, skipped: int = 0) -> None:
        self._skipped = skipped
        self._parts: list[list[_Item]] = []
        self._places = numbers()
        self._merged: Iterator[_Item] | None = None

    def add(self, values: list[str | int], ids: "array[int]") -> None:
        """Adds values, an id (of 32 bits) each. Raises ValueError when ids were taken already."""
        if len(values) != len(ids):
            raise ValueError("as many ids as values")
        if self._merged is not None:
            raise ValueError("ids were taken already")
        if any(isinstance(value, str) and len(value.encode()) < self._skipped for value in values):
            raise ValueError("a text is shorter than what all begin with")
        self._parts.append(sorted(zip(values, self._places, ids)))  # noqa: B905 (places have no end)

    def take(self, count: int) -> "array[int]":
        """Returns the next ids, `count` of them or those that are left."""
        if self._merged is None:
            self._merged = merge(*self._parts)
        return array("I", [id for _, _, id in islice(self._merged, count)])
