"""Pretended GPUs, for tests and demonstrations: their number, their type, and the known properties of that model.

The text is `8` or `8:h200`; Slurm's order, `h200:8`, is accepted, too. A type in the table below has that model's
memory and compute capability, so that --gpu-mem and constraints apply. Nothing is known of other types, as in
gres.conf.
"""

from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int


class Model(NamedTuple):
    """The properties that NVML reports for a GPU: memory in MiB, CUDA compute capability."""

    memory_mb: int
    capability: str


#: For each name, the variant with the most memory among the common ones.
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
    """Parses number and type ("" = none). Raises BadValue."""
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
    """Returns the known properties of a type; 0 and "" if it is unknown."""
    return MODELS.get(type_.lower(), Model(0, ""))
