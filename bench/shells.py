"""Commands in loops: many `sbatch`, one after the other, from several shells at once.

The load of workflow engines and scripts. Each shell starts the command, waits for it, starts the next. Twice: on an idle
cluster with held jobs, so that nothing else is measured; and while a long queue waits behind a job that has all CPUs, so
that the controller plans it again and again. The same loops run on Slurm in the same run.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping

from bench.measure import CannotMeasure, run, wait_until

SHELLS = 8
LOOP = "i=0; while [ $i -lt {calls} ]; do {command} >/dev/null || exit 1; i=$((i+1)); done"
WORDS = ["--hold", "-o", "/dev/null", "--wrap", "true"]
#: Unmeasured: they start the command server, and warm the controller up.
WARM_UP_CALLS = 40
#: The queue: jobs of many shapes, as the planner groups equal ones.
QUEUED_WORDS = "-o /dev/null -D / -n $((1 + i % 64)) -t $((10 + i % 701)) --wrap true"
BLOCKER = ["--parsable", "-o", "/dev/null", "-D", "/", "--exclusive", "-t", "1000", "--wrap", "sleep 3600"]
BLOCK_LIMIT_S = 20.0


def rate(sbatch: str, env: Mapping[str, str], calls: int) -> float:
    """Submissions per second."""
    return _rate(shlex.join([sbatch, *WORDS]), env, calls)


def queued_rate(
    command: Callable[[str], str],
    env: Mapping[str, str],
    jobs: int,
    calls: int,
    partition: str,
    planned: Callable[[], None] = lambda: None,
) -> float:
    """Submissions per second while so many jobs wait. `command` finds a program; `planned` returns when planning has
    begun."""
    opened = [command("scontrol"), "update", f"PartitionName={partition}"]
    blocker = run([command("sbatch"), *BLOCKER], env).strip()
    running = [command("squeue"), "-h", "-j", blocker, "-t", "R", "-o", "%i"]
    wait_until(lambda: bool(run(running, env).strip()), "the job that takes all CPUs", BLOCK_LIMIT_S, 0.2)
    line = f"{shlex.quote(command('sbatch'))} {QUEUED_WORDS}"
    run([*opened, "State=DOWN"], env)
    _run(line, env, jobs)
    run([*opened, "State=UP"], env)
    planned()
    return _rate(line, env, calls)


def _rate(line: str, env: Mapping[str, str], calls: int) -> float:
    _run(line, env, WARM_UP_CALLS)
    began = time.perf_counter()
    _run(line, env, calls)
    return calls / (time.perf_counter() - began)


def _run(command: str, env: Mapping[str, str], calls: int) -> None:
    line = LOOP.format(calls=calls // SHELLS, command=command)
    shells = [subprocess.Popen(["sh", "-c", line], env=env) for _ in range(SHELLS)]
    if any([shell.wait() for shell in shells]):
        raise CannotMeasure(f"{command}: a call failed")
