"""Slurm's words for how much a daemon writes (SlurmctldDebug, SlurmdDebug), as levels of Python's logging."""

from typing import Final

#: From nothing to everything; a number from 0 is the older way to write them (slurm.conf(5)).
LOG_LEVELS: Final = (
    "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5",
)  # fmt: skip
#: Python has fewer: critical, error, info, debug.
_NUMBERS: Final = {"quiet": 60, "fatal": 50, "error": 40, "info": 20, "verbose": 20}


def level_of(word: str) -> int:
    """The number for `logging.setLevel`; an unknown word is as debug, which hides nothing."""
    return _NUMBERS.get(word, 10)
