"""The answer as one version states it.

    conform({"jobs": [...]}, operation.answer)

Members that the version does not know are left out; those that the document lacks are there with the value that Slurm
gives to unset ones. A value whose form differs between versions (a number and a number that may be unset, a list and a
text with commas) takes the form of the version. `missing()` lists what a document lacks.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from rest.contract.facts import ListOf, ObjectOf, Scalar, Schema, Words

#: Members that are null in answers of the real daemon when they have no value, against its own schema.
NULLABLE: Final = frozenset(("job_resources", "results"))
#: Gives a value the form of one schema.
Form: TypeAlias = Callable[[object], object]
#: By the schema's identity, with the schema, which keeps it alive.
_FORMS: Final[dict[int, tuple[Schema, Form]]] = {}
#: Types that need no conversion.
_PLAIN: Final[dict[str, type]] = {
    "string": str,
    "boolean": bool,
    "int32": int,
    "int64": int,
    "double": float,
    "number": float,
}


def conform(value: object, schema: Schema) -> object:
    """The value in the form of the schema."""
    return form_of(schema)(value)


def form_of(schema: Schema) -> Form:
    """The function that gives values the form of a schema: made once, since an answer has many records of one schema."""
    known = _FORMS.get(id(schema))
    if known is None:
        known = _FORMS[id(schema)] = (schema, _made(schema))
    return known[1]


def _made(schema: Schema) -> Form:
    if isinstance(schema, ObjectOf):
        return _number(schema) if schema.is_number else _record(schema)
    if isinstance(schema, ListOf):
        return _many(schema)
    if isinstance(schema, Words):
        words = frozenset(schema.words)
        return lambda value: value if isinstance(value, str) and value in words else ""
    return lambda value: _scalar(value, schema)


def _plain(schema: Schema) -> type | None:
    """The type of the values that are in form as they are. Most values are: no function is called for these."""
    return _PLAIN.get(schema.kind) if isinstance(schema, Scalar) else None


def _record(schema: ObjectOf) -> Form:
    members = [(name, _plain(member), form_of(member)) for name, member in schema.members.items()]
    nullable = [name for name in schema.members if name in NULLABLE]

    def form(value: object) -> object:
        have = value if isinstance(value, dict) else {}
        get = have.get
        made = {name: value if type(value := get(name)) is plain else form(value) for name, plain, form in members}
        for name in nullable:
            if name in have and have[name] is None:
                made[name] = None
        return made

    return form


def _many(schema: ListOf) -> Form:
    form, plain = form_of(schema.item), _plain(schema.item)
    words = frozenset(schema.item.words) if isinstance(schema.item, Words) else None

    def items(value: object) -> object:
        found = _items(value)
        if words is not None:
            return [one for one in found if isinstance(one, str) and one in words]
        return [one if type(one) is plain else form(one) for one in found]

    return items


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


def _number(schema: ObjectOf) -> Form:
    is_whole = schema.members["number"] != Scalar("double")
    as_number: Callable[[int | float], int | float] = int if is_whole else float

    def form(value: object) -> object:
        if isinstance(value, dict):
            infinite = bool(value.get("infinite", False))
            found = value.get("number", 0)
            is_set = bool(value.get("set", False)) and not infinite
        else:
            found = _amount(value)
            is_set = isinstance(value, int | float)
            infinite = False
        number = found if isinstance(found, int | float) else 0
        return {"set": is_set, "infinite": infinite, "number": as_number(number)}

    return form


def _items(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and value:
        return list(value.split(","))
    return []


def _scalar(value: object, schema: Scalar) -> object:
    if type(value) is _PLAIN.get(schema.kind):
        return value
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
