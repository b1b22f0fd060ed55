#!/usr/bin/env python3
# requires: base
"""simple_slurm: sbatch through a heredoc on stdin, dependency, array, srun, squeue CSV wrapper, scancel."""

import os
import sys
import tempfile
import time
import traceback

NAME = "simple_slurm"
PART = os.environ.get("PARTITION", "debug")


def main():
    d = tempfile.mkdtemp(prefix="case-simple-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.chdir(d)
    import datetime

    from simple_slurm import Slurm

    s = Slurm(
        "partition",
        PART,
        job_name="ss-one",
        output=f"{d}/one_{Slurm.JOB_ID}.out",
        time=datetime.timedelta(minutes=3),
        mem="100M",
    )
    a = s.sbatch("echo job $SLURM_JOB_ID of $SLURM_JOB_NAME; sleep 2")
    s3 = Slurm(partition=PART, output="/dev/null", job_name="ss-sleep", mem="100M", parsable=True)
    c = s3.sbatch("sleep 60")
    assert isinstance(a, int) and isinstance(c, int)
    s4 = Slurm(partition=PART, mem="100M", time="2", job_name="ss-srun")
    assert s4.srun("sh -c 'echo srun-$SLURM_PROCID > srun.txt'") == 0
    assert open("srun.txt").read() == "srun-0\n"
    w = s.squeue
    t = time.time()
    while time.time() - t < 240:
        w.update_squeue()
        if c in w.jobs:
            break
        time.sleep(0.5)
    row = w.jobs[c]
    assert row["NAME"] == "ss-sleep" and row["JOBID"] == str(c), row
    assert set(row) == {
        "JOBID",
        "NAME",
        "STATE" if "STATE" in row else "ST",
        "TIME",
        "TIME_LEFT",
        "NODES",
        "CPUS",
        "MIN_MEMORY",
        "TRES_PER_NODE",
        "NODELIST(REASON)",
    }, row
    assert w.get_filtered_jobs("ss-sl")
    s.scancel.cancel_job(c)
    # (its squeue wrapper does int(JOBID) and cannot read a pending array's 12_[3-5], so the array comes after)
    s2 = Slurm(
        partition=PART, array=range(3, 6), output=f"{d}/arr_%A_%a.out", dependency=dict(afterok=a), mem="100M", time="3"
    )
    b = s2.sbatch("echo idx $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX")
    t = time.time()
    want = [f"one_{a}.out"] + [f"arr_{b}_{i}.out" for i in (3, 4, 5)]
    while time.time() - t < 240 and not all(os.path.exists(x) and os.path.getsize(x) for x in want):
        time.sleep(1)
    assert open(want[0]).read().strip() == f"job {a} of ss-one", open(want[0]).read()
    assert open(want[2]).read().strip() == "idx 4 3 5", open(want[2]).read()
    t = time.time()
    while time.time() - t < 240:
        w.update_squeue()
        if not {a, c} & set(w.jobs):
            break
        time.sleep(1)
    assert not {a, c} & set(w.jobs), w.jobs


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print("ok", NAME)
