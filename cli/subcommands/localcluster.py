"""A private cluster on this machine: its folder and the daemons that run on it.

`cli/subcommands/local.py` has the commands.

Everything is in one folder that only its owner can enter: slurm.conf, keys, database, spools, logs and `cluster.json`,
by which the commands find the cluster. `local` in that file belongs to this module: the nodes, and each daemon's pid
with its start time. A lock on the folder allows one `up` or `down` at a time.
"""

import contextlib
import fcntl
import os
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

# Any: members of a document of JSON
from typing import Any

from cli.base.daemons import DetachedProcess, is_running, pause, start, stop, tail
from cli.base.run import CommandError
from cli.base.users import login_of
from cli.subcommands.localconf import (
    CLUSTER_NAME,
    ENTRIES,
    LocalClusterOptions,
    LocalNode,
    conf_text,
    free_ports,
    gpus_text,
    machine_now,
    plan_nodes,
    prepare,
)
from penstock.calls import USER_TOKEN_VARIABLE, own_proof
from penstock.client import Client
from penstock.clusterfile import ClusterFile, read_cluster, write_cluster
from penstock.errors import PenstockError, Unreachable

#: A cold start of Python, gRPC and the database takes 2 s; 20 times that on a loaded machine.
START_LIMIT_S = 40.0
#: The controller commits pending work and exits; the node daemon does not wait for its jobs.
STOP_LIMIT_S = 15.0
#: KillWait of the cluster's slurm.conf (30 s) plus time for the last reports.
JOBS_END_LIMIT_S = 45.0
POLL_S = 0.05
CALL_LIMIT_S = 5.0
CTLD = "ctld"
RESTD = "restd"
LOG_FOLLOWS = "the end of"
OF_A_JOB = ("SLURM", "SBATCH", "SALLOC")
OF_A_CLUSTER = ("PENSTOCK_HOME", "PENSTOCK_CLUSTER")
#: Which other commands see, and this cluster may not accept.
TOKEN_IGNORED = (
    f"{USER_TOKEN_VARIABLE} is set: it is not used here, but other commands authenticate by it; unset it to be yourself"
)
HOLDING = ("CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED")


def say(text: str) -> None:
    """Prints a line for the user."""
    print(text, flush=True)  # noqa: T201


