"""Requests to the REST interface made from its own contract: each parameter and each member of each body, one at a time.

for path, body in requests_of(operation, Filling(TEXTS, NUMBERS, lambda item: [[item]])):
    ...

A member stands in a record that has what it needs to be looked at (IDENTITY).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from rest.contract.facts import NEWEST, VERSION_MARK, ListOf, ObjectOf, Operation, Scalar, Schema, Words, load
from rest.handlers import own

OPERATIONS = [
    *(one for path in load().versions[NEWEST].operations.values() for one in path.values()),
    *(one.operation() for one in own.OWN_PATHS),
]
#: What a record needs to be looked at; only those members that its schema has.
IDENTITY = {
    "name": "x", "id": 1, "account": "a", "user": "u", "cluster": "test", "script": "#!/bin/sh\n", "current_working_directory": "/tmp",
    "environment": ["A=1"], "job_id_list": ["1"], "accounts": ["a"], "users": ["u"], "jobs": ["1"], "partition": "p",
    "node_list": ["n1"], "start_time": 1_800_000_000, "duration": 60,
}  # fmt: skip
DEPTH_MAX = 6


class Filling(NamedTuple):
    """What members are filled with. `lists`: the lists to try, made of one item."""

    texts: Sequence[str]
    numbers: Sequence[float]
    lists: Callable[[Any], Iterator[list[Any]]]


def path_of(operation: Operation) -> str:
    """The path with its version."""
    return operation.path.replace(VERSION_MARK, operation.version)


def requests_of(operation: Operation, filling: Filling) -> Iterator[tuple[str, Any]]:
    """Paths, with a query, and bodies; without a body it is None."""
    path = path_of(operation)
    ones = {one.name: "1" for one in operation.parameters}
    for parameter in operation.parameters:
        for text in (*filling.texts, *map(str, filling.numbers)):
            quoted = quote(text, safe="")
            if parameter.place == "query":
                yield f"{path.format_map(ones)}?{parameter.name}={quoted}", None
            elif quoted not in ("", ".", ".."):
                yield path.format_map({**ones, parameter.name: quoted}), None
    if operation.body is not None:
        yield from ((path.format_map(ones), body) for body in bodies(operation.body, filling))


def bodies(schema: Schema, filling: Filling, depth: int = 0) -> Iterator[Any]:
    """Values of a schema; each has one member that is filled."""
    if depth > DEPTH_MAX:
        return
    if isinstance(schema, Scalar):
        yield from filling.texts if schema.kind == "string" else filling.numbers
    elif isinstance(schema, Words):
        yield from (schema.words[0], schema.words[-1], "nonsense")
    elif isinstance(schema, ListOf):
        for one in bodies(schema.item, filling, depth + 1):
            yield from filling.lists(one)
    elif schema.is_number:
        yield from filling.numbers
        yield {"set": True, "infinite": True, "number": 0}
        yield from ({"set": True, "infinite": False, "number": one} for one in filling.numbers)
    else:
        beside = {name: value for name, value in IDENTITY.items() if _is_of(schema.members.get(name), value)}
        for name, member in schema.members.items():
            for one in bodies(member, filling, depth + 1):
                yield {**beside, name: one}


def _is_of(schema: Schema | None, value: object) -> bool:
    if isinstance(schema, ListOf):
        return isinstance(value, list) and schema.item == Scalar("string")
    return schema is not None and not isinstance(value, list) and not isinstance(schema, Words | ObjectOf)
