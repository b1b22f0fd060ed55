"""GPUs that are only pretended, to try things out: how many, what type, and what such a card is known to have.

`8` or `8:h200` (Slurm's own order, `h200:8`, is read too). A type of the table below has that card's memory and compute
capability, so that --gpu-mem and constraints mean something; of another type nothing is known, as of gres.conf's.
"""

from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int


class Model(NamedTuple):
    """What NVML says of a card: memory in MiB, compute capability of CUDA."""

    memory_mb: int
    capability: str


#: The largest of each name that is common.
MODELS: Final[dict[str, Model]] = {
    "v100": Model(32_768, "7.0"),
    "t4": Model(15_360, "7.5"),
    "a100": Model(81_920, "8.0"),
    "a10": Model(23_028, "8.6"),
    "a40": Model(46_068, "8.6"),
    "l4": Model(23_034, "8.9"),
    "l40s": Model(46_068, "8.9"),
    "h100": Model(81_559, "9.0"),
    "h200": Model(143_771, "9.0"),
    "b200": Model(183_359, "10.0"),
}


def parse_gpus(text: str, most: int, what: str) -> tuple[int, str]:
    """How many and of which type ("" = none). Raises BadValue."""
    count, colon, type_ = text.partition(":")
    if colon and not count.isdecimal():
        count, type_ = type_, count
    plain = type_.replace("-", "").replace("_", "")
    if (colon or type_) and not (plain.isascii() and plain.isalnum() and type_[0].isalnum() and not type_.isdecimal()):
        raise BadValue(
            f"{what}: {text!r}: write a number, or a number and a type, as in 8:h200; "
            "the type may have letters, digits, '-' and '_'"
        )
    return parse_int(count, 0, most, what), type_.lower()


def model_of(type_: str) -> Model:
    """What is known of that type; 0 and "" = nothing."""
    return MODELS.get(type_.lower(), Model(0, ""))
