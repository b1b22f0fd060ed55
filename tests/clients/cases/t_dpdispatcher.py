#!/usr/bin/env python3
# requires: small
"""dpdispatcher: groups tasks into jobs, submits them and asks `squeue -o "%.18i %.2t" -j ID` until they are done."""

import os
import sys
import tempfile
import traceback

NAME = "dpdispatcher"
PART = os.environ.get("PARTITION", "debug")


def main():
    from dpdispatcher import Machine, Resources, Submission, Task

    d = tempfile.mkdtemp(prefix="case-dp-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.makedirs(d + "/local/work")
    machine = Machine.load_from_dict(
        {
            "batch_type": "Slurm",
            "context_type": "LocalContext",
            "local_root": d + "/local",
            "remote_root": d + "/remote",
        }
    )
    resources = Resources.load_from_dict(
        {"number_node": 1, "cpu_per_node": 1, "gpu_per_node": 0, "queue_name": PART, "group_size": 2}
    )
    tasks = [Task(command=f"echo {i} > o{i}", task_work_path="./", backward_files=[f"o{i}"]) for i in range(3)]
    submission = Submission(work_base="work", machine=machine, resources=resources, task_list=tasks)
    submission.run_submission(check_interval=2)
    for i in range(3):
        with open(f"{d}/local/work/o{i}") as file:
            assert file.read() == f"{i}\n"


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
