#!/usr/bin/env python3
# requires: sites
"""EasyBuild's job backend Slurm: `sbatch --version`, held jobs with dependencies and --kill-on-invalid-dep=yes, one `scontrol release` for all of them."""

import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "easybuild"
PART = os.environ.get("PARTITION", "debug")


def state_of(job_id):
    """The state by `scontrol show job`, which also knows jobs that have just ended."""
    done = subprocess.run(["scontrol", "show", "job", job_id], capture_output=True, text=True, check=True)
    return re.search(r"JobState=(\S+)", done.stdout)[1]


def main():
    folder = tempfile.mkdtemp(prefix="case-easybuild-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.environ["SBATCH_PARTITION"] = PART
    from easybuild.tools.job.slurm import Slurm
    from easybuild.tools.options import set_up_configuration

    set_up_configuration(
        args=[
            f"--prefix={folder}", f"--tmpdir={folder}", f"--job-output-dir={folder}", "--job-max-walltime=1",
            "--job-backend=Slurm", "--job-deps-type=abort_on_error", "--modules-tool=EnvironmentModules",
            "--module-syntax=Tcl", "--allow-modules-tool-mismatch",
            "--allow-use-as-root-and-accept-consequences",
        ],
        silent=True,
    )  # fmt: skip
    backend = Slurm()
    backend.init()
    os.environ["EB_WORD"] = "carried"
    first = backend.make_job("echo built $EB_WORD", "zlib-1.3", env_vars={"EB_WORD": "carried", "PATH": ""}, cores=2)
    second = backend.make_job(f"cat {folder}/zlib-1.3-*.out", "HDF5-1.14", hours=5)
    third = backend.make_job("exit 3", "GCC-13", cores=1)
    fourth = backend.make_job("echo never", "OpenMPI-4", cores=1)
    for job in (first, second, third, fourth):
        job.module = f"{job.name}/module"
    backend.queue(first)
    backend.queue(second, dependencies={first})
    backend.queue(third)
    backend.queue(fourth, dependencies={third})
    assert state_of(first.jobid) == "PENDING"
    assert not any(name.endswith(".out") for name in os.listdir(folder)), "a held job has run"
    backend.complete()
    wanted = dict(
        zip((first.jobid, second.jobid, third.jobid, fourth.jobid), ("COMPLETED", "COMPLETED", "FAILED", "CANCELLED"))
    )
    end = time.time() + 240
    while (found := {job: state_of(job) for job in wanted}) != wanted:
        assert time.time() < end, (found, wanted)
        time.sleep(0.5)
    assert open(f"{folder}/HDF5-1.14-{second.jobid}.out").read() == "built carried\n"
    assert not os.path.exists(f"{folder}/OpenMPI-4-{fourth.jobid}.out")


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print(f"ok {NAME}")
