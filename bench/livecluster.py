"""The processes of bench/live.py: a controller (bench/livectld.py), its hollow nodes, and the records it leaves.

Everything is in one folder, and every process that is started here is ended here.
"""

import asyncio
import getpass
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bench.measure import CannotMeasure, free_port
from bench.schedqueue import NODE_CPUS, NODE_GPUS, NODE_MEM_MB
from penstock.aclient import AsyncClient
from penstock.clusterfile import read_cluster

CALL_TIMEOUT_S = 60.0
START_LIMIT_S = 120.0
#: bf_interval: an hour when there are to be no passes, else as short as it can be.
NO_PASSES_S, PASSES_S = 3600, 1
CONF = """\
ClusterName=live
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
PenstockNodePort={node_port}
SlurmUser={user}
SlurmctldLogFile={folder}/ctld.log
StateSaveLocation={folder}/state
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MaxJobCount=300000
SchedulerParameters=bf_interval={interval_s}
NodeName=n[1-{nodes}] CPUs={cpus} CoresPerSocket={cpus} RealMemory={mem_mb} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=batch Nodes=n[1-{nodes}] Default=YES MaxTime=UNLIMITED State=UP
"""

Pass = tuple[int, int, int]  # begin and end, ns of the monotonic clock; rows


class LiveSite:
    """The run's folder and its processes."""

    def __init__(self, folder: Path, nodes: int, more: str = "", has_gpus: bool = False) -> None:
        """`more`: lines of slurm.conf. `has_gpus`: the GPUs of the nodes say what they do."""
        self.folder = folder
        self.nodes = nodes
        self._more = more
        self.has_gpus = has_gpus
        self.conf = folder / "slurm.conf"
        self.notes = folder / "notes"
        self._ports = free_port(), free_port()

    def write_conf(self, interval_s: int) -> None:
        """slurm.conf with so long a pause between full passes."""
        text = CONF.format(
            port=self._ports[0], node_port=self._ports[1], user=getpass.getuser(), folder=self.folder, nodes=self.nodes,
            cpus=NODE_CPUS, mem_mb=NODE_MEM_MB, gpus=NODE_GPUS, interval_s=interval_s,
        )  # fmt: skip
        self.conf.write_text(text + self._more)

    def client(self) -> AsyncClient:
        """A connection of its own."""
        return AsyncClient(read_cluster(self.folder / "state" / "cluster.json"), CALL_TIMEOUT_S, retry=True)

    def passes(self, since_ns: int = 0) -> list[Pass]:
        """Full passes that began since then."""
        found = [line.split() for line in self.notes.read_text().splitlines() if line.startswith("pass ")]
        return [(int(b), int(e), int(rows)) for _, b, e, rows in found if int(b) >= since_ns]

    def held(self, since_ns: int, until_ns: int) -> list[tuple[float, str]]:
        """What held the loop in that time: milliseconds of its CPU time and what, longest first."""
        found = [line.split(maxsplit=3) for line in self.notes.read_text().splitlines() if line.startswith("held ")]
        return sorted(((int(cpu)) / 1e6, what) for _, b, cpu, what in found if since_ns <= int(b) < until_ns)[::-1]


@asynccontextmanager
async def process(
    *words: str, log: Path, piped: bool = False, env: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of ours, ended with the block."""
    pipe = subprocess.PIPE if piped else subprocess.DEVNULL
    with log.open("ab") as file:
        child = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=pipe, stdout=pipe, stderr=file, env=env
        )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


@asynccontextmanager
async def cluster(site: LiveSite) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.subprocess.Process]]:
    """The controller and all its hollow nodes, registered."""
    site.write_conf(NO_PASSES_S)
    log = site.folder / "processes.log"
    async with process("-m", "bench.livectld", str(site.notes), "--config", str(site.conf), log=log) as controller:
        await _until(lambda: (site.folder / "state" / "cluster.json").exists(), controller, log)
        words = ("-m", "bench.hollow", "--conf", str(site.conf), *(["--gpus"] if site.has_gpus else []))
        async with process(*words, log=log, piped=True) as nodes:
            assert nodes.stdout is not None
            async with asyncio.timeout(START_LIMIT_S):
                line = await nodes.stdout.readline()
            if not line:
                raise CannotMeasure(f"the hollow nodes have ended: {log.read_text()[-500:]}")
            yield controller, nodes


async def _until(true: Callable[[], bool], child: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(START_LIMIT_S):
        while not true():
            if child.returncode is not None:
                raise CannotMeasure(f"the controller has ended: {log.read_text()[-500:]}")
            await asyncio.sleep(0.05)


async def command_nodes(nodes: asyncio.subprocess.Process, word: str) -> dict[str, int]:
    """Sends a command to the hollow nodes; returns their progress."""
    assert nodes.stdin is not None and nodes.stdout is not None
    nodes.stdin.write(f"{word}\n".encode())
    found: dict[str, int] = json.loads(await nodes.stdout.readline())
    return found
