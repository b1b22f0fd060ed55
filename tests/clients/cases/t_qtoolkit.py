#!/usr/bin/env python3
# requires: small
"""qtoolkit (of jobflow-remote): submits a script, reads states with squeue and sacct, cancels with scancel -v."""

import os
import sys
import tempfile
import time
import traceback

NAME = "qtoolkit"
PART = os.environ.get("PARTITION", "debug")


def main():
    from qtoolkit.core.data_objects import QResources, QState
    from qtoolkit.host.local import LocalHost
    from qtoolkit.io.slurm import SlurmIO
    from qtoolkit.manager import QueueManager

    d = tempfile.mkdtemp(prefix="case-qtoolkit-", dir=os.environ.get("CASE_TMP", "/tmp"))
    manager = QueueManager(SlurmIO(), LocalHost())
    wanted = QResources(queue_name=PART, nodes=1, processes_per_node=1, time_limit=120, job_name="qt")
    sent = manager.submit("sleep 100", wanted, work_dir=d)
    assert sent.job_id and sent.job_id.isdigit(), sent
    t = time.time()
    while time.time() - t < 240 and manager.get_job(sent.job_id).state != QState.RUNNING:
        time.sleep(0.5)
    job = manager.get_job(sent.job_id)
    assert job.state == QState.RUNNING and job.name == "qt" and job.info.time_limit == 120, job
    assert sent.job_id in {j.job_id for j in manager.get_jobs_list([sent.job_id])}
    assert manager.cancel(sent.job_id).exit_code == 0
    while time.time() - t < 240 and manager.get_job(sent.job_id).state == QState.RUNNING:
        time.sleep(0.5)
    assert manager.get_job(sent.job_id).sub_state.name == "CANCELLED"


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
