#!/usr/bin/env python3
# requires: small
"""slurm_gpustat: GPUs by state and user from `sinfo -o`, `squeue` and `scontrol show jobid -dd ID`; and reportseff's table of a finished job."""

import os
import re
import subprocess
import sys
import tempfile
import traceback

NAME = "gpustat"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")


def main():
    d = tempfile.mkdtemp(prefix="case-gpustat-", dir=os.environ.get("CASE_TMP", "/tmp"))
    bin_dir = os.path.dirname(sys.executable)

    def run(*words):
        return subprocess.run(
            words, cwd=d, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
        )

    job = run("sbatch", "--parsable", "-p", PART, "-o", "/dev/null", "--mem=100M", "--wrap", "sleep 1")
    assert (
        run("sbatch", "-W", "-d", "afterok:" + job.stdout.strip(), "-o", "/dev/null", "--wrap", "true").returncode == 0
    )
    table = run(os.path.join(bin_dir, "reportseff"), job.stdout.strip())
    assert re.search(job.stdout.strip() + r"\s+COMPLETED\s+00:00:0\d", table.stdout), table.stdout
    if "gpu" not in run("sinfo", "-h", "-p", PART, "-o", "%G").stdout:
        print("note: no gpu GRES in this partition")
        return
    held = run(
        "sbatch", "--parsable", "-p", PART, "-o", "/dev/null", "--mem=100M", "--gres=gpu:1", "--wrap", "sleep 100"
    )
    p = run(os.path.join(bin_dir, "slurm_gpustat"), "--verbose")
    run("scancel", held.stdout.strip())
    assert p.returncode == 0 and "GPU's online" in p.stdout and "Usage by user" in p.stdout, p.stdout


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
