"""Parses signals (TERM, SIGTERM, term, 15) and the warning before a job's end (`--signal=B:USR2@90`).

The numbers are those of Linux on all architectures of GPU nodes; they are a table because the cores import nothing of
the system.
"""

from typing import NamedTuple

from penstock.values.errors import BadValue
from penstock.values.numbers import is_digits, parse_int

SIGNALS: dict[str, int] = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10,
    "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP":
    19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27,
    "WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31,
}  # fmt: skip

#: Linux's highest real-time signal.
SIGNAL_MAX = 64
#: Slurm's default.
BEFORE_END_DEFAULT_S = 60
#: The longest time before the end, as in Slurm.
BEFORE_END_S_MAX = 65_535


class EndWarning(NamedTuple):
    """The value of --signal: the signal, its recipient, and the seconds before the time limit at which it is sent."""

    batch_shell: bool  # B: sent to the script's process only; else to the job's steps
    signal_no: int
    before_end_s: int


def parse_signal(text: str) -> int:
    """Parses a signal given by name or number. Raises BadValue."""
    if is_digits(text):
        return parse_int(text, 1, SIGNAL_MAX, "signal")
    number = SIGNALS.get(text.upper().removeprefix("SIG"))
    if number is None:
        raise BadValue(f"{text!r} is no signal; known: {', '.join(SIGNALS)}")
    return number


def signal_name(number: int) -> str:
    """Returns the name without SIG, or the number of one that has none."""
    return next((name for name, known in SIGNALS.items() if known == number), str(number))


def parse_end_warning(text: str) -> EndWarning:
    """Parses `[R|B:]signal[@seconds]`. R (reservations) is accepted and has no effect. Raises BadValue."""
    flags, colon, rest = text.rpartition(":")
    name, at, seconds = rest.partition("@")
    if colon and flags.upper() not in ("R", "B", "RB", "BR"):
        raise BadValue(f"{flags!r} is not one of R, B, RB")
    before_s = parse_int(seconds, 0, BEFORE_END_S_MAX, "time before the end") if at else BEFORE_END_DEFAULT_S
    return EndWarning("B" in flags.upper(), parse_signal(name), before_s)
