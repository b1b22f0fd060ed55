"""Wall and CPU time of commands, memory and CPU time of running processes, free ports, waiting.

CPU time of a command is its own and its children's (RUSAGE_CHILDREN grows when it has been waited for), so nothing
else that runs on the machine is counted; wall time is. Medians, because one disturbed run must not decide.
"""

import os
import resource
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: How long one command may take: far above what is to be measured, so that a hang ends the run.
COMMAND_TIMEOUT_S = 60
#: The poll interval: small compared to the measured times.
POLL_S = 0.02


class CannotMeasure(Exception):
    """A part cannot run here; the text says why and what to do. The other parts continue."""


class Times(NamedTuple):
    """Medians over the runs of one command."""

    wall_ms: float
    cpu_ms: float


def run(command: Sequence[str], env: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """The standard output of a command that must succeed. Raises CannotMeasure with its error output."""
    try:
        done = subprocess.run(
            command, env=env, input=stdin, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise CannotMeasure(f"{command[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"{' '.join(command)}: no end within {COMMAND_TIMEOUT_S} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise CannotMeasure(f"{' '.join(command)}: exit {done.returncode}: {said}")
    return done.stdout


def timed(command: Sequence[str], runs: int, env: Mapping[str, str] | None = None, stdin: str = "") -> Times:
    """Median wall and CPU time of a command; one more run before, unmeasured, fills the file cache."""
    run(command, env, stdin)
    walls, cpus = [], []
    for _ in range(runs):
        before, began = _children_cpu_s(), time.perf_counter()
        run(command, env, stdin)
        walls.append(time.perf_counter() - began)
        cpus.append(_children_cpu_s() - before)
    return Times(statistics.median(walls) * 1000, statistics.median(cpus) * 1000)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def rss_mb(pid: int) -> float:
    """Resident memory of one process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise CannotMeasure(f"process {pid} has no memory left: it has ended")


def cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, its waited-for children included, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A free TCP port. Another process may bind it first; then that part fails with an error."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], what: str, timeout_s: float, poll_s: float = POLL_S) -> None:
    """Polls until the condition holds. Raises CannotMeasure at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{what}: not within {timeout_s:g} s")
        time.sleep(poll_s)


def children(pid: int) -> list[int]:
    """Processes that any thread of a process has started and that have not been waited for."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found
