"""Signals as users write them: TERM, SIGTERM, term, 15."""

import signal

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int

#: The highest real-time signal of Linux.
SIGNAL_MAX = 64


def parse_signal(text: str) -> int:
    """The number of a signal given by name or number."""
    if text.isascii() and text.isdigit():
        return parse_int(text, 1, SIGNAL_MAX, "signal")
    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    try:
        return int(signal.Signals[name])
    except KeyError:
        known = ", ".join(s.name.removeprefix("SIG") for s in signal.Signals if not s.name.startswith("SIGRT"))
        raise BadValue(f"{text!r} is no signal; known: {known}") from None
