#!/usr/bin/env python3
# requires: base
"""submitit with gpus_per_node=1 and with gpus_per_task: CUDA_VISIBLE_DEVICES and SLURM_*GPU* in the task. Without GRES gpu in the partition it only says so."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "submitit_gpu"
PART = os.environ.get("PARTITION", "debug")


def env():
    return {
        k: v
        for k, v in os.environ.items()
        if k.startswith(("CUDA_VIS", "SLURM_")) and ("GPU" in k or "CUDA" in k or k == "SLURM_PROCID")
    }


def main():
    import submitit

    g = subprocess.run(["sinfo", "-h", "-p", PART, "-o", "%G"], stdout=subprocess.PIPE, text=True).stdout
    if "gpu" not in g:
        print("note: no gpu GRES in this partition; nothing tried")
        return
    d = tempfile.mkdtemp(prefix="case-submitit-", dir=os.environ.get("CASE_TMP", "/tmp"))
    ex = submitit.AutoExecutor(folder=d + "/%j", cluster="slurm")
    ex.update_parameters(slurm_partition=PART, timeout_min=3, mem_gb=0.1, gpus_per_node=1)
    a = ex.submit(env)
    ex2 = submitit.AutoExecutor(folder=d + "/%j", cluster="slurm")
    ex2.update_parameters(slurm_partition=PART, timeout_min=3, mem_gb=0.1, tasks_per_node=2, slurm_gpus_per_task=1)
    b = ex2.submit(env)
    e = a.result()
    assert (
        e["CUDA_VISIBLE_DEVICES"].isdigit()
        and e.get("SLURM_GPUS_ON_NODE") == "1"
        and e.get("SLURM_GPUS_PER_NODE") == "1"
        and e.get("SLURM_JOB_GPUS", "").isdigit()
    ), e
    r = b.results()
    assert [x["SLURM_PROCID"] for x in r] == ["0", "1"], r
    seen = [x["CUDA_VISIBLE_DEVICES"] for x in r]
    assert all(seen), r
    print("note: by task:", seen, sorted(set().union(*r)))


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
