#!/usr/bin/env python3
# requires: mpi4py
"""mpi4py over the MPICH wheel under `srun --mpi=pmi2 -n 3` (skipped with a note when `srun --mpi=list` has no pmi2), and under the wheel's own mpiexec inside a batch job (hydra starts its proxies with srun)."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "mpi4py"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
PROG = """
from mpi4py import MPI
c = MPI.COMM_WORLD
import sys
open(f"{sys.argv[1]}.{c.rank}", "w").write(f"{c.rank} {c.size} {c.allreduce(c.rank + 1)}")
"""


def main():
    d = tempfile.mkdtemp(prefix="case-mpi-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/prog.py", "w").write(PROG)

    def check(tag):
        got = sorted(open(os.path.join(d, f)).read() for f in os.listdir(d) if f.startswith(tag + "."))
        assert got == [f"{i} 3 6" for i in range(3)], got

    base = ["-p", PART, "-n", "3", "-N", "1", "--mem=900M", "-t", "3"]
    ml = subprocess.run(["srun", "--mpi=list"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    if "pmi2" in ml:
        p = subprocess.run(
            ["srun", "--mpi=pmi2", *base, "-D", d, sys.executable, "prog.py", "a"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
        assert p.returncode == 0, (p.stdout, p.stderr[-1500:])
        check("a")
    else:
        print("note: no pmi2 in srun --mpi=list:", ml.split())
    # MPICH's own launcher reads SLURM_NODELIST / SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE and starts its proxies with srun
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    p = subprocess.run(
        ["sbatch", "--wait", *base, "-D", d, "-o", d + "/out", "--wrap", f"{mpiexec} {sys.executable} prog.py b"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    assert p.returncode == 0, (p.stdout, open(d + "/out").read() if os.path.exists(d + "/out") else "")
    check("b")


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.stdout.flush()
        os._exit(1)
    print("ok", NAME)
    sys.stdout.flush()
    os._exit(0)
