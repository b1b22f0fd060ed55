"""How long tests wait before they give up: the one place that says seconds.

    ANSWER_S    a command's or a call's answer, the exit of a program after a signal, a byte, a thread
    START_S     processes that start and are ready: a cluster, a database, a Slurm
    END_S       the end or another state of jobs, and of what a daemon does by itself

A deadline only bounds failures, so it is far more than a busy machine takes: one whose disk stands still for half a minute is
no fault of the program. A passing test is not slowed by it, unless that it expires is the subject.

Each is multiplied by how much slower than a quiet machine this one starts ten interpreters, measured once for a run (1 to 10;
the workers of pytest inherit it), and by 3 where the gate runs failed tests again (tools/testgate). None is longer than
LONGEST_S, so that what waited says so before pytest-timeout ends the test.
"""

import os
import subprocess
import sys
import time

QUIET_S = {"answer": 120.0, "start": 180.0, "end": 240.0}
#: Ten interpreters, one after the other, on a quiet machine of two cores.
TEN_STARTS_QUIET_S = 0.2
SLOWNESS_MAX = 10.0
REPEAT_FACTOR = 3.0
#: Below `timeout` in pyproject.toml.
LONGEST_S = 540.0
#: What this module reads and, for the processes of the same run, sets.
SLOWNESS, REPEAT = "PENSTOCK_TEST_SLOWNESS", "PENSTOCK_TEST_REPEAT"


def slowness(ten_starts_s: float) -> float:
    """The factor of a machine that takes so long for ten interpreters."""
    return min(max(ten_starts_s / TEN_STARTS_QUIET_S, 1.0), SLOWNESS_MAX)


def measured() -> float:
    began_s = time.monotonic()
    for _ in range(10):
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    return slowness(time.monotonic() - began_s)


def scaled(quiet_s: float, factor: float, repeated: bool) -> float:
    """The deadline in seconds on a machine of this slowness."""
    return min(quiet_s * factor * (REPEAT_FACTOR if repeated else 1.0), LONGEST_S)


if SLOWNESS not in os.environ:
    os.environ[SLOWNESS] = f"{measured():.2f}"
FACTOR = float(os.environ[SLOWNESS])
REPEATED = os.environ.get(REPEAT) == "1"
ANSWER_S, START_S, END_S = (scaled(QUIET_S[kind], FACTOR, REPEATED) for kind in ("answer", "start", "end"))
