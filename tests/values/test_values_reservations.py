"""Flags and lists of reservations: what is read, what is refused, what is shown."""

import pytest

from penstock.values.errors import BadValue
from penstock.values.reservations import (
    RECURRING,
    FlagChange,
    ResvFlag,
    Signed,
    format_flags,
    parse_flags,
    parse_signed,
)

F = ResvFlag


@pytest.mark.parametrize(
    ("text", "on", "off", "purge_comp_s"),
    [
        ("", F.NONE, F.NONE, -1),
        ("maint", F.MAINT, F.NONE, -1),
        ("MAINT,Ignore_Jobs", F.MAINT | F.IGNORE_JOBS, F.NONE, -1),
        ("over,magn", F.OVERLAP | F.MAGNETIC, F.NONE, -1),
        ("NO_DAILY", F.NONE, F.DAILY, -1),
        ("+FLEX,MAINT", F.FLEX | F.MAINT, F.NONE, -1),
        ("-FLEX,MAINT", F.NONE, F.FLEX | F.MAINT, -1),
        ("-FLEX,+MAINT", F.MAINT, F.FLEX, -1),
        ("NO_HOLD_JOBS_AFTER", F.NO_HOLD_JOBS_AFTER, F.NONE, -1),
        ("no_hold_jobs_after_end", F.NO_HOLD_JOBS_AFTER, F.NONE, -1),
        ("PURGE_COMP", F.PURGE_COMP, F.NONE, 300),
        ("PURGE_COMP=10,DAILY", F.PURGE_COMP | F.DAILY, F.NONE, 600),
        ("replace", F.REPLACE, F.NONE, -1),
        ("REPLACE_DOWN", F.REPLACE_DOWN, F.NONE, -1),
        ("static", F.STATIC_ALLOC, F.NONE, -1),
    ],
)
def test_flags(text, on, off, purge_comp_s):
    assert parse_flags(text) == FlagChange(on, off, purge_comp_s)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FAST", "known are MAINT"), ("WEEK", "known are"), ("DAILY=5", "only PURGE_COMP takes a value"),
        ("PURGE_COMP=x", "Invalid"), ("FLEX,-FLEX", "set and cleared"),
        ("NO_", "known are"), (",".join(["FLEX"] * 5000), "more than 4096"),
    ],
)  # fmt: skip
def test_flags_that_are_refused(text, words):
    with pytest.raises(BadValue, match=words):
        parse_flags(text)


@pytest.mark.parametrize("flag", [f for f in ResvFlag if f])
def test_what_is_shown_can_be_read(flag):
    assert parse_flags(format_flags(flag, 300)).on == flag


def test_order_and_words():
    flags = F.MAGNETIC | F.STATIC_ALLOC | F.SPEC_NODES | F.DAILY | F.MAINT | F.PURGE_COMP | F.NO_HOLD_JOBS_AFTER
    shown = "MAINT,DAILY,SPEC_NODES,STATIC,PURGE_COMP=00:10:00,NO_HOLD_JOBS_AFTER_END,MAGNETIC"
    assert format_flags(flags, 600) == shown
    assert format_flags(F.NONE) == ""
    assert RECURRING.bit_count() == 5


def test_lists():
    assert parse_signed("ann,bob", "users") == (Signed("", "ann"), Signed("", "bob"))
    assert parse_signed("-ann,bob,+eve", "users") == (Signed("-", "ann"), Signed("-", "bob"), Signed("+", "eve"))
    assert parse_signed("", "users") == ()
    with pytest.raises(BadValue, match="a name is missing"):
        parse_signed("-", "users")
