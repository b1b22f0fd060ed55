"""A private Penstock cluster for measuring: `penstock up` in a temporary folder, as a user would type it.

The commands are the installed ones beside this Python (`make build`), since their start-up time is part of what is
measured. Sizes of nodes are pretended. The daemons are always stopped and the folder is removed.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import CannotMeasure, children, cpu_s, rss_mb, run
from penstock.clusterfile import ClusterFile, read_cluster

BIN = Path(sys.executable).parent
#: Variables removed for commands and daemons: those that select another cluster, and those that disable cached byte
#: code.
LEFT_OUT = ("PENSTOCK_HOME", "PENSTOCK_CLUSTER", "PYTHONDONTWRITEBYTECODE")


class Local:
    """A cluster in a folder."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        self.home = home
        self.env = {**kept, "PENSTOCK_HOME": str(home), "PENSTOCK_COMMAND_SERVER_IDLE_S": "20"}

    def run(self, name: str, *words: str, stdin: str = "") -> str:
        """The output of one of our commands."""
        return run(self.command(name, *words), self.env, stdin)

    def command(self, name: str, *words: str) -> list[str]:
        """A command line that needs no search path."""
        return [str(BIN / name), *words]

    def file(self) -> ClusterFile:
        """The discovery file."""
        return read_cluster(self.home / "cluster.json")

    def status(self) -> dict[str, Any]:
        """`penstock status --json`."""
        found: dict[str, Any] = json.loads(self.run("penstock", "status", "--json"))
        return found

    def controller_pid(self) -> int:
        """The controller's process."""
        return int(self.status()["ctld"]["pid"])

    def controller_rss_mb(self) -> float:
        """Resident memory of the controller."""
        return rss_mb(self.controller_pid())

    def cpu_s(self) -> tuple[float, float, float]:
        """CPU time so far of the controller, of the node daemons, and of their launchers with all that they started."""
        status = self.status()
        nodes = [int(node["pid"]) for node in status["nodes"]]
        launchers = [child for node in nodes for child in children(node)]
        stepds = [child for launcher in launchers for child in children(launcher)]  # they outlive their steps
        return cpu_s(int(status["ctld"]["pid"])), sum(map(cpu_s, nodes)), sum(map(cpu_s, [*launchers, *stepds]))


@contextmanager
def private_cluster(nodes: int, cpus: int, gpus: int = 0) -> Iterator[Local]:
    """A running cluster of `nodes` pretended nodes with `cpus` CPUs each."""
    missing = [name for name in ("penstock", "sbatch", "squeue", "sacct") if not (BIN / name).exists()]
    if missing:
        raise CannotMeasure(f"{', '.join(missing)}: not in {BIN}; run `make build` and use its Python (`make bench`)")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        cluster = Local(Path(folder) / "home")
        sizes = [f"--nodes={nodes}", f"--cpus-per-node={cpus}", f"--gpus-per-node={gpus}"]
        try:
            cluster.run("penstock", "up", *sizes)
            yield cluster
        finally:
            cluster.run("penstock", "down")