class LocalCluster:
    """The cluster in one folder: its nodes and its daemons."""

    def __init__(self, file: ClusterFile) -> None:
        self.file = file
        self.home = Path(str(file.local["home"]))
        local: dict[str, Any] = dict(file.local)
        self.node_port = int(local["node_port"])
        self.nodes = [LocalNode(*fields) for fields in local["nodes"]]
        self.processes = {name: DetachedProcess(*fields) for name, fields in local["processes"].items()}
        self.closed_partitions: list[str] = local["closed_partitions"]
        self.web_port = int(local.get("web_port", 0))  # 0: it never had the web interface

    @classmethod
    def load(cls, home: Path) -> "LocalCluster | None":
        """The cluster of this folder, if there is one."""
        path = home / "cluster.json"
        try:
            return cls(read_cluster(path))
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise CommandError(f"{path}: was not written by this version of `penstock up`: {error!r}") from error

    @classmethod
    def create(cls, home: Path, options: LocalClusterOptions) -> "LocalCluster":
        """Write a new cluster's files. Nothing is started."""
        from penstock.security.ca import create_ca, issue_to_folder

        prepare(home)
        nodes, name = plan_nodes(options, machine_now()), options.name or CLUSTER_NAME
        command_port, node_port, metrics_port = free_ports(3)
        for folder in (CTLD, "noded", "certs", "log"):
            (home / folder).mkdir(mode=0o700, exist_ok=True)
        (home / CTLD).chmod(0o711)
        conf = home / "slurm.conf"
        conf.write_text(
            conf_text(home, login_of(str(os.geteuid())), (command_port, node_port, metrics_port), nodes, name),
            encoding="utf-8",
        )
        ca = home / CTLD / "ca"
        if not (ca / "ca.key").exists():
            authority = create_ca(ca, name, now_us())
            issue_to_folder(authority, ca, "controller", "localhost", now_us(), ("localhost", "127.0.0.1", "::1"))
        file = ClusterFile(
            cluster_name=name,
            host="localhost",
            socket=str(home / CTLD / "ctld.sock"),
            call_socket=str(home / CTLD / "calls.sock"),
            auth_socket=str(home / CTLD / "auth.sock"),
            address=f"127.0.0.1:{command_port}",
            ca=str(ca / "ca.pem"),
            local={
                "home": str(home),
                "node_port": node_port,
                "nodes": [list(n) for n in nodes],
                "processes": {},
                "closed_partitions": [],
            },
        )
        cluster = cls(file)
        cluster.save()
        return cluster

    def save(self) -> None:
        """Saves the state of the daemons."""
        local = dict(self.file.local) | {
            "processes": {name: [p.pid, p.start_ticks, p.mark] for name, p in self.processes.items()},
            "closed_partitions": self.closed_partitions,
            "web_port": self.web_port,
        }
        write_cluster(self.home / "cluster.json", self.file._replace(local=local))

    def client(self) -> Client:
        """A connection to this cluster's controller, whatever the environment says, and without hints to its owner."""
        return Client.open(CALL_LIMIT_S, cluster=self.file._replace(local={}), by_token=False)

    def log(self, name: str) -> Path:
        """The log of a daemon."""
        return self.home / "log" / f"{name}.log"

    def runs(self, name: str) -> bool:
        """Whether that daemon runs."""
        return name in self.processes and is_running(self.processes[name])

    def running(self) -> dict[str, DetachedProcess]:
        """The daemons that run."""
        return {name: process for name, process in self.processes.items() if is_running(process)}

    def launch(self, name: str, words: list[str], mark: Path) -> None:
        """Start one daemon and remember it."""
        self.processes[name] = start(words, str(mark), self.log(name), environment())
        self.save()

    def start_controller(self, accept_loss: bool = False) -> None:
        """Start the controller; it is not up yet when this returns."""
        conf = self.home / "slurm.conf"
        self.file = self.file._replace(cli_filters=_filters(conf))
        more = ("--accept-loss",) if accept_loss else ()
        self.launch(CTLD, program(CTLD, "--config", str(conf), "--foreground", *more), conf)

    def start_node(self, node: LocalNode) -> None:
        """Start one node daemon, with a new certificate (valid for 90 days, longer than any such daemon runs)."""
        from penstock.security.ca import issue_to_folder, load_ca

        certificates, spool = self.home / "certs" / node.name, self.home / "noded" / node.name
        issue_to_folder(load_ca(self.home / CTLD / "ca"), certificates, "node", node.name, now_us())
        words = ["--node-name", node.name, "--controller", f"127.0.0.1:{self.node_port}"]
        words += [
            "--cert-dir",
            str(certificates),
            "--spool",
            str(spool),
            "--cluster-file",
            str(self.home / "cluster.json"),
            "--metrics-port",
            "0",  # any free one: the nodes share a machine
            "--stream-port",
            "0",
            "--stream-bind",
            "127.0.0.1",
        ]
        if node.pretended:
            words += [
                "--cpus",
                str(node.cpus),
                "--real-memory",
                str(node.memory_mb),
                "--gpus",
                gpus_text(node.gpus, node.gpu_type),
            ]
        self.launch(node.name, program("noded", *words), spool)

    @property
    def rest_socket(self) -> Path:
        """Where the REST daemon listens."""
        return self.home / "restd.sock"

    def start_rest(self, web: bool) -> None:
        """Starts the REST daemon, with the web interface if so asked. It runs as the user, for the user."""
        conf = self.home / "slurm.conf"
        words = ["--allow-privileged", "--listen", f"unix:{self.rest_socket}", "--config", str(conf)]
        if web:
            if not self.web_port or self.serves_web():  # by another program, since this daemon does not run
                (self.web_port,) = free_ports(1)
            words += ["--web", "--listen", f"127.0.0.1:{self.web_port}", "--sessions-listen", "127.0.0.1:0"]
        self.launch(RESTD, program(RESTD, *words), conf)

    def serves_web(self) -> bool:
        """Whether something listens where the web interface is."""
        with socket.socket() as wire:
            return self.web_port > 0 and wire.connect_ex(("127.0.0.1", self.web_port)) == 0

    def rest_missing(self, client: Client) -> list[str]:
        """Whether the REST daemon listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            try:
                wire.connect(str(self.rest_socket))
            except OSError as error:
                return [f"{RESTD} ({error.strerror})"]
        return []

    def start_missing(self, accept_loss: bool = False, rest: bool = False, web: bool = False) -> list[str]:
        """Starts the daemons that do not run and waits until they answer. On failure, stops those that it has
        started.

        One that was about to end when this began (it was killed a moment ago) is started as well, each daemon once.
        """
        started: list[str] = []
        starts = {CTLD: partial(self.start_controller, accept_loss)}
        starts |= {node.name: partial(self.start_node, node) for node in self.nodes}
        starts |= {RESTD: partial(self.start_rest, web)} if rest or web else {}

        def ensure(name: str) -> None:
            if self.runs(name):
                return
            if name in started or name not in starts:
                raise CommandError(self.failure(name, "ended"))
            started.append(name)
            starts[name]()

        self.processes = self.running()
        try:
            ensure(CTLD)
            self.wait("the controller", controller_missing, ensure)
            for node in self.nodes:
                ensure(node.name)
            self.wait("the nodes", self.nodes_missing, ensure)
            self.reopen_partitions()
            if web and RESTD not in started and self.runs(RESTD) and not self.serves_web():
                stop([self.processes.pop(RESTD)], STOP_LIMIT_S)
            if rest or web:
                ensure(RESTD)
                self.wait("the REST daemon", self.rest_missing, ensure)
        except BaseException:
            stop([self.processes[n] for n in started if n in self.processes], STOP_LIMIT_S)
            raise
        return started

    def wait(self, what: str, missing: Callable[[Client], list[str]], ensure: Callable[[str], None]) -> None:
        """Polls until nothing is missing. `ensure` is called for each daemon and raises for one that has died."""
        deadline = time.monotonic() + START_LIMIT_S
        with self.client() as client:
            while True:
                try:
                    lacking = missing(client)
                except Unreachable as error:
                    lacking = [error.detail or error.text]
                if not lacking:
                    return
                for name in tuple(self.processes):
                    ensure(name)
                if time.monotonic() > deadline:
                    name = lacking[0].split()[0] if lacking[0].split()[0] in self.processes else CTLD
                    text = f"waited {START_LIMIT_S:.0f} s for {what}, still missing: {', '.join(lacking)}"
                    raise CommandError(f"{text}\n{self.failure(name, 'is not ready')}")
                pause(self.processes.values(), POLL_S)

    def failure(self, name: str, what: str) -> str:
        """The error with the end of a failed daemon's log."""
        return "\n".join([f"{name} {what}; {LOG_FOLLOWS} {self.log(name)}:", *tail(self.log(name))])

    def nodes_missing(self, client: Client) -> list[str]:
        """The nodes that have not registered yet, with their states at the controller."""
        states = node_states(client)
        return [
            f"{n.name} ({states.get(n.name, 'unknown')})"
            for n in self.nodes
            if not has_registered(states.get(n.name, ""))
        ]

    def reopen_partitions(self) -> None:
        """Reopens the partitions that `down` has closed."""
        if self.closed_partitions:
            with self.client() as client:
                for name in self.closed_partitions:
                    set_partition(client, name, "UP")
            self.closed_partitions = []
            self.save()

    def end_jobs(self) -> None:
        """Closes the partitions, cancels running jobs, waits until they have ended."""
        from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter, ListPartitionsRequest

        deadline = time.monotonic() + JOBS_END_LIMIT_S
        with self.client() as client:
            for partition in client.call("ListPartitions", ListPartitionsRequest()).partitions:
                if partition.state == "UP":
                    set_partition(client, partition.name, "DOWN")
                    self.closed_partitions.append(partition.name)
            self.save()
            holding = holding_jobs(client)
            if holding:
                say(f"asking {count(holding, 'job')} to end")
                client.call("CancelJobs", CancelJobsRequest(filter=JobFilter(states=HOLDING)))
            while holding and time.monotonic() < deadline:
                pause(self.running().values(), POLL_S)
                holding = holding_jobs(client)
        if holding:
            say(f"{count(holding, 'job')} did not end in {JOBS_END_LIMIT_S:.0f} s; left to the node daemons")

    def end_jobs_if_possible(self) -> None:
        """Ends running jobs if the controller answers."""
        if not self.running():
            return
        try:
            self.end_jobs()
        except PenstockError as error:
            say(f"running jobs are not ended, since the controller does not answer: {error.text}")

    def stop(self) -> list[str]:
        """Stop all daemons, nodes first so that they can send their last reports. Returns those that had to be
        killed."""
        running = self.running()
        controller = [p for name, p in running.items() if name == CTLD]
        killed = stop([p for name, p in running.items() if name != CTLD], STOP_LIMIT_S)
        killed += stop(controller, STOP_LIMIT_S)
        self.processes = {}
        self.save()
        return [name for name, process in running.items() if process in killed]

    def purge(self) -> None:
        """Remove the folder with everything in it that `up` and the daemons have made."""
        for name in ENTRIES:
            path = self.home / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it has files of the user: the folder stays
            self.home.rmdir()


