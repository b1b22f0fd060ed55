"""Prices of holes: by hand on small distributions, and that any distribution gets some, quickly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from _fastsched.fragment_holes import GRAIN_MILLI, holes
from tests.fastsched.fragment_input import Pod, classes_of


def hole(pods: list[Pod], free: int) -> int:
    return int(holes(classes_of(pods))[free])


def test_halves_and_thirds() -> None:
    pods = [Pod(share=470, weight=6), Pod(share=320, weight=3)]
    assert [hole(pods, free) for free in (0, 310, 320, 470, 530, 640, 680, 1000)] == [0, 310, 0, 0, 30, 0, 13, 0]


def test_what_nothing_wants_stays_idle() -> None:
    assert hole([Pod(share=810)], 190) == 190
    assert hole([Pod(weight=5), Pod(gpus=0)], 999) == 999


def test_a_filler_that_is_rare_has_no_price() -> None:
    """Every 0.81 leaves room for a 0.16, and there are more such holes than fillers."""
    assert hole([Pod(share=810, weight=10), Pod(share=160, weight=1)], 190) == 190


def test_a_filler_that_is_frequent_has_one() -> None:
    """More fillers than holes: the rest of them goes six to a GPU."""
    assert hole([Pod(share=810, weight=1), Pod(share=160, weight=100)], 190) == 190 - 167


SHARES = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 50)), max_size=40)


@given(shares=SHARES)
def test_a_hole_never_loses_more_than_it_is_and_a_larger_one_is_worth_no_less(shares: list[tuple[int, int]]) -> None:
    found = holes(classes_of([Pod(share=share, weight=weight) for share, weight in shares]))
    free = np.arange(1001)
    assert ((found >= 0) & (found <= free)).all() and found[1000] == 0
    worth = (free - found)[::GRAIN_MILLI]
    assert (np.diff(worth) >= 0).all()
