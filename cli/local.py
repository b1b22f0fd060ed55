"""`penstock up`, `down` and `status`: the commands of a cluster of one's own on this machine, without root.

`up` starts what does not run and is done when the controller answers and every node has registered; a daemon that fails
shows the end of its log. `down` first asks running jobs to end (with --keep-jobs it leaves them to their supervisors, and
the next `up` takes them over), then the daemons. Pending jobs and all records stay. Starting again what died is `up` again;
a whole site uses systemd (packaging/).
"""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.localcluster import CTLD, STOP_LIMIT_S, LocalCluster, count, how_to_call, locked, node_states, say
from cli.localconf import (
    CLUSTER_NAME,
    CPUS_PER_NODE_MAX,
    GPUS_PER_NODE_MAX,
    NODES_MAX,
    Wish,
    home_folder,
    other_than,
    prepare,
)
from cli.options import YES, Command, Option, parse
from cli.run import CommandError
from penstock.errors import PenstockError
from penstock.values.numbers import parse_int
from penstock.values.pretend import parse_gpus


def _number(low: int, high: int, what: str) -> Callable[[str], int]:
    return lambda text: parse_int(text, low, high, what)


UP = Command(
    "penstock up",
    "[OPTIONS]",
    (
        Option(
            "nodes", value=YES, metavar="N", convert=_number(1, NODES_MAX, "--nodes"), help="node daemons to run (1)"
        ),
        Option(
            "cpus-per-node",
            value=YES,
            metavar="N",
            convert=_number(1, CPUS_PER_NODE_MAX, "--cpus-per-node"),
            help="pretend that each node has N CPUs",
        ),
        Option(
            "gpus-per-node",
            value=YES,
            metavar="N[:TYPE]",
            convert=lambda text: parse_gpus(text, GPUS_PER_NODE_MAX, "--gpus-per-node"),
            help="pretend that each node has N GPUs (of a TYPE like h200, with its memory)",
        ),
    ),
    footer="Starts a cluster of your own in $PENSTOCK_HOME (~/.penstock), or what does not run of it.",
)
DOWN = Command(
    "penstock down",
    "[OPTIONS]",
    (
        Option("keep-jobs", help="let running jobs run on; the next `penstock up` takes them over"),
        Option("purge", help="remove the folder with the database, logs and slurm.conf too"),
    ),
    footer="Stops the daemons. Pending jobs and records of jobs stay, unless --purge is given.",
)
STATUS = Command("penstock status", "[OPTIONS]", (Option("json", help="print one JSON object"),))


def read_line(command: Command, argv: list[str]) -> dict[str, Any]:
    """The options that were given; these commands take nothing else."""
    parsed = parse(command, argv)
    if parsed.positional:
        raise CommandError(f'{command.name} takes no {parsed.positional[0]!r}\nTry "{command.name} --help"')
    return parsed.values


def up(argv: list[str]) -> int:
    """`penstock up`."""
    given = read_line(UP, argv)
    wish = Wish(given.get("nodes"), given.get("cpus_per_node"), given.get("gpus_per_node"))
    home = home_folder()
    prepare(home)
    with locked(home):
        cluster = LocalCluster.load(home)
        if cluster and (other := other_than(wish, cluster.nodes)):
            raise CommandError(
                f"{other}\nto change it: `penstock down --purge` (which removes all records of jobs), then `penstock up` again"
            )
        cluster = cluster or LocalCluster.create(home, wish)
        started = cluster.start_missing()
    size = cluster.nodes[0]
    names = size.name if len(cluster.nodes) == 1 else f"{size.name} to {cluster.nodes[-1].name}"
    pretended = " (pretended sizes)" if size.pretended else ""
    say(
        f"cluster {CLUSTER_NAME} is up: started {', '.join(started)}"
        if started
        else f"cluster {CLUSTER_NAME} is up already"
    )
    say(f"  controller  pid {cluster.processes[CTLD].pid}, {cluster.file.address}")
    memory = f"{size.memory_mb} MB"
    gpu_word = f"{size.gpu_type} GPU".strip()
    each = " each" if len(cluster.nodes) > 1 else ""
    say(f"  nodes       {names}: {count(size.cpus, 'CPU')}, {memory}, {count(size.gpus, gpu_word)}{each}{pretended}")
    say(f"  folder      {home} (slurm.conf, log/)")
    if (explicit := os.environ.get("PENSTOCK_CLUSTER")) and explicit != str(home / "cluster.json"):
        say(f"note: PENSTOCK_CLUSTER is set, so the commands talk to the cluster of {explicit}")
    if path := how_to_call():
        say(f"your shell does not find the commands yet: {path}")
    say("try: sbatch --wrap hostname; squeue; sacct. `penstock down` stops the cluster.")
    return 0


def down(argv: list[str]) -> int:
    """`penstock down`."""
    given = read_line(DOWN, argv)
    keep, purge = "keep_jobs" in given, "purge" in given
    if keep and purge:
        raise CommandError("--purge removes what --keep-jobs would need: give one of them")
    home = home_folder()
    if LocalCluster.load(home) is None:
        say(f"no cluster in {home}")
        return 0
    with locked(home):
        cluster = LocalCluster.load(home)
        if cluster is None:
            return 0
        if not keep:
            cluster.end_jobs_if_possible()
        stopped = list(cluster.running())
        killed = cluster.stop()
        if purge:
            cluster.purge()
    say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    if killed:
        say(f"killed, as they did not stop in {STOP_LIMIT_S:.0f} s: {', '.join(killed)}")
    say(f"removed {home}" if purge else f"all records stay in {home}; `penstock up` starts it again")
    return 0


def status(argv: list[str]) -> int:
    """`penstock status`."""
    as_json = "json" in read_line(STATUS, argv)
    home = home_folder()
    found = state_of(home, LocalCluster.load(home))
    if as_json:
        say(json.dumps(found))
    elif not found["nodes"]:
        say(f"no cluster in {home}: `penstock up` makes one")
    else:
        rows = [("controller", found["ctld"]["address"], found["ctld"])]
        rows += [(node["name"], node["state"], node) for node in found["nodes"]]
        for name, what, row in rows:
            say(f"{name:<12}{what:<24}" + (f"running, pid {row['pid']}" if row["running"] else "not running"))
    everything = [found["ctld"], *found["nodes"]]
    return 0 if found["nodes"] and all(row["running"] for row in everything) else 1


def state_of(home: Path, cluster: LocalCluster | None) -> dict[str, Any]:
    """What `penstock status --json` prints."""
    if cluster is None:
        return {"ctld": {"pid": None, "address": "", "running": False}, "nodes": [], "home": str(home)}
    states: dict[str, str] = {}
    if cluster.runs(CTLD):
        with contextlib.suppress(PenstockError), cluster.client() as client:
            states = node_states(client)
    running = cluster.running()
    pids = {name: process.pid for name, process in running.items()}
    return {
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
