#!/usr/bin/env python3
# requires: flows
"""parsl: HighThroughputExecutor on SlurmProvider with SrunLauncher (sbatch, sacct -X, scancel); then the squeue fallback's parser."""

import os
import sys
import tempfile
import time
import traceback

NAME = "parsl"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")


def main():
    import parsl
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.jobs.states import JobState
    from parsl.launchers import SrunLauncher
    from parsl.providers import SlurmProvider

    d = tempfile.mkdtemp(prefix="case-parsl-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.chdir(d)
    os.environ["PATH"] += ":" + os.path.dirname(sys.executable)  # its interchange.py lives in the venv
    prov = SlurmProvider(
        partition=PART,
        nodes_per_block=1,
        init_blocks=1,
        max_blocks=1,
        walltime="00:05:00",
        exclusive=False,
        cores_per_node=1,
        scheduler_options="#SBATCH --mem=1000M",
        launcher=SrunLauncher(),
        worker_init=f"export PATH={os.path.dirname(sys.executable)}:$PATH",
        cmd_timeout=20,
    )
    print(prov._cmd)
    ex = HighThroughputExecutor(
        label="slurm",
        address="127.0.0.1",
        max_workers_per_node=1,
        provider=prov,
        heartbeat_period=5,
        heartbeat_threshold=30,
    )
    with parsl.load(Config(executors=[ex], run_dir=d + "/runinfo", strategy="none", usage_tracking=0)):

        @parsl.python_app
        def mul(a, b):
            import os

            return a * b, os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_STEP_ID"), os.environ["JOBNAME"]

        fs = [mul(i, 10) for i in range(3)]
        r = [f.result(timeout=LIMIT_S) for f in fs]
        assert [x[0] for x in r] == [0, 10, 20], r
        (jid,) = prov.resources
        assert r[0][1] == jid and r[0][2] == "0" and r[0][3].startswith("parsl.slurm."), r
        t = time.time()
        while time.time() - t < 240:
            st = prov.status([jid])[0]
            if st.state == JobState.RUNNING:
                break
            time.sleep(1)
        assert st.state == JobState.RUNNING, st
    t = time.time()
    while time.time() - t < 240:
        rc, out, err = prov.execute_wait(f"sacct -X --noheader --format=jobid,state%20 --job '{jid}'")
        f = out.split()
        if f[1:2] == ["CANCELLED"]:
            break
        time.sleep(1)
    assert f[0] == jid and f[1:3] == ["CANCELLED", "by"], out


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
