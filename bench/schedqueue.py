"""The generated GPU queue: input of the planner for bench/schedbench.py, and the same jobs as sbatch lines for Slurm.

Deterministic (seed 7). 85 % of the jobs take one node with 1, 2, 4 or 8 GPUs, and 4 cores and 16,000 MB for each GPU;
15 % take 2 to 32 whole nodes. Limits are from 10 to 2,880 minutes. Nodes have 64 cores, 512,000 MB and 8 GPUs.

`pending_queue` plans all jobs on the empty machine once; what starts then is what runs afterwards. So the queue that is
measured is what a cluster with that load looks like: full, with ends spread over two days, and the rest waiting.
"""

from typing import NamedTuple

import numpy as np

from _fastsched import STARTED, plan
from _fastsched.contract import FOREVER, PlanInput, PlanLimits, PlanResult, empty

SEED = 7
NODE_CPUS = 64
NODE_MEM_MB = 512_000
NODE_GPUS = 8
CPUS_A_GPU, MEM_MB_A_GPU = 4, 16_000
NOW_S = 1_800_000_000
SINGLE_NODE_SHARE = 0.85
NODES_OF_WIDE = (2, 32)
LIMIT_MIN = (10, 2880)


class Queue(NamedTuple):
    """J jobs. `gpus` on each of `nodes` nodes; a job of several nodes takes them whole."""

    gpus: np.ndarray
    nodes: np.ndarray
    limit_min: np.ndarray


def generate(jobs: int, seed: int = SEED) -> Queue:
    """The jobs in the order of their rank."""
    rng = np.random.default_rng(seed)
    wide = rng.random(jobs) >= SINGLE_NODE_SHARE
    gpus = np.where(wide, NODE_GPUS, rng.choice([1, 2, 4, 8], jobs))
    nodes = np.where(wide, rng.integers(NODES_OF_WIDE[0], NODES_OF_WIDE[1] + 1, jobs), 1)
    return Queue(gpus, nodes, rng.integers(LIMIT_MIN[0], LIMIT_MIN[1] + 1, jobs))


def planner_input(queue: Queue, nodes: int) -> PlanInput:
    """All of the queue on an empty machine of so many nodes, every pending job planned and none overtaken."""
    jobs = len(queue.gpus)
    node = empty("nodes", N=nodes, G=1)
    for name, value in (
        ("total_cpus", NODE_CPUS), ("total_mem_mb", NODE_MEM_MB), ("total_gres", NODE_GPUS), ("free_cpus", NODE_CPUS),
        ("free_mem_mb", NODE_MEM_MB), ("free_gres", NODE_GPUS), ("cpu_quantum", 1), ("up", 1),
    ):  # fmt: skip
        getattr(node, name)[...] = value
    node.order[:] = np.arange(nodes)
    job = empty("jobs", J=jobs, G=1)
    whole = queue.nodes > 1
    for name, values in (
        ("job", np.arange(1, jobs + 1)), ("nodes_min", queue.nodes), ("nodes_max", queue.nodes), ("ntasks", queue.nodes),
        ("cpus_per_task", np.where(whole, NODE_CPUS, CPUS_A_GPU * queue.gpus)), ("mem_cpu_mb", -1),
        ("mem_node_mb", np.where(whole, NODE_MEM_MB, MEM_MB_A_GPU * queue.gpus)), ("count", 1), ("cpu_units", 1),
        ("limit_s", 60 * queue.limit_min), ("limit_min_s", 60 * queue.limit_min), ("latest_s", FOREVER), ("reserve", 1),
        ("resv", -1), ("group", -1),
    ):  # fmt: skip
        getattr(job, name)[:] = values
    job.gres[:, 0] = queue.gpus
    words = (nodes + 63) // 64
    mask = np.zeros((1, words), np.uint64)
    for index in range(nodes):
        mask[0, index // 64] |= np.uint64(1 << (index % 64))
    none = np.zeros(0, np.int32)
    return PlanInput(
        nodes=node, running=empty("running", G=1), reservations=empty("reservations", G=1), jobs=job,
        rows=np.arange(jobs, dtype=np.int64), masks=mask, group_first=np.zeros(1, np.int32), group_mask=none,
        group_count=none, free_licenses=none, limits=PlanLimits(NOW_S), stop=np.zeros(1, np.uint8),
    )  # fmt: skip


def running_after(given: PlanInput, result: PlanResult) -> PlanInput:
    """The next pass's input: what started runs, the rest is pending."""
    starts, entries = len(result.job), len(result.node)
    rows = given.rows[result.job]
    of_start = np.repeat(np.arange(starts, dtype=np.int32), np.diff(result.node_first))
    running = empty("running", R=starts, P=entries, G=1)
    running.run_end_s[:] = NOW_S + result.limit_s
    running.run_class[:] = -1
    running.part_run[:] = of_start
    running.part_node[:] = result.node
    running.part_cpus[:] = result.cpus
    running.part_mem_mb[:] = result.mem_mb
    running.part_gres[:] = given.jobs.gres[rows[of_start]]
    node = given.nodes._replace(
        free_cpus=given.nodes.free_cpus.copy(), free_mem_mb=given.nodes.free_mem_mb.copy(),
        free_gres=given.nodes.free_gres.copy(),
    )  # fmt: skip
    np.subtract.at(node.free_cpus, result.node, result.cpus)
    np.subtract.at(node.free_mem_mb, result.node, result.mem_mb)
    np.subtract.at(node.free_gres, result.node, running.part_gres)
    pending = np.flatnonzero(result.reason != STARTED).astype(np.int64)
    return given._replace(nodes=node, running=running, rows=given.rows[pending])


def pending_queue(jobs: int, nodes: int, reserve_max: int = -1) -> PlanInput:
    """A machine on which the first jobs run (none overtakes the first pending one), and the others wait."""
    given = planner_input(generate(jobs), nodes)
    first = plan(given._replace(limits=PlanLimits(NOW_S, reserve_max=reserve_max, estimate=False)))
    return running_after(given, first)
