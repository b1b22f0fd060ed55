"""An array of `true` on HyperQueue: a program for the environment that has it, without anything of Penstock.

    .venv/hyperqueue/bin/python bench/hqload.py TASKS CPUS

Prints tasks per second, from before the submission until all tasks have ended. Server and one worker with so many
pretended CPUs run in this process, with their files in a temporary folder. The server keeps no journal, so no task
survives its end. A first job of 50 tasks is not counted. The client's own wait polls once a second, so a last task, which
depends on all others, reports the end through a pipe.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from hyperqueue import Job, LocalCluster
from hyperqueue.client import Client
from hyperqueue.cluster import WorkerConfig

WARM_UP_TASKS = 50


def run_array(client: Client, tasks: int, pipe: Path) -> float:
    """Tasks per second of one job; a task that fails is an error."""
    job = Job(default_workdir="/")
    done = [job.program(["true"], stdout=None, stderr=None) for _ in range(tasks)]
    os.mkfifo(pipe)
    job.program(["sh", "-c", 'echo >"$0"', str(pipe)], stdout=None, stderr=None, deps=done)
    began = time.perf_counter()
    submitted = client.submit(job)
    pipe.read_bytes()
    took = time.perf_counter() - began
    client.wait_for_jobs([submitted])
    return tasks / took


def main(tasks: int, cpus: int) -> None:
    """One measurement."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        LocalCluster(folder, WorkerConfig(cores=cpus)) as cluster,
    ):
        client = cluster.client()
        run_array(client, WARM_UP_TASKS, Path(folder, "first"))
        print(run_array(client, tasks, Path(folder, "second")))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
