"""Compiles the tests once, before several workers collect them:

    python -m tools.testgate.compiled [PYTEST_ARGUMENT...]

pytest rewrites the assertions of each module of tests, and keeps the result as byte code. All workers collect at the same
time, so in a new clone each of them would rewrite all modules: 20 s of processor time for each worker. Here one pytest
collects before them. It decides nothing: what cannot be collected is the run's to report.
"""

import contextlib
import subprocess
import sys
from typing import Final

from tools.testgate.runs import environment

#: A collection that has not ended then hangs in some module's import: the run names it.
LIMIT_S: Final = 300


def main() -> int:
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *sys.argv[1:]]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=LIMIT_S
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
