"""Numbers, names, exit codes: what is refused, and that the message says why."""

import pytest

from penstock.values.errors import BadValue
from penstock.values.exitcode import format_exit, shell_status
from penstock.values.numbers import parse_int
from penstock.values.text import NAME_BYTES_MAX, check_name, check_no_nul, safe_component, shown

NOT_NUMBERS = [
    "",
    "-",
    "--1",
    "+5",
    " 5",
    "5 ",
    "5\n",
    "1_000",
    "0x10",
    "1e3",
    "1e309",
    "1.0",
    "NaN",
    "inf",
    "٣",
    "０",
    "²",
    "5\0",
    "x",
]


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_other_spellings_of_numbers_are_refused_with_name_and_range(text: str) -> None:
    with pytest.raises(BadValue, match=r"Invalid node count: .*not a whole number \(allowed: 0 to 10\)"):
        parse_int(text, 0, 10, "node count")


@pytest.mark.parametrize("text", ["-1", "11", str(2**31), str(2**63), "9" * 21, "9" * 1_000_000])
def test_numbers_out_of_range_name_the_range(text: str) -> None:
    with pytest.raises(BadValue, match=r"out of range \(allowed: 0 to 10\)") as error:
        parse_int(text, 0, 10, "node count")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("007", 7), ("-5", -5), ("-0", 0), (str(2**63), 2**63)])
def test_whole_numbers(text: str, value: int) -> None:
    assert parse_int(text, -(2**63), 2**63, "priority") == value


@pytest.mark.parametrize(
    "char", ["\x1b", "\n", "\r", "\0", "\x7f", "\x9b", "\u2028", "\u202e", "\u061c", "\u200e", "\u200f"]
)
def test_names_hold_no_control_characters(char: str) -> None:
    with pytest.raises(BadValue, match=r"Invalid job name: control character .* at position 2") as error:
        check_name("ab" + char + "c", "job name")
    assert char not in str(error.value)
    assert char not in shown(char)


def test_names_are_utf8_within_the_limit() -> None:
    assert check_name("Zoë 任务 🚀", "job name") == "Zoë 任务 🚀"
    assert check_name("é" * (NAME_BYTES_MAX // 2), "comment")
    with pytest.raises(BadValue, match=r"not valid UTF-8 at position 1"):
        check_name(b"a\xff".decode("utf-8", "surrogateescape"), "job name")
    with pytest.raises(BadValue, match=f"the limit is {NAME_BYTES_MAX}"):
        check_name("é" * NAME_BYTES_MAX, "comment")
    with pytest.raises(BadValue, match="the limit is 5 bytes"):
        check_name("abcdef", "comment", limit=5)


def test_nul_bytes_are_refused_with_their_position_and_other_bytes_kept() -> None:
    assert check_no_nul(b"\xff\xfe\n", "script") == b"\xff\xfe\n"
    with pytest.raises(BadValue, match="Invalid script: NUL byte at position 3"):
        check_no_nul(b"abc\0d", "script")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("job", "job"),
        ("../x", "___x"),
        ("..", "__"),
        (".", "_"),
        ("a/b", "a_b"),
        ("a.b", "a.b"),
        ("/", "_"),
        ("a\0b", "a_b"),
        ("", ""),
    ],
)
def test_safe_component(text: str, safe: str) -> None:
    assert safe_component(text) == safe


def test_shown_is_short_and_printable() -> None:
    assert shown("a\x1b[2J") == "'a\\x1b[2J'"
    assert shown("\udcff") == "'\\udcff'"
    assert len(shown("x" * 10**6)) < 100


def test_exit_codes() -> None:
    assert format_exit(0, 0) == "0:0"
    assert format_exit(2, 0) == "2:0"
    assert format_exit(0, 9) == "0:9"
    assert [shell_status(0, 0), shell_status(7, 0), shell_status(0, 15)] == [0, 7, 143]
