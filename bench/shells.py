"""Commands in loops: many `sbatch`, one after the other, from several shells at once.

What workflow engines and people's own scripts do. Each shell starts the command, waits for it, starts the next; the
jobs are held, so that nothing else is measured. The same loop runs on Slurm in the same run.
"""

import shlex
import subprocess
import time

from bench.measure import CannotMeasure

SHELLS = 8
LOOP = "i=0; while [ $i -lt {calls} ]; do {command} >/dev/null || exit 1; i=$((i+1)); done"
WORDS = ["--hold", "-o", "/dev/null", "--wrap", "true"]
#: Unmeasured: they start the command server, and warm the controller up.
WARM_UP_CALLS = 40


def rate(sbatch: str, env: dict[str, str], calls: int) -> float:
    """Submissions per second."""
    _run(sbatch, env, WARM_UP_CALLS)
    began = time.perf_counter()
    _run(sbatch, env, calls)
    return calls / (time.perf_counter() - began)


def _run(sbatch: str, env: dict[str, str], calls: int) -> None:
    line = LOOP.format(calls=calls // SHELLS, command=shlex.join([sbatch, *WORDS]))
    shells = [subprocess.Popen(["sh", "-c", line], env=env) for _ in range(SHELLS)]
    if any([shell.wait() for shell in shells]):
        raise CannotMeasure(f"{sbatch}: a call failed")
