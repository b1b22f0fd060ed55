"""The two sides: each runs a command and says how it ended.

`Slurm` is a private one in a temporary folder: munged, slurmctld, one slurmd a node, on free ports of the loopback interface. An
installed and running Slurm is not touched. It needs root, slurm-wlm and munge, and no accounting storage.

`Ours` is a LiveCluster with the shape's nodes. A command of ours runs in a fork of one process that has loaded them all, so that
hundreds of them cost seconds; what it sees of the world (arguments, environment, folder, streams) is that of a process of its own.
"""

import importlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from livecluster import ClusterConf, LiveCluster, free_ports

from bench.measure import CannotMeasure, wait_until
from bench.slurmpeer import PRIVATE_CONF, munge_files, start_daemon, stop_daemons, why_not
from differential import shape

COMMANDS = ("sbatch", "salloc", "srun", "squeue", "sinfo", "scontrol", "scancel", "sacct", "sstat", "sprio", "sshare", "sdiag", "sbcast", "sattach")  # fmt: skip
#: A command that hangs has answered, too.
LIMIT_S = 10.0
START_LIMIT_S = 60.0
TIMED_OUT = 124

SLURM_CONF = (
    PRIVATE_CONF
    + """\
SchedulerParameters=bf_interval=1,sched_interval=1
KillWait=1
"""
)


class Answer(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Side:
    """A cluster with the shape's jobs."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.ids: dict[str, str] = {}

    def run(self, words: list[str]) -> Answer:
        raise NotImplementedError

    def must(self, line: str) -> str:
        """A line that has to succeed; its output."""
        answer = self.run(shape.words_of(line, self.ids))
        assert answer.status == 0, f"{line}: {answer}"
        return answer.out.strip()

    def populate(self) -> None:
        """Nodes, reservation and jobs, and wait until nothing moves any more."""
        for line in shape.PREPARE:
            self.must(line)
        for name, words in shape.JOBS.items():
            self.ids[name] = self.must(f"sbatch --parsable {words}")
            self.wait({self.ids[name] + task: state for task, state in shape.TASKS.get(name, {}).items()})
        self.wait({name: state for name, state in shape.SETTLED.items() if state in ("CD", "F", "R")})
        for line in shape.CHANGES:
            self.must(line)
        self.wait(shape.SETTLED)
        self.ids["some"] = ",".join(self.ids[name] for name in shape.SOME)

    def wait(self, wanted: Mapping[str, str]) -> None:
        """Until these jobs are in these states, and the scheduler has come past all others."""
        deadline = time.monotonic() + START_LIMIT_S
        while wanted:
            lines = [line.split() for line in self.must("squeue -h -a -r -t all -o '%i %t %r'").splitlines()]
            seen = {words[0]: words[1] for words in lines}
            wrong = {
                name: seen.get(self.ids.get(name, name))
                for name in wanted
                if seen.get(self.ids.get(name, name)) != wanted[name]
            }
            early = [words for words in lines if (words[2] == "None" and words[1] == "PD") or words[1] in ("CG", "CF")]
            if not wrong and not early:
                return
            assert time.monotonic() < deadline, f"waited for {wanted}: {wrong} {early}"
            time.sleep(0.2)


class Slurm(Side):
    """The reference."""

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self.folder = Path(tempfile.mkdtemp(prefix="differential-slurm-"))
        self.folder.chmod(0o755)
        self.running: list[subprocess.Popen[bytes]] = []
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(work),
            "LANG": "C.UTF-8",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        self.paths = [(str(self.folder), "<FOLDER>"), (str(work), "<WORK>"), (os.uname().nodename, "<HOST>")]

    def __enter__(self) -> "Slurm":
        try:
            self._start()
            self.populate()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, words: list[str]) -> Answer:
        try:
            done = subprocess.run(
                words, env=self.env, cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return Answer(TIMED_OUT, "", "")
        return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def _start(self) -> None:
        if reason := why_not():
            raise CannotMeasure(reason)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        port, *ports = free_ports(1 + len(shape.NODES))
        host = os.uname().nodename
        addresses = dict(zip(shape.NODES, ports, strict=True))
        nodes = shape.node_lines(lambda name: f"NodeHostname={host} NodeAddr=127.0.0.1 Port={addresses[name]}")
        text = SLURM_CONF.format(host=host, ctld_port=port, folder=self.folder) + nodes + shape.CONF
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("")
        gpus = [self.folder / f"gpu{number}" for number in range(2)]
        for path in gpus:
            path.touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=h200 File={self.folder}/gpu[0-1]\n")
        start_daemon(self.running, "munged", "--foreground", *munge_files(self.folder))
        self._until((self.folder / "munge" / "munge.socket").exists)
        conf = str(self.folder / "slurm.conf")
        start_daemon(self.running, "slurmctld", "-D", "-i", "-f", conf)
        for name in shape.NODES:
            start_daemon(self.running, "slurmd", "-D", "-N", name, "-f", conf)
        self._until(lambda: self.run(["sinfo", "-h", "-o", "%T", "-p", "main"]).out.split() == ["idle"])

    def _until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, f"Slurm (logs in {self.folder})", START_LIMIT_S, 0.1)

    def close(self) -> None:
        """End the jobs, then the daemons, the last one first."""
        if self.running:
            self.run(["scancel", "-u", "root"])
            time.sleep(2)
        stop_daemons(self.running)
        if not os.environ.get("DIFFERENTIAL_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


class ShapedCluster(LiveCluster):
    """A LiveCluster whose slurm.conf has the shape's nodes and partitions."""

    def conf_text(self, *more: str) -> str:
        own = ("NodeName=", "PartitionName=", "ClusterName=", "GresTypes=", "SelectType", "DefMem", "ReturnTo")
        lines = [line for line in super().conf_text(*more).splitlines() if not line.startswith(own)]
        return "\n".join(lines) + "\n" + shape.node_lines(lambda name: "NodeAddr=127.0.0.1") + shape.CONF


class Ours(Side):
    """Penstock."""

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self.cluster = ShapedCluster(len(shape.NODES), ClusterConf(cpus=8, memory_mb=8000, gpus=2))
        self.env = {**self.cluster.environment(), "HOME": str(work)}
        self.paths = [(str(self.cluster.home), "<FOLDER>"), (str(work), "<WORK>"), (os.uname().nodename, "<HOST>")]
        for name in COMMANDS:
            importlib.import_module(f"cli.{name}")

    def __enter__(self) -> "Ours":
        self.cluster.start()
        try:
            self.populate()
        except BaseException:
            self.cluster.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def run(self, words: list[str]) -> Answer:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                self._become(words, out.fileno(), err.fileno())
            status = _reap(child)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
            return Answer(status, *texts)

    def _become(self, words: list[str], out: int, err: int) -> None:
        """The rest of this process is one command."""
        try:
            null = os.open(os.devnull, os.O_RDONLY)
            os.setsid()
            for place, descriptor in enumerate((null, out, err)):
                os.dup2(descriptor, place)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            os.chdir(self.work)
            os.environ.clear()
            os.environ.update(self.env)
            sys.argv = list(words)
            importlib.import_module(f"cli.{words[0]}").main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException:  # a fault is what is to be seen
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(99)


def _reap(child: int) -> int:
    """Wait for a child of ours, not for ever."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(0.005)


def shown(words: list[str]) -> str:
    return shlex.join(words)
