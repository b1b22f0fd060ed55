"""The compiled ordering against its oracle."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fastsched
from _fastsched import ordering, ordering_reference

#: Texts that begin alike, have bytes of zero, end where the compared pieces do, or are of several bytes a character.
texts = st.text(alphabet="a\0b\u00e9\U0001f600", max_size=5) | st.builds(
    lambda size, end: "a" * size + end, st.sampled_from((7, 8, 9, 15, 16, 17, 40)), st.text(alphabet="a\0b", max_size=2)
)
numbers = st.sampled_from((-(2**63), 2**63 - 1, -1, 0, 1)) | st.integers(-5, 5)
values = st.lists(st.lists(texts, max_size=9), max_size=5) | st.lists(st.lists(numbers, max_size=9), max_size=5)


@given(values, st.lists(st.integers(0, 12), max_size=6), st.integers(0, 3))
def test_both_take_the_same(parts, takes, skipped):
    """However the values are divided, how many are taken at a time, and what all begin with."""
    parts = [[("a" * skipped) + one if isinstance(one, str) else one for one in part] for part in parts]
    flat = [one for part in parts for one in part]
    made = [kind(skipped) for kind in (ordering.Ordering, ordering_reference.PlainOrdering)]
    for one in made:
        first = 1000
        for part in parts:
            one.add(part, array("I", range(first, first + len(part))))
            first += len(part)
    for count in (*takes, len(flat)):
        taken = [one.take(count) for one in made]
        assert taken[0] == taken[1]
    both = ordering.Ordering(skipped)
    both.add(flat, array("I", range(len(flat))))
    assert list(both.take(len(flat) + 1)) == sorted(range(len(flat)), key=flat.__getitem__)


@pytest.mark.parametrize("kind", [ordering.Ordering, ordering_reference.PlainOrdering])
def test_what_cannot_be_ordered_is_refused(kind):
    with pytest.raises(ValueError, match="as many ids"):
        kind().add(["a"], array("I"))
    with pytest.raises(ValueError, match="shorter"):
        kind(3).add(["ab"], array("I", [1]))
    taken = kind()
    assert list(taken.take(5)) == []
    with pytest.raises(ValueError, match="taken already"):
        taken.add(["a"], array("I", [1]))
    assert _fastsched.ORDERING_COMPILED and _fastsched.Ordering is ordering.Ordering


def test_refused_values_leave_the_rest():
    """A text that is no UTF-8, a number of more than 64 bits, a value of another type."""
    order = ordering.Ordering()
    order.add([2, 1], array("I", [20, 10]))
    for bad, error in ((["\ud800"], UnicodeEncodeError), ([2**64], OverflowError), ([None], TypeError)):
        with pytest.raises(error):
            order.add(bad, array("I", [1]))  # type: ignore[arg-type]  # what is refused has other types
    assert list(order.take(9)) == [10, 20]
