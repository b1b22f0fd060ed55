"""The reference: a private Slurm with the cluster of the comparison, asked one request after the other.

Before each request nothing runs. What a job said comes from its output file; a job that does not start has a reason.
"""

import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from livecluster import free_ports

from bench.measure import CannotMeasure, wait_until
from bench.slurmpeer import PRIVATE_CONF, munge_files, start_daemon, stop_daemons, why_not
from differential.grants import cluster, probe

MORE_CONF = "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_max_job_test=10\nKillWait=1\nMessageTimeout=30\nSlurmctldDebug=error\nSlurmdDebug=error\n"
START_LIMIT_S, JOB_LIMIT_S, STEPS_LIMIT_S, CALL_LIMIT_S = 60.0, 60.0, 600.0, 30.0
POLL_S = 0.02
#: A job that has not started by then, and says why, waits.
WAITS_AFTER_S = 2.0


class Raw(NamedTuple):
    """An answer as it came: how sbatch ended, why the job waits ("" = it ran), what it said."""

    status: int
    err: str
    reason: str
    said: str


class Reference:
    """One Slurm."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="grants-slurm-"))
        self.folder.chmod(0o755)
        self.running: list[subprocess.Popen[bytes]] = []
        self.env = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }  # fmt: skip

    def __enter__(self) -> "Reference":
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        if reason := why_not():
            raise CannotMeasure(reason)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        port, *ports = free_ports(1 + len(cluster.NODES))
        host = os.uname().nodename
        addresses = dict(zip(cluster.NODES, ports, strict=True))
        nodes = cluster.node_lines(lambda name: f"NodeHostname={host} NodeAddr=127.0.0.1 Port={addresses[name]}")
        text = PRIVATE_CONF.format(host=host, ctld_port=port, folder=self.folder) + MORE_CONF + nodes + cluster.CONF
        conf = self.folder / "slurm.conf"
        conf.write_text(text)
        (self.folder / "cgroup.conf").write_text("")
        lines = []
        for kind in cluster.KINDS:
            for number in range(kind.gpus):
                os.mknod(self.folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3)) if not (
                    self.folder / f"gpu{number}"
                ).exists() else None
            names = ",".join(kind.names)
            lines.append(
                f"NodeName={names} Name=gpu Type={kind.gpu_type} Flags=nvidia_gpu_env File={self.folder}/gpu[0-{kind.gpus - 1}]\n"
            )
        (self.folder / "gres.conf").write_text("".join(lines))
        start_daemon(self.running, "munged", "--foreground", *munge_files(self.folder))
        self._until((self.folder / "munge" / "munge.socket").exists)
        start_daemon(self.running, "slurmctld", "-D", "-i", "-f", str(conf))
        for name in cluster.NODES:
            start_daemon(self.running, "slurmd", "-D", "-N", name, "-f", str(conf))
        self._until(lambda: set(self.run("sinfo", "-h", "-o", "%T", "-p", "all")[1].split()) == {"idle"})

    def _until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, f"Slurm (logs in {self.folder})", START_LIMIT_S, 0.1)

    def close(self) -> None:
        stop_daemons(self.running)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            words, env=self.env, cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=CALL_LIMIT_S
        )
        return done.returncode, done.stdout, done.stderr

    def ask(self, line: str, script: str, limit_s: float) -> Raw:
        """One job, to its end."""
        self._await_idle()
        out = self.folder / "out"
        out.unlink(missing_ok=True)
        status, told, err = self.run(
            "sbatch", "--parsable", "-J", "job", "-o", str(out), *shlex.split(line), stdin=script
        )
        if status:
            return Raw(status, err, "", "")
        reason = self._await_end(told.strip(), out, limit_s)
        return Raw(0, err, reason, out.read_text(errors="replace") if out.exists() and not reason else "")

    def _await_end(self, job: str, out: Path, limit_s: float) -> str:
        """Until the job has said all; or why it does not start."""
        began = asked = time.monotonic()
        while time.monotonic() - began < limit_s:
            if out.exists() and out.read_bytes().endswith(f"{probe.END}\n".encode()):
                return ""
            if time.monotonic() - asked > 0.3:
                asked = time.monotonic()
                _, text, _ = self.run("squeue", "-h", "-j", job, "-o", "%T|%r")
                state, _, reason = text.strip().partition("|")
                if state == "PENDING" and reason != "None" and asked - began > WAITS_AFTER_S:
                    self.run("scancel", job)
                    return reason
                if not state or state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                    return "" if out.exists() else f"ended: {state}"
            time.sleep(POLL_S)
        self.run("scancel", job)
        return "never ended"

    def _await_idle(self) -> None:
        self._until(lambda: self.run("squeue", "-h")[1] == "")
        self._until(lambda: set(self.run("sinfo", "-h", "-o", "%T", "-p", "all")[1].split()) == {"idle"})

    def job(self, line: str) -> Raw:
        return self.ask(line, probe.job_script(str(self.folder)), JOB_LIMIT_S)

    def steps(self, line: str, steps: list[str]) -> Raw:
        return self.ask(line, probe.steps_script(str(self.folder), steps), STEPS_LIMIT_S)
