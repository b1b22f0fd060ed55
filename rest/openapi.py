"""The OpenAPI documents: of all versions of Slurm's interface, made from the contract, and of Penstock's own, made from the
messages that it answers with.
"""

from collections.abc import Iterable, Mapping

# Any: an operation and a parameter of the contract's file are JSON of several shapes
from typing import TYPE_CHECKING, Any, Final, cast

from cli.base.document import Json
from penstock import __version__
from rest.contract.conform import NULLABLE
from rest.contract.facts import NEWEST, VERSION_MARK, Contract, Parameter, Words, answer_type, of_version
from rest.events import CHANGE_MEMBERS, KINDS

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from rest.handlers.own import OwnPath, OwnRecord, OwnType

_FORMATS: Final = {"int32": "integer", "int64": "integer", "double": "number"}
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_TEXT: Final = "text/plain"
#: Statuses other than 200: what they say, and the types of their bodies. The first one is the form that a generated client
#: reads: with a proof a 404 is JSON, while a 401 may be either.
_REFUSALS: Final = {
    "304": ("nothing has changed", ()),
    "400": ("the body is no JSON, or there is too much in it; a header cannot be read", (_TEXT,)),
    "401": ("no proof, as text, or one that is not accepted", (_TEXT, _JSON, _YAML)),
    "403": ("the caller lacks the right; a browser's request comes from another page", (_JSON, _YAML)),
    "404": ("there is no such job or node; as text: no such path", (_JSON, _YAML, _TEXT)),
    "406": ("the body is chunked", (_TEXT,)),
    "408": ("the body did not arrive in time", (_TEXT,)),
    "412": ("If-None-Match: * demands a new record, and there is one of this name", (_JSON, _YAML)),
    "413": ("the body is too large", (_TEXT,)),
    "415": ("Content-Type or Accept names a type that is not known", (_TEXT,)),
    "422": ("a value cannot be read, or the controller refuses", (_JSON, _YAML)),
    "429": ("too many requests: see Retry-After", (_JSON, _YAML)),
    "431": ("the head of the request is too large", (_TEXT,)),
    "503": ("the controller does not answer: see Retry-After", (_JSON, _YAML)),
}
#: What an answer has not where the thing that was asked for is not known, against the originals.
_ABSENT: Final = {
    "openapi_nodes_resp": ("nodes", "last_update"),
    "openapi_partition_resp": ("partitions", "last_update"),
    "openapi_instances_resp": ("instances",),
}
#: A header of requests that are made once.
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "a UUID of version 7: a repetition with the same key is answered with the same job",
    "schema": {"type": "string"},  # with a format, generated clients put an object into the header
}
#: A header of requests that make records and change none.
_NEW: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "*: a record that is there is not changed, and the request is refused with 412",
    "schema": {"type": "string", "enum": ["*"]},
}
#: Headers of requests by POST, by the ends of their paths.
_HEADERS: Final = {
    **dict.fromkeys(("/job/submit", "/job/allocate"), _KEY),
    **dict.fromkeys(("/reservation", "/reservations", "/partitions", "/qos"), _NEW),
}
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
    responses: Json = {}
    for version in facts["versions"]:
        responses |= _refusals(f"{version}_", _reference(f"{version}_openapi_resp"))
        for key, found in facts["operations"].items():
            method, _, path = key.partition(" ")
            one = of_version(found, version)
            if one is not None:
                kind = answer_type(facts, version, path, one["answer"])
                made = _operation(one, kind, version)
                if method == "post":
                    _add_header(made, path)
                paths.setdefault(path.replace(VERSION_MARK, version), {})[method] = made
        for name, found in facts["schemas"].items():
            one = of_version(found, version)
            if one is not None:
                schemas[f"{version}_{name}"] = _type(_with_absent(name, one), version)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Slurm's REST interface of Penstock", "version": __version__},
        "security": [{"user": [], "token": []}, {"token": []}, {"bearerAuth": []}, {}],
        "paths": paths,
        "components": {"securitySchemes": SECURITY, "schemas": schemas, "responses": responses},
    }


def _add_header(made: Json, path: str) -> None:
    """Adds the header that requests by POST to this path may have."""
    header = next((one for end, one in _HEADERS.items() if path.rstrip("/").endswith(end)), None)
    if header is not None:
        made["parameters"] = [*cast("list[Json]", made.get("parameters", [])), header]


def _with_absent(name: str, kind: object) -> object:
    """The type of that name, which requires no member that some answers have not."""
    absent = _ABSENT.get(name, ())
    if not absent or not isinstance(kind, dict):
        return kind
    return kind | {"required": [one for one in kind["required"] if one not in absent]}


def _refusals(prefix: str, schema: Json) -> Json:
    """The answers that any operation may give instead of its own. `schema`: of those in JSON."""
    return {
        f"{prefix}{status}": {"description": words}
        | (
            {"content": {kind: {"schema": {"type": "string"} if kind == _TEXT else schema} for kind in kinds}}
            if kinds
            else {}
        )
        for status, (words, kinds) in _REFUSALS.items()
    }


