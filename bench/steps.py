"""Measures inside an allocation: steps one after the other, a wide step, the first byte of a job, the memory of a job.

`srun true` in a loop runs in a batch script on the cluster itself, as users do, and the peer does the very same in the
same run. The first byte is what a user at an idle cluster waits for; the time of the command's own start is measured
beside it (`sbatch --version` loads the same interpreter and sends no request) and left out. A running job's weight is the
private memory of its stepd, since everything else is shared with the launcher it was forked from.
"""

import os
import statistics
import subprocess
import time
from pathlib import Path

from bench.local import Local
from bench.measure import CannotMeasure, children, run, wait_until
from bench.slurmpeer import private_slurm

#: In an allocation: a first step, unmeasured, then so many; the script prints the seconds they took.
LOOP = """#!/bin/sh
srun -n 1 true
began=$(date +%s.%N)
i=0
while [ $i -lt {count} ]; do srun -n 1 true || exit 1; i=$((i + 1)); done
ended=$(date +%s.%N)
echo "$ended $began"
"""
LOOP_LIMIT_S = 300.0
#: Memory of our loop's job, as of one CPU of a usual node. Without it the job has a pretended CPU's share of this machine's
#: memory, some 40 MB, and a job of less than 512 MB has no command server (native/launcher.c). The peer counts no memory.
LOOP_MEMORY = "--mem=1G"
FIRST_BYTE = "#!/bin/sh\necho x\n"
FIRST_BYTE_LIMIT_S = 20.0
SLEEPERS_LIMIT_S = 60.0
WIDE_LIMIT_S = 120


def loop_rate(submit: list[str], env: dict[str, str], folder: Path, count: int) -> float:
    """Steps per second of a loop in a batch script. `submit`: an sbatch that waits."""
    output = folder / "loop.out"
    command = [*submit, "--wait", "-o", str(output), "-D", "/", "-N", "1"]
    done = subprocess.run(
        command,
        env=env,
        input=LOOP.format(count=count),
        capture_output=True,
        text=True,
        timeout=LOOP_LIMIT_S,
        check=False,
    )
    said = output.read_text().split() if output.exists() else []
    if done.returncode or len(said) < 2:
        raise CannotMeasure(f"a loop of srun: exit {done.returncode}: {done.stderr.strip()[-300:]} {said[-20:]}")
    return count / (float(said[-2]) - float(said[-1]))


def first_bytes(cluster: Local, folder: Path, runs: int) -> tuple[float, float]:
    """Median ms from the start of sbatch to the first byte in the job's output; and above the command's own start."""
    bare = statistics.median(_wall_s(cluster.command("sbatch", "--version"), cluster.env) for _ in range(runs))
    took = []
    for number in range(runs + 1):
        output = folder / f"first.{number}"
        os.mkfifo(output)
        command = cluster.command("sbatch", "-o", str(output), "-D", "/")
        reader = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
        try:
            began = time.perf_counter()
            sbatch = subprocess.Popen(command, env=cluster.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            sbatch.communicate(FIRST_BYTE.encode())
            _wait_for_byte(reader, began)
            took.append(time.perf_counter() - began)
        finally:
            os.close(reader)
    median = statistics.median(took[1:])
    return 1000 * median, 1000 * (median - bare)


def _wait_for_byte(reader: int, began: float) -> None:
    """A pipe without a writer yet reads as empty: look again at once, nothing else runs here."""
    while True:
        try:
            if os.read(reader, 1):
                return
        except BlockingIOError:
            pass
        if time.perf_counter() - began > FIRST_BYTE_LIMIT_S:
            raise CannotMeasure(f"no byte of output within {FIRST_BYTE_LIMIT_S:g} s")
        time.sleep(0.0005)


def _wall_s(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    run(command, env)
    return time.perf_counter() - began


def wide_start(cluster: Local, nodes: int, tasks: int) -> float:
    """Seconds of `srun true` with so many tasks over all nodes: allocation, start, end."""
    words = cluster.command("srun", "-N", str(nodes), "-n", str(tasks), "--overcommit", "true")
    began = time.perf_counter()
    done = subprocess.run(words, env=cluster.env, capture_output=True, text=True, timeout=WIDE_LIMIT_S, check=False)
    if done.returncode:
        raise CannotMeasure(f"srun of {tasks} tasks: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return time.perf_counter() - began


def stream_rate(cluster: Local, megabytes: int, runs: int) -> float:
    """MB/s (10^6 bytes) of one task's output through its node to srun; the time of a step that says nothing is left out."""

    def took_s(command: str) -> float:
        words = cluster.command("srun", "-N1", "-n1", "sh", "-c", command)
        began = time.perf_counter()
        done = subprocess.run(words, env=cluster.env, stdout=subprocess.DEVNULL, timeout=WIDE_LIMIT_S, check=False)
        if done.returncode:
            raise CannotMeasure(f"srun of {command!r}: exit {done.returncode}")
        return time.perf_counter() - began

    quiet_s = statistics.median(took_s("true") for _ in range(runs))
    loud_s = statistics.median(took_s(f"head -c {megabytes}000000 /dev/zero") for _ in range(runs))
    return megabytes / (loud_s - quiet_s)


def weights_mb(cluster: Local, jobs: int) -> list[float]:
    """Private memory of the stepd of each of so many running jobs, MiB."""
    words = ["--parsable", f"--array=1-{jobs}", "-o", "/dev/null", "-D", "/", "--wrap", "sleep 600"]
    job_id = cluster.run("sbatch", *words).strip()
    running = ["-h", "-r", "-j", job_id, "-t", "R", "-o", "%i"]
    wait_until(lambda: len(cluster.run("squeue", *running).split()) == jobs, "the sleeping jobs", SLEEPERS_LIMIT_S, 0.2)
    launchers = [pid for node in cluster.status()["nodes"] for pid in children(int(node["pid"]))]
    busy = [pid for launcher in launchers for pid in children(launcher) if children(pid)]
    found = [_private_mb(pid) for pid in busy]
    cluster.run("scancel", job_id)
    if len(found) < jobs:
        raise CannotMeasure(f"{len(found)} supervisors found for {jobs} running jobs")
    return found


def _private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


def slurm_loop_rate(folder: Path, cpus: int, count: int) -> float:
    """The peer's steps per second, the same script. Raises CannotMeasure where that cannot be."""
    with private_slurm(cpus) as env:
        return loop_rate(["sbatch"], env, folder, count)
