"""The same work on Slurm, where Debian's `slurm-wlm` and `munge` are installed: a peer for comparison.

A private Slurm: munged, slurmctld and slurmd with their own folders, socket and ports in a temporary directory; an
installed and running Slurm of this machine is not touched. One node, whose CPUs are pretended like those of our own
nodes. No accounting storage, no cgroups, no prolog: Slurm at its quickest. The scheduler is set for throughput as
Slurm's documentation advises (deep queue, no pause between passes); what was tried is in docs/performance.md.

slurmd has to start jobs as their user and munged wants its files owned by the user it runs as, so this needs root.
"""

import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.measure import CannotMeasure, Times, free_port, run, timed, wait_until

DAEMONS = ("munged", "slurmctld", "slurmd")
START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 10
RUN_TIMEOUT_S = 90
MUNGE_KEY_BYTES = 1024
#: A first array, unmeasured: it pays for loading plugins and credentials.
WARM_UP_TASKS = 50

#: Of every private Slurm: its daemons as root in one folder, without accounting, cgroups and plug-ins that cost time.
PRIVATE_CONF = """\
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerType=sched/backfill
"""
CONF = (
    PRIVATE_CONF
    + """\
ClusterName=bench
SlurmdPort={slurmd_port}
SlurmctldDebug=error
SlurmdDebug=error
PriorityType=priority/basic
SchedulerParameters={scheduler}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MaxArraySize=100001
MaxJobCount=200000
MessageTimeout=60
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
)

SCHEDULER = "sched_min_interval=0,sched_interval=1,default_queue_depth=2000,batch_sched_delay=0,max_rpc_cnt=0"

#: For a long queue: backfill tests all jobs and plans four weeks ahead.
DEEP_SCHEDULER = "bf_max_job_test=100000,bf_window=40320,bf_continue,bf_interval=5"


class SlurmFigures(NamedTuple):
    """The peer's figures."""

    array_jobs_per_s: float
    array_runs: list[float]
    sbatch: Times
    squeue: Times
    version: str


def measure(tasks: int, runs: int, cpus: int, command_runs: int) -> SlurmFigures:
    """The array and the commands on a private Slurm. Raises CannotMeasure where that cannot be."""
    with private_slurm(cpus) as env:
        script = "#!/bin/sh\ntrue\n"
        run_array(env, WARM_UP_TASKS)
        rates = [run_array(env, tasks) for _ in range(runs)]
        sbatch = timed(["sbatch", "-o", "/dev/null", "--hold"], command_runs, env, script)
        squeue = timed(["squeue"], command_runs, env)
        version = run(["sinfo", "--version"], env).strip()
        return SlurmFigures(statistics.median(rates), rates, sbatch, squeue, version)


def run_array(env: dict[str, str], tasks: int) -> float:
    """Jobs per second from before `sbatch` until no task is left in the queue."""
    began = time.perf_counter()
    command = ["sbatch", "--parsable", f"--array=1-{tasks}", "-o", "/dev/null", "-D", "/"]
    job_id = run(command, env, "#!/bin/sh\ntrue\n").strip()
    # Every task ends in the order of milliseconds; asking costs Slurm about 5 ms, so ask four times a second.
    over = ["squeue", "-h", "-j", job_id, "-t", "PD,CF,R,CG", "-o", "%i"]
    wait_until(lambda: not run(over, env).strip(), f"Slurm's array of {tasks}", RUN_TIMEOUT_S, 0.25)
    return tasks / (time.perf_counter() - began)


def await_backfill(env: dict[str, str]) -> None:
    """Returns when backfill has begun to test jobs."""
    tested = re.compile(r"Last depth cycle: [1-9]")
    wait_until(lambda: bool(tested.search(run(["sdiag"], env))), "Slurm's backfill", RUN_TIMEOUT_S, 0.25)


def why_not() -> str:
    """Why the peer cannot run here; "" if it can."""
    missing = [name for name in (*DAEMONS, "sbatch", "squeue") if find_program(name) is None]
    if missing:
        return f"no {', '.join(missing)} (Debian: apt install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "needs root (slurmd starts jobs as their user)"
    return ""


def find_program(name: str) -> str | None:
    """The path of a daemon or command; daemons are not in every user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@contextmanager
def private_slurm(cpus: int, scheduler: str = SCHEDULER) -> Iterator[dict[str, str]]:
    """A running Slurm; yields the environment in which its commands find it."""
    if reason := why_not():
        raise CannotMeasure(reason)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-slurm-"))
    folder.chmod(0o755)
    running: list[subprocess.Popen[bytes]] = []
    try:
        conf = _write_files(folder, cpus, scheduler)
        start_daemon(running, "munged", "--foreground", *munge_files(folder))
        wait_until((folder / "munge" / "munge.socket").exists, "munged's socket", START_TIMEOUT_S)
        env = {**os.environ, "SLURM_CONF": str(conf)}
        start_daemon(running, "slurmctld", "-D", "-i", "-f", str(conf))
        start_daemon(running, "slurmd", "-D", "-f", str(conf))
        wait_until(lambda: _idle(env), f"Slurm's node (logs in {folder})", START_TIMEOUT_S, 0.1)
        yield env
    finally:
        stop_daemons(running)
        shutil.rmtree(folder, ignore_errors=True)


def _idle(env: dict[str, str]) -> bool:
    try:
        return run(["sinfo", "-h", "-o", "%T"], env).strip() == "idle"
    except CannotMeasure:  # the controller is not up yet
        return False


def _write_files(folder: Path, cpus: int, scheduler: str) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir(mode=0o755)
    # cgroup.conf is looked for beside slurm.conf, so the machine's own is not read.
    (folder / "cgroup.conf").write_text("")
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(
            host=socket.gethostname().partition(".")[0], folder=folder, cpus=cpus, scheduler=scheduler,
            ctld_port=free_port(), slurmd_port=free_port(),
        )
    )  # fmt: skip
    return conf


def munge_files(folder: Path) -> list[str]:
    """A key of its own; munged's options for the folder."""
    munge = folder / "munge"
    munge.mkdir(mode=0o755)
    key = munge / "key"
    key.write_bytes(os.urandom(MUNGE_KEY_BYTES))
    key.chmod(0o400)
    files = {"socket": "munge.socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    return [f"--{option}={munge / name}" for option, name in files.items()]


def stop_daemons(running: list[subprocess.Popen[bytes]]) -> None:
    """The last one first; with SIGKILL if they do not end."""
    for process in reversed(running):
        process.terminate()
    for process in running:
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_daemon(
    running: list[subprocess.Popen[bytes]], name: str, *options: str, env: Mapping[str, str] | None = None
) -> None:
    """Start it in the foreground and remember it."""
    program = find_program(name)
    assert program is not None
    running.append(
        subprocess.Popen(
            [program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
        )
    )
