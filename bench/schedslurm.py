"""The generated GPU queue on Slurm: measures how many jobs its backfill tests, and how long that takes.

A private Slurm as in bench/slurmpeer.py, but without node daemons: the 1,000 nodes are State=CLOUD and their
ResumeProgram is /bin/true, so that jobs get nodes and stay in configuration. All jobs are submitted while the partition
is down; then it is opened, and `sdiag` says how many jobs backfill has tested. It is configured to test every
job (bf_max_job_test) and to plan four weeks ahead; how deep it got within the time that the caller gives is the figure. The rest
is as Slurm has it by default.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench import slurmpeer
from bench.measure import CannotMeasure, free_port, run, wait_until
from bench.parts import Figures
from bench.schedqueue import CPUS_A_GPU, MEM_MB_A_GPU, NODE_CPUS, NODE_GPUS, NODE_MEM_MB, Queue

PROGRAMS = ("munged", "slurmctld", "sbatch", "sdiag", "scontrol")
SUBMITTERS = 4
#: Until backfill tests its first job.
START_GRACE_S = 30

CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldDebug=error
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PriorityType=priority/basic
SchedulerType=sched/backfill
SchedulerParameters={scheduler}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MaxJobCount=200000
MessageTimeout=100
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=INFINITE
ResumeTimeout=65000
TreeWidth=65000
NodeName=DEFAULT CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1
NodeName=n[1-{nodes}] RealMemory={mem_mb} Gres=gpu:{gpus} State=CLOUD
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=DOWN
"""

SCHEDULER = "bf_max_job_test=100000,bf_window=40320,bf_continue,bf_interval=5,bf_max_time={cycle_s}"


def why_not() -> str:
    """Why this cannot run here; "" if it can."""
    missing = [name for name in PROGRAMS if slurmpeer.find_program(name) is None]
    if missing:
        return f"no {', '.join(missing)} (Debian: apt install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "needs root (munged wants its files owned by the user it runs as)"


def measure(queue: Queue, nodes: int, work_s: float) -> Figures:
    """Jobs that backfill tests, and the seconds that it takes. Raises CannotMeasure where Slurm is not installed."""
    with private_slurm(nodes, int(work_s)) as env:
        began = time.perf_counter()
        with ThreadPoolExecutor(SUBMITTERS) as pool:
            list(pool.map(lambda words: run(words, env, "#!/bin/sh\ntrue\n"), sbatch_lines(queue)))
        submitted_s = time.perf_counter() - began
        run(["scontrol", "update", "PartitionName=main", "State=UP"], env)
        tested, slurm_s = watch(env, work_s, len(queue.gpus))
        return {
            "slurm_tested_jobs": tested,
            "slurm_s": slurm_s,
            "slurm_jobs": len(queue.gpus),
            "slurm_submit_s": submitted_s,
            "slurm_version": run(["sbatch", "--version"], env).strip(),
        }


def watch(env: dict[str, str], work_s: float, jobs: int) -> tuple[int, float]:
    """(Jobs tested, seconds): the depth that backfill reached, and how long after its first job that was seen.

    sdiag counts the depth of a cycle that is still going on, but knows the duration of ended ones only.
    """
    opened = time.perf_counter()
    first_s = 0.0
    tested = 0
    slurm_s = 0.0
    while tested < jobs and (seen_s := time.perf_counter() - opened) < work_s + (first_s or START_GRACE_S):
        depth = depth_of(run(["sdiag"], env))
        if depth and not first_s:
            first_s = seen_s
        if depth > tested:
            tested, slurm_s = depth, seen_s - first_s
        time.sleep(1)  # the pause between two looks: each costs Slurm a request
    if tested < 2 or not slurm_s:
        raise CannotMeasure(f"Slurm's backfill tested {tested} jobs within {work_s:g} s; try a larger --slurm-s")
    return tested, slurm_s


def depth_of(text: str) -> int:
    """How many jobs the last cycle of backfill has tested, in sdiag's words."""
    found = re.search(r"Last depth cycle: (\d+)", text.partition("Backfilling stats")[2])
    return int(found[1]) if found else 0


def sbatch_lines(queue: Queue) -> Iterator[list[str]]:
    """The same jobs as in schedqueue.planner_input."""
    for gpus, nodes, limit_min in zip(*(column.tolist() for column in queue), strict=True):
        whole = nodes > 1
        yield [
            "sbatch", "-o", "/dev/null", "-D", "/", f"--nodes={nodes}", f"--ntasks={nodes}", f"--time={limit_min}",
            f"--cpus-per-task={NODE_CPUS if whole else CPUS_A_GPU * gpus}", f"--gres=gpu:{gpus}",
            f"--mem={NODE_MEM_MB if whole else MEM_MB_A_GPU * gpus}",
        ]  # fmt: skip


@contextmanager
def private_slurm(nodes: int, work_s: int) -> Iterator[dict[str, str]]:
    """munged and slurmctld in a temporary folder; yields the environment in which Slurm's commands find them."""
    if reason := why_not():
        raise CannotMeasure(reason)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-sched-"))
    folder.chmod(0o755)
    running: list[subprocess.Popen[bytes]] = []
    try:
        munge_options = slurmpeer.munge_files(folder)
        for name in ("state", "spool"):
            (folder / name).mkdir(mode=0o755)
        (folder / "cgroup.conf").write_text("")
        (folder / "gres.conf").write_text("")
        conf = folder / "slurm.conf"
        conf.write_text(
            CONF.format(
                host=socket.gethostname().partition(".")[0], folder=folder, nodes=nodes, cpus=NODE_CPUS,
                mem_mb=NODE_MEM_MB, gpus=NODE_GPUS, ctld_port=free_port(), slurmd_port=free_port(),
                scheduler=SCHEDULER.format(cycle_s=work_s + START_GRACE_S),
            )
        )  # fmt: skip
        slurmpeer.start_daemon(running, "munged", "--foreground", *munge_options)
        wait_until((folder / "munge" / "munge.socket").exists, "munged's socket", slurmpeer.START_TIMEOUT_S)
        env = {**os.environ, "SLURM_CONF": str(conf)}
        slurmpeer.start_daemon(running, "slurmctld", "-D", "-i", "-f", str(conf))
        wait_until(lambda: _answers(env), f"slurmctld (log in {folder})", slurmpeer.START_TIMEOUT_S, 0.2)
        yield env
    finally:
        slurmpeer.stop_daemons(running)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(env: dict[str, str]) -> bool:
    try:
        run(["sdiag"], env)
    except CannotMeasure:  # the controller is not up yet
        return False
    return True
