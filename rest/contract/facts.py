"""The facts of Slurm's REST interface by version, read from facts.json (written by tools/restcontract.py).

    contract = load()
    version = contract.versions["v0.0.46"]
    operation = version.operations["/slurm/{v}/job/{job_id}"]["get"]
    operation.answer                    # a Schema

In the file a fact is `[[versions, fact], ...]`. A type is one of

    "string", "boolean", "int32", "int64", "double", "number", "any"
    "=NAME"                             # the schema of that name
    [TYPE]                              # a list
    {"enum": [words]}
    {"members": {name: TYPE}, "required": [names]}
    {"old": TYPE}                       # deprecated
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

# Any: a type in the file is JSON of several shapes
from typing import Any, Final, TypeAlias

#: Stands for the version in the file's paths.
VERSION_MARK: Final = "{v}"
#: The version whose bodies Penstock's own paths take.
NEWEST: Final = "v0.0.46"
STATES_PATH: Final = "/slurm/{v}/jobs/state"
_NO_VAL: Final = frozenset(("set", "infinite", "number"))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value: `kind` as in the file."""

    kind: str


@dataclass(frozen=True, slots=True)
class Words:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. `name`: of its schema, "" = it has none."""

    item: "Schema"
    name: str = ""


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """An object with members."""

    members: Mapping[str, "Schema"]
    required: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it is a number that may be unset or infinite."""
        return self.members.keys() == _NO_VAL


Schema: TypeAlias = Scalar | Words | ListOf | ObjectOf


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path or query."""

    name: str
    place: str  # path or query
    schema: Schema
    is_required: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    version: str
    path: str  # with VERSION_MARK
    method: str  # lower case
    name: str  # operationId
    tag: str  # slurm, slurmdb, util
    answer: ObjectOf
    parameters: tuple[Parameter, ...]
    body: Schema | None


@dataclass(frozen=True, slots=True)
class Version:
    """All of one version."""

    name: str
    operations: dict[str, dict[str, Operation]] = field(default_factory=dict)  # by path, by method


@dataclass(frozen=True, slots=True)
class Contract:
    """All versions, and the file's content."""

    versions: dict[str, Version]
    facts: dict[str, Any]


@lru_cache(1)
def load() -> Contract:
    """The contract; read once."""
    facts = json.loads(files("rest.contract").joinpath("facts.json").read_text("utf-8"))
    return Contract({name: _version(name, facts) for name in facts["versions"]}, facts)


def of_version(found: list[Any], version: str) -> Any:
    """The fact of that version; None = it has none."""
    return next((fact for versions, fact in found if version in versions), None)


def _version(name: str, facts: dict[str, Any]) -> Version:
    reader = _Reader(name, facts["schemas"])
    version = Version(name)
    for key, found in facts["operations"].items():
        method, _, path = key.partition(" ")
        one = of_version(found, name)
        if one is None:
            continue
        answer = reader.schema(answer_type(facts, version.name, path, one["answer"]))
        if not isinstance(answer, ObjectOf):
            raise TypeError(f"{key}: the answer is no object")
        parameters = tuple(
            Parameter(word, place, reader.schema(kind), "required" in words)
            for word, place, kind, words in one["parameters"]
        )
        body = reader.schema(one["body"]) if "body" in one else None
        operation = Operation(name, path, method, one["id"], one["tag"], answer, parameters, body)
        version.operations.setdefault(path, {})[method] = operation
    return version


def answer_type(facts: dict[str, Any], version: str, path: str, stated: object) -> object:
    """The type of a path's answer. jobs/state is said to answer as jobs does; the real daemon has ids, as texts, and states."""
    if path.rstrip("/") != STATES_PATH:
        return stated
    frame = of_version(facts["schemas"]["openapi_job_info_resp"], version)["members"]
    job = of_version(facts["schemas"]["job_info"], version)["members"]
    short = {"members": {"job_id": "string", "job_state": job["job_state"]}, "required": []}
    members = {name: one for name, one in frame.items() if not name.startswith("last_")}
    return {"members": members | {"jobs": [short]}, "required": ["jobs"]}


class _Reader:
    """Resolves the types of one version. A schema that contains itself would not end: there is none."""

    def __init__(self, version: str, schemas: dict[str, Any]) -> None:
        self._version = version
        self._schemas = schemas
        self._named: dict[str, Schema] = {}

    def schema(self, kind: object, name: str = "") -> Schema:
        if isinstance(kind, str):
            return self._reference(kind[1:]) if kind.startswith("=") else Scalar(kind)
        if isinstance(kind, list):
            return ListOf(self.schema(kind[0]), name)
        assert isinstance(kind, dict)
        if "old" in kind:
            return self.schema(kind["old"], name)
        if "enum" in kind:
            return Words(tuple(kind["enum"]))
        members = {member: self.schema(one) for member, one in kind["members"].items()}
        return ObjectOf(members, tuple(kind["required"]))

    def _reference(self, name: str) -> Schema:
        if name not in self._named:
            self._named[name] = self.schema(of_version(self._schemas[name], self._version), name)
        return self._named[name]
