"""`penstock demo`: runs a cluster in a temporary folder, from start to clean end in under a minute.

It is `penstock up` with another folder and pretended sizes, followed by the commands that a user would type. After
success, a failure, Ctrl-C or SIGTERM the daemons are stopped and the folder is removed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from cli.base.commandpath import how_to_run
from cli.base.output import raw
from cli.base.run import CommandError
from cli.subcommands.documents import documents, write
from cli.subcommands.localcluster import CTLD, LOG_FOLLOWS, LocalCluster, environment, how_to_call, say
from cli.subcommands.localconf import HOME_LENGTH_MAX, LocalClusterOptions, prepare
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.errors import Unreachable

NODES = 4
CPUS_PER_NODE = 4
GPUS_PER_NODE = 2
ARRAY_TASKS = 40
#: hello, the array's tasks, the summary.
JOBS = ARRAY_TASKS + 2
#: From the first submission to the last end; it takes some 10 s on two cores.
JOBS_LIMIT_S = 45.0
COMMAND_LIMIT_S = 20.0
POLL_S = 0.2
BAR_WIDTH = 40
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FINISHED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class Demo:
    """One run."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "jobs"
        self.home = folder / "home"
        # Without a command server, since the demo leaves no process behind.
        own = {"PENSTOCK_CLUSTER": str(self.home / "cluster.json"), "PENSTOCK_COMMAND_SERVER": "0"}
        self.environment = environment() | own

    def shell(self, *words: str) -> str:
        """Runs one command as a user would, shows it with its output, and returns that."""
        say(f"\n$ {' '.join(words)}")
        done = subprocess.run(
            [*how_to_run(words[0]), *words[1:]],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace").rstrip("\n")
        say(text)
        if done.returncode != 0:
            raise CommandError(f"{words[0]} failed with exit status {done.returncode}")
        return text

    def submit(self, *words: str) -> str:
        """Submit one of the example scripts; returns the job id."""
        return self.shell("sbatch", *words).split()[-1]

    def run(self, cluster: LocalCluster) -> None:
        """The sequence of commands that are shown."""
        self.shell("sinfo")
        hello = self.submit("hello.sbatch")
        array = self.submit("array.sbatch")
        summary = self.submit(f"--dependency=afterok:{array}", "summary.sbatch")
        self.shell("squeue")
        with cluster.client() as client:
            follow(client)
        self.show(f"hello-{hello}.out", "array-1.out", f"summary-{summary}.out")
        self.shell("sacct", "-X", "-j", f"{hello},{array}_1,{array}_{ARRAY_TASKS},{summary}")

    def show(self, *names: str) -> None:
        """Print output files of jobs."""
        for name in names:
            try:
                text = (self.work / name).read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError as error:
                raise CommandError(f"{name}: the job has not written its output") from error
            say(f"\n$ cat {name}\n{text.rstrip()}")


def follow(client: Client) -> None:
    """Shows the progress of the jobs until all have ended."""
    say("")
    deadline, shown = time.monotonic() + JOBS_LIMIT_S, ""
    on_terminal = sys.stdout.isatty()
    while True:
        try:
            ended, running = progress(client)
        except Unreachable:
            ended, running = 0, 0
        line = bar(ended, running)
        if line != shown:
            raw(f"\r{line}" if on_terminal else f"{line}\n")
            shown = line
        if ended >= JOBS:
            break
        if time.monotonic() > deadline:
            raise CommandError(f"the jobs did not end in {JOBS_LIMIT_S:.0f} s")
        time.sleep(POLL_S)
    if on_terminal:
        say("")


def progress(client: Client) -> tuple[int, int]:
    """The numbers of ended and of running jobs."""
    from penstock.v1.controller_pb2 import ListJobsRequest

    states = [job.state for page in client.stream("ListJobs", ListJobsRequest(all_states=True)) for job in page.jobs]
    return sum(s in FINISHED for s in states), sum(s == "RUNNING" for s in states)


def bar(ended: int, running: int) -> str:
    """One line of the progress bar."""
    full = BAR_WIDTH * ended // JOBS
    active = min(BAR_WIDTH - full, -(-BAR_WIDTH * running // JOBS))
    drawn = "#" * full + ">" * active + "." * (BAR_WIDTH - full - active)
    return f"[{drawn}] {ended:2} of {JOBS} jobs done, {running:2} running"


def temporary_folder() -> Path:
    """A new folder; in /tmp if the default path is too long for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    if len(os.fsencode(folder / "home")) <= HOME_LENGTH_MAX:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="penstock-demo-", dir="/tmp"))


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """On SIGTERM exits through the `finally` clauses, as Ctrl-C does."""
    sys.exit(128 + number)


@click.command(
    cls=CommandLine,
    help="Run jobs on a private cluster, show them, and remove the cluster.",
    examples=(("penstock demo", "four nodes run 42 jobs"),),
)
@documents
def command(language: str) -> int:
    """One run of `penstock demo`; with a document, the show is on stderr."""
    began = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr) if language else contextlib.nullcontext():
        _run(began)
    if language:
        write({"nodes": NODES, "jobs": JOBS, "seconds": round(time.monotonic() - began)}, language)
    return 0


def _run(began: float) -> None:
    if not EXAMPLES.is_dir():
        raise CommandError(f"{EXAMPLES}: not there; the demo needs the source tree: run `make demo` in it")
    signal.signal(signal.SIGTERM, _leave)
    folder = temporary_folder()
    cluster = None
    try:
        demo = Demo(folder)
        shutil.copytree(EXAMPLES, demo.work)
        say(f"Starting a controller and {NODES} node daemons in {folder}; the nodes' sizes are pretended.")
        prepare(demo.home)
        cluster = LocalCluster.create(demo.home, LocalClusterOptions(NODES, CPUS_PER_NODE, (GPUS_PER_NODE, "")))
        cluster.start_missing()
        demo.run(cluster)
    except CommandError as error:
        if cluster and LOG_FOLLOWS not in error.text:
            say(cluster.failure(CTLD, "was asked for this"))
        raise
    finally:
        killed = []
        if cluster:
            cluster.end_jobs_if_possible()
            killed = cluster.stop()
        shutil.rmtree(folder)
    if killed:
        raise CommandError(f"had to be killed, as they did not stop by themselves: {', '.join(killed)}")
    say(f"\nThe cluster is stopped and {folder} is removed; that took {time.monotonic() - began:.0f} s.")
    path = how_to_call()
    first = f"`{path}` so that your shell finds the commands, " if path else ""
    say(f"Your own cluster: {first}`penstock up`, then sbatch, squeue, sacct as above; `penstock down` stops it.")


def main(argv: list[str]) -> int:
    """Run `penstock demo`; its status."""
    return invoke(command, "penstock demo", argv)
