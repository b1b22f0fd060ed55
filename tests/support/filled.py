"""Records in which every field is set, so that a test of all fields covers new ones."""

from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

Record = TypeVar("Record", bound=msgspec.Struct)


def said(kind: Any) -> Any:
    """A value of a field's type that is not its default. An int is 2, so that it is no default of a count either."""
    kinds = get_args(kind)
    if type(None) in kinds:
        return said(kinds[0])
    if hasattr(kind, "__annotations__") and hasattr(kind, "_fields"):  # a NamedTuple
        return kind(*map(said, get_type_hints(kind).values()))
    if kinds:  # a tuple of any length, or of as many
        return tuple(said(one) for one in kinds if one is not Ellipsis)
    return {bool: True, int: 2, str: "x", bytes: b"x"}.get(kind) or list(kind)[1]


def filled(kind: type[Record], **given: Any) -> Record:
    """A record with a value in each field; some are given."""
    return kind(**({field.name: said(field.type) for field in msgspec.structs.fields(kind)} | given))
