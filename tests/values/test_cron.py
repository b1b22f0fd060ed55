"""Cron expressions: tables of what is read and refused, and next starts against a walk over all minutes."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.cron import FIELDS, WORDS, BadSpec, CronSpec, next_us, parse_spec
from penstock.values.localtime import DAY_S, US, Offsets, civil, to_local_s

MINUTE_US = 60 * US
#: Berlin in 2026 and 2027: summer from 29 March 01:00 UTC to 25 October 01:00 UTC, and so on.
BERLIN: Offsets = (
    (1_577_836_800 * US, 3600),
    (1_774_746_000 * US, 7200),
    (1_792_890_000 * US, 3600),
    (1_806_195_600 * US, 7200),
    (1_824_944_400 * US, 3600),
)
#: A zone whose clock jumps at midnight, by half an hour, and back.
ODD: Offsets = ((0, 37_800), (1_774_746_000 * US, 39_600), (1_792_890_000 * US, 37_800))


def spec_of(text: str) -> CronSpec:
    return parse_spec(text + " true")[0]


def at(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp()) * US


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("* * * * *", "* * * * *"),
        ("*/15 0 1,15 * *", "0,15,30,45 0 1,15 * *"),
        ("5-20/5 8-18 * jan-MAR mon-fri", "5,10,15,20 8-18 * 1-3 1-5"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
        ("0 0 * * fri-sun", "0 0 * * 0,5-6"),
        ("50/5 * * * *", "50,55 * * * *"),
        ("0-59 * * * *", "* * * * *"),
        ("\t0  5 * \t* *", "0 5 * * *"),
        ("0 0 29 2 *", "0 0 29 2 *"),
    ],
)
def test_read(text: str, shown: str) -> None:
    spec, rest = parse_spec(text + " \tsleep 1 ")
    assert (spec.format(), rest) == (shown, "sleep 1 ")
    assert parse_spec(spec.format() + " x")[0] == spec


@pytest.mark.parametrize("word", WORDS)
def test_words(word: str) -> None:
    assert parse_spec(f"@{word.upper()} a b") == (spec_of(WORDS[word]), "a b")


@pytest.mark.parametrize(
    ("text", "words", "column"),
    [
        ("", "the minute is missing", 0),
        ("* * *", "the month is missing", 5),
        ("60 * * * *", "minute 60 is not between 0 and 59", 0),
        ("* 24 * * *", "hour 24 is not between 0 and 23", 2),
        ("* * 0 * *", "day of month 0 is not between 1 and 31", 4),
        ("* * * 13 *", "month 13 is not between 1 and 12", 6),
        ("* * * * 8", "day of week 8 is not between 0 and 7", 8),
        ("1,,2 * * * *", "'' is no minute", 2),
        ("1-x * * * *", "'x' is no minute", 2),
        ("*/0 * * * *", "step 0 of the minute is not between 1 and 59", 2),
        ("*/60 * * * *", "step 60", 2),
        ("*/ * * * *", "'' is no step of the minute", 2),
        ("9-5 * * * *", "a range goes upwards", 0),
        ("-5 * * * *", "'' is no minute", 0),
        ("* * * january *", "'january' is no month", 6),
        ("mon * * * *", "'mon' is no minute", 0),
        ("\u0663 * * * *", "is no minute", 0),
        ("99999999999 * * * *", "is no minute", 0),
        ("0 0 30 2 *", "there is no such day", 0),
        ("@reboot", "@reboot is not one of @yearly", 0),
        ("@", "@ is not one of", 0),
        ("  @fikaa", "@fikaa is not one of", 2),
        (",".join(["1"] * 600) + " * * * *", "more than 1024 characters", 0),
    ],
)
def test_refused(text: str, words: str, column: int) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_spec(text)
    assert words in str(caught.value)
    assert caught.value.column == column


@given(st.integers(-200_000, 2_000_000))
def test_calendar(day: int) -> None:
    found = datetime.date(1970, 1, 1).toordinal() + day
    expected = datetime.date.fromordinal(found)
    assert civil(day) == (expected.year, expected.month, expected.day)


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        # Both days restricted: either will do. 1 January 2026 is a Thursday.
        ("0 0 13 * fri", "2026-01-01T00:00+01:00", "2026-01-02T00:00+01:00"),
        ("0 0 29 2 *", "2026-01-01T00:00+01:00", "2028-02-29T00:00+01:00"),
        # The hour from 02:00 to 03:00 is skipped on 29 March and comes twice on 25 October.
        ("30 2 * * *", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("30 2 * * *", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"),
        ("30 * * * *", "2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"),
        ("30 2 * * *", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        ("30 * * * *", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"),
        ("*/20 2 * * *", "2026-10-25T02:40+02:00", "2026-10-26T02:00+01:00"),
    ],
)
def test_next(text: str, after: str, due: str) -> None:
    assert next_us(spec_of(text), BERLIN, at(after)) == at(due)


def test_far_future_is_cheap_and_ends() -> None:
    spec = spec_of("* * 29 2 *")
    assert next_us(spec, BERLIN, at("2096-03-01T00:00+00:00")) == at("2104-02-28T23:00+00:00")


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.integers(1, max(1, high // 2))
    return st.one_of(
        st.just("*"),
        st.just("*"),
        step.map(lambda n: f"*/{n}"),
        number.map(str),
        st.tuples(span, step).map(lambda p: f"{p[0]}/{p[1]}"),
        st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join),
    )


#: Months apart: most lines would never be due in the days that are walked.
SPECS = st.tuples(
    _field(0, 59),
    _field(0, 23),
    st.one_of(st.just("*"), _field(1, 31)),
    st.one_of(st.just("*"), st.sampled_from(["3", "10", "3-10", "*/2"])),
    st.one_of(st.just("*"), _field(FIELDS[4].low, FIELDS[4].high)),
)


def walked(spec: CronSpec, offsets: Offsets, after_us: int, minutes: int) -> int | None:
    """The oracle: every minute after `after_us`, and the marks that the wall clock passes then for the first time."""
    passed_s = max(to_local_s(offsets, after_us - n * MINUTE_US) for n in range(0, 180))
    at_us = after_us // MINUTE_US * MINUTE_US
    every_hour = spec.hours == (1 << 24) - 1
    for _ in range(minutes):
        at_us += MINUTE_US
        now_s = to_local_s(offsets, at_us)
        marks = [now_s] if every_hour else range(passed_s // 60 * 60 + 60, now_s + 1, 60)
        passed_s = max(passed_s, now_s)
        for mark_s in marks:
            day, of_day_s = divmod(mark_s, DAY_S)
            hour, minute = divmod(of_day_s // 60, 60)
            if spec.takes_day(day) and spec.hours >> hour & 1 and spec.minutes >> minute & 1:
                return at_us
    return None


@given(
    SPECS,
    st.sampled_from([BERLIN, ODD, ()]),
    st.sampled_from([1_774_746_000, 1_792_890_000, 1_793_000_000]),
    st.integers(-3 * 1440, 60),
    st.integers(0, 59 * US),
)
def test_next_is_what_a_walk_over_minutes_finds(
    fields: tuple[str, ...], offsets: Offsets, change_s: int, minutes: int, more_us: int
) -> None:
    try:
        spec = spec_of(" ".join(fields))
    except BadSpec:
        return
    after_us = change_s * US + minutes * MINUTE_US + more_us
    expected = walked(spec, offsets, after_us, 4 * 1440)
    found = next_us(spec, offsets, after_us)
    assert found is not None
    if expected is None:
        assert found > after_us + 4 * 1440 * MINUTE_US - MINUTE_US
    else:
        assert found == expected
