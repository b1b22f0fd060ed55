"""The OpenAPI documents: of all versions of Slurm's interface, made from the contract, and of Penstock's own, made from the
messages that it answers with.
"""

from collections.abc import Iterable, Mapping

# Any: a type of the contract's file is JSON of several shapes
from typing import TYPE_CHECKING, Any, Final, cast

from cli.base.document import Json
from penstock import __version__
from rest.contract.facts import NEWEST, VERSION_MARK, Contract, Parameter, Words, of_version
from rest.events import CHANGE_MEMBERS, KINDS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from rest.handlers.own import OwnPath, OwnRecord, OwnType

_FORMATS: Final = {"int32": "integer", "int64": "integer", "double": "number"}
SECURITY: Final = {
    "user": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-NAME"},
    "token": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-TOKEN"},
    "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def document(contract: Contract) -> Json:
    """The whole document."""
    facts = contract.facts
    paths: dict[str, dict[str, Json]] = {}
    schemas: Json = {}
    for version in facts["versions"]:
        for key, found in facts["operations"].items():
            method, _, path = key.partition(" ")
            one = of_version(found, version)
            if one is not None:
                paths.setdefault(path.replace(VERSION_MARK, version), {})[method] = _operation(one, version)
        for name, found in facts["schemas"].items():
            one = of_version(found, version)
            if one is not None:
                schemas[f"{version}_{name}"] = _type(one, version)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Slurm's REST interface of Penstock", "version": __version__},
        "security": [{"user": [], "token": []}, {"token": []}, {"bearerAuth": []}, {}],
        "paths": paths,
        "components": {"securitySchemes": SECURITY, "schemas": schemas},
    }


def _operation(one: Any, version: str) -> Json:
    answer = {"description": "answer", "content": _content(one["answer"], version)}
    made: Json = {
        "operationId": one["id"].replace(VERSION_MARK, version.replace(".", "")),
        "tags": [one["tag"]],
        "responses": {"200": answer, "default": answer},
    }
    if one["parameters"]:
        made["parameters"] = [_parameter(parameter, version) for parameter in one["parameters"]]
    if "body" in one:
        made["requestBody"] = {"content": _content(one["body"], version)}
    return made | ({"deprecated": True} if one.get("old") else {})


def _content(kind: Any, version: str) -> Json:
    schema = {"schema": _type(kind, version)}
    return {"application/json": schema, "application/yaml": schema}


def _parameter(parameter: Any, version: str) -> Json:
    name, place, kind, words = parameter
    is_path = place == "path"
    made: Json = {
        "name": name,
        "in": place,
        "required": "required" in words,
        "style": "simple" if is_path else "form",
        "explode": False,
        "schema": _type(kind, version),
    }
    if not is_path:
        made["allowEmptyValue"] = "may_be_empty" in words
    return made | ({"deprecated": True} if "old" in words else {})


def _type(kind: Any, version: str) -> Json:
    if isinstance(kind, str):
        if kind.startswith("="):
            return {"$ref": f"#/components/schemas/{version}_{kind[1:]}"}
        if kind in _FORMATS:
            return {"type": _FORMATS[kind], "format": kind}
        return {} if kind == "any" else {"type": kind}
    if isinstance(kind, list):
        return {"type": "array", "items": _type(kind[0], version)}
    if "old" in kind:
        inner = _type(kind["old"], version)
        return inner if "$ref" in inner else inner | {"deprecated": True}
    if "enum" in kind:
        return {"type": "string", "enum": kind["enum"]}
    members = {name: _type(one, version) for name, one in kind["members"].items()}
    # The names with a slash in the facts are a fault of the originals: no member is called so.
    required = [name for name in kind["required"] if name in members]
    return {"type": "object", "properties": members} | ({"required": required} if required else {})


# ---- Penstock's own

_PREFIX: Final = "/penstock/v1"
_REASONS: Final = {
    "200": "answer",
    "304": "If-None-Match names the answer's tag",
    "401": "no valid proof",
    "404": "there is no such job or node",
    "422": "a value cannot be read, or the controller refuses",
    "429": "too many requests",
    "503": "the controller does not answer",
}


def own_document(paths: "Iterable[OwnPath]") -> Json:
    """The document of /penstock/v1/."""
    schemas: Json = {
        "error": _record_schema(
            {"description": "string", "error_number": "integer", "error": "string", "source": "string"}, {}
        ),
        "warning": _record_schema({"description": "string", "source": "string"}, {}),
    }
    made = {f"{_PREFIX}{one.path}": {one.method: _own_operation(one, schemas)} for one in paths}
    made[f"{_PREFIX}/events"] = {"get": _events_operation(schemas)}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Penstock", "version": "1"},
        "security": [{"user": [], "token": []}, {"token": []}, {"bearerAuth": []}, {}],
        "paths": made,
        "components": {"securitySchemes": SECURITY, "schemas": schemas},
    }


