"""A pytest plugin that stalls processes below the test at random moments: the daemons, their children, commands, jobs.

    PYTHONPATH=tests/support STALLS_SEED=7 .venv/bin/python -m pytest -p stalls tests/e2e/test_e2e_het.py

A busy machine delays everything a little; a race needs one stopped process while the others run. So a thread picks a
process, stops it for up to STALLS_MAX_S seconds (1.5), continues it, and picks another; STALLS_COUNT threads do so (2).
The same seed draws the same numbers, but not the same moments: it is for finding a race, which then gets a test that
needs no luck. Not for tests that stop processes themselves.
"""

import contextlib
import os
import random
import signal
import threading

import psutil
import pytest

#: Between two stalls; the pause is drawn below it.
GAP_S = 0.4
#: Fractions of the longest stall: most are short.
PARTS = (0.05, 0.2, 0.5, 1.0)

_ended = threading.Event()
_threads: list[threading.Thread] = []


def _stall(dice: random.Random, max_s: float) -> None:
    here = psutil.Process()
    while not _ended.wait(dice.random() * GAP_S):
        with contextlib.suppress(psutil.Error, IndexError):
            process = dice.choice(here.children(recursive=True))
            process.send_signal(signal.SIGSTOP)
            try:
                _ended.wait(dice.choice(PARTS) * max_s * dice.random())
            finally:
                process.send_signal(signal.SIGCONT)


def pytest_configure(config: pytest.Config) -> None:
    """Starts the stalls; prints the seed for a repetition."""
    seed = int(os.environ.get("STALLS_SEED") or random.randrange(1_000_000))
    print(f"stalls: seed {seed}")
    for number in range(int(os.environ.get("STALLS_COUNT", "2"))):
        arguments = random.Random(seed + number), float(os.environ.get("STALLS_MAX_S", "1.5"))
        _threads.append(threading.Thread(target=_stall, args=arguments))
        _threads[-1].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Continues all processes."""
    _ended.set()
    for thread in _threads:
        thread.join()
