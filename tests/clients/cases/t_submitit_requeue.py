#!/usr/bin/env python3
# requires: base
# slow: needs ~180 s on a stock Slurm (a requeued batch job waits 120 s: BeginTime)
"""submitit checkpointing: scancel --signal USR2 -> checkpoint() -> `scontrol requeue` from inside the job -> second run."""

import os
import sys
import tempfile
import time
import traceback

NAME = "submitit_requeue"
PART = os.environ.get("PARTITION", "debug")


def main():
    import submitit

    class Work(submitit.helpers.Checkpointable):
        def __init__(self):
            self.resumed = 0

        def __call__(self):
            if self.resumed:
                return ("resumed", self.resumed, os.environ.get("SLURM_RESTART_COUNT"))
            print("at work", flush=True)
            time.sleep(240)
            return ("never", 0, None)

        def checkpoint(self, *a, **k):
            self.resumed += 1
            return submitit.helpers.DelayedSubmission(self, *a, **k)

    d = tempfile.mkdtemp(prefix="case-submitit-", dir=os.environ.get("CASE_TMP", "/tmp"))
    ex = submitit.AutoExecutor(folder=d + "/%j", cluster="slurm", slurm_max_num_timeout=3)
    ex.update_parameters(slurm_partition=PART, timeout_min=5, mem_gb=0.1)
    job = ex.submit(Work())
    t = time.time()
    while time.time() - t < 240:
        if job.watcher.get_state(job.job_id, mode="force") == "RUNNING":
            break
        time.sleep(1)
    while time.time() - t < 240 and "at work" not in (job.stdout() or ""):  # it listens to signals by then
        time.sleep(1)
    job._interrupt(timeout=True)  # scancel JOB --signal USR2
    r = job.result()
    assert r == ("resumed", 1, "1"), r


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print("ok", NAME)