def _events_operation(schemas: Json) -> Json:
    """The stream of changes. `change`: the data of an event."""
    change = _record_schema({name: kind for name, (kind, _) in CHANGE_MEMBERS.items()}, schemas)
    cast("Json", change["properties"])["flags"] = {"type": "array", "items": {"type": "string"}}
    schemas["change"] = change
    number = {"type": "integer", "format": "int64"}
    parameters = [
        {"name": "kinds", "in": "query", "schema": {"type": "array", "items": {"type": "string", "enum": list(KINDS)}}},
        {"name": "users", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "after", "in": "query", "schema": number},
        {"name": "Last-Event-ID", "in": "header", "schema": number},
    ]
    stream = {"description": _REASONS["200"], "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    refused = {status: {"description": words} for status, words in _REASONS.items() if status not in ("200", "304")}
    return {
        "operationId": "penstock_v1_events",
        "summary": "Changes as they are committed, as server-sent events",
        "tags": ["penstock"],
        "parameters": parameters,
        "responses": {"200": stream, **refused},
    }


def _own_operation(one: "OwnPath", schemas: Json) -> Json:
    members = {name: _own_type(kind, schemas) for name, kind in one.members.items()}
    lists = {f"{name}s": {"type": "array", "items": _reference(name)} for name in ("error", "warning")}
    answer: Json = {"type": "object", "properties": members | lists, "required": [*members, *lists]}
    refusal: Json = {"type": "object", "properties": lists, "required": ["errors"]}
    body: Json = {"type": "object", "description": f"as {one.body.replace(VERSION_MARK, NEWEST)} takes it"}
    return {
        "operationId": one.operation().name,
        "summary": one.summary,
        **({"requestBody": _own_content(body)} if one.body else {}),
        "parameters": [_own_parameter(parameter) for parameter in one.parameters],
        "responses": {
            status: {"description": text}
            | ({} if status == "304" else _own_content(answer if status == "200" else refusal))
            for status, text in _REASONS.items()
        },
    }


def _own_parameter(parameter: Parameter) -> Json:
    made: Json = {"name": parameter.name, "in": parameter.place, "required": parameter.is_required}
    if isinstance(parameter.schema, Words):
        made["description"] = f"some of {', '.join(parameter.schema.words)}, with commas"
    return made | {"schema": {"type": "string"}}


def _own_content(schema: Json) -> Json:
    return {"content": {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}}}


def _own_type(kind: "OwnType", schemas: Json) -> Json:
    if isinstance(kind, str):
        if kind.endswith("[]"):
            return {"type": "array", "items": _own_type(kind[:-2], schemas)}
        return {"type": kind[:-1], "nullable": True} if kind.endswith("?") else {"type": kind}
    made = _own_record(kind, schemas)
    return {"type": "array", "items": made} if kind.is_list else made


def _own_record(kind: "OwnRecord", schemas: Json) -> Json:
    others = _record_schema(kind.others, schemas)
    if kind.message is None:
        return others
    reference = _message(cast("Descriptor", kind.message.DESCRIPTOR), schemas)
    return {"allOf": [reference, others]} if kind.others else reference


def _record_schema(members: "Mapping[str, OwnType]", schemas: Json) -> Json:
    return {
        "type": "object",
        "properties": {name: _own_type(one, schemas) for name, one in members.items()},
        "required": [*members],
    }


def _message(message: "Descriptor", schemas: Json) -> Json:
    """A reference to the schema of a message, which is added: every field is there, as `message_object` writes them."""
    if message.name not in schemas:
        schemas[message.name] = {}  # before its fields, which may be of the same message
        fields = {field.name: _field(field, schemas) for field in message.fields}
        schemas[message.name] = {"type": "object", "properties": fields, "required": [*fields]}
    return _reference(message.name)


def _field(field: "FieldDescriptor", schemas: Json) -> Json:
    if field.message_type is not None:
        made = _message(field.message_type, schemas)
        if not field.has_presence:
            return {"type": "array", "items": made}
        return {"nullable": True, "allOf": [made]}
    kinds = {field.CPPTYPE_STRING: "string", field.CPPTYPE_BOOL: "boolean", field.CPPTYPE_DOUBLE: "number"}
    one: Json = {"type": kinds.get(field.cpp_type, "integer")}
    return {"type": "array", "items": one} if isinstance(field.default_value, list) else one


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
