"""A request checked by its type, with the coercions of Slurm's parser.

    value, found = parse(body, operation.body)
    found.errors, found.warnings

Accepted with a warning: unknown members (they are left out), numbers as texts, an object in place of a list of texts
(`environment`: NAME=VALUE each). Of a number that may be unset: 5, "5", 5.7 (cut), -1 (infinite), null (unset), and an
object with some of its members. Errors have Slurm's numbers: 9202 a value of another type, 9207 an unknown word, 9209 no
object, and where it is asked for 9200 a required member that is not there. All errors are collected, up to a limit, so
that a caller sees them at once.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rest.contract.facts import ListOf, ObjectOf, Scalar, Schema, Words

#: Slurm's numbers of data errors.
CONVERSION: Final = 9202
UNKNOWN_WORD: Final = 9207
NOT_AN_OBJECT: Final = 9209
NO_MEMBER: Final = 9200
#: An infinite number in what is parsed: no number of a request is negative.
INFINITE: Final = -1
#: Words of a list of flags: some hundred are known.
FLAGS_MAX: Final = 1_024
#: Errors and warnings that one answer lists.
PROBLEMS_MAX: Final = 100
#: Lists of texts that may be one text with commas.
_COMMA_LISTS: Final = frozenset(("csv_string", "hostlist", "hostlist_string"))
_RANGES: Final = {"int32": (-(2**31), 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}
_YES_NO: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
#: Characters of a value that a message quotes.
_SHOWN_MAX: Final = 60
_UNSET: Final = object()
_TEXT_ITEM: Final = Scalar("string")


class BodyProblem(NamedTuple):
    """An error or a warning. `source`: the path of the value, as #/job/name."""

    number: int  # 0 for a warning
    text: str
    source: str


@dataclass(slots=True)
class BodyFindings:
    """All errors and warnings of one request. `must_be_complete`: objects without a required member are errors."""

    must_be_complete: bool = False
    errors: list[BodyProblem] = field(default_factory=list)
    warnings: list[BodyProblem] = field(default_factory=list)

    def error(self, number: int, text: str, source: str) -> None:
        """Adds an error."""
        if len(self.errors) < PROBLEMS_MAX:
            self.errors.append(BodyProblem(number, text, source))

    def warn(self, text: str, source: str) -> None:
        """Adds a warning."""
        if len(self.warnings) < PROBLEMS_MAX:
            self.warnings.append(BodyProblem(0, text, source))


def parse(
    value: object, schema: Schema, source: str = "#", *, must_be_complete: bool = False
) -> tuple[object, BodyFindings]:
    """The value with its known members in the types of the schema, and what was found. Not to be used if there are errors."""
    found = BodyFindings(must_be_complete)
    parsed = _parse(value, schema, source, found)
    return (None if parsed is _UNSET else parsed), found


def _parse(value: object, schema: Schema, source: str, found: BodyFindings) -> object:
    if isinstance(schema, ObjectOf):
        return _number(value, schema, source, found) if schema.is_number else _record(value, schema, source, found)
    if isinstance(schema, ListOf):
        return _many(value, schema, source, found)
    if isinstance(schema, Words):
        return _word(value, schema, source, found)
    return _scalar(value, schema.kind, source, found)


def _record(value: object, schema: ObjectOf, source: str, found: BodyFindings) -> object:
    if not isinstance(value, dict):
        found.error(NOT_AN_OBJECT, f"expected an object, found {_shown(value)}", source)
        return _UNSET
    result: dict[str, object] = {}
    for name, one in value.items():
        member = schema.members.get(name)
        here = f"{source}/{_clip(name)}"
        if member is None:
            found.warn(f"Unknown field: {_clip(name)}", here)
        elif one is not None:
            parsed = _parse(one, member, here, found)
            if parsed is not _UNSET:
                result[name] = parsed
    if found.must_be_complete:
        for name in schema.required:
            if value.get(name) is None and name in schema.members:
                found.error(NO_MEMBER, f"{name} is missing", f"{source}/{name}")
    return result


