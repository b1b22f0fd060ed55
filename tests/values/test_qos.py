"""What a QOS says beside limits: one reading for commands and core."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.duration import DURATION_MAX_S
from penstock.values.errors import BadValue
from penstock.values.qos import FLAGS, PPM, parse_exempt_s, parse_factor, parse_flags, parse_grace_s, parse_preempt_mode


def test_values() -> None:
    assert [parse_grace_s(text) for text in ("", "-1", "0", "90", "1:30", "1-0")] == [0, 0, 0, 90, 90, 86400]
    assert [parse_exempt_s(text) for text in ("", "-1", "0", "5", "0:05")] == [-1, -1, 0, 300, 5]
    assert parse_exempt_s("UNLIMITED") == DURATION_MAX_S
    assert [parse_factor(text, "x") for text in ("", "-1", "0", "0.5", "007.0000019")] == [
        -1,
        -1,
        0,
        PPM // 2,
        7 * PPM + 1,
    ]
    assert parse_flags("nodecay, DENYONLIMIT,,nodecay") == ("NoDecay", "DenyOnLimit") and parse_flags("-1") == ()
    assert parse_preempt_mode("gang,suspend") == ("SUSPEND", "GANG")
    assert parse_preempt_mode("cluster") == parse_preempt_mode("") == ()


@given(st.text(max_size=12) | st.text("0123456789.:-+eE", max_size=24))
def test_anything_is_a_value_or_told(text: str) -> None:
    for read in (parse_grace_s, parse_exempt_s, lambda t: parse_factor(t, "x"), parse_flags, parse_preempt_mode):
        with suppress(BadValue):
            found = read(text)
            assert isinstance(found, tuple) or -1 <= found <= 1_000_000 * PPM


@pytest.mark.parametrize("text", ["1.", ".5", "²", "1.٣", "1e9", "+1", "-2", "nan", "inf", "1000000", "9" * 5000])
def test_what_no_factor_is(text: str) -> None:
    with pytest.raises(BadValue, match="allowed: 0 to 999999"):
        parse_factor(text, "x")


def test_all_flags_of_the_manual() -> None:
    assert len(FLAGS) == 11 and parse_flags(",".join(FLAGS)) == FLAGS