def now_us() -> int:
    """The time, for certificates."""
    return time.time_ns() // 1000


def program(name: str, *words: str) -> list[str]:
    """The command line of a daemon: this Python, and never a module from the current folder (-P)."""
    return [sys.executable, "-P", "-m", "cli.penstock", name, *words]


def environment() -> dict[str, str]:
    """The environment of daemons and of the jobs' launchers, without variables of a job or of another cluster."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OF_A_JOB) and k not in OF_A_CLUSTER}
    if "PYTHONPATH" in kept:  # they run in another folder
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in kept["PYTHONPATH"].split(os.pathsep) if p)
    return kept


def controller_missing(client: Client) -> list[str]:
    """What is missing until the controller answers; "" when it does."""
    from penstock.v1.controller_pb2 import PingRequest

    client.call("Ping", PingRequest())
    return []


def node_states(client: Client) -> dict[str, str]:
    """Node name -> state with its flags, as `IDLE+DRAIN`."""
    from penstock.v1.controller_pb2 import ListNodesRequest

    reply = client.call("ListNodes", ListNodesRequest())
    return {n.name: "+".join([n.base_state, *n.flags]) for n in reply.nodes}


def has_registered(state: str) -> bool:
    """Whether a node in that state is in contact with the controller."""
    words = set(state.split("+"))
    return bool(state) and not words & {"UNKNOWN", "DOWN", "NO_RESPOND"}


def holding_jobs(client: Client) -> int:
    """The number of jobs that hold resources."""
    from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest

    request = ListJobsRequest(filter=JobFilter(states=HOLDING))
    return sum(len(page.jobs) for page in client.stream("ListJobs", request))


def set_partition(client: Client, name: str, state: str) -> None:
    """Open or close a partition."""
    from penstock.v1.controller_pb2 import UpdatePartitionRequest

    client.call("UpdatePartition", UpdatePartitionRequest(name=name, changes={"state": state}))


def how_to_call() -> str:
    """The shell line to type before the commands, "" when the shell finds them already."""
    ours = os.path.dirname(sys.executable)
    found = shutil.which("sbatch")
    if found and os.path.realpath(os.path.dirname(found)) == os.path.realpath(ours):
        return ""
    return f"export PATH={shlex.quote(ours)}:$PATH"


def ignored_token(cluster_name: str) -> str:
    """A note for the owner whose SLURM_JWT other commands would send to this cluster, "" when there is none."""
    try:
        is_sent = own_proof(os.environ, cluster_name) is not None
    except PenstockError:
        is_sent = True  # and refused before it is sent
    return TOKEN_IGNORED if is_sent else ""


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Holds the lock of this folder, so that only one `up` or `down` runs."""
    with open(home / "lock", "a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another `penstock up` or `down` on {home}")
            fcntl.flock(lock, fcntl.LOCK_EX)  # that process has deadlines, so the wait ends
        yield


def _filters(conf: Path) -> tuple[str, ...]:
    """Returns the filters of options that the cluster's slurm.conf names."""
    from penstock.config import ConfigError, load
    from penstock.config.filterfiles import cli_filters

    try:
        return cli_filters(load(str(conf)).config, str(conf.parent))
    except ConfigError:
        return ()  # the controller, which starts next, says what is wrong
