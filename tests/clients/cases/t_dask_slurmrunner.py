#!/usr/bin/env python3
# requires: flows
"""dask_jobqueue.slurm.SLURMRunner: one sbatch -n 3, srun starts scheduler, client and worker by SLURM_PROCID."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "dask_slurmrunner"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
PROG = """
import sys, dask
from dask.distributed import Client
from dask_jobqueue.slurm import SLURMRunner
with SLURMRunner(scheduler_file=sys.argv[1] + "/scheduler-{job_id}.json") as runner:
    with Client(runner) as client:
        client.wait_for_workers(runner.n_workers)
        print("RESULT", runner.n_workers, client.submit(lambda x: x + 1, 41).result(), flush=True)
"""


def main():
    d = tempfile.mkdtemp(prefix="case-dask-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/prog.py", "w").write(PROG)
    open(d + "/job.sh", "w").write(
        f"#!/bin/bash\n#SBATCH -n 3 -p {PART} --mem=1500M -t 3\nexport DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__STATUS=\nsrun {sys.executable} prog.py {d}\n"
    )
    p = subprocess.run(
        ["sbatch", "--wait", "-D", d, "-o", d + "/out", d + "/job.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    out = open(d + "/out").read() if os.path.exists(d + "/out") else ""
    assert p.returncode == 0, (p, out)
    assert "RESULT 1 42" in out, out


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