def _refused(prefix: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{prefix}{status}"} for status in _REFUSALS}


def _operation(one: Any, kind: object, version: str) -> Json:
    """One operation. `kind`: of its answer."""
    answer = {"description": "answer", "content": _content(kind, version)}
    made: Json = {
        "operationId": one["id"].replace(VERSION_MARK, version.replace(".", "")),
        "tags": [one["tag"]],
        "responses": {"200": answer, **_refused(f"{version}_")},
    }
    if one["parameters"]:
        made["parameters"] = [_parameter(parameter, version) for parameter in one["parameters"]]
    if "body" in one:
        made["requestBody"] = _body(_type(one["body"], version))
    return made | ({"deprecated": True} if one.get("old") else {})


def _content(kind: object, version: str) -> Json:
    schema = {"schema": _type(kind, version)}
    return {_JSON: schema, _YAML: schema}


def _body(schema: Json) -> Json:
    """A request's body: JSON alone."""
    return {"content": {_JSON: {"schema": schema}}}


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


def _type(kind: object, version: str) -> Json:
    if isinstance(kind, str):
        if kind.startswith("="):
            return {"$ref": f"#/components/schemas/{version}_{kind[1:]}"}
        if kind in _FORMATS:
            return {"type": _FORMATS[kind], "format": kind}
        return {} if kind == "any" else {"type": kind}
    if isinstance(kind, list):
        return {"type": "array", "items": _type(kind[0], version)}
    assert isinstance(kind, dict)
    if "old" in kind:
        inner = _type(kind["old"], version)
        return inner if "$ref" in inner else inner | {"deprecated": True}
    if "enum" in kind:
        return {"type": "string", "enum": kind["enum"]}
    members = {name: _member(name, one, version) for name, one in kind["members"].items()}
    # The names with a slash in the facts are a fault of the originals: no member is called so.
    required = [name for name in kind["required"] if name in members]
    return {"type": "object", "properties": members} | ({"required": required} if required else {})


def _member(name: str, kind: object, version: str) -> Json:
    """The type of a member. Some are null against the originals."""
    made = _type(kind, version)
    return {"nullable": True, "allOf": [made]} if name in NULLABLE else made


# ---- Penstock's own

_PREFIX: Final = "/penstock/v1"


def own_document(paths: "Iterable[OwnPath]") -> Json:
    """The document of /penstock/v1/."""
    schemas: Json = {
        "error": _record_schema(
            {"description": "string", "error_number": "integer", "error": "string", "source": "string"}, {}
        ),
        "warning": _record_schema({"description": "string", "source": "string"}, {}),
        "refusal": {"type": "object", "properties": _messages(), "required": ["errors"]},
    }
    made: dict[str, Json] = {}
    for one in paths:
        made.setdefault(f"{_PREFIX}{one.path}", {})[one.method] = _own_operation(one, schemas)
    made[f"{_PREFIX}/events"] = {"get": _events_operation(schemas)}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Penstock", "version": "1"},
        "security": [{"user": [], "token": []}, {"token": []}, {"bearerAuth": []}, {}],
        "paths": made,
        "components": {
            "securitySchemes": SECURITY,
            "schemas": schemas,
            "responses": _refusals("", _reference("refusal")),
        },
    }


def _events_operation(schemas: Json) -> Json:
    """The stream of changes. `change`: the data of an event."""
    change = _record_schema({name: kind for name, (kind, _) in CHANGE_MEMBERS.items()}, schemas)
    cast("Json", change["properties"])["flags"] = {"type": "array", "items": {"type": "string"}}
    schemas["change"] = change
    number = _scalar("integer")
    parameters = [
        {"name": "kinds", "in": "query", "schema": {"type": "array", "items": {"type": "string", "enum": list(KINDS)}}},
        {"name": "users", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "after", "in": "query", "schema": number},
        {"name": "Last-Event-ID", "in": "header", "schema": number},
    ]
    stream = {"description": "answer", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    return {
        "operationId": "penstock_v1_events",
        "summary": "Changes as they are committed, as server-sent events",
        "tags": ["penstock"],
        "parameters": parameters,
        "responses": {"200": stream, **_refused("")},
    }


def _own_operation(one: "OwnPath", schemas: Json) -> Json:
    members = {name: _own_type(kind, schemas) for name, kind in one.members.items()}
    lists = _messages()
    answer: Json = {"type": "object", "properties": members | lists, "required": [*members, *lists]}
    body: Json = {"type": "object", "description": f"as {one.body.replace(VERSION_MARK, NEWEST)} takes it"}
    if one.takes:
        body = {"type": "object", "properties": {name: _own_type(kind, schemas) for name, kind in one.takes.items()}}
    return {
        "operationId": one.operation().name,
        "summary": one.summary,
        "tags": ["penstock"],
        **({"requestBody": _body(body)} if one.body or one.takes else {}),
        "parameters": [_own_parameter(parameter) for parameter in one.parameters],
        "responses": {
            "200": {"description": "answer", "content": {_JSON: {"schema": answer}, _YAML: {"schema": answer}}},
            **_refused(""),
        },
    }


def _messages() -> Json:
    return {f"{name}s": {"type": "array", "items": _reference(name)} for name in ("error", "warning")}


def _own_parameter(parameter: Parameter) -> Json:
    made: Json = {"name": parameter.name, "in": parameter.place, "required": parameter.is_required}
    if isinstance(parameter.schema, Words):
        made["description"] = f"some of {', '.join(parameter.schema.words)}, with commas"
    return made | {"schema": {"type": "string"}}


def _own_type(kind: "OwnType", schemas: Json) -> Json:
    if isinstance(kind, str):
        if kind.endswith("[]"):
            return {"type": "array", "items": _own_type(kind[:-2], schemas)}
        return _scalar(kind[:-1]) | {"nullable": True} if kind.endswith("?") else _scalar(kind)
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
    one = _scalar(kinds.get(field.cpp_type, "integer"))
    if field.has_presence:
        return one | {"nullable": True}
    return {"type": "array", "items": one} if isinstance(field.default_value, list) else one


def _scalar(kind: str) -> Json:
    """A type of JSON Schema. Times in microseconds need 64 bits: generated clients of some languages have 32 otherwise."""
    return {"type": kind, "format": "int64"} if kind == "integer" else {"type": kind}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
