"""GPUs that are pretended: how many, of what type, with what memory."""

import pytest

from penstock.values.errors import BadValue
from penstock.values.pretend import Model, model_of, parse_gpus


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0", (0, "")),
        ("8", (8, "")),
        ("8:h200", (8, "h200")),
        ("h200:8", (8, "h200")),
        ("2:RTX_A6000", (2, "rtx_a6000")),
    ],
)
def test_what_is_read(text: str, found: tuple[int, str]) -> None:
    assert parse_gpus(text, 128, "--gpus") == found


@pytest.mark.parametrize("text", ["", "x", "8:", ":8", "8:h 200", "8:a:b", "129", "-1", "8:8", "8:-a"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="--gpus"):
        parse_gpus(text, 128, "--gpus")


def test_known_types_have_their_memory() -> None:
    assert model_of("H200") == Model(143_771, "9.0")
    assert model_of("mine") == Model(0, "")
