"""The time zone as data: the same offsets as the machine's at every instant."""

import time

import pytest

from penstock.config import zone
from penstock.values.localtime import offset_at


@pytest.fixture(
    params=["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Casablanca", "Australia/Lord_Howe"]
)
def offsets(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    zone.utc_offsets.cache_clear()
    yield zone.utc_offsets()
    monkeypatch.undo()
    time.tzset()
    zone.utc_offsets.cache_clear()


def test_every_change_is_found_to_the_second(offsets):
    assert list(offsets) == sorted(offsets)
    for at_us, _ in offsets[1:]:
        for second in (-1, 0, 1):
            at_s = at_us // 1_000_000 + second
            assert offset_at(offsets, at_s * 1_000_000) == time.localtime(at_s).tm_gmtoff


def test_days_between(offsets):
    for at_s in range(1_700_000_000, 2_000_000_000, 86_400 * 11):
        assert offset_at(offsets, at_s * 1_000_000) == time.localtime(at_s).tm_gmtoff
