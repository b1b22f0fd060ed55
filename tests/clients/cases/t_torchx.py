#!/usr/bin/env python3
# requires: small
"""torchx: `torchx run --scheduler slurm` (sbatch --parsable, srun inside, a component's roles), state by squeue --json and sacct."""

import os
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "torchx"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")


def main():
    d = tempfile.mkdtemp(prefix="case-torchx-", dir=os.environ.get("CASE_TMP", "/tmp"))
    torchx = os.path.join(os.path.dirname(sys.executable), "torchx")

    def run(*words):
        return subprocess.run(
            [torchx, *words], cwd=d, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
        )

    config = f"partition={PART},time=3,job_dir={d}/jobs"
    p = run("run", "--scheduler", "slurm", "-cfg", config, "utils.echo", "--msg", "hello-torchx")
    handles = [line for line in p.stdout.splitlines() if line.startswith("slurm://")]
    assert p.returncode == 0 and handles, p.stdout
    t = time.time()
    while time.time() - t < 240:
        q = run("status", handles[0])
        if "SUCCEEDED" in q.stdout:
            break
        time.sleep(1)
    assert "SUCCEEDED" in q.stdout, q.stdout


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
