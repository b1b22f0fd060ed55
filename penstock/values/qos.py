"""Parses the settings of a QOS other than limits: flags, preemption modes, times and factors. Pure; used by commands
and core.

`-1`, and for all but flags the empty text, mean "not set". Factors are kept in millionths, so that no decision depends
on floats.
"""

from typing import Final

from penstock.values.duration import DURATION_MAX_S, UNLIMITED, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

FLAGS: Final = (
    "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
    "PartitionMinNodes", "PartitionTimeLimit", "Relative", "RequiresReservation", "UsageFactorSafe",
)  # fmt: skip
#: A QOS has at most one of the first four.
PREEMPT_MODES: Final = ("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN")
PPM: Final = 1_000_000
#: A larger factor is a typing error.
FACTOR_MAX: Final = 999_999
#: A preempted job does not keep running for longer than a year.
GRACE_MAX_S: Final = 366 * 86400
_UNSET: Final = ("", "-1")


def parse_flags(text: str) -> tuple[str, ...]:
    """Parses flags. Raises BadValue."""
    known = {flag.lower(): flag for flag in FLAGS}
    words = [word.strip().lower() for word in text.split(",") if word.strip() not in _UNSET]
    for word in words:
        if word not in known:
            raise BadValue(f"Invalid Flags: {shown(word)} is not one of {', '.join(FLAGS)}")
    return tuple(dict.fromkeys(known[word] for word in words))


def parse_preempt_mode(text: str) -> tuple[str, ...]:
    """Parses preemption modes; returns GANG and WITHIN last; () = the cluster's. Raises BadValue."""
    modes = tuple(dict.fromkeys(word.strip().upper() for word in text.split(",") if word.strip() not in _UNSET))
    if modes in ((), ("CLUSTER",)):
        return ()
    for mode in modes:
        if mode not in PREEMPT_MODES:
            raise BadValue(f"Invalid PreemptMode: {shown(mode)} is not one of CLUSTER, {', '.join(PREEMPT_MODES)}")
    if len(set(modes) & set(PREEMPT_MODES[:4])) > 1:
        raise BadValue(f"Invalid PreemptMode: give one of {', '.join(PREEMPT_MODES[:4])}")
    return tuple(sorted(modes, key=lambda mode: mode in PREEMPT_MODES[4:]))


def parse_grace_s(text: str) -> int:
    """Parses GraceTime: seconds, or a time with colons; not set = 0. Raises BadValue."""
    if text in _UNSET:
        return 0
    if ":" not in text and "-" not in text.removeprefix("-"):
        return parse_int(text, 0, GRACE_MAX_S, "GraceTime in seconds")
    seconds = parse_duration_s(text)
    if seconds > GRACE_MAX_S:
        raise BadValue(f"Invalid GraceTime: {shown(text)} is longer than {GRACE_MAX_S // 86400} days")
    return seconds


def parse_exempt_s(text: str) -> int:
    """Parses PreemptExemptTime; not set = -1. UNLIMITED is the longest duration. Raises BadValue."""
    if text in _UNSET:
        return -1
    seconds = parse_duration_s(text)
    return DURATION_MAX_S if seconds == UNLIMITED else seconds


def parse_factor(text: str, what: str) -> int:
    """Parses UsageFactor, UsageThreshold or LimitFactor to millionths; not set = -1. Raises BadValue."""
    if text in _UNSET:
        return -1
    whole, point, part = text.partition(".")
    digits = whole + part
    if not (digits.isascii() and digits.isdigit() and whole) or (point and not part):
        raise BadValue(
            f"Invalid {what}: {shown(text)} is no number such as 0.5 (allowed: 0 to {FACTOR_MAX}, -1 = not set)"
        )
    if len(whole.lstrip("0")) > len(str(FACTOR_MAX)):
        raise BadValue(f"Invalid {what}: {shown(text)} is out of range (allowed: 0 to {FACTOR_MAX}, -1 = not set)")
    return int(whole) * PPM + int(part[:6].ljust(6, "0") or 0)
