"""Fills the database of a stopped cluster with a long history and a long queue.

    python -m bench.fill HOME [--finished 1000000] [--pending 100000]

HOME is a cluster's folder as `penstock up` makes it. The rows are real ones: a core with fake nodes and the store run
some thousand jobs to their end, SQL copies their rows with other ids and earlier times until the history is long enough,
and the pending jobs, each with a shape, names and paths of its own, go through the core one by one.
"""

import argparse
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import incore
from bench.measure import CannotMeasure
from ctld.core.records.job import SpecRow
from ctld.core.recover import LoadedState
from ctld.store.committer import Store
from ctld.store.schema import JOB, JOB_HISTORY, JOB_REQUEST, STEP
from penstock.config import load
from penstock.values.config import Config

#: Finished jobs that are really run through the core; the rest are copies of them.
SEEDS = 10_000
#: Names of waiting jobs.
NAMES = 5_000
#: Waiting jobs with names of their own that go through the core.
NAMED_SEEDS = 1_000
#: Submissions for each commit while the queue is filled.
SUBMISSIONS_PER_BATCH = 1_000
HOUR_US = 3600 * 1_000_000
#: Of jobs that are to run until the end of a measurement.
LONG: Final = SpecRow(bytes([1]) * 32, b"#!/bin/sh\nsleep 100000\n", (), (b"PATH=/bin",))


def fill(database: Path, config: Config, finished: int, pending: int, seeds: int = SEEDS) -> None:
    """Put `finished` ended and `pending` waiting jobs behind what is there."""
    now_us = time.time_ns() // 1000
    seeds = min(seeds, finished)
    first = _run_seeds(database, config, seeds, now_us - 24 * HOUR_US)
    _copy(database, first, seeds, finished)
    submit(database, config, (_shape(number, config) for number in range(pending)), now_us - 12 * HOUR_US)


