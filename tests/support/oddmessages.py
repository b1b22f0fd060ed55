"""Random malformed messages: some of their fields, each with an unusual value."""

import contextlib
import random
from typing import Any

from google.protobuf.message_factory import GetMessageClass

_ODD: dict[str, tuple[object, ...]] = {
    "str": ("", "x", "*", "\x1b[2J", "0-4294967295", "n[0-99999999999]", "9" * 5000, "a" * 70_000, "plane=0", "plane=-1",
            "map_cpu:-1", ",,,", "arbitrary", "\0", "\u202e"),
    "bytes": (b"", b"x", b"\0", b"/" * 5000, b"\xff", b"%t" * 2000),
    "int": (0, 1, -1, 2**31 - 1, -(2**31), 65_533, 16_000_001, 4096, 7, 2**32 - 1, 2**63 - 1),
    "bool": (False, True),
}  # fmt: skip


def odd_message(dice: random.Random, kind: Any, depth: int = 0) -> Any:
    """A message of that type with some of its fields, each with an unusual value."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if dice.random() < 0.75 and depth < 3:
            continue
        some = _odd_value(dice, field, depth)
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # out of the field's own range
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                getattr(message, field.name)[dice.choice(_ODD["str"])] = dice.choice(_ODD["int"])
            elif hasattr(getattr(message, field.name), "extend"):
                getattr(message, field.name).extend([some] * dice.choice((1, 2, 3 if depth else 200)))
            elif field.message_type is not None:
                getattr(message, field.name).CopyFrom(some)
            else:
                setattr(message, field.name, some)
    return message


def _odd_value(dice: random.Random, field: Any, depth: int) -> Any:
    if field.message_type is not None:
        return (
            None
            if field.message_type.GetOptions().map_entry
            else odd_message(dice, GetMessageClass(field.message_type), depth + 1)
        )
    kinds = {field.CPPTYPE_STRING: "str", field.CPPTYPE_BOOL: "bool"}
    word = "bytes" if field.type == field.TYPE_BYTES else kinds.get(field.cpp_type, "int")
    return dice.choice(_ODD[word])
