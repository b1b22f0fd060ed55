"""How many examples a costly property draws: some in `make test`, which draws the same ones each time, more in
`make test-full`. A property whose examples are cheap takes what the profile says (tests/conftest.py). And how many cases a
long sweep tries: all of them in `make test-full`, some in `make test`."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")
FULL = os.environ.get("PENSTOCK_HYPOTHESIS") == "full"


def examples(quick: int, full: int) -> settings:
    """The settings of a property."""
    return settings(max_examples=full if FULL else quick, deadline=None)


def sample(cases: Iterable[T], one_in: int) -> Iterator[T]:
    """All cases in `make test-full`; else one in so many. The number should share no divisor with the number of values
    that each member of a request is filled with, so that every member keeps some, and other ones than its neighbour."""
    return islice(cases, 0, None, 1 if FULL else one_in)
