"""Dates as Slurm reads and writes them, in several time zones."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.dates import DATE_AT_US_MAX, DATE_MAX_S, format_date, parse_date_us
from penstock.values.errors import BadValue

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy

# New York, India and New Zealand, written so that no time zone files are needed.
EASTERN = "EST5EDT,M3.2.0,M11.1.0"
ZONES = ["UTC0", EASTERN, "IST-5:30", "NZST-12NZDT,M9.5.0,M4.1.0/3"]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def local_us(text: str) -> int:
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))) * 1_000_000


NOW = "2026-11-21T10:30:00"

FORMS = [
    ("now", NOW),
    ("NOW", NOW),
    ("now+60", "2026-11-21T10:31:00"),
    ("now+10seconds", "2026-11-21T10:30:10"),
    ("now+5minutes", "2026-11-21T10:35:00"),
    ("now+1hour", "2026-11-21T11:30:00"),
    ("now + 2hours", "2026-11-21T12:30:00"),
    ("now+2days", "2026-11-23T10:30:00"),
    ("now-7days", "2026-11-14T10:30:00"),
    ("now+3weeks", "2026-12-12T10:30:00"),
    ("noon", "2026-11-21T12:00:00"),
    ("fika", "2026-11-21T15:00:00"),
    ("teatime", "2026-11-21T16:00:00"),
    ("today", "2026-11-21T00:00:00"),
    ("tomorrow", "2026-11-22T00:00:00"),
    ("16:00", "2026-11-21T16:00:00"),
    ("23:59:59", "2026-11-21T23:59:59"),
    ("10:30", NOW),
    ("4:00 PM", "2026-11-21T16:00:00"),
    ("4:00pm", "2026-11-21T16:00:00"),
    ("12:00PM", "2026-11-21T12:00:00"),
    ("11/30", "2026-11-30T00:00:00"),
    ("11/30/26", "2026-11-30T00:00:00"),
    ("11/30/2026", "2026-11-30T00:00:00"),
    ("11.30.26", "2026-11-30T00:00:00"),
    ("1/2/27", "2027-01-02T00:00:00"),
    ("11/30-16:00", "2026-11-30T16:00:00"),
    ("11/30/26-16:00", "2026-11-30T16:00:00"),
    ("16:00 11/30", "2026-11-30T16:00:00"),
    ("1130", "2026-11-30T00:00:00"),
    ("113026", "2026-11-30T00:00:00"),
    ("2026-11-30", "2026-11-30T00:00:00"),
    ("2026-11-30T10:00", "2026-11-30T10:00:00"),
    ("2026-11-30T10:00:05", "2026-11-30T10:00:05"),
    ("2026-11-30 10:00", "2026-11-30T10:00:00"),
    ("2020-02-29", "2020-02-29T00:00:00"),
    ("tomorrow 16:00", "2026-11-22T16:00:00"),
    ("16:00 tomorrow", "2026-11-22T16:00:00"),
    ("noon tomorrow", "2026-11-22T12:00:00"),
    ("today 09:00", "2026-11-21T09:00:00"),
]

# (text, as a start time, as the start of a window in the past)
GONE_BY = [
    ("09:00", "2026-11-22T09:00:00", "2026-11-21T09:00:00"),
    ("midnight", "2026-11-22T00:00:00", "2026-11-21T00:00:00"),
    ("12:30 AM", "2026-11-22T00:30:00", "2026-11-21T00:30:00"),
    ("11/20", "2027-11-20T00:00:00", "2026-11-20T00:00:00"),
    ("11/21", "2027-11-21T00:00:00", "2026-11-21T00:00:00"),
    ("0102", "2027-01-02T00:00:00", "2026-01-02T00:00:00"),
    ("11/21-09:00", "2027-11-21T09:00:00", "2026-11-21T09:00:00"),
]


@pytest.mark.parametrize(("text", "at"), FORMS)
def test_forms(zone: str, text: str, at: str) -> None:
    assert parse_date_us(text, local_us(NOW)) == local_us(at)
    assert parse_date_us(text, local_us(NOW), past=True) == local_us(at)


@pytest.mark.parametrize(("text", "next_one", "last_one"), GONE_BY)
def test_what_has_gone_by_means_the_next_one_unless_the_past_is_asked_for(
    zone: str, text: str, next_one: str, last_one: str
) -> None:
    assert parse_date_us(text, local_us(NOW)) == local_us(next_one)
    assert parse_date_us(text, local_us(NOW), past=True) == local_us(last_one)


@pytest.mark.parametrize("zone", [EASTERN], indirect=True)
def test_days_of_clock_changes(zone: str) -> None:
    eve = local_us("2026-10-31T10:00:00")
    assert parse_date_us("tomorrow", eve) == local_us("2026-11-01T00:00:00")
    assert parse_date_us("tomorrow noon", eve) - eve == 27 * 3600 * 1_000_000  # the day has 25 hours
    assert parse_date_us("09:00", local_us("2026-12-31T10:00:00")) == local_us("2027-01-01T09:00:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "-1",
        "0",
        "1700000000",
        "now+",
        "now+x",
        "now+5m",
        "now+1month",
        "now+1s",
        "now+1e3",
        "now+1_0",
        "now+-5",
        "now+1day+1hour",
        "2:5",
        "24:00",
        "23:60",
        "23:59:60",
        "13:00 PM",
        "0:30 AM",
        "4PM",
        "2026-1-2",
        "2026-13-01",
        "2026-00-10",
        "2026-02-30",
        "2025-02-29",
        "02/29",
        "2/30",
        "13/01",
        "11302026",
        "2026-11-30T",
        "2026-11-30T25:00",
        "2026-11-30T10",
        "2026-11-30T10:00:05Z",
        "10000-01-01",
        "9999-12-31",
        "1969-12-31",
        "now+999999999999weeks",
        "now+9999999999999",
        "noon noon",
        "today tomorrow",
        "monday",
        "１６:00",
        "16:00\0",
        "16:00\x1b[2J",
        "now" * 1000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match=r"^Invalid time specification") as error:
        parse_date_us(text, 1_795_257_000_000_000)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_the_first_day_is_accepted_east_and_west_of_greenwich(zone: str) -> None:
    assert 0 <= parse_date_us("1970-01-01", 1_795_257_000_000_000) <= 86_400_000_000
    assert parse_date_us("now-99999weeks", 1_795_257_000_000_000) == 0


def test_standard_format(zone: str) -> None:
    assert format_date(local_us("2026-11-21T10:00:00")) == "2026-11-21T10:00:00"
    assert format_date(local_us("2026-11-21T10:00:00") + 999_999) == "2026-11-21T10:00:00"
    assert format_date(0) == "Unknown"
    assert format_date(local_us(NOW), style="%d/%m %H:%M") == "21/11 10:30"
    assert format_date(local_us(NOW), style="nonsense") == NOW
    assert format_date(DATE_MAX_S * 1_000_000)
    assert format_date(2**63) == format_date(-1) == format_date(2**62) == "Unknown"  # of an old record


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-11-21T23:09:40", "23:09:40"),
        ("2026-11-22T03:09:40", "Tomorr 03:09"),
        ("2026-11-20T03:09:40", "Ystday 03:09"),
        ("2026-11-23T03:09:40", "Mon 03:09"),
        ("2026-11-27T03:09:40", "Fri 03:09"),
        ("2026-11-28T03:09:40", "28 Nov 03:09"),
        ("2026-11-19T03:09:40", "19 Nov 03:09"),
        ("2026-08-01T03:09:40", "1 Aug 03:09"),
        ("2027-09-17T03:09:40", "17 Sep 2027"),
        ("2025-08-03T03:09:40", "3 Aug 2025"),
    ],
)
def test_relative_format(zone: str, at: str, text: str) -> None:
    assert format_date(local_us(at), local_us(NOW), "relative") == text
    assert format_date(local_us(at), style="relative") == at


@STEADY
@given(st.integers(86_400, DATE_AT_US_MAX // 1_000_000 - 86_400))
def test_dates_come_back(seconds: int) -> None:
    text = format_date(seconds * 1_000_000)
    again = parse_date_us(text, 1_795_257_000_000_000)
    assert format_date(again) == text
    assert abs(again - seconds * 1_000_000) <= 7_200_000_000  # an hour that comes twice when summer time ends
