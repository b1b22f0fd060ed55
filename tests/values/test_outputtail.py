"""Questions for a part of an output, and what is made of the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.outputtail import FROM_END, STDERR, last_lines, parse_question, question, whole_text


def test_questions():
    assert parse_question(question(STDERR, 17)) == (STDERR, 17, None)
    assert parse_question(question(1, FROM_END, 3)) == (1, FROM_END, 3)
    assert parse_question("tail 1 -7") == (1, FROM_END, None)
    for text in (
        "",
        "tail",
        "tail 1",
        "tail 1 2 3 4",
        "tail 1 2 -3",
        "tail 1 2 ",
        "tail 0 1",
        "head 1 2",
        "tail 1 +3",
        "tail 1 -",
        f"tail 1 {10**19}",
    ):
        with pytest.raises(ValueError, match=r"."):
            parse_question(text)


@given(st.text(), st.integers(0, 7))
def test_no_character_is_cut_and_none_is_lost(text, cut):
    data = text.encode("utf-8", "surrogatepass" if not text.isascii() else "strict")
    begin = data[: max(0, len(data) - cut)]
    first, used = whole_text(begin)
    rest, last = whole_text(data[used:])
    assert (first + rest, used + last) == (data.decode("utf-8", "replace"), len(data))


@given(st.binary(max_size=12))
def test_any_bytes_are_text_and_at_most_three_wait(data):
    text, used = whole_text(data)
    assert len(data) - 3 <= used <= len(data) and text == data[:used].decode("utf-8", "replace")


def test_last_lines():
    assert last_lines(b"a\nb\nc\n", True, 2) == b"b\nc\n" and last_lines(b"a\nb\nc", True, 2) == b"b\nc"
    assert last_lines(b"a\nb\n", True, 0) == b"a\nb\n" and last_lines(b"a\nb\n", False, 9) == b"b\n"
    assert last_lines(b"one long line", False, 5) == b"one long line" and last_lines(b"line\n", False, 5) == b"line\n"
    assert last_lines(b"", True, 5) == b""
