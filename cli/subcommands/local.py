"""`penstock up`, `down` and `status`: the commands of a private cluster on this machine, without root.

`up` starts the daemons that do not run and returns when the controller answers and every node has registered; a daemon
that fails shows the end of its log. `down` first asks running jobs to end (with --keep-jobs it leaves them to their
supervisors, and the next `up` takes them over), then the daemons. Pending jobs and all records stay. Another `up`
restarts daemons that died; a site uses systemd (packaging/).
"""

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

import click

from cli.base.run import CommandError, warn
from cli.subcommands.documents import documents, write
from cli.subcommands.localcluster import (
    CTLD,
    RESTD,
    STOP_LIMIT_S,
    LocalCluster,
    count,
    how_to_call,
    ignored_token,
    locked,
    node_states,
    say,
)
from cli.subcommands.localconf import (
    CPUS_PER_NODE_MAX,
    GPUS_PER_NODE_MAX,
    NODES_MAX,
    LocalClusterOptions,
    home_folder,
    other_than,
    prepare,
)
from penstock.commandline import CommandLine, Converted, invoke
from penstock.errors import PenstockError
from penstock.values.numbers import parse_int
from penstock.values.pretend import parse_gpus

if TYPE_CHECKING:
    from penstock.interpreter import Build


def _number(high: int, what: str) -> Converted:
    return Converted("number", lambda text: parse_int(text, 1, high, what))


_GPUS = Converted("gpus", lambda text: parse_gpus(text, GPUS_PER_NODE_MAX, "--gpus-per-node"))


def _cluster_name(text: str) -> object:
    from penstock.config.kinds import CLUSTER_NAME

    return CLUSTER_NAME.read(text, "--name")


_NAME = Converted("name", _cluster_name)


@click.command(
    "up",
    cls=CommandLine,
    help="Starts a cluster of your own in $PENSTOCK_HOME (~/.penstock), or its daemons that do not run.",
    examples=(
        ("penstock up", "one node, of the size of this machine"),
        ("penstock up --web", "with the web interface, and a link that logs you in"),
        ("penstock up --nodes 2 --cpus-per-node 4 --gpus-per-node 2:h200", "two nodes of pretended sizes"),
    ),
)
@documents
@click.option("--nodes", metavar="N", type=_number(NODES_MAX, "--nodes"), help="Node daemons to run (1).")
@click.option(
    "--cpus-per-node",
    metavar="N",
    type=_number(CPUS_PER_NODE_MAX, "--cpus-per-node"),
    help="Pretend that each node has N CPUs.",
)
@click.option(
    "--gpus-per-node",
    metavar="N[:TYPE]",
    type=_GPUS,
    help="Pretend that each node has N GPUs (of a TYPE like h200, with its memory).",
)
@click.option("--name", metavar="NAME", type=_NAME, help="Name of the cluster (local).")
@click.option("--rest", is_flag=True, help="Also a REST daemon, on a Unix socket in the folder.")
@click.option(
    "--web", is_flag=True, help="Also the web interface, on a port of this machine only; prints a login link."
)
@click.option(
    "--accept-loss", is_flag=True, help="Start although the database is older than acknowledged data (a backup)."
)
def up_command(
    nodes: int | None,
    cpus_per_node: int | None,
    gpus_per_node: tuple[int, str] | None,
    name: str | None,
    rest: bool,
    web: bool,
    accept_loss: bool,
    language: str,
) -> int:
    """Start what is missing."""
    options = LocalClusterOptions(nodes, cpus_per_node, gpus_per_node, name)
    home = home_folder()
    prepare(home)
    with _progress(language), locked(home):
        cluster = LocalCluster.load(home)
        if cluster and (other := other_than(options, cluster.nodes, cluster.file.cluster_name)):
            raise CommandError(
                f"{other}\nto change it: `penstock down --purge` (which removes all records of jobs), then `penstock up` again"
            )
        cluster = cluster or LocalCluster.create(home, options)
        if note := ignored_token(cluster.file.cluster_name):
            warn("penstock up", note)
        started = cluster.start_missing(accept_loss, rest, web)
        link = _login_link(cluster) if web else ""
    if language:
        return write(state_of(home, cluster) | {"started": started} | ({"login_link": link} if link else {}), language)
    _report_up(home, cluster, started)
    if link:
        say(f"web interface, once and within 5 minutes: {link}")
    return 0


