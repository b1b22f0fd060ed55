"""When recurring reservations come again: properties in UTC, and the two odd nights of a year in a zone with summer time."""

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.reservations import recurrence
from penstock.values import localtime
from penstock.values.reservations import RECURRING, ResvFlag

US = 1_000_000
DAY_S = 86_400
#: Central Europe around 2026: clocks go forward on 29 March at 01:00 UTC and back on 25 October at 01:00 UTC.
SPRING_US, AUTUMN_US = 1_774_746_000 * US, 1_792_890_000 * US
CENTRAL = ((0, 3600), (SPRING_US, 7200), (AUTUMN_US, 3600))
FLAGS = [ResvFlag.HOURLY, ResvFlag.DAILY, ResvFlag.WEEKDAY, ResvFlag.WEEKEND, ResvFlag.WEEKLY]
instants = st.integers(1_577_836_800, 3_000_000_000).map(lambda s: s * US)
zones = st.sampled_from([(), CENTRAL, ((0, -18_000),)])


def local(offsets, *at_us):
    return [localtime.to_local_s(offsets, one) % DAY_S for one in at_us]


@given(instants, st.sampled_from(FLAGS), zones, st.integers(0, 400 * DAY_S * US))
def test_they_rise_keep_their_hour_and_none_is_left_out(anchor_us, flag, offsets, later_us):
    every = list(islice(recurrence.starts(anchor_us, flag, offsets, anchor_us), 40))
    assert every == sorted(set(every)) and every[0] >= anchor_us
    # Asked from anywhere in between, the same instants come.
    from_us = anchor_us + later_us
    some = list(islice(recurrence.starts(anchor_us, flag, offsets, from_us), 3))
    assert all(at_us >= from_us for at_us in some)
    assert [at for at in every if at >= from_us][:3] == [at for at in some if at <= every[-1]]
    if flag is not ResvFlag.HOURLY:
        hours = dict.fromkeys(local(offsets, *(at for at in every if not _is_odd(offsets, at))))
        assert len(hours) <= 1
    for at_us in every:
        day = localtime.weekday(localtime.to_local_s(offsets, at_us))
        assert day < 5 if flag is ResvFlag.WEEKDAY else day > 4 if flag is ResvFlag.WEEKEND else True


def _is_odd(offsets, at_us):
    """Within a day of a change of the clocks."""
    return any(abs(at_us - change_us) < DAY_S * US for change_us, _ in offsets[1:])


@given(instants, st.sampled_from(FLAGS), st.integers(1, 3600))
def test_occurrences_do_not_meet(anchor_us, flag, length_s):
    windows = recurrence.windows(anchor_us, length_s * US, flag, CENTRAL, anchor_us, 20)
    assert len(windows) == 20
    assert all(before[1] <= after[0] for before, after in pairwise(windows))


def test_once_is_once():
    assert recurrence.windows(5, 10, ResvFlag.MAINT, (), 0, 9) == [(5, 15)]
    assert recurrence.windows(5, 10, ResvFlag.MAINT, (), 6, 9) == []


@pytest.mark.parametrize(("around_us", "clock", "odd"), [(SPRING_US, 2.5, 3.0), (AUTUMN_US, 2.5, 2.5)])
def test_nights_when_the_clocks_change(around_us, clock, odd):
    """02:30 does not exist once and exists twice once: the first instant after the gap, the first of the two."""
    midnight_s = localtime.to_local_s(CENTRAL, around_us - 3 * DAY_S * US) // DAY_S * DAY_S
    anchor_us = localtime.from_local_us(CENTRAL, midnight_s + int(clock * 3600))
    nights = list(islice(recurrence.starts(anchor_us, ResvFlag.DAILY, CENTRAL, anchor_us), 6))
    hours = [at_s / 3600 for at_s in local(CENTRAL, *nights)]
    assert hours == [clock] * 3 + [odd] + [clock] * 2
    if around_us == AUTUMN_US:
        assert nights[3] == around_us - 1800 * US  # still summer time


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=6),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=6),
)
def test_overlap_is_what_a_look_at_every_pair_says(one, other):
    def disjoint(pairs):
        found, last = [], -1
        for start, length in sorted(pairs):
            if start >= last:
                found.append((start, start + length))
                last = start + length
        return found

    left, right = disjoint(one), disjoint(other)
    said = any(a[0] < b[1] and b[0] < a[1] for a in left for b in right)
    assert recurrence.overlap(left, right) is said


def test_each_flag_that_recurs_has_a_shortest_period():
    assert set(recurrence.SHORTEST_S) == set(FLAGS)
    assert sum(FLAGS, ResvFlag.NONE) == RECURRING
