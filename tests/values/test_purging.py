"""How long records are kept, in words and as an instant."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.purging import Age, before_us, parse_age

US = 1_000_000


def us(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * US  # type: ignore[misc,arg-type]  # as many as are given


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("12", Age(12, "months")),
        ("12month", Age(12, "months")),
        ("30Days", Age(30, "days")),
        ("1hour", Age(1, "hours")),
    ],
)
def test_words(text: str, age: Age) -> None:
    assert parse_age(text) == age


@pytest.mark.parametrize("text", ["", "0", "days", "3 weeks", "-1days", "1e3", "9999999"])
def test_bad_words(text: str) -> None:
    with pytest.raises(BadValue, match="hours, days or months"):
        parse_age(text)


def test_whole_periods_back() -> None:
    now_us = us(2024, 3, 15, 10, 30)
    assert before_us(Age(2, "hours"), now_us, ()) == us(2024, 3, 15, 8)
    assert before_us(Age(15, "days"), now_us, ()) == us(2024, 2, 29)
    assert before_us(Age(3, "months"), now_us, ()) == us(2023, 12, 1)
    east = ((0, 3600),)
    assert before_us(Age(1, "months"), now_us, east) == us(2024, 1, 31, 23)


@given(st.integers(0, 4_000_000_000), st.integers(1, 300))
def test_months_by_the_calendar(now_s: int, number: int) -> None:
    now = datetime.fromtimestamp(now_s, UTC)
    months = now.year * 12 + now.month - 1 - number
    expected = us(months // 12, months % 12 + 1, 1)
    assert before_us(Age(number, "months"), now_s * US, ()) == expected