def _login_link(cluster: LocalCluster) -> str:
    from cli.subcommands.weblink import login_link

    with cluster.client() as client:
        return login_link(client, cluster.rest_socket, cluster.web_port, cluster.home / "slurm.conf")


def _progress(language: str) -> contextlib.AbstractContextManager[object]:
    """The receiver of progress messages: none for a document."""
    return contextlib.redirect_stdout(sys.stderr) if language else contextlib.nullcontext()


def _report_up(home: Path, cluster: LocalCluster, started: list[str]) -> None:
    size = cluster.nodes[0]
    names = size.name if len(cluster.nodes) == 1 else f"{size.name} to {cluster.nodes[-1].name}"
    pretended = " (pretended sizes)" if size.pretended else ""
    say(
        f"cluster {cluster.file.cluster_name} is up: started {', '.join(started)}"
        if started
        else f"cluster {cluster.file.cluster_name} is up already"
    )
    say(f"  controller  pid {cluster.processes[CTLD].pid}, {cluster.file.address}")
    memory = f"{size.memory_mb} MB"
    gpu_word = f"{size.gpu_type} GPU".strip()
    each = " each" if len(cluster.nodes) > 1 else ""
    say(f"  nodes       {names}: {count(size.cpus, 'CPU')}, {memory}, {count(size.gpus, gpu_word)}{each}{pretended}")
    if cluster.runs(RESTD):
        say(
            f"  REST        curl --unix-socket {shlex.quote(str(cluster.rest_socket))} http://localhost/slurm/v0.0.46/ping"
        )
    say(f"  folder      {home} (slurm.conf, log/)")
    if (explicit := os.environ.get("PENSTOCK_CLUSTER")) and explicit != str(home / "cluster.json"):
        say(f"note: PENSTOCK_CLUSTER is set, so the commands talk to the cluster of {explicit}")
    if path := how_to_call():
        say(f"your shell does not find the commands yet: {path}")
    say("try: sbatch --wrap hostname; squeue; sacct. `penstock down` stops the cluster.")


@click.command(
    "down",
    cls=CommandLine,
    help="Stops the daemons. Pending jobs and records of jobs stay, unless --purge is given.",
    examples=(
        ("penstock down", "running jobs are asked to end"),
        ("penstock down --keep-jobs", "they continue, and the next `penstock up` takes them over"),
    ),
)
@documents
@click.option("--keep-jobs", is_flag=True, help="Leave running jobs running; the next `penstock up` takes them over.")
@click.option("--purge", is_flag=True, help="Remove the folder with the database, logs and slurm.conf too.")
def down_command(keep_jobs: bool, purge: bool, language: str) -> int:
    """Stop what runs."""
    if keep_jobs and purge:
        raise CommandError("--purge removes what --keep-jobs would need: give one of them")
    home = home_folder()
    stopped: list[str] = []
    killed: list[str] = []
    is_there = LocalCluster.load(home) is not None
    if is_there:
        with _progress(language), locked(home):
            cluster = LocalCluster.load(home)
            if cluster is None:
                return 0
            if not keep_jobs:
                cluster.end_jobs_if_possible()
            stopped = list(cluster.running())
            killed = list(cluster.stop())
            if purge:
                cluster.purge()
    if language:
        found = {"home": str(home), "stopped": stopped, "killed": killed, "purged": purge and is_there}
        return write(found, language)
    if not is_there:
        say(f"no cluster in {home}")
        return 0
    say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    if killed:
        say(f"killed, as they did not stop in {STOP_LIMIT_S:.0f} s: {', '.join(killed)}")
    say(f"removed {home}" if purge else f"all records stay in {home}; `penstock up` starts it again")
    return 0


