"""Parses and formats durations in Slurm's notation: time limits, elapsed times.

Accepted: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds,
and UNLIMITED, INFINITE or -1. As in Slurm a part may exceed its usual range (1-24:61:61 is two days, 1:02:01). Values
are whole seconds; callers round time limits to minutes (`whole_minutes`), and decide what a limit of 0 means.
"""

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

UNLIMITED = -1
DURATION_MAX_S = 100 * 365 * 86400  # a century: longer than any job, and now plus this fits every date format

_FORMS = "minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]] or UNLIMITED"
# Seconds per part, by (has days, number of parts after the days).
_UNITS = {
    (False, 1): (60,),
    (False, 2): (60, 1),
    (False, 3): (3600, 60, 1),
    (True, 1): (3600,),
    (True, 2): (3600, 60),
    (True, 3): (3600, 60, 1),
}


def parse_duration_s(text: str) -> int:
    """Parses a duration to seconds, or UNLIMITED."""
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return UNLIMITED
    days, dash, clock = text.partition("-")
    if not dash:
        days, clock = "", text
    parts = clock.split(":", 3)
    units = _UNITS.get((bool(dash), len(parts)))
    if units is None:
        raise BadValue(f"Invalid time {shown(text)}: write {_FORMS}")
    what = f"time {shown(text)} ({_FORMS})"
    total = parse_int(days, 0, DURATION_MAX_S, what) * 86400 if dash else 0
    for part, unit in zip(parts, units, strict=True):
        total += parse_int(part, 0, DURATION_MAX_S, what) * unit
    if total > DURATION_MAX_S:
        raise BadValue(
            f"Invalid time {shown(text)}: longer than {DURATION_MAX_S // 86400} days; write UNLIMITED for no limit"
        )
    return total


def whole_minutes(seconds: int) -> int:
    """Rounds a time limit up to whole minutes, as Slurm does. UNLIMITED is unchanged."""
    return seconds if seconds < 0 else -(-seconds // 60) * 60


def format_duration(seconds: int) -> str:
    """Formats a duration as `02:03:04`, `1-02:03:04` or UNLIMITED: time limits, and elapsed times in sacct and
    scontrol.

    A negative duration (a clock that was set back) is INVALID, as in Slurm.
    """
    if seconds == UNLIMITED:
        return "UNLIMITED"
    if seconds < 0:
        return "INVALID"
    days, hours, minutes, rest = _parts(seconds)
    return (f"{days}-" if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"


def format_elapsed(seconds: int) -> str:
    """Formats a duration in squeue's short form: `0:05`, `1:02:03`, `1-02:03:04`."""
    days, hours, minutes, rest = _parts(seconds)
    if seconds < 0 or days:
        return format_duration(seconds)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _parts(seconds: int) -> tuple[int, int, int, int]:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest
