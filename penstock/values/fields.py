"""Fields of a record, by name, before the record exists or is changed.

Tables of readers collect `Fields`. The record's declaration states the types of the values; mypy knows them no more, as
it would not with keyword arguments. `made_of` is the one place where they become arguments.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

Fields: TypeAlias = dict[str, object]
R = TypeVar("R")


def made_of(make: Callable[..., R], fields: Mapping[str, object]) -> R:
    """The record that its class, or its method _replace, makes of the fields. Where time counts, a module declares its
    class as `Callable[..., R]` instead, and calls it itself."""
    return make(**fields)
