"""How many examples a costly property draws: some in `make test`, which draws the same ones each time, more in
`make test-full`. A property whose examples are cheap takes what the profile says (tests/conftest.py)."""

import os

from hypothesis import settings

FULL = os.environ.get("PENSTOCK_HYPOTHESIS") == "full"


def examples(quick: int, full: int) -> settings:
    """The settings of a property."""
    return settings(max_examples=full if FULL else quick, deadline=None)
