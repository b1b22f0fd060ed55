"""The calls with which a daemon keeps things from users' programs leave nothing behind in a process that makes them for long."""

import gc
from _ctypes import CFuncPtr

from penstock.inherited import leave_real_time


def test_a_stepd_keeps_nothing_of_a_call() -> None:
    """It runs without the collector, which alone would free a library's classes."""
    leave_real_time()
    gc.disable()
    try:
        before = len(CFuncPtr.__subclasses__())
        for _ in range(3):
            leave_real_time()
        assert len(CFuncPtr.__subclasses__()) == before
    finally:
        gc.enable()
