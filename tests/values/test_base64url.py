"""Base64 for addresses, and the claims of a token."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.base64url import claims_of, to_bytes, to_text


@given(st.binary(max_size=64))
def test_bytes_are_the_same_after_text(data: bytes) -> None:
    text = to_text(data)
    assert to_bytes(text) == data and not set(text) & set("=+/\n")


@pytest.mark.parametrize("text", ["a", "a b", "a*b", "\u00e9", "AA\n"])
def test_what_is_no_such_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        to_bytes(text)


@pytest.mark.parametrize("claims", [{"sun": "ann", "exp": 1}, {"aud": ["a", "b"]}, {}])
def test_claims_are_read(claims: dict[str, object]) -> None:
    body = to_text(json.dumps(claims).encode())
    assert claims_of(f"x.{body}.y") == claims_of(f"x.{body[:1]} {body[1:]}.y") == claims


@pytest.mark.parametrize("token", ["", "x", "x.y.z", "x..z", "x.W10.z", "x.\u00e9.z", f"x.{to_text(b'[' * 100_000)}.z"])
def test_a_token_that_cannot_be_read_claims_nothing(token: str) -> None:
    assert claims_of(token) == {}
