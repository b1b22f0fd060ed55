#!/usr/bin/env python3
# requires: flows
"""dask-jobqueue: SLURMCluster of two one-worker jobs computes a sum, scales down, closes (scancel)."""

import os
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "dask_jobqueue"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")


def main():
    from dask.distributed import Client
    from dask_jobqueue import SLURMCluster

    d = tempfile.mkdtemp(prefix="case-dask-", dir=os.environ.get("CASE_TMP", "/tmp"))
    cluster = SLURMCluster(
        queue=PART,
        cores=1,
        processes=1,
        memory="500MB",
        walltime="00:05:00",
        job_name="dask-case",
        log_directory=d,
        local_directory=d,
        scheduler_options={"host": "127.0.0.1", "dashboard_address": ":0"},
        death_timeout=LIMIT_S,
        python=sys.executable,
        job_extra_directives=["--comment=dask-case"],
    )
    print(cluster.job_script())
    cluster.scale(jobs=2)
    client = Client(cluster)
    client.wait_for_workers(2, timeout=LIMIT_S)
    ids = sorted(w.job_id for w in cluster.workers.values())
    assert len(ids) == 2 and all(i.isdigit() for i in ids), ids
    got = client.gather(client.map(lambda x: x * x, range(20)))
    assert sum(got) == 2470
    env = client.run(lambda: os.environ.get("SLURM_JOB_ID"))
    assert sorted(env.values()) == ids, (env, ids)
    cluster.scale(jobs=1)
    t = time.time()
    while time.time() - t < 240 and len(client.scheduler_info()["workers"]) != 1:
        time.sleep(0.5)
    assert len(client.scheduler_info()["workers"]) == 1
    client.close()
    cluster.close()
    t = time.time()
    while time.time() - t < 240:
        q = subprocess.run(
            ["squeue", "-h", "-j", ",".join(ids), "-t", "PD,R"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ).stdout
        if not q.strip() or "Invalid job id" in q:
            break
        time.sleep(1)
    assert not q.strip() or "Invalid job id" in q, q
    logs = os.listdir(d)
    assert any(x == f"dask-case-{ids[0]}.err" for x in logs), logs  # %J in a batch job's -e is the job id


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