@click.command(
    "status",
    cls=CommandLine,
    help="Shows which daemons of your own cluster run. Exit status: 0 all of them, 1 not all.",
    examples=(("penstock status", "a table"), ("penstock status --json", "the same for a program")),
)
@documents
@click.option("--verbose", "-v", is_flag=True, help="Also how Python was built; warns of a slow build.")
def status_command(language: str, verbose: bool) -> int:
    """Checks all daemons."""
    home = home_folder()
    found = state_of(home, LocalCluster.load(home))
    build = _interpreter() if verbose else None
    if build:
        found["interpreter"] = build._asdict()
    if language:
        write(found, language)
    elif not found["nodes"]:
        say(f"no cluster in {home}: `penstock up` makes one")
    else:
        rows = [("controller", found["ctld"]["address"], found["ctld"])]
        rows += [(node["name"], node["state"], node) for node in found["nodes"]]
        rows += [("REST", found["rest"]["socket"], found["rest"])] if "rest" in found else []
        for name, what, row in rows:
            say(f"{name:<12}{what:<24}" + (f"running, pid {row['pid']}" if row["running"] else "not running"))
    if build and not language:
        say(f"interpreter {build.text()}")
        if warning := build.warning():
            say(f"warning: {warning}")
    everything = [found["ctld"], *found["nodes"], *([found["rest"]] if "rest" in found else [])]
    return 0 if found["nodes"] and all(row["running"] for row in everything) else 1


def _interpreter() -> "Build":
    from penstock.interpreter import running_build  # what it imports is loaded for this option only

    return running_build()


def up(argv: list[str]) -> int:
    """Run `penstock up ...`; its status."""
    return invoke(up_command, "penstock up", argv)


def down(argv: list[str]) -> int:
    """Run `penstock down ...`; its status."""
    return invoke(down_command, "penstock down", argv)


def status(argv: list[str]) -> int:
    """Run `penstock status ...`; its status."""
    return invoke(status_command, "penstock status", argv)


class DaemonState(TypedDict):
    """A daemon in the document of `penstock status --json`."""

    pid: int | None
    running: bool
    address: NotRequired[str]  # of the controller; of the web interface
    name: NotRequired[str]  # of a node
    state: NotRequired[str]
    socket: NotRequired[str]  # of the REST daemon


class ClusterStatus(TypedDict):
    """The whole document."""

    ctld: DaemonState
    nodes: list[DaemonState]
    rest: NotRequired[DaemonState]  # once it was started
    home: str
    interpreter: NotRequired[dict[str, object]]


def state_of(home: Path, cluster: LocalCluster | None) -> ClusterStatus:
    """The document of `penstock status --json`."""
    if cluster is None:
        return {"ctld": {"pid": None, "address": "", "running": False}, "nodes": [], "home": str(home)}
    states: dict[str, str] = {}
    if cluster.runs(CTLD):
        with contextlib.suppress(PenstockError), cluster.client() as client:
            states = node_states(client)
    running = cluster.running()
    pids = {name: process.pid for name, process in running.items()}
    found: ClusterStatus = {
        "ctld": {"pid": pids.get(CTLD), "address": cluster.file.address, "running": CTLD in running},
        "nodes": [
            {
                "name": n.name,
                "pid": pids.get(n.name),
                "state": states.get(n.name, "UNKNOWN"),
                "running": n.name in running,
            }
            for n in cluster.nodes
        ],
        "home": str(home),
    }
    if RESTD in cluster.processes:
        found["rest"] = {"pid": pids.get(RESTD), "socket": str(cluster.rest_socket), "running": RESTD in running}
        if RESTD in running and cluster.serves_web():
            found["rest"]["address"] = f"http://127.0.0.1:{cluster.web_port}"
    return found
