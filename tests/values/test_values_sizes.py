"""Durations and memory sizes: Slurm's rules, round trips, refusals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.duration import DURATION_MAX_S, UNLIMITED, format_duration, format_elapsed, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.memory import MEM_MB_MAX, format_mb, parse_mb

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 5400),
        ("5:30", 330),
        ("1:2:3", 3723),
        ("1-2", 93600),
        ("1-2:3", 93780),
        ("1-2:3:4", 93784),
        ("1-24:61:61", 176521),
        ("1:60", 120),
        ("0-0", 0),
        ("100:00", 6000),
        ("365-00:00:00", 365 * 86400),
        ("UNLIMITED", UNLIMITED),
        ("unlimited", UNLIMITED),
        ("Infinite", UNLIMITED),
        ("-1", UNLIMITED),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "-5",
        "-2",
        "1-",
        "+5",
        " 5",
        "5 ",
        "5.5",
        "5m",
        "a",
        "1::2",
        ":5",
        "5:",
        "1-2-3",
        "1:2:3:4",
        "1-2:3:4:5",
        "1_0",
        "０",
        "0x10",
        "1e309",
        "NaN",
        "inf",
        "5\0",
        "99999999999999999999999",
        str(2**63),
        "36501-0",
        "UNLIMITEDx",
    ],
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid time") as error:
        parse_duration_s(text)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (0, "00:00:00", "0:00"),
        (5, "00:00:05", "0:05"),
        (65, "00:01:05", "1:05"),
        (3723, "01:02:03", "1:02:03"),
        (86399, "23:59:59", "23:59:59"),
        (93784, "1-02:03:04", "1-02:03:04"),
        (100 * 86400, "100-00:00:00", "100-00:00:00"),
        (UNLIMITED, "UNLIMITED", "UNLIMITED"),
        (-5, "INVALID", "INVALID"),
    ],
)
def test_duration_formats(seconds: int, long: str, short: str) -> None:
    assert (format_duration(seconds), format_elapsed(seconds)) == (long, short)


@STEADY
@given(st.integers(0, DURATION_MAX_S) | st.just(UNLIMITED))
def test_durations_come_back(seconds: int) -> None:
    assert parse_duration_s(format_duration(seconds)) == seconds
    assert parse_duration_s(format_elapsed(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "mb"),
    [
        ("0", 0),
        ("100", 100),
        ("100M", 100),
        ("100mb", 100),
        ("4G", 4096),
        ("4gB", 4096),
        ("1K", 1),
        ("1024K", 1),
        ("1025k", 2),
        ("0K", 0),
        ("2T", 2 * 1024**2),
        ("1P", 1024**3),
        ("1024P", MEM_MB_MAX),
    ],
)
def test_memory(text: str, mb: int) -> None:
    assert parse_mb(text) == mb


@pytest.mark.parametrize(
    "text",
    [
        "",
        "G",
        "-1",
        "-1G",
        "+5",
        "0x10",
        "1e309",
        "1e3",
        "NaN",
        "inf",
        "1_000",
        "０",
        "1.5G",
        "4GiB",
        "4GBB",
        "10B",
        "B",
        "KB",
        "100%",
        " 5",
        "5 G",
        "5\0",
        str(2**63),
        "9" * 30,
        "1E",
        "1025P",
    ],
)
def test_other_memory_sizes_are_refused_by_name(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid --mem ") as error:
        parse_mb(text, "--mem")
    assert str(error.value).isprintable()


def test_too_much_memory_names_the_limit() -> None:
    with pytest.raises(BadValue, match="more than the limit of 1024P"):
        parse_mb("9999999P")


@pytest.mark.parametrize(
    ("mb", "text"),
    [(0, "0"), (1, "1M"), (100, "100M"), (1000, "1000M"), (4096, "4G"), (1536, "1536M"), (1024**2, "1T")],
)
def test_memory_format(mb: int, text: str) -> None:
    assert format_mb(mb) == text


@STEADY
@given(st.integers(0, MEM_MB_MAX))
def test_memory_comes_back(mb: int) -> None:
    assert parse_mb(format_mb(mb)) == mb
