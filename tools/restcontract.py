"""Writes rest/contract/facts.json: the facts of Slurm's REST interface, from its OpenAPI documents of several versions.

    python tools/restcontract.py FOLDER    # with openapi-v0.0.43.json and so on

Facts are paths, methods, names, types and enumerated values. They are kept once: what several versions state alike is one
entry, with the list of its versions. rest/contract/facts.py describes the form and reads it.
"""

import json
import re
import sys
from pathlib import Path

# Any: OpenAPI documents are JSON of many shapes
from typing import Any

TARGET = Path(__file__).parents[1] / "rest" / "contract" / "facts.json"
#: Stands for the version in paths and names of operations.
VERSION_MARK = "{v}"
_REFERENCE = re.compile(r"#/components/schemas/v[0-9.]+_(\w+)")
#: Types without a format, and the form of those with one.
_PLAIN = {("string", ""): "string", ("boolean", ""): "boolean", ("number", ""): "number", ("number", "double"): "double",
          ("integer", "int32"): "int32", ("integer", "int64"): "int64"}  # fmt: skip


def main(argv: list[str]) -> int:
    """Writes the file; the exit status."""
    (folder,) = argv
    documents = {
        path.stem.removeprefix("openapi-"): json.loads(path.read_text())
        for path in sorted(Path(folder).glob("openapi-v*.json"))
    }
    TARGET.write_text(text_of(facts_of(documents)), encoding="utf-8")
    return 0


def facts_of(documents: dict[str, Any]) -> dict[str, Any]:
    """The facts of all versions."""
    schemas: dict[str, dict[str, Any]] = {}
    operations: dict[str, dict[str, Any]] = {}
    for version, document in documents.items():
        for full, schema in document["components"]["schemas"].items():
            name = full.removeprefix(f"{version}_")
            schemas.setdefault(name, {})[version] = compact(schema)
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                key = f"{method} {path.replace(version, VERSION_MARK)}"
                operations.setdefault(key, {})[version] = _operation(operation, version)
    return {
        "versions": list(documents),
        "operations": {key: _merged(found) for key, found in sorted(operations.items())},
        "schemas": {name: _merged(found) for name, found in sorted(schemas.items())},
    }


def compact(schema: dict[str, Any]) -> Any:
    """A schema in the form that rest/contract/facts.py describes."""
    if schema.get("deprecated"):
        return {"old": compact({key: value for key, value in schema.items() if key != "deprecated"})}
    if "$ref" in schema:
        found = _REFERENCE.fullmatch(schema["$ref"])
        if found is None:
            raise SystemExit(f"restcontract: unknown reference {schema['$ref']}")
        return f"={found.group(1)}"
    if not schema:
        return "any"
    kind = schema["type"]
    if "enum" in schema:
        return {"enum": schema["enum"]}
    if kind == "array":
        return [compact(schema["items"])]
    if kind == "object":
        members = {name: compact(one) for name, one in schema.get("properties", {}).items()}
        return {"members": members, "required": schema.get("required", [])}
    return _PLAIN[kind, schema.get("format", "")]


def _operation(operation: dict[str, Any], version: str) -> dict[str, Any]:
    def answer(code: str) -> Any:
        return compact(operation["responses"][code]["content"]["application/json"]["schema"])

    if answer("200") != answer("default"):
        raise SystemExit(f"restcontract: {operation['operationId']}: errors have another schema")
    digits = version.replace(".", "")
    found = {
        "id": operation["operationId"].replace(digits, VERSION_MARK),
        "tag": operation["tags"][0],
        "answer": answer("200"),
        "parameters": [_parameter(one) for one in operation.get("parameters", [])],
    }
    if "requestBody" in operation:
        found["body"] = compact(operation["requestBody"]["content"]["application/json"]["schema"])
    return found | ({"old": True} if operation.get("deprecated") else {})


def _parameter(parameter: dict[str, Any]) -> list[Any]:
    """[name, "path" or "query", type, words of what is true of it]"""
    words = [
        word
        for word, is_true in (
            ("required", parameter.get("required")),
            ("may_be_empty", parameter.get("allowEmptyValue")),
            ("old", parameter.get("deprecated")),
        )
        if is_true
    ]
    return [parameter["name"], parameter["in"], compact(parameter["schema"]), words]


def _merged(by_version: dict[str, Any]) -> list[Any]:
    """[[versions, fact], ...]: versions that state the same share one."""
    found: list[Any] = []
    for version, fact in by_version.items():
        same = next((one for one in found if one[1] == fact), None)
        if same is None:
            found.append([[version], fact])
        else:
            same[0].append(version)
    return found


def text_of(facts: dict[str, Any]) -> str:
    """One line a fact, so that a difference shows what changed."""
    parts = [f'{{\n"versions": {json.dumps(facts["versions"])}']
    for section in ("operations", "schemas"):
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts[section].items()]
        parts.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
    return ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
