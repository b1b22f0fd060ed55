"""Measures MPI_Init with 64 ranks of MPICH, over four node daemons on this machine.

The program is a few lines of C, built with the wheel's own mpicc: an interpreter in each rank would be measured instead. Each
rank says what the clock shows when MPI_Init has returned; the figure is from before srun starts to the last of them. The same
program under MPICH's own launcher (hydra, one machine, no resource manager) stands beside it: what MPI_Init itself takes here.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.local import Local
from bench.measure import CannotMeasure, run

RANKS, NODES = 64, 4
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv)
{
    struct timespec now;
    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%lld.%09ld\n", (long long) now.tv_sec, now.tv_nsec);
    MPI_Finalize();
    return 0;
}
"""
#: Where `make mpi-tools` puts MPICH.
TOOLS = Path(os.environ.get("PENSTOCK_MPI_TOOLS") or Path(__file__).resolve().parents[1] / ".venv" / "mpi")


class MpiFigures(NamedTuple):
    """Milliseconds; medians."""

    init_ms: float
    hydra_ms: float
    step_ms: float


def measure(cluster: Local, runs: int) -> MpiFigures:
    """All three, one after the other. `step_ms`: the same step with `true` in place of the program."""
    programs = TOOLS / "mpich" / "bin"
    if not (programs / "mpicc").exists():
        raise CannotMeasure(f"MPICH is not in {TOOLS}: `make mpi-tools` installs it")
    with TemporaryDirectory(prefix="penstock-mpi-") as folder:
        source, program = Path(folder) / "init.c", Path(folder) / "init"
        source.write_text(PROGRAM)
        run([str(programs / "mpicc"), str(source), "-o", str(program)])
        size = [f"-N{NODES}", f"-n{RANKS}"]
        step = cluster.command("srun", "--mpi=pmi2", *size, str(program))
        hydra = [str(programs / "mpiexec"), "-n", str(RANKS), str(program)]
        return MpiFigures(
            _median(lambda: _last(step, cluster), runs),
            _median(lambda: _last(hydra, cluster), runs),
            _median(lambda: _wall(cluster.command("srun", *size, "true"), cluster), runs),
        )


def _last(command: list[str], cluster: Local) -> float:
    """From now to the last rank's word."""
    began = time.time()
    said = run(command, cluster.env).split()
    if len(said) != RANKS:
        raise CannotMeasure(f"{' '.join(command)}: {len(said)} of {RANKS} ranks have printed a line")
    return max(map(float, said)) - began


def _wall(command: list[str], cluster: Local) -> float:
    began = time.time()
    run(command, cluster.env)
    return time.time() - began


def _median(measured: Callable[[], float], runs: int) -> float:
    measured()
    return 1000 * statistics.median(measured() for _ in range(runs))
