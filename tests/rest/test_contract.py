"""The contract: answers and requests by type, for every schema of every version."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rest.contract.conform import conform, missing, unset
from rest.contract.facts import NEWEST, ListOf, ObjectOf, Scalar, Schema, Words, load
from rest.contract.parse import CONVERSION, INFINITE, NOT_AN_OBJECT, UNKNOWN_WORD, parse

CONTRACT = load()
VERSIONS = tuple(CONTRACT.versions)
OPERATIONS = [
    operation
    for version in CONTRACT.versions.values()
    for methods in version.operations.values()
    for operation in methods.values()
]
ORIGINALS = Path(__file__).parents[3] / "shared" / "rest"
NUMBER = ObjectOf({"set": Scalar("boolean"), "infinite": Scalar("boolean"), "number": Scalar("int32")})
UNSET = {"set": False, "infinite": False, "number": 0}
SCRATCH = ObjectOf(
    {
        "text": Scalar("string"),
        "count": Scalar("int32"),
        "is": Scalar("boolean"),
        "limit": NUMBER,
        "flags": ListOf(Words(("HOLD", "RUN"))),
        "names": ListOf(Scalar("string"), "csv_string"),
        "lines": ListOf(Scalar("string"), "string_array"),
        "inner": ObjectOf({"one": Scalar("int64")}),
    }
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def has_form(value: object, schema: Schema) -> bool:
    """Whether a value has exactly the form of the schema."""
    match schema:
        case ObjectOf():
            return isinstance(value, dict) and value.keys() == schema.members.keys() and all(
                has_form(value[name], member) for name, member in schema.members.items()
            )  # fmt: skip
        case ListOf():
            return isinstance(value, list) and all(has_form(one, schema.item) for one in value)
        case Words():
            return value in (*schema.words, "")
        case Scalar("string"):
            return isinstance(value, str)
        case Scalar("boolean"):
            return isinstance(value, bool)
        case Scalar("int32" | "int64"):
            return type(value) is int
        case Scalar("double" | "number"):
            return type(value) is float
    return True


@pytest.mark.parametrize("version", VERSIONS)
def test_every_answer_has_an_unset_form(version):
    """Of every path: all members are there, each in its type."""
    for methods in CONTRACT.versions[version].operations.values():
        for operation in methods.values():
            assert has_form(unset(operation.answer), operation.answer), operation.name


@given(json_values, st.sampled_from(OPERATIONS))
def test_whatever_a_document_holds_the_answer_has_its_form(value, operation):
    assert has_form(conform(value, operation.answer), operation.answer)
    assert conform(conform(value, operation.answer), operation.answer) == conform(value, operation.answer)


@given(json_values, st.sampled_from([one for one in OPERATIONS if one.body is not None]))
def test_any_body_is_parsed_or_refused(value, operation):
    parsed, found = parse(value, operation.body)
    if not found.errors:
        parsed_again, again = parse(parsed, operation.body)
        assert not again.errors and parsed_again == parsed


def test_unknown_members_are_dropped_and_lacking_ones_are_unset():
    answer = conform({"text": "a", "unknown": 1}, SCRATCH)
    assert answer == {
        "text": "a", "count": 0, "is": False, "limit": UNSET, "flags": [], "names": [], "lines": [], "inner": {"one": 0},
    }  # fmt: skip
    assert list(missing({"text": "a", "inner": {}}, SCRATCH)) == [
        "count", "is", "limit", "flags", "names", "lines", "inner.one",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given_value", "answer"),
    [
        (5, {"set": True, "infinite": False, "number": 5}),
        (None, UNSET),
        ({"set": True, "infinite": True, "number": 7}, {"set": False, "infinite": True, "number": 7}),
        ({"set": True}, {"set": True, "infinite": False, "number": 0}),
    ],
)
def test_numbers_in_answers(given_value, answer):
    assert conform(given_value, NUMBER) == answer


@pytest.mark.parametrize(
    ("given_value", "parsed"),
    [
        (5, 5), ("5", 5), (5.7, 5), (-1, INFINITE), ({"number": 5}, 5), ({"set": True, "number": 5}, 5),
        ({"infinite": True}, INFINITE), ({"set": False, "number": 5}, None), ({}, None),
    ],
)  # fmt: skip
def test_numbers_in_requests(given_value, parsed):
    value, found = parse({"limit": given_value}, SCRATCH)
    assert not found.errors
    assert value == ({} if parsed is None else {"limit": parsed})


@pytest.mark.parametrize("bad", ["0:05:00", "UNLIMITED", "", True, [], -2, "5.5", "٣"])
def test_what_is_no_number(bad):
    _, found = parse({"limit": bad}, SCRATCH)
    assert [(one.number, one.source) for one in found.errors] == [(CONVERSION, "#/limit")]


def test_problems_of_a_request():
    body = {
        "text": 5, "nothing": 1, "is": "true", "flags": ["hold", "jump"], "names": "a,b", "inner": [], "count": None,
        "lines": {"A": "1", "B": "2"},
    }  # fmt: skip
    value, found = parse(body, SCRATCH)
    assert value == {"text": "5", "is": True, "flags": ["HOLD"], "names": ["a", "b"], "lines": ["A=1", "B=2"]}
    assert [(one.number, one.source) for one in found.errors] == [
        (UNKNOWN_WORD, "#/flags/1"),
        (NOT_AN_OBJECT, "#/inner"),
    ]
    assert {one.source for one in found.warnings} == {"#/nothing", "#/is", "#/lines"}


@pytest.mark.skipif(not ORIGINALS.exists(), reason="the OpenAPI documents are not here")
def test_the_facts_are_those_of_the_originals():
    from tools.restcontract import TARGET, facts_of, text_of

    documents = {
        path.stem.removeprefix("openapi-"): json.loads(path.read_text())
        for path in sorted(ORIGINALS.glob("openapi-v*.json"))
    }
    assert TARGET.read_text() == text_of(facts_of(documents))


def parameters(paths: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an OpenAPI document, by path and method. Headers are ours: Idempotency-Key, If-None-Match."""
    return {
        path: {
            method: [
                (p["name"], p["in"], p["required"]) for p in operation.get("parameters", []) if p["in"] != "header"
            ]
            for method, operation in methods.items()
        }
        for path, methods in paths.items()
    }


@pytest.mark.skipif(not ORIGINALS.exists(), reason="the OpenAPI documents are not here")
def test_our_document_states_the_same_paths_and_parameters():
    from rest.openapi import document

    stated: dict[str, Any] = {}
    for version in VERSIONS:
        stated |= parameters(json.loads((ORIGINALS / f"openapi-{version}.json").read_text())["paths"])
    ours: Any = document(CONTRACT)["paths"]
    assert parameters(ours) == stated


def test_headers_of_requests_that_make_records():
    from rest.openapi import document

    paths: Any = document(CONTRACT)["paths"]
    headers = {
        path: [one["name"] for one in methods["post"].get("parameters", ()) if one["in"] == "header"]
        for path, methods in paths.items()
        if f"/{NEWEST}/" in path and "post" in methods
    }
    slurm, made = f"/slurm/{NEWEST}", ["If-None-Match"]
    assert {path: names for path, names in headers.items() if names} == {
        f"{slurm}/job/submit": ["Idempotency-Key"],
        f"{slurm}/job/allocate": ["Idempotency-Key"],
        f"{slurm}/reservation": made,
        f"{slurm}/reservations/": made,
        f"{slurm}/partitions/": made,
        f"/slurmdb/{NEWEST}/qos/": made,
    }