def fill_busy(database: Path, config: Config, pending: int) -> None:
    """Puts jobs of half a node each there, two for each node, which start when the nodes register and run for long; and
    `pending` jobs behind them that wait."""
    cpus, mem_mb, gpus = _smallest_node(config)
    half: dict[str, object] = {
        "spec": LONG, "ntasks": 1, "cpus_per_task": cpus // 2, "mem_per_node_mb": mem_mb // 2, "time_limit_s": 48 * 3600,
        "gres_per_node": (("gpu", "", gpus // 2),) if gpus > 1 else (),
    }  # fmt: skip
    start_us = time.time_ns() // 1000 - 12 * HOUR_US
    busy = ({"name": f"busy-{number}", **half} for number in range(2 * len(config.nodes)))
    submit(database, config, busy, start_us)
    fill_waiting(database, config, pending, start_us + HOUR_US)


def fill_waiting(database: Path, config: Config, pending: int, start_us: int, **fields: object) -> int:
    """Puts `pending` waiting jobs there: train-0, train-1, and so on. The first NAMED_SEEDS of them go through the core, the
    others are copies in SQL, with ids and names of their own. `fields`: of each submission. Returns the id of the first."""
    seeds = min(NAMED_SEEDS, pending)
    jobs = ({"spec": LONG, **_shape(number, config), "name": f"train-{number}", **fields} for number in range(seeds))
    first = submit(database, config, jobs, start_us)
    with _transaction(database) as connection:
        (first_request,) = connection.execute("SELECT request_id FROM job WHERE job_id = ?", (first,)).fetchone()
        for table in (JOB, JOB_REQUEST):
            connection.execute(
                _named_copies_sql(table.name, [c.name for c in table.columns]),
                {"first": first, "seeds": seeds, "last": first + pending - 1},
            )
        _add_numbers(connection, pending - seeds, first_request)
    return first


def _named_copies_sql(table: str, names: Sequence[str]) -> str:
    """SQL that copies jobs `first` and so on, `seeds` of them, until `last`. Names of columns are those of the schema."""
    values = {
        "name": "'train-' || (copy.job_id - :first)",
        "job_id": "copy.job_id",
        "request_id": "old.request_id + copy.job_id - old.job_id",
        "submit_key": "''",
        "submit_at_us": "old.submit_at_us + copy.job_id - old.job_id",
        "request": "CAST(replace(CAST(old.request AS TEXT), '\"train-' || (old.job_id - :first) || '\"', "
        "'\"train-' || (copy.job_id - :first) || '\"') AS BLOB)",
    }
    chosen = ", ".join(values.get(name, f"old.{name}") for name in names)
    return (
        "WITH RECURSIVE copy(job_id) AS (SELECT :first + :seeds UNION ALL SELECT job_id + 1 FROM copy WHERE job_id < :last) "
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} FROM copy JOIN {table} AS old "
        "ON old.job_id = :first + (copy.job_id - :first) % :seeds WHERE copy.job_id <= :last"
    )


def _open(database: Path) -> tuple[Store, LoadedState]:
    store = Store.open(str(database), "bench")
    epoch = store.acquire_lease(time.time_ns() // 1000)
    # As of now nothing in the history is young enough to be loaded.
    return store, store.load(time.time_ns() // 1000, 0, 0)._replace(epoch=epoch)


def _run_seeds(database: Path, config: Config, jobs: int, start_us: int) -> int:
    """Run `jobs` jobs to their end on fake nodes; the first one's id."""
    store, loaded = _open(database)
    try:
        cluster = incore.CoreCluster(config, start_us, loaded, store.commit)
        for number in range(jobs):
            cluster.submit(**_shape(number, config))
        ended = cluster.run_until_idle()
        if ended != jobs or cluster.accepted() != jobs:
            raise CannotMeasure(f"of {jobs} jobs that were to be history, {ended} ended")
    finally:
        store.close()
    return loaded.next_job_id


def _copy(database: Path, first: int, seeds: int, wanted: int) -> None:
    """Copy the seeds' rows until there are `wanted` jobs, each copy an hour earlier than the last one."""
    with _transaction(database) as connection:
        first_request = connection.execute("SELECT request_id FROM job WHERE job_id = ?", (first,)).fetchone()[0]
        copies = range(1, -(-wanted // seeds))
        for table in (JOB, STEP, JOB_REQUEST, JOB_HISTORY):
            names = [c.name for c in table.columns if c is not table.autoincrement_column or c.name == "request_id"]
            sql = _copy_sql(table.name, names)
            for copy in copies:
                values = {"ids": copy * seeds, "earlier_us": copy * HOUR_US, "first": first, "last": first + seeds - 1}
                connection.execute(sql, values)
        _add_numbers(connection, len(copies) * seeds, first_request)


@contextmanager
def _transaction(database: Path) -> Iterator[sqlite3.Connection]:
    """A transaction of a stopped cluster's database."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _add_numbers(connection: sqlite3.Connection, added: int, first_request: int) -> None:
    """Counts jobs that were copied among the numbers that are taken."""
    connection.execute(
        "UPDATE meta SET next_job_id = next_job_id + ?, next_request_id = max(next_request_id, ?) + ?",
        (added, first_request, added),
    )


def _copy_sql(table: str, names: Sequence[str]) -> str:
    """Names are those of the schema, never input."""
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


def submit(database: Path, config: Config, jobs: Iterable[dict[str, Any]], start_us: int) -> int:
    """Submit jobs, which wait as no node is there. `jobs`: the fields of their submissions, and `spec`. Returns the first id."""
    store, loaded = _open(database)
    try:
        cluster = incore.CoreCluster(config, start_us, loaded, store.commit, register=False)
        for number, job in enumerate(jobs, 1):
            cluster.submit(**job)
            if number % SUBMISSIONS_PER_BATCH == 0:
                cluster.seal()
                cluster.plan = None
        cluster.seal()
        if cluster.accepted() != cluster.keys:
            raise CannotMeasure(f"{cluster.accepted()} of {cluster.keys} submissions were accepted")
    finally:
        store.close()
    return loaded.next_job_id


def _shape(number: int, config: Config) -> dict[str, Any]:
    """The number-th job: sizes, limits, names and paths differ as those of many users' jobs do. It fits a node of the
    default partition.
    """
    cpus, mem_mb, most_gpus = _smallest_node(config)
    gpus = (("gpu", "", 1 + number % min(8, most_gpus)),) if most_gpus and number % 3 == 0 else ()
    per_task = 1 + number % min(3, cpus)
    return {
        "name": f"train-{number % NAMES}", "comment": f"sweep {number % 700}", "work_dir": b"/home/ann/run%d" % (number % 900),
        "std_out": b"/home/ann/run%d/slurm-%%j.out" % number, "command": f"/home/ann/run{number % 900}/train.sbatch",
        "submit_line": f"sbatch --time={1 + number % 96}:00:00 train.sbatch {number}",
        "submit_host": "login1", "submit_dir": b"/home/ann", "gres_per_node": gpus,
        "ntasks": 1 + number % min(4, cpus // per_task), "cpus_per_task": per_task,
        "mem_per_node_mb": min(100 + number % 4000, mem_mb),
        "time_limit_s": 60 * (1 + number % 5760),
    }  # fmt: skip


def _smallest_node(config: Config) -> tuple[int, int, int]:
    """CPUs, memory and GPUs that every node of the default partition has, or every node where there is none."""
    names = {name for partition in config.partitions if partition.is_default for name in partition.nodes}
    nodes = [node for node in config.nodes if not names or node.name in names]
    gpus = [sum(gres.count for gres in node.gres if gres.name == "gpu") for node in nodes]
    return min(node.cpus_for_jobs() for node in nodes), min(node.memory_for_jobs_mb() for node in nodes), min(gpus)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.fill", description=__doc__.partition("\n")[0])
    parser.add_argument("home", type=Path, help="the folder of a cluster that is stopped")
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--pending", type=int, default=100_000)
    asked = parser.parse_args()
    config = load(str(asked.home / "slurm.conf")).config
    began = time.perf_counter()
    fill(asked.home / "ctld" / "penstock.db", config, asked.finished, asked.pending)
    print(f"{asked.finished + asked.pending} jobs in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
