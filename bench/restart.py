"""Measures a controller's start with a long queue and a long history, and its memory then.

fill.py puts the jobs into the database of a cluster that is stopped. Then the controller is started as always and asked
until it answers. No node daemon runs meanwhile, so nothing starts.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.fill import fill
from bench.local import BIN, Local
from bench.measure import CannotMeasure, Times, cpu_s, rss_mb, timed, wait_until
from penstock.client import Client
from penstock.config import load
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import PingRequest

FINISHED = 1_000_000
PENDING = 100_000
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
#: The controller waits some seconds for its nodes before it plans the whole queue (ctld/core/recover.py).
SETTLE_S = 7.0
POLL_S = 0.005
PING_LIMIT_S = 5.0


class RestartFigures(NamedTuple):
    """A start with all that in the database.

    `rss_mb` is the controller's memory at the first answer, `later_mb` after the first scheduling pass and some
    listings, `idle_mb` with an empty database.
    """

    fill_s: float
    database_mb: float
    restart_s: float
    restart_cpu_s: float
    rss_mb: float
    later_mb: float
    idle_mb: float
    squeue: Times


def measure(cluster: Local, finished: int = FINISHED, pending: int = PENDING, command_runs: int = 3) -> RestartFigures:
    """Fill, start, ask. The cluster has been started once (so there is a database) and is stopped here."""
    idle_mb = cluster.controller_rss_mb()
    cluster.run("penstock", "down", "--keep-jobs")  # without it, the partitions are closed and nothing starts
    began = time.perf_counter()
    database = cluster.home / "ctld" / "penstock.db"
    fill(database, load(str(cluster.home / "slurm.conf")).config, finished, pending)
    filled_s = time.perf_counter() - began
    with started(cluster) as (pid, first):
        time.sleep(SETTLE_S)
        squeue = timed(cluster.command("squeue"), command_runs, cluster.env)
        later_mb = rss_mb(pid)
    size_mb = database.stat().st_size / 2**20
    return RestartFigures(filled_s, size_mb, *first, later_mb, idle_mb, squeue)


class FirstAnswer(NamedTuple):
    """A start up to the answer to the first Ping."""

    wall_s: float
    cpu_s: float
    rss_mb: float


@contextmanager
def started(cluster: Local) -> Iterator[tuple[int, FirstAnswer]]:
    """A controller that has just answered for the first time; yields its pid, and ends it with the block."""
    began = time.perf_counter()
    controller = start_controller(cluster)
    try:
        wait_until(lambda: _answers(cluster, controller), "the controller's first answer", START_LIMIT_S, POLL_S)
        took_s = time.perf_counter() - began
        yield controller.pid, FirstAnswer(took_s, cpu_s(controller.pid), rss_mb(controller.pid))
    finally:
        controller.send_signal(signal.SIGTERM)
        controller.wait(STOP_LIMIT_S)


def start_controller(cluster: Local) -> subprocess.Popen[bytes]:
    """`penstock ctld` on the cluster's own configuration, as `penstock up` starts it."""
    words = [str(BIN / "penstock"), "ctld", "--config", str(cluster.home / "slurm.conf"), "--foreground"]
    with open(cluster.home / "log" / "restart.log", "ab") as log:
        return subprocess.Popen(words, env=cluster.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _answers(cluster: Local, controller: subprocess.Popen[bytes]) -> bool:
    if controller.poll() is not None:
        tail = (cluster.home / "log" / "restart.log").read_text()[-500:]
        raise CannotMeasure(f"penstock ctld ended with {controller.returncode}: {tail}")
    try:
        with Client.open(PING_LIMIT_S, cluster=cluster.file()) as client:
            client.call("Ping", PingRequest())
    except PenstockError:  # not there yet
        return False
    return True
