#!/usr/bin/env python3
# requires: base
"""submitit: a function, a map_array, a 2-task job (srun ranks), failure, cancel, sacct state."""

import os
import sys
import tempfile
import time
import traceback

NAME = "submitit"
PART = os.environ.get("PARTITION", "debug")


def add(a, b):
    return a + b


def boom():
    raise ValueError("boom-text")


def rank():
    import submitit

    e = submitit.JobEnvironment()
    print("hello from", e.global_rank, flush=True)
    return (e.job_id, e.num_tasks, e.num_nodes, e.node, e.global_rank, e.local_rank, e.hostnames)


def idle():
    time.sleep(60)


def wait_state(job, want, limit=240):
    t = time.time()
    while time.time() - t < limit:
        st = job.watcher.get_state(job.job_id, mode="force")
        if st.startswith(want):
            return st
        time.sleep(1)
    raise AssertionError(f"state {st!r}, wanted {want}")


def main():
    import submitit

    d = tempfile.mkdtemp(prefix="case-submitit-", dir=os.environ.get("CASE_TMP", "/tmp"))
    ex = submitit.AutoExecutor(folder=d + "/%j", cluster="slurm")
    assert type(ex._executor).__name__ == "SlurmExecutor"
    ex.update_parameters(slurm_partition=PART, timeout_min=5, cpus_per_task=1, mem_gb=0.1, name="sub-add")
    job = ex.submit(add, 40, 2)
    bad = ex.submit(boom)
    assert job.job_id.isdigit(), job.job_id
    jobs = ex.map_array(add, [1, 2, 3], [10, 20, 30])
    assert [j.job_id.split("_")[1] for j in jobs] == ["0", "1", "2"]
    ex.update_parameters(tasks_per_node=2, name="sub-ranks")
    two = ex.submit(rank)
    ex.update_parameters(tasks_per_node=1, name="sub-idle")
    slow = ex.submit(idle)
    assert job.result() == 42
    assert [j.result() for j in jobs] == [11, 22, 33]
    e = bad.exception()
    assert "boom-text" in str(e), e
    r = two.results()
    assert [x[4] for x in r] == [0, 1] and {x[1] for x in r} == {2} and {x[2] for x in r} == {1}, r
    assert {x[5] for x in r} == {0, 1} and all(len(x[6]) == 1 for x in r), r
    assert {x[0] for x in r} == {two.job_id}, r
    assert "hello from 1" in two.task(1).stdout(), two.task(1).stdout()
    wait_state(job, "COMPLETED")
    wait_state(bad, "FAILED")
    wait_state(jobs[1], "COMPLETED")
    info = job.get_info(mode="force")
    assert set(info) == {"JobID", "State", "NodeList"}, info
    wait_state(slow, "RUNNING")
    slow.cancel()
    st = wait_state(slow, "CANCELLED")
    assert st.startswith("CANCELLED by "), st  # sacct says who
    assert slow.done()


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print("ok", NAME)
