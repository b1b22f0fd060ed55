"""The loads of `make bench-guard`, as a process that measures the tree it runs in.

    python -m bench.guardload            reads the name of a part a line, answers with a line of JSON

`bench.guard` runs one of these in the change's tree and one in its parent's, each with the tree's own environment. A
part is prepared when its name comes first (a cluster is started, a queue filled) and then measured once for each line, so
that the two processes can take turns. An answer has `figures`, or `error` when the part cannot run in this tree.
Besides this module, all of `bench` is the tree's own.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench import cluster, incore, listings, restart, schedbench
from bench.fill import fill
from bench.local import Local, private_cluster
from bench.measure import cpu_s, timed
from bench.schedqueue import pending_queue
from penstock.config import load

CPUS = 128
QUEUE_NODES = 4
QUEUE_CPUS = 64
QUEUE_GPUS = 8
TASKS = 300
CORE_JOBS = 2_000
SUBMIT_S = 2.0
LISTED_JOBS, LISTINGS = 4_000, 30
PLAIN_RUNS = 6
FINISHED = 10_000
PENDING = 5_000
SEEDS = 500

_Measure = Callable[[], dict[str, float]]


@contextmanager
def core() -> Iterator[_Measure]:
    """Events of the core, without anything around it."""
    yield lambda: {
        "core_array_task_cpu_us": incore.array(CORE_JOBS),
        "core_single_job_cpu_us": incore.single(CORE_JOBS),
        "core_queued_submit_cpu_us": incore.queued(CORE_JOBS),
    }


@contextmanager
def planner() -> Iterator[_Measure]:
    """A full plan of 12,000 jobs on 1,000 nodes."""
    given = pending_queue(schedbench.FULL_JOBS, schedbench.FULL_NODES)
    yield lambda: {"planner_12k_cpu_ms": 1000 * schedbench.full_s(given, 3)}


@contextmanager
def array() -> Iterator[_Measure]:
    """An array of `true`, live."""
    with private_cluster(1, CPUS) as local:
        cluster.run_array(local, cluster.WARM_UP_TASKS)

        def measure() -> dict[str, float]:
            before = local.cpu_s()
            rate = cluster.run_array(local, TASKS)
            used = [1000 * (b - a) / TASKS for a, b in zip(before, local.cpu_s(), strict=True)]
            names = ("controller", "node_daemon", "steps")
            return {"array_jobs_per_s": rate} | {f"array_{n}_cpu_ms": ms for n, ms in zip(names, used, strict=True)}

        yield measure


@contextmanager
def submits() -> Iterator[_Measure]:
    """Durable submissions to full nodes; what was submitted is cancelled before the next round."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        cluster.block(local, QUEUE_NODES)

        def measure() -> dict[str, float]:
            found = cluster.submit_to_full(local, SUBMIT_S)
            local.run("scancel", "--state=PENDING")
            return {"durable_submits_per_s": found.per_s, "submit_controller_cpu_ms": found.controller_ms}

        yield measure


@contextmanager
def listing() -> Iterator[_Measure]:
    """`squeue` of a long queue, served; the controller's part of it."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        asyncio.run(listings.fill(local, LISTED_JOBS))
        pid = local.controller_pid()

        def measure() -> dict[str, float]:
            before = cpu_s(pid)
            squeue = timed(local.command("squeue"), LISTINGS, local.env)
            used_ms = 1000 * (cpu_s(pid) - before) / (LISTINGS + 1)
            return {"listing_squeue_wall_ms": squeue.wall_ms, "listing_controller_cpu_ms": used_ms}

        yield measure


@contextmanager
def plain() -> Iterator[_Measure]:
    """`sbatch` in plain Python, without the command server: its start is nearly all of it."""
    with private_cluster(1, CPUS) as local:
        env = {**local.env, "PENSTOCK_COMMAND_SERVER": "0"}

        def measure() -> dict[str, float]:
            words = local.command("sbatch", "-o", "/dev/null", "--hold")
            sbatch = timed(words, PLAIN_RUNS, env, cluster.TRUE)
            return {"plain_sbatch_wall_ms": sbatch.wall_ms, "plain_sbatch_cpu_ms": sbatch.cpu_ms}

        yield measure


@contextmanager
def start_again() -> Iterator[_Measure]:
    """A controller's start with a short history and a short queue, again and again."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        _fill_stopped(local)

        def measure() -> dict[str, float]:
            with restart.started(local) as (_, first):
                return {"restart_s": first.wall_s, "restart_cpu_s": first.cpu_s, "restart_rss_mb": first.rss_mb}

        yield measure


def _fill_stopped(local: Local) -> None:
    local.run("penstock", "down", "--keep-jobs")
    fill(local.home / "ctld" / "penstock.db", load(str(local.home / "slurm.conf")).config, FINISHED, PENDING, SEEDS)


PARTS = {
    "core": core,
    "planner": planner,
    "array": array,
    "submits": submits,
    "listing": listing,
    "plain": plain,
    "restart": start_again,
}


def main() -> int:
    """Serves names of parts until the end of standard input."""
    ready: dict[str, _Measure] = {}
    with ExitStack() as stack:
        for line in sys.stdin:
            print(json.dumps(_answer(stack, ready, line.strip())), flush=True)
    return 0


def _answer(stack: ExitStack, ready: dict[str, _Measure], name: str) -> dict[str, Any]:
    try:
        if name not in ready:
            ready[name] = stack.enter_context(PARTS[name]())
        return {"figures": ready[name]()}
    except Exception as error:  # noqa: BLE001 (whatever this tree's own code raises is the answer, and goes to stderr)
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    sys.exit(main())
