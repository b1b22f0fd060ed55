"""MIG profiles and layouts: what is read, what is refused, and that nothing goes beyond a GPU's slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.mig import (
    COMPUTE_SLICES,
    MigChoice,
    extra_places,
    format_layout,
    is_type,
    most_at_once,
    parse_layout,
    parse_layouts,
    slices_of,
)


def test_layouts_are_read() -> None:
    assert parse_layouts("whole|1g.18gb*7|3g.71gb*2") == ((), ("1g.18gb",) * 7, ("3g.71gb",) * 2)
    assert parse_layouts("WHOLE") == ((),)
    assert parse_layouts("3g.71gb*2") == (("3g.71gb",) * 2, ())
    assert parse_layout("1g.18gb, 4g.71gb,2G.35GB") == ("4g.71gb", "2g.35gb", "1g.18gb")
    assert parse_layout("1g.10gb+me,1g.10gb*3") == ("1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb+me")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1g.18gb*8", "1 to 7 instances"),
        ("1g.18gb*0", "1 to 7 instances"),
        ("4g.71gb*2", "8 compute slices; a GPU has 7"),
        ("3g.71gb*2,1g.18gb", "9 memory slices; a GPU has 8"),
        ("1g.5gb|1g.10gb*5", "10 memory slices"),
        ("5g.10gb", "is no MIG profile"),
        ("half", "is no MIG profile"),
        ("", "is no MIG profile"),
        ("whole|", "is no MIG profile"),
        ("1g.18gb|whole|1g.18gb", "is given twice"),
        ("|".join(["whole"] * 17), "17 layouts, the limit is 16"),
    ],
)
def test_what_is_no_layout_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadValue, match=why.replace("*", r"\*")):
        parse_layouts(text)


@given(st.lists(st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.20gb"]), max_size=9))
def test_a_layout_is_within_the_slices_or_refused(profiles: list[str]) -> None:
    text = ",".join(profiles) or "whole"
    memory = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8, "1g.20gb": 2}
    fits = sum(map(slices_of, profiles)) <= COMPUTE_SLICES and sum(memory[p] for p in profiles) <= 8
    other = "" if sorted(profiles) == ["1g.10gb"] * 6 else "|1g.10gb*6"  # it tells what a memory slice is
    if not fits:
        with pytest.raises(BadValue, match="slices; a GPU has"):
            parse_layouts(text + other)
        return
    layouts = parse_layouts(text + other)
    assert sorted(layouts[0]) == sorted(profiles)
    assert parse_layout(format_layout(layouts[0])) == layouts[0]


def test_places_are_the_union_over_the_layouts() -> None:
    choices = (MigChoice("h200", 0, 2, parse_layouts("whole|1g.18gb*7|3g.71gb,1g.18gb*2")),)
    assert extra_places(choices) == (("1g.18gb", 14), ("3g.71gb", 2))
    assert most_at_once(choices) == 12
    assert most_at_once((MigChoice("h200", 0, 2, ((),)),)) == 0


@pytest.mark.parametrize(
    ("type_", "profile", "same"),
    [
        ("1g.18gb", "1g.18gb", True),
        ("h200_1g.18gb", "1g.18gb", True),
        ("", "1g.18gb", True),
        ("h200", "1g.18gb", False),
        ("1g.18gb", "1g.18gb+me", False),
        ("g.18gb", "1g.18gb", False),
    ],
)
def test_types_of_instances(type_: str, profile: str, same: bool) -> None:
    assert is_type(type_, profile) is same
