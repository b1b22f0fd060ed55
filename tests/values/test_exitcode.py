"""How a signal is shown that has ended a job."""

import signal

import pytest

from penstock.values.exitcode import with_signal


@pytest.mark.parametrize(
    ("reason", "number", "text"),
    [
        ("RaisedSignal", 9, "RaisedSignal:9(Killed)"),
        ("RaisedSignal", signal.SIGRTMIN + 19, f"RaisedSignal:{signal.SIGRTMIN + 19}(Real-time signal 19)"),
        ("RaisedSignal", 4000, "RaisedSignal:4000(Unknown signal)"),
        ("RaisedSignal", 0, "RaisedSignal"),
        ("TimeLimit", 15, "TimeLimit"),
        ("", 9, ""),
    ],
)
def test_a_raised_signal_is_named(reason: str, number: int, text: str) -> None:
    assert with_signal(reason, number) == text
