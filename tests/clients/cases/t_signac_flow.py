#!/usr/bin/env python3
# requires: sites
"""signac-flow: a project with two operations that follow each other, submitted by `project.py submit` with its template slurm.sh on sbatch's standard input; states by `squeue --format=%2t%100j`."""

import os
import subprocess
import sys
import tempfile
import time
import traceback

NAME = "signac_flow"
PART = os.environ.get("PARTITION", "debug")
PROJECT = '''
import flow
from flow import FlowProject
from flow.environment import DefaultSlurmEnvironment


class Here(DefaultSlurmEnvironment):
    """This cluster."""

    hostname_pattern = ".*"
    template = "slurm.sh"


class Project(FlowProject):
    pass


@Project.post.isfile("square.txt")
@Project.operation(directives={"walltime": 0.1, "memory": "200M"})
def square(job):
    with open(job.fn("square.txt"), "w") as file:
        file.write(str(job.statepoint()["a"] ** 2))


@Project.pre.after(square)
@Project.post.isfile("half.txt")
@Project.operation(directives={"np": 2, "walltime": 0.1})
def half(job):
    with open(job.fn("square.txt")) as file, open(job.fn("half.txt"), "w") as out:
        out.write(str(int(file.read()) / 2))


if __name__ == "__main__":
    Project().main()
'''


def main():
    folder = tempfile.mkdtemp(prefix="case-signac-", dir=os.environ.get("CASE_TMP", "/tmp"))
    os.chdir(folder)
    os.environ["HOME"] = folder
    os.environ["SBATCH_PARTITION"] = PART
    open("project.py", "w").write(PROJECT)
    import signac

    project = signac.init_project(folder)
    for a in (2, 4, 6):
        project.open_job({"a": a}).init()

    def run(*words):
        done = subprocess.run([sys.executable, "project.py", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def queued():
        listed = subprocess.run(["squeue", "--me", "-h", "-o", "%j"], capture_output=True, text=True, check=True).stdout
        return [name for name in listed.split() if "/square/" in name or "/half/" in name]

    def submit(operation, count):
        said = run("submit", "-o", operation)
        waiting = queued()
        done = sum(
            os.path.exists(job.fn(operation + ".txt")) for job in project
        )  # whoever has left the queue has its file
        assert len(waiting) <= count <= len(waiting) + done, (said, waiting, done)

    def wait_for(name):
        end = time.time() + 240
        while queued() or not all(os.path.exists(job.fn(name)) for job in project):
            assert time.time() < end, (queued(), os.listdir(folder))
            time.sleep(0.5)

    # Held jobs are known to the project, which does not submit them once more.
    run("submit", "-o", "square", "--hold")
    assert len(queued()) == 3, queued()
    run("submit", "-o", "square", "--hold")
    assert len(queued()) == 3, queued()
    shown = run("status", "--detailed")
    assert shown.count("[Q]") >= 3 or shown.count("queued") >= 1, shown
    subprocess.run(["scancel", "--me", "--state=PENDING"], check=True)
    end = time.time() + 240
    while queued():
        assert time.time() < end, queued()
        time.sleep(0.2)
    submit("square", 3)
    wait_for("square.txt")
    submit("half", 3)
    wait_for("half.txt")
    assert sorted(open(job.fn("half.txt")).read() for job in project) == ["18.0", "2.0", "8.0"]


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.exit(1)
    print(f"ok {NAME}")
