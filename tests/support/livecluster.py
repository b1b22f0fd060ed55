"""A cluster of real processes for tests: one controller, node daemons, SQLite, the cluster's own CA, free ports.

    with LiveCluster(nodes=2) as cluster:
        job = cluster.sbatch("--wrap", "true")
        cluster.wait_state(job, "COMPLETED")

Rules
    - Everything is in one folder of its own under the system's temporary folder: socket paths are short there, and
      other users can enter it. It is removed at the end.
    - Commands are run as a user runs them: as processes, with an environment for this cluster only.
    - No sleep as synchronisation: `wait` polls a condition, and fails with the last state.
    - Only processes that were started here are ended, each through its own handle.
    - A failed test shows the end of every daemon's log (`logs`, called by the conftest of tests/e2e).

`ClusterConf` has the content of slurm.conf; KillWait is short, since tests wait for it.
"""

import contextlib
import getpass
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from select import PIPE_BUF
from typing import Any, Self, TypeVar

from migrated import lay_database
from patience import ANSWER_S, END_S, START_S
from warmprocess import CONSTANTS
from warmstart import Child, run_command, start_daemon

from penstock.client import Client
from penstock.clusterfile import ClusterFile, write_cluster
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import accounting_pb2 as a
from penstock.v1 import controller_pb2 as c
from penstock.values.jobid import BATCH_STEP

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
#: Poll intervals: they grow with the waiting time, since polls take CPU time from the cluster.
POLL_S, POLL_MAX_S, POLL_PART = 0.02, 0.25, 0.15
#: What `make build` installs.
LAUNCHERS = ROOT / ".venv/bin"
LOG_TAIL_BYTES = 6000
CTLD = "ctld"
ENDED = frozenset(
    ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE")
)
#: Below the range from which the kernel takes ports for outgoing connections, and apart from those of `penstock up`.
PORTS = range(13000, 20000)
_ports_given = itertools.count(secrets.randbelow(len(PORTS)))


@dataclass(frozen=True)
class ClusterConf:
    """The content of slurm.conf beyond names and addresses."""

    name: str = "e2e"
    cpus: int = 16
    memory_mb: int = 16000
    gpus: int = 0
    gpu_type: str = "h200"
    found_gpus: int = 0  # GPUs of each node that are not pretended: its daemon finds them
    kill_wait_s: int = 1
    more: tuple[str, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)  # node -> comma list
    own_tokens: bool = False  # node daemons give their jobs tokens and a cluster file, as on machines of their own
    constants: Mapping[str, object] = field(default_factory=dict)  # of the controller: "MODULE:NAME" -> value
    partitions: tuple[str, ...] = ("PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",)


