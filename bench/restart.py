"""A controller's start with a long queue and a long history behind it, and its memory then.

The database is filled by the controller's own parts: a core and a store make real rows of finished jobs, SQL copies
them with other ids and earlier times until the history is long enough, and the pending jobs, each with a shape and names
of its own, go through the core one by one. Then the controller is started as always and asked until it answers. No node
daemon runs meanwhile, so nothing starts.
"""

import signal
import sqlite3
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import incore
from bench.local import BIN, Local
from bench.measure import CannotMeasure, Times, rss_mb, timed, wait_until
from ctld.core.recover import Loaded
from ctld.store.committer import Store
from ctld.store.schema import JOB, JOB_HISTORY, JOB_REQUEST, STEP
from penstock.client import Client
from penstock.config import load
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import PingRequest
from penstock.values.config import Config

FINISHED = 1_000_000
PENDING = 100_000
#: Finished jobs that are really run through the core; the rest are copies of them.
SEEDS = 10_000
US = 1_000_000
HOUR_US = 3600 * US
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
POLL_S = 0.005
PING_LIMIT_S = 5.0
#: Submissions for each commit while the queue is filled.
SUBMISSIONS_PER_BATCH = 1_000


class RestartFigures(NamedTuple):
    """A start with all that in the database. `idle_mb` is the controller's memory with an empty database."""

    fill_s: float
    database_mb: float
    restart_s: float
    rss_mb: float
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
    began = time.perf_counter()
    controller = start_controller(cluster)
    try:
        wait_until(lambda: _answers(cluster, controller), "the controller's first answer", START_LIMIT_S, POLL_S)
        restart_s = time.perf_counter() - began
        memory_mb = rss_mb(controller.pid)
        squeue = timed(cluster.command("squeue"), command_runs, cluster.env)
    finally:
        controller.send_signal(signal.SIGTERM)
        controller.wait(STOP_LIMIT_S)
    return RestartFigures(filled_s, database.stat().st_size / 2**20, restart_s, memory_mb, idle_mb, squeue)


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


def fill(database: Path, config: Config, finished: int, pending: int) -> None:
    """Put `finished` ended and `pending` waiting jobs behind what is there."""
    now_us = time.time_ns() // 1000
    first = _run_seeds(database, config, min(SEEDS, finished), now_us - 24 * HOUR_US)
    _copy(database, first, min(SEEDS, finished), finished)
    _submit(database, config, pending, now_us - 12 * HOUR_US)


def _open(database: Path) -> tuple[Store, Loaded]:
    store = Store.open(str(database), "bench")
    epoch = store.acquire_lease(time.time_ns() // 1000)
    # As of now nothing in the history is young enough to be loaded.
    return store, store.load(time.time_ns() // 1000, 0, 0)._replace(epoch=epoch)


def _run_seeds(database: Path, config: Config, jobs: int, start_us: int) -> int:
    """Run `jobs` jobs to their end on fake nodes; the first one's id."""
    store, loaded = _open(database)
    try:
        cluster = incore.Cluster(config, start_us, loaded, store.commit)
        for number in range(jobs):
            cluster.submit(**_shape(number))
        ended = cluster.run_until_idle()
        if ended != jobs or cluster.accepted() != jobs:
            raise CannotMeasure(f"of {jobs} jobs that were to be history, {ended} ended")
    finally:
        store.close()
    return loaded.next_job_id


def _copy(database: Path, first: int, seeds: int, wanted: int) -> None:
    """Copy the seeds' rows until there are `wanted` jobs, each copy an hour earlier than the last one."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN IMMEDIATE")
        first_request = connection.execute("SELECT request_id FROM job WHERE job_id = ?", (first,)).fetchone()[0]
        copies = range(1, -(-wanted // seeds))
        for table in (JOB, STEP, JOB_REQUEST, JOB_HISTORY):
            names = [c.name for c in table.columns if c is not table.autoincrement_column or c.name == "request_id"]
            sql = _copy_sql(table.name, names)
            for copy in copies:
                values = {"ids": copy * seeds, "earlier_us": copy * HOUR_US, "first": first, "last": first + seeds - 1}
                connection.execute(sql, values)
        added = len(copies) * seeds
        connection.execute(
            "UPDATE meta SET next_job_id = next_job_id + ?, next_request_id = max(next_request_id, ?) + ?",
            (added, first_request, added),
        )
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _copy_sql(table: str, names: Sequence[str]) -> str:
    """Names are those of the schema, not of anybody's input."""
    values = []
    for name in names:
        if name in ("job_id", "request_id"):
            values.append(f"{name} + :ids")
        elif name == "at_us" or name.endswith("_at_us"):
            values.append(f"{name} - CASE WHEN {name} > 0 THEN :earlier_us ELSE 0 END")
        else:
            values.append(name)
    chosen = "WHERE job_id BETWEEN :first AND :last ORDER BY job_id"
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {table} {chosen}"


def _submit(database: Path, config: Config, jobs: int, start_us: int) -> None:
    """Submit jobs of different shapes, which wait as no node is there."""
    store, loaded = _open(database)
    try:
        cluster = incore.Cluster(config, start_us, loaded, store.commit, register=False)
        for number in range(jobs):
            cluster.submit(**_shape(number))
            if (number + 1) % SUBMISSIONS_PER_BATCH == 0:
                cluster.seal()
                cluster.plan = None
        cluster.seal()
        if cluster.accepted() != jobs:
            raise CannotMeasure(f"{cluster.accepted()} of {jobs} submissions were accepted")
    finally:
        store.close()


def _shape(number: int) -> dict[str, object]:
    """The number-th job: sizes, limits, names and paths differ as those of many users' jobs do."""
    gpus = (("gpu", "", 1 + number % 8),) if number % 3 == 0 else ()
    return {
        "name": f"train-{number % 5000}", "comment": f"sweep {number % 700}", "work_dir": b"/home/ann/run%d" % (number % 900),
        "std_out": b"/home/ann/run%d/slurm-%%j.out" % number, "command": f"/home/ann/run{number % 900}/train.sbatch",
        "submit_line": f"sbatch --time={1 + number % 96}:00:00 train.sbatch {number}",
        "submit_host": "login1", "submit_dir": b"/home/ann", "gres_per_node": gpus,
        "ntasks": 1 + number % 4, "cpus_per_task": 1 + number % 3, "mem_per_node_mb": 100 + number % 4000,
        "time_limit_s": 60 * (1 + number % 5760),
    }  # fmt: skip


def main() -> None:
    """Fill a database that is already there, for looking at it: `python -m bench.restart HOME`."""
    import sys

    home = Path(sys.argv[1])
    fill(home / "ctld" / "penstock.db", load(str(home / "slurm.conf")).config, FINISHED, PENDING)


if __name__ == "__main__":
    main()


