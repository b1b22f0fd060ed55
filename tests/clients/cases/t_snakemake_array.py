#!/usr/bin/env python3
# requires: flows
"""snakemake slurm plugin: two instances of a rule as one job array (sbatch --array=1-2 --wrap with a base64 payload), polled by `squeue --format=%i|%T --states=all --name`."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "snakemake_array"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
SNAKE = """
rule all:
    input: expand("r{i}.txt", i=[1, 2])
rule r:
    output: "r{i}.txt"
    resources: mem_mb=200, runtime=3
    shell: "echo {wildcards.i} $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID > {output}"
"""


def main():
    d = tempfile.mkdtemp(prefix="case-snake-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/Snakefile", "w").write(SNAKE)
    env = dict(os.environ, PATH=os.environ["PATH"] + ":" + os.path.dirname(sys.executable), XDG_CACHE_HOME=d + "/cache")
    cmd = [
        sys.executable,
        "-m",
        "snakemake",
        "--executor",
        "slurm",
        "-j",
        "4",
        "--latency-wait",
        "5",
        "--default-resources",
        f"slurm_partition={PART}",
        "--slurm-array-jobs",
        "all",
        "--slurm-status-command",
        "squeue",
        "--slurm-init-seconds-before-status-checks",
        "3",
        "--seconds-between-status-checks",
        "3",
        "--verbose",
    ]
    p = subprocess.run(
        cmd, cwd=d, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert p.returncode == 0, p.stdout[-6000:]
    got = sorted(open(f"{d}/r{i}.txt").read().split() for i in (1, 2))
    assert (
        [g[0] for g in got] == ["1", "2"] and sorted(g[2] for g in got) == ["1", "2"] and len({g[1] for g in got}) == 1
    ), got


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
