"""The answer as one version states it.

    conform({"jobs": [...]}, operation.answer)

Members that the version does not know are left out; those that the document lacks are there with the value that Slurm
gives to unset ones. A value whose form differs between versions (a number and a number that may be unset, a list and a
text with commas) takes the form of the version. `missing()` lists what a document lacks.
"""

from collections.abc import Iterator
from typing import Final

from rest.contract.facts import ListOf, ObjectOf, Scalar, Schema, Words

#: Members that are null in answers of the real daemon when they have no value, against its own schema.
NULLABLE: Final = frozenset(("job_resources", "results"))


def conform(value: object, schema: Schema) -> object:
    """The value in the form of the schema."""
    if isinstance(schema, ObjectOf):
        if schema.is_number:
            return _number(value, schema)
        have = value if isinstance(value, dict) else {}
        return {
            name: None if name in NULLABLE and name in have and have[name] is None else conform(have.get(name), member)
            for name, member in schema.members.items()
        }
    if isinstance(schema, ListOf):
        return [conform(item, schema.item) for item in _items(value) if _is_known(item, schema.item)]
    if isinstance(schema, Words):
        return value if value in schema.words else ""
    return _scalar(value, schema)


def unset(schema: Schema) -> object:
    """The value of this type that means nothing."""
    return conform(None, schema)


def missing(value: object, schema: Schema, path: str = "") -> Iterator[str]:
    """The members that the value lacks, as paths with dots: those that `conform` only fills in. Of lists the first item."""
    if isinstance(schema, ObjectOf) and not schema.is_number and isinstance(value, dict):
        for name, member in schema.members.items():
            here = f"{path}.{name}" if path else name
            if name not in value:
                yield here
            else:
                yield from missing(value[name], member, here)
    elif isinstance(schema, ListOf) and isinstance(value, list | tuple) and value:
        yield from missing(value[0], schema.item, path)


def _number(value: object, schema: ObjectOf) -> dict[str, object]:
    is_whole = schema.members["number"] != Scalar("double")
    if isinstance(value, dict):
        infinite = bool(value.get("infinite", False))
        found = value.get("number", 0)
        is_set = bool(value.get("set", False)) and not infinite
    else:
        found = _amount(value)
        is_set = isinstance(value, int | float)
        infinite = False
    number = found if isinstance(found, int | float) else 0
    return {"set": is_set, "infinite": infinite, "number": int(number) if is_whole else float(number)}


def _items(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and value:
        return list(value.split(","))
    return []


def _is_known(item: object, schema: Schema) -> bool:
    return not isinstance(schema, Words) or item in schema.words


def _scalar(value: object, schema: Scalar) -> object:
    if isinstance(value, dict) and "number" in value:
        value = value["number"] if value.get("set") else None
    match schema.kind:
        case "string":
            if isinstance(value, list | tuple):
                return ",".join(map(str, value))
            return "" if value is None or isinstance(value, dict) else str(value)
        case "boolean":
            return bool(value)
        case "int32" | "int64":
            return int(_amount(value))
        case "double" | "number":
            return float(_amount(value))
        case _:
            return value


def _amount(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else 0
