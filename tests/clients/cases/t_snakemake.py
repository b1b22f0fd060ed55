#!/usr/bin/env python3
# requires: flows
"""snakemake + snakemake-executor-plugin-slurm: three jobs in a DAG (sbatch --parsable --wrap, srun inside, sacct --name UUID), then the efficiency report and slurm-partition generator."""

import glob
import os
import subprocess
import sys
import tempfile
import traceback

NAME = "snakemake"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
SNAKE = """
rule all:
    input: "c.txt"
rule a:
    output: "a.txt"
    resources: mem_mb=200, runtime=3
    shell: "echo $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_CPUS_PER_TASK > {output}"
rule b:
    output: "b.txt"
    threads: 2
    resources: mem_mb=200, runtime=3, slurm_extra="--nice=1"
    shell: "echo {threads} $SLURM_CPUS_PER_TASK > {output}"
rule c:
    input: "a.txt", "b.txt"
    output: "c.txt"
    resources: mem_mb=200, runtime=3
    shell: "cat {input} > {output}"
"""


def main():
    d = tempfile.mkdtemp(prefix="case-snake-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/Snakefile", "w").write(SNAKE)
    env = dict(
        os.environ,
        PATH=os.environ["PATH"] + ":" + os.path.dirname(sys.executable),
        XDG_CACHE_HOME=d + "/cache",
        HOME=os.environ.get("HOME", d),
    )
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
        "--slurm-init-seconds-before-status-checks",
        "3",
        "--slurm-efficiency-report",
        "--slurm-keep-successful-logs",
        "--seconds-between-status-checks",
        "3",
        "--verbose",
    ]
    p = subprocess.run(
        cmd, cwd=d, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert p.returncode == 0, p.stdout[-6000:]
    a = open(d + "/a.txt").read().split()
    b = open(d + "/b.txt").read().split()
    assert a[0].isdigit() and a[1] == "0", a  # its jobstep executor runs the rule under `srun -n1 --cpu-bind=q`
    assert b == ["2", "2"], b
    logs = glob.glob(d + "/.snakemake/slurm_logs/rule_a/**/*.log", recursive=True)
    assert any(os.path.basename(x) == a[0] + ".log" for x in logs), (logs, a)
    rep = glob.glob(d + "/efficiency_report_*.csv")
    assert rep, "no efficiency report"
    head, *rows = open(rep[0]).read().split("\n")
    assert "RuleName" in head or "Comment" not in head, head
    assert len([r for r in rows if r]) >= 3, rows  # one line per step (a.0, b.0, c.0)
    q = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "generate-slurm-partition-config")],
        cwd=d,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert q.returncode == 0 and PART + ":" in q.stdout, q.stdout


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