@dataclass
class Done:
    """The result of a command. Output as bytes; `out` and `err` as text."""

    words: list[str]
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Output as text."""
        return self.stdout.decode("utf-8", "surrogateescape")

    @property
    def err(self) -> str:
        """Error output as text."""
        return self.stderr.decode("utf-8", "surrogateescape")

    def ok(self) -> Self:
        """Asserts that the command succeeded without error output."""
        assert self.status == 0 and self.stderr == b"", f"{self}"
        return self

    def __str__(self) -> str:
        return f"$ {' '.join(self.words)}\nstatus {self.status}\nstdout: {self.out}\nstderr: {self.err}"


@dataclass
class Daemon:
    """One process of the cluster."""

    name: str
    process: subprocess.Popen[bytes] | Child
    log: Path
    begun_us: int  # no later than its start

    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None


@dataclass
class LogLine:
    """One run of a job as logged by the job itself: see LOGGING_SCRIPT."""

    job_id: int
    task_id: str
    attempt: int
    node: str
    start_ns: int
    end_ns: int


#: Nodes are missed after 6 s and not after 15: heartbeats come every 2 s, and so a lease may be shorter.
QUICK_BEATS: Mapping[str, object] = {"ctld.agents.registry:HEARTBEAT_MS": 2000, "penstock.config.kinds:LEASE_S_MIN": 8}
#: The job writes what it is when it ends, and before that that it has begun: one write(2) to a file opened O_APPEND.
LOGGING_SCRIPT = b"""#!/bin/sh
start=$(date +%s%N)
echo "begin $SLURM_JOB_ID ${SLURM_ARRAY_TASK_ID:--} ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME $start -" >>"$1"
while [ -n "$2" ] && [ ! -e "$2" ]; do sleep 0.05; done
echo "end $SLURM_JOB_ID ${SLURM_ARRAY_TASK_ID:--} ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME $start $(date +%s%N)" >>"$1"
"""


def read_log(path: Path) -> tuple[list[LogLine], list[LogLine]]:
    """All starts and ends that jobs have logged."""
    lines: dict[str, list[LogLine]] = {"begin": [], "end": []}
    for text in path.read_text().splitlines() if path.exists() else []:
        kind, job, task, attempt, node, start, end = text.split()
        lines[kind].append(LogLine(int(job), task, int(attempt), node, int(start), int(end) if end != "-" else 0))
    return lines["begin"], lines["end"]


class LiveCluster:
    """One cluster. As a context manager it is started, and at the end stopped and removed."""

    def __init__(self, nodes: int = 2, conf: ClusterConf | None = None) -> None:
        self.conf = conf or ClusterConf()
        self.node_names = [f"n{i}" for i in range(1, nodes + 1)]
        self.home = Path(tempfile.mkdtemp(prefix="pstk-"))
        self.home.chmod(0o755)
        self.work = self.home / "jobs"  # working directory of commands and outputs
        self.work.mkdir()
        self.work.chmod(0o777)  # other users submit from here, too
        self.command_port, self.node_port = free_ports(2)
        self.slurm_conf = self.home / "slurm.conf"
        self.cluster_file = self.home / "cluster.json"
        self.boot_ids: dict[str, str] = {}
        self.ways: dict[str, int] = {}  # node -> port of a proxy through which it reaches the controller
        self.places: dict[str, tuple[str, list[str]]] = {}  # node -> controller's address there, command to get there
        self.daemons: dict[str, Daemon] = {}
        self.call_limit_s = ANSWER_S  # how long `call` tries; shorter where a test expects the controller to die
        self._client: Client | None = None
        self._write_files()

    # ---- files -----------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        from penstock.security.ca import create_ca, issue_to_folder

        for name in (CTLD, "noded", "certs", "log"):
            (self.home / name).mkdir(mode=0o700)
        state = self.home / CTLD
        state.chmod(0o711)
        (self.home / "noded").chmod(0o711)  # users execute their scripts below it
        self.slurm_conf.write_text(self.conf_text())
        lay_database(state / "penstock.db")
        now_us = time.time_ns() // 1000
        authority = create_ca(state / "ca", self.conf.name, now_us)
        issue_to_folder(authority, state / "ca", "controller", "localhost", now_us, ("localhost", "127.0.0.1"))
        for name in self.node_names:
            issue_to_folder(authority, self.home / "certs" / name, "node", name, now_us)
        shutil.copy(state / "ca" / "ca.pem", self.home / "ca.pem")
        self.file = ClusterFile(
            cluster_name=self.conf.name,
            host="localhost",
            socket=str(state / "ctld.sock"),
            call_socket=str(state / "calls.sock"),
            auth_socket=str(state / "auth.sock"),
            address=f"127.0.0.1:{self.command_port}",
            ca=str(self.home / "ca.pem"),
        )
        write_cluster(self.cluster_file, self.file)

    def conf_text(self, *more: str) -> str:
        """slurm.conf; `more` lines come last."""
        conf = self.conf
        gres = f" Gres=gpu:{conf.gpu_type}:{conf.gpus}" if conf.gpus else ""
        gres = f" Gres=gpu:{conf.found_gpus}" if conf.found_gpus else gres
        size = f"CPUs={conf.cpus} RealMemory={conf.memory_mb}{gres}"
        features = {name: f" Feature={words}" for name, words in conf.features.items()}
        return "\n".join(
            [
                f"ClusterName={conf.name}",
                "SlurmctldHost=localhost(127.0.0.1)",
                f"SlurmctldPort={self.command_port}",
                f"PenstockNodePort={self.node_port}",
                f"SlurmUser={getpass.getuser()}",
                f'StateSaveLocation="{self.home / CTLD}"',
                f'SlurmdSpoolDir="{self.home / "noded"}"',
                f"KillWait={conf.kill_wait_s}",
                "ReturnToService=2",
                "SelectType=select/cons_tres",
                "SelectTypeParameters=CR_Core_Memory",
                "DefMemPerCPU=10",
                "GresTypes=gpu",
                *conf.more,
                *(
                    f"NodeName={name} NodeAddr=127.0.0.1 {size}{features.get(name, '')} State=UNKNOWN"
                    for name in self.node_names
                ),
                *conf.partitions,
                *more,
                "",
            ]
        )

    # ---- daemons ---------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start all and wait until all nodes have registered."""
        try:
            self.start_controller()
            for name in self.node_names:
                self.start_node(name)
            self.wait_nodes()
        except BaseException:
            print(self.logs())
            self.close()
            raise
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self, **more: str) -> dict[str, str]:
        """What every process gets: a small environment that names this cluster."""
        own = os.environ.get("PYTHONPATH", "")  # the library path of this process
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.work),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(os.path.isabs, own.split(os.pathsep))]),
            "PYTHONFAULTHANDLER": "1",
            "PENSTOCK_CLUSTER": str(self.cluster_file),
            "PENSTOCK_COMMAND_SERVER_IDLE_S": "60",
            **more,
        }

    def launch(self, name: str, words: list[str], env: Mapping[str, str], prefix: Iterable[str] = ()) -> Daemon:
        """Start `penstock` with these words as the daemon of that name; `prefix`: a command that runs it somewhere else."""
        old = self.daemons.get(name)
        assert old is None or not old.runs(), f"{name} runs already"
        log, environment = self.home / "log" / f"{name}.log", self.environment(**env)
        begun_us = time.time_ns() // 1000
        with open(log, "ab") as output:
            process = start_daemon(words, output, self.home, environment, prefix)
        self.daemons[name] = Daemon(name, process, log, begun_us)
        return self.daemons[name]

    def start_controller(self, *words: str, wait: bool = True, **env: str) -> Daemon:
        """Start the controller and, if asked, wait until it answers."""
        own = {CONSTANTS: json.dumps(dict(self.conf.constants))} if self.conf.constants else {}
        daemon = self.launch(CTLD, ["ctld", "--config", str(self.slurm_conf), "--foreground", *words], {**own, **env})
        if wait:
            self.wait(lambda: self.answers(), "the controller answers", START_S, alive=(daemon,))
        return daemon

    def start_node(self, name: str, **env: str) -> Daemon:
        """Start a node daemon; it has not registered yet when this returns."""
        conf = self.conf
        port = self.ways.get(name, self.node_port)
        address, prefix = self.places.get(name, ("127.0.0.1", []))
        words = ["noded", "--node-name", name, "--controller", f"{address}:{port}"]
        words += ["--cert-dir", str(self.home / "certs" / name), "--spool", str(self.home / "noded" / name)]
        words += ["--cpus", str(conf.cpus), "--real-memory", str(conf.memory_mb)]
        words += ["--gpus", f"{conf.gpus}:{conf.gpu_type}"] if conf.gpus else []
        words += [] if conf.own_tokens else ["--cluster-file", str(self.cluster_file)]
        words += ["--stream-port", "0"]
        if name in self.boot_ids:
            env = {"PENSTOCK_BOOT_ID": self.boot_ids[name], **env}
        return self.launch(name, words, env, prefix)

    def kill(self, *names: str, number: int = signal.SIGKILL) -> None:
        """Send a signal (kill -9) to daemons and reap them."""
        for name in names:
            self.daemons[name].process.send_signal(number)
        for name in names:
            self.daemons[name].process.wait(ANSWER_S)

    def wait_death(self, name: str, limit_s: float = END_S) -> int:
        """Wait until a daemon has ended by itself; its exit status."""
        return self.daemons[name].process.wait(limit_s)

    def close(self) -> None:
        """Stop everything that was started here, nodes first, and remove the folder."""
        self.forget_client()
        with contextlib.suppress(PenstockError, AssertionError, OSError):
            if CTLD in self.daemons and self.daemons[CTLD].runs():
                self.clean()
        nodes = [d for n, d in self.daemons.items() if n != CTLD]
        for group in (nodes, [d for n, d in self.daemons.items() if n == CTLD]):
            stop([d.process for d in group])
        shutil.rmtree(self.home, ignore_errors=True)

    def logs(self) -> str:
        """The end of every daemon's log."""
        parts = []
        for path in sorted((self.home / "log").glob("*.log")):
            data = path.read_bytes()[-LOG_TAIL_BYTES:]
            parts.append(f"---- {path.name}\n{data.decode('utf-8', 'replace')}")
        return "\n".join(parts)

    # ---- waiting ---------------------------------------------------------------------------------------------------

    def wait(
        self,
        condition: Callable[[], T],
        what: str,
        limit_s: float = END_S,
        alive: Iterable[Daemon] = (),
        show: Callable[[], object] | None = None,
    ) -> T:
        """Ask until the answer is true, and return it."""
        began = time.monotonic()
        while True:
            answer = condition()
            if answer:
                return answer
            for daemon in alive:
                assert daemon.runs(), f"{daemon.name} ended while waiting until {what}\n{self.logs()}"
            waited_s = time.monotonic() - began
            if waited_s > limit_s:
                seen = f"; last seen: {show()}" if show else ""
                raise AssertionError(f"waited {limit_s:.0f} s until {what}{seen}")
            time.sleep(min(POLL_MAX_S, max(POLL_S, POLL_PART * waited_s)))

    def answers(self) -> bool:
        """True when the controller answers."""
        try:
            self.call("Ping", c.PingRequest(), timeout_s=10.0)
        except Unreachable:
            return False
        return True

    def wait_nodes(self, *names: str, limit_s: float = START_S) -> None:
        """Wait until these nodes (all of them) are in contact, by their present daemons."""
        wanted = names or self.node_names

        def has_registered(name: str) -> bool:
            node = self.node(name)
            return in_contact(node) and node.noded_start_at_us >= self.daemons[name].begun_us

        self.wait(
            lambda: all(map(has_registered, wanted)),
            f"{', '.join(wanted)} have registered",
            limit_s,
            alive=[self.daemons[n] for n in wanted],
            show=lambda: [(n, self.node(n).base_state, list(self.node(n).flags), self.node(n).reason) for n in wanted],
        )

    def wait_state(self, job_id: int | str, *states: str, limit_s: float = END_S) -> c.JobInfo:
        """Wait until a job is in one of these states; fail at once when it has ended otherwise. For RUNNING alone, also
        until its node has reported that the script has begun."""

        def look() -> c.JobInfo | None:
            job = self.job(job_id)
            assert job.state in states or job.state not in ENDED, f"job {job_id} {shown(job)}, wanted {states}"
            return job if job.state in states else None

        found = self.wait(look, f"job {job_id} is {' or '.join(states)}", limit_s, show=lambda: shown(self.job(job_id)))
        assert found is not None
        if states == ("RUNNING",):
            self.wait(lambda: self.has_begun(job_id), f"the script of job {job_id} has begun", limit_s)
        return found

    def has_begun(self, job_id: int | str) -> bool:
        """Whether the job's script, if it has one, has begun in the present attempt, by its node's report."""
        steps = [step for record in self.records(job_id, duplicates=False) for step in record.steps]
        return all(step.start_at_us for step in steps if step.step_id == BATCH_STEP)

    def wait_ends(self, *job_ids: int | str, limit_s: float = END_S) -> list[c.JobInfo]:
        """Waits until all these jobs have ended, in any state."""
        wanted = [str(i) for i in job_ids]
        self.wait(
            lambda: all(j.state in ENDED for i in wanted for j in self.jobs(i)),
            f"jobs {', '.join(wanted)} have ended",
            limit_s,
            show=lambda: [shown(j) for i in wanted for j in self.jobs(i)],
        )
        return [j for i in wanted for j in self.jobs(i)]

    def wait_text(self, path: Path, text: str, limit_s: float = END_S) -> str:
        """Wait until a file holds a text; returns all of it."""
        return self.wait(
            lambda: content if text in (content := read(path)) else "",
            f"{path.name} holds {text!r}",
            limit_s,
            show=lambda: read(path),
        )

    # ---- asking ----------------------------------------------------------------------------------------------------

    def client(self) -> Client:
        """This process's own connection (for one thread)."""
        if self._client is None:
            self._client = Client.open(self.call_limit_s, cluster=self.file)
        return self._client

    def call(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        """One call; a connection that has seen another controller is not used again after a failure."""
        try:
            return self.client().call(method, request, timeout_s)
        except Unreachable:
            self.forget_client()
            raise

    def limit_now(self, *job_ids: int) -> None:
        """Makes the time limit of running jobs expire in a second. Limits in minutes are at least one minute."""
        ids = [str(job_id) for job_id in job_ids]
        reply = self.call("UpdateJobs", c.UpdateJobsRequest(ids=ids, changes={"endtime": "now+1"}))
        assert not any(result.code for result in reply.results), reply

    def forget_client(self) -> None:
        """Let the next call open a connection of its own."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def jobs(self, *ids: int | str, states: Iterable[str] = ()) -> list[c.JobInfo]:
        """Jobs as the controller has them, in all states unless some are named."""
        wanted = c.JobFilter(ids=[str(i) for i in ids], states=list(states))
        request = c.ListJobsRequest(filter=wanted, all_states=not states, detail=True)
        return [job for page in self.client().stream("ListJobs", request) for job in page.jobs]

    def job(self, job_id: int | str) -> c.JobInfo:
        """One job."""
        found = self.jobs(job_id)
        assert len(found) == 1, f"job {job_id}: {len(found)} records"
        return found[0]

    def node(self, name: str) -> c.NodeInfo:
        """One node."""
        found: c.ListNodesReply = self.call("ListNodes", c.ListNodesRequest(names=[name], gpus=True))
        return found.nodes[0]

    def held_steps(self, name: str) -> list[str]:
        """The steps in a node's spool that are not purged. (Emptied folders are reused for new steps.)"""
        return [p.name for p in (self.home / "noded" / name / "steps").iterdir() if p.name[0].isdigit()]

    def records(self, *ids: int | str, duplicates: bool = True) -> list[a.JobRecord]:
        """The accounting records of these jobs."""
        request = a.ListRecordsRequest(ids=[str(i) for i in ids], duplicates=duplicates)
        return [record for page in self.client().stream("ListRecords", request) for record in page.records]

    def active(self) -> list[c.JobInfo]:
        """Jobs that have not ended."""
        return [j for j in self.jobs(states=("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))]

    def clean(self) -> None:
        """End what a test has left running."""
        if self.active():
            self.call(
                "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(states=["PENDING", "RUNNING", "CONFIGURING"]))
            )
            self.wait(lambda: not self.active(), "no job is left", show=lambda: [shown(j) for j in self.active()])

    # ---- commands --------------------------------------------------------------------------------------------------

    def run(
        self,
        name: str,
        *words: str | bytes,
        stdin: bytes = b"",
        cwd: Path | None = None,
        uid: int | None = None,
        env: Mapping[str, str] | None = None,
        limit_s: float = END_S,
    ) -> Done:
        """Run a command to its end, as another user if asked (root only)."""
        environment, folder = self.environment(**(env or {})), cwd or self.work
        said = [name, *[os.fsdecode(w) for w in words]]
        if uid is None and (name != "penstock" or len(stdin) > PIPE_BUF):
            done = subprocess.run(
                [LAUNCHERS / name, *words] if is_installed(name) else command(name, *words),
                input=stdin,
                capture_output=True,
                cwd=folder,
                env=environment,
                timeout=limit_s,
                check=False,
            )
        else:
            done = run_command(said, stdin, folder, environment, limit_s, uid)
        return Done(said, done.returncode, done.stdout, done.stderr)

    def popen(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            command(name, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.work,
            env=self.environment(**(env or {})),
        )

    def sbatch(self, *words: str | bytes, stdin: bytes = b"", uid: int | None = None, **env: str) -> int:
        """Submit; the job's id."""
        done = self.run("sbatch", "--parsable", *words, stdin=stdin, uid=uid, env=env).ok()
        return int(done.out)

    def script(self, name: str, text: str | bytes) -> Path:
        """Write a batch script into the folder of the jobs."""
        path = self.work / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o755)
        return path


@contextlib.contextmanager
def logs_if_failed(cluster: LiveCluster, session: Any) -> Iterator[None]:
    """A test that fails inside shows the daemons' logs; what it left running is ended. session: pytest's."""
    failed = session.testsfailed
    yield
    if session.testsfailed > failed:
        print(cluster.logs())
    cluster.clean()


def command(name: str, *words: str | bytes) -> list[str | bytes]:
    """The command line of a command of this tree."""
    return [sys.executable, "-P", "-m", f"cli.{name}", *words]


def is_installed(name: str) -> bool:
    """Whether this tree's own launcher (native/launcher.c) stands for a command. Most commands of a test are run by it, as
    users run them: with the command server they cost a tenth of a start of Python. So does `penstock` by the warm process."""
    return Path(sys.executable).parent == LAUNCHERS and (LAUNCHERS / name).exists()


def in_contact(node: c.NodeInfo) -> bool:
    """True when a node has registered and answers."""
    return node.base_state not in ("UNKNOWN", "DOWN") and "NO_RESPOND" not in node.flags


def shown(job: c.JobInfo) -> dict[str, object]:
    """A summary of a job for a failed test."""
    return {
        "id": job.job_id,
        "state": job.state,
        "reason": job.reason,
        "detail": job.reason_detail,
        "exit": (job.exit.code, job.exit.signal),
        "attempt": job.attempt,
        "nodes": job.node_list,
    }


def read(path: Path) -> str:
    """A file's text; empty when it is not there yet."""
    try:
        return path.read_text(errors="surrogateescape")
    except FileNotFoundError:
        return ""


def free_ports(count: int) -> list[int]:
    """Free ports. Each process of the tests has its own, and gives none twice as long as it has others: the ports of a
    cluster must stay its own while its controller is restarted."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = PORTS[worker::workers]
    found: list[int] = []
    while len(found) < count:
        port = own[next(_ports_given) % len(own)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found


def stop(processes: list[subprocess.Popen[bytes] | Child]) -> None:
    """Sends SIGTERM to all of them, then SIGKILL to those that remain."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
    for process in processes:
        try:
            process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(ANSWER_S)


def load_json(done: Done) -> Any:
    """A command's JSON output."""
    return json.loads(done.ok().stdout)