def _number(value: object, schema: ObjectOf, source: str, found: BodyFindings) -> object:
    kind = schema.members["number"]
    assert isinstance(kind, Scalar)
    if not isinstance(value, dict):
        return _limit(value, kind.kind, source, found)
    for name in value.keys() - schema.members.keys():
        found.warn(f"Unknown field: {_clip(name)}", f"{source}/{_clip(name)}")
    flags = {
        name: _scalar(value[name], "boolean", f"{source}/{name}", found)
        for name in ("set", "infinite")
        if value.get(name) is not None
    }
    if flags.get("infinite") is True:
        return INFINITE
    number = value.get("number")
    if number is None or flags.get("set") is False:
        return _UNSET
    return _limit(number, kind.kind, f"{source}/number", found)


def _limit(value: object, kind: str, source: str, found: BodyFindings) -> object:
    """A number that is infinite if it is -1."""
    parsed = _scalar(value, kind, source, found)
    if parsed is _UNSET or parsed == INFINITE:
        return parsed
    if isinstance(parsed, int | float) and parsed < 0:
        found.error(CONVERSION, f"expected a number from 0 on, or -1 for no limit, found {_shown(value)}", source)
        return _UNSET
    return parsed


def _many(value: object, schema: ListOf, source: str, found: BodyFindings) -> object:
    if isinstance(value, dict) and schema.item == _TEXT_ITEM:
        found.warn("expected a list of texts, found an object: taken as NAME=VALUE each", source)
        value = [f"{name}={one}" if isinstance(one, str | int) else one for name, one in value.items()]
    elif isinstance(value, str):
        if schema.name in _COMMA_LISTS or isinstance(schema.item, Words):
            value = [part for part in value.split(",") if part]
        else:
            found.warn("expected a list, found one text", source)
            value = [value]
    if not isinstance(value, list):
        found.error(CONVERSION, f"expected a list, found {_shown(value)}", source)
        return _UNSET
    if isinstance(schema.item, Words) and len(value) > FLAGS_MAX:
        found.error(CONVERSION, f"{len(value)} flags, the limit is {FLAGS_MAX}", source)
        return _UNSET
    if schema.item == _TEXT_ITEM and all(type(one) is str for one in value):
        return value  # an environment: nothing is converted
    parsed = [_parse(one, schema.item, f"{source}/{index}", found) for index, one in enumerate(value)]
    return [one for one in parsed if one is not _UNSET]


def _word(value: object, schema: Words, source: str, found: BodyFindings) -> object:
    if not isinstance(value, str):
        found.error(CONVERSION, f"expected a text, found {_shown(value)}", source)
        return _UNSET
    if value in schema.words:
        return value
    known = next((word for word in schema.words if word.lower() == value.lower()), None)
    if known is None:
        found.error(UNKNOWN_WORD, f"unknown flag {_shown(value)}", source)
        return _UNSET
    return known


def _scalar(value: object, kind: str, source: str, found: BodyFindings) -> object:
    match kind:
        case "string":
            parsed = _text(value)
        case "boolean":
            parsed = _boolean(value)
        case "int32" | "int64":
            parsed = _whole(value, *_RANGES[kind])
        case "double" | "number":
            parsed = _real(value)
        case _:
            return value
    if parsed is _UNSET:
        found.error(CONVERSION, f"expected {_EXPECTED[kind]}, found {_shown(value)}", source)
    elif type(parsed) is not type(value) and not isinstance(value, int | float):
        found.warn(f"expected {_EXPECTED[kind]}, found {_shown(value)}: converted", source)
    return parsed


_EXPECTED: Final = {
    "string": "a text", "boolean": "true or false", "int32": "a number", "int64": "a number", "double": "a number",
    "number": "a number",
}  # fmt: skip


def _text(value: object) -> object:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _UNSET


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return bool(value) if value in (0, 1) else _UNSET
    return _YES_NO.get(value.lower(), _UNSET) if isinstance(value, str) else _UNSET


def _whole(value: object, low: int, high: int) -> object:
    number = _real(value)
    if isinstance(number, float):
        number = int(number) if abs(number) < high else high + 1
    return number if isinstance(number, int) and low <= number <= high else _UNSET


def _real(value: object) -> object:
    if isinstance(value, bool):
        return _UNSET
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 20:
        return int(value)
    return _UNSET


def _shown(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_clip(value)}"'
        case _:
            return _clip(str(value))


def _clip(text: str) -> str:
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
