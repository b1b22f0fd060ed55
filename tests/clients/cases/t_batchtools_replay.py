#!/usr/bin/env python3
# requires: none
"""R's batchtools (makeClusterFunctionsSlurm), replayed: a job file from the template, `Submitted batch job N` by its fourth word, squeue with `--user=$USER` of the shell, states that most sites never see, one id a line, `-r` for arrays, scancel with an empty --clusters=."""

import os
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "batchtools_replay"
PART = os.environ.get("PARTITION", "debug")
QUEUED = ("PD", "PD,CF,RF,RH,RQ,SE")  # as released, and as in its repository
RUNNING = ("R,S,CG", "R,S,CG,RS,SI,SO,ST")


def shell(line, cwd=None):
    """runOSCommand: by a shell, both streams together."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout.splitlines()


def ids(states, array=True, clusters=""):
    more = (" -r" if array else "") + (f" --clusters={clusters}" if clusters else "")
    status, lines = shell(f"squeue --user=$USER --states={states} --noheader --format=%i{more}")
    assert status == 0, lines
    return set(lines[1:] if clusters else lines)


def submit(folder, name, body, array=0):
    path = f"{folder}/{name}.job"
    with open(path, "w") as file:
        file.write(
            f"""#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --output={folder}/{name}.log{"_%a" if array else ""}
#SBATCH --error={folder}/{name}.log{"_%a" if array else ""}
#SBATCH --time=2
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=100
#SBATCH --partition={PART}
{f"#SBATCH --array=1-{array}" if array else ""}
export DEBUGME=none
{body}
"""
        )
    status, lines = shell(f"sbatch {path}")
    assert status == 0 and len(lines) == 1, lines
    words = lines[0].split(" ")
    assert words[:3] == ["Submitted", "batch", "job"] and words[3].isdigit(), lines
    return [f"{words[3]}_{task}" for task in range(1, array + 1)] if array else words[3]


def wait_for(what, check):
    end = time.time() + 240
    while not check():
        assert time.time() < end, what
        time.sleep(0.3)


def main():
    folder = tempfile.mkdtemp(prefix="case-batchtools-", dir=os.environ.get("CASE_TMP", "/tmp"))
    one = submit(folder, "one", f"while [ ! -e {folder}/go ]; do sleep 0.2; done; echo one done")
    tasks = submit(folder, "many", f"while [ ! -e {folder}/go ]; do sleep 0.2; done; echo task $SLURM_ARRAY_TASK_ID", 3)
    wanted = {one, *tasks}
    for queued, running in zip(QUEUED, RUNNING, strict=True):
        # A job is never in neither list: batchtools takes that for its end.
        assert wanted <= ids(queued) | ids(running) | ids(queued), (queued, running)
    wait_for("all run", lambda: wanted <= ids(RUNNING[1]))
    assert wanted <= ids(RUNNING[0]) and not wanted & ids(QUEUED[1])
    status, cluster = shell("scontrol show config | sed -n 's/^ClusterName *= //p'")
    assert wanted <= ids(RUNNING[0], clusters=cluster[0]), "with --clusters the first line is a heading"
    status, lines = shell(f"scancel --clusters= {tasks[2]}")
    if status:  # as released, it names clusters only where there are several
        status, lines = shell(f"scancel {tasks[2]}")
    assert (status, lines) == (0, []), lines
    wait_for("one task is gone", lambda: tasks[2] not in ids(RUNNING[1]) | ids(QUEUED[1]))
    open(f"{folder}/go", "w").close()
    wait_for("all are gone", lambda: not wanted & (ids(RUNNING[1]) | ids(QUEUED[1])))
    assert open(f"{folder}/one.log").read() == "one done\n"
    assert [open(f"{folder}/many.log_{task}").read() for task in (1, 2)] == ["task 1\n", "task 2\n"]
    status, lines = shell(f"sbatch --partition=nosuch {folder}/one.job")
    assert (
        status == 1 and lines[-1] == "sbatch: error: Batch job submission failed: Invalid partition name specified"
    ), lines
    status, lines = shell("squeue --user=$USER --states=NOSUCH --noheader --format=%i -r")
    assert status == 1 and "NOSUCH" in lines[0], lines


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print(f"ok {NAME}")
