"""The two sides: each runs a command and says how it ended.

`Slurm` is a private one in a temporary folder: munged, slurmctld, one slurmd a node, on free ports of the loopback interface. An
installed and running Slurm is not touched. It needs root, slurm-wlm and munge, and no accounting storage.

`Ours` is a LiveCluster with the shape's nodes. Its commands run as users run them, through the launcher and the command server, so
hundreds of them take seconds; in a tree without the launcher each is a start of Python.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from livecluster import LAUNCHERS, ClusterConf, LiveCluster, command, free_ports, is_installed
from patience import ANSWER_S, END_S

from bench.measure import CannotMeasure, wait_until
from bench.slurmpeer import PRIVATE_CONF, munge_files, start_daemon, stop_daemons, why_not
from differential import shape

#: A command that hangs has answered, too. No line recorded so far does.
#: Plain files that stand for the devices of a node.
MOST_GPUS = 8
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
        self.paths: list[tuple[str, str]] = []

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
        deadline = time.monotonic() + END_S
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
        return _answer(words, self.env, self.work)

    def _start(self) -> None:
        gres = f"Name=gpu Type=h200 File={self.folder}/gpu[0-1]\n"
        self.start_daemons(shape.NODES, lambda more: shape.node_lines(more.__getitem__) + shape.CONF, gres)
        self._until(lambda: self.run(["sinfo", "-h", "-o", "%T", "-p", "main"]).out.split() == ["idle"])

    def start_daemons(self, names: Sequence[str], conf_text: Callable[[dict[str, str]], str], gres: str) -> None:
        """munged, slurmctld and a slurmd a node. conf_text: the site's lines of slurm.conf, given words for each node's address."""
        if reason := why_not():
            raise CannotMeasure(reason)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        port, *ports = free_ports(1 + len(names))
        host = os.uname().nodename
        addresses = {
            name: f"NodeHostname={host} NodeAddr=127.0.0.1 Port={own}" for name, own in zip(names, ports, strict=True)
        }
        text = SLURM_CONF.format(host=host, ctld_port=port, folder=self.folder) + conf_text(addresses)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("")
        for number in range(MOST_GPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(gres)
        start_daemon(self.running, "munged", "--foreground", *munge_files(self.folder))
        self._until((self.folder / "munge" / "munge.socket").exists)
        conf = str(self.folder / "slurm.conf")
        start_daemon(self.running, "slurmctld", "-D", "-i", "-f", conf)
        for name in names:
            start_daemon(self.running, "slurmd", "-D", "-N", name, "-f", conf)

    def _until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, f"Slurm (logs in {self.folder})", END_S, 0.1)

    def close(self) -> None:
        """End the jobs, then the daemons, the last one first."""
        try:
            if self.running:
                self.run(["scancel", "-u", "root"])
                self._until(lambda: not self.run(["squeue", "-h"]).out.strip())
        finally:
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
        self.cluster = self.new_cluster()
        self.env = {**self.cluster.environment(), "HOME": str(work)}
        self.paths = [(str(self.cluster.home), "<FOLDER>"), (str(work), "<WORK>"), (os.uname().nodename, "<HOST>")]

    def new_cluster(self) -> LiveCluster:
        """Not started."""
        return ShapedCluster(len(shape.NODES), ClusterConf(cpus=8, memory_mb=8000, gpus=2))

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
        name, *rest = words
        line: list[Any] = [LAUNCHERS / name, *rest] if is_installed(name) else list(command(name, *rest))
        return _answer(line, self.env, self.work)


def _answer(line: Sequence[Any], env: Mapping[str, str], work: Path) -> Answer:
    """Runs a command without a terminal to its end, or to the limit; a signal is shown as a shell shows it."""
    try:
        done = subprocess.run(
            line, env=env, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(TIMED_OUT, "", "")
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Answer(status, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def shown(words: list[str]) -> str:
    return shlex.join(words)
