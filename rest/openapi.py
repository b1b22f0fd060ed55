"""The OpenAPI document of all versions, made from the contract."""

# Any: a type of the contract's file is JSON of several shapes
from typing import Any, Final

from cli.base.document import Json
from penstock import __version__
from rest.contract.facts import VERSION_MARK, Contract, of_version

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
