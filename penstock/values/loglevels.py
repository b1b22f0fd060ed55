"""Maps Slurm's log levels (SlurmctldDebug, SlurmdDebug) to levels of Python's logging."""

from typing import Final

#: In ascending order of detail; the older notation is the index (slurm.conf(5)).
LOG_LEVELS: Final = (
    "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5",
)  # fmt: skip
#: Python has fewer levels: critical, error, info, debug.
_NUMBERS: Final = {"quiet": 60, "fatal": 50, "error": 40, "info": 20, "verbose": 20}


def level_of(word: str) -> int:
    """Returns the number for `logging.setLevel`; an unknown level is debug, which hides nothing."""
    return _NUMBERS.get(word, 10)
