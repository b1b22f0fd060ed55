"""Weights of TRES."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.weights import WEIGHT_ONE, Weight, format_weights, parse_weights


def test_reading_and_units() -> None:
    weights = parse_weights("cpu=1.0,Mem=0.25G,GRES/gpu=2,gres/gpu:A100=2.5,license/Matlab=10", "x")
    assert [w.tres for w in weights] == ["cpu", "mem", "gres/gpu", "gres/gpu:A100", "license/Matlab"]
    assert weights[1].scaled(4096) == WEIGHT_ONE  # a quarter for each of four gigabytes
    assert parse_weights("Mem=1", "x")[0].scaled(3) == 3 * WEIGHT_ONE  # megabytes
    assert parse_weights("Mem=1K", "x")[0].scaled(1) == 1024 * WEIGHT_ONE
    assert parse_weights("CPU=0.5K", "x")[0].scaled(2048) == WEIGHT_ONE
    assert format_weights(weights) == "CPU=1.0,Mem=0.25G,gres/gpu=2.0,gres/gpu:A100=2.5,license/Matlab=10.0"


@pytest.mark.parametrize("text", ["", "cpu", "cpu=", "=1", "cpu=-1", "cpu=1e3", "cpu=1,", "mem=1X", "cpu=99999999999"])
def test_what_is_no_weight(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid TRESBillingWeights"):
        parse_weights(text, "TRESBillingWeights")


@given(
    st.lists(
        st.builds(
            Weight, st.sampled_from(["cpu", "mem", "node", "gres/gpu"]), st.integers(0, 10**9),
            st.sampled_from(["", "K", "M", "G", "T"]),
        ),
        unique_by=lambda w: w.tres, min_size=1,
    )
)  # fmt: skip
def test_written_and_read_again(weights: list[Weight]) -> None:
    assert parse_weights(format_weights(weights), "x") == tuple(weights)
