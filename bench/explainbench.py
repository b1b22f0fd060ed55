"""Measures the cost of `penstock why`, `penstock fits` and `sbatch --test-only` with the generated queue in a real
core.

12,000 jobs (bench/schedqueue.py) on 1,000 nodes of 64 cores and 8 GPUs: those that start run, the others wait. Prints for
each question the time on the controller's loop (copies; nothing else happens meanwhile) and in the worker (the planner),
of the best of ROUNDS. CPU times. `python -m bench.explainbench [--jobs N] [--nodes N]`.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.incore import ANN, SPEC, CoreCluster, make_config
from bench.schedqueue import CPUS_A_GPU, MEM_MB_A_GPU, NODE_CPUS, NODE_GPUS, NODE_MEM_MB, generate
from ctld.core.diagnose.fits import find_fits, inquire_fits
from ctld.core.diagnose.start_estimate import estimate_start, inquire_start
from ctld.core.diagnose.why import explain, inquire
from ctld.core.records.events import JobSubmission, SubmitJob
from penstock.values.states import JobState

ROUNDS = 3


def fill(jobs: int, nodes: int) -> CoreCluster:
    """A cluster with the queue, after a full pass."""
    cluster = CoreCluster(make_config(nodes, NODE_CPUS, NODE_MEM_MB, NODE_GPUS))
    queue = generate(jobs)
    for gpus, width, minutes in zip(queue.gpus.tolist(), queue.nodes.tolist(), queue.limit_min.tolist(), strict=True):
        whole = width > 1
        cluster.submit(
            nodes_min=width, nodes_max=width, cpus_per_task=NODE_CPUS if whole else CPUS_A_GPU * gpus,
            mem_per_node_mb=NODE_MEM_MB if whole else MEM_MB_A_GPU * gpus, time_limit_s=60 * minutes,
            gres_per_node=(("gpu", "", gpus),),
        )  # fmt: skip
        if cluster.keys % 64 == 0:
            cluster.seal()
    for _ in range(100):
        if not cluster.seal() and cluster.plan is None:
            break
        cluster.run_plan()
    return cluster


def measure(name: str, take: Callable[[], Any], work: Callable[[Any], Any]) -> None:
    """Print the best times of one question."""
    on_loop, in_worker = [], []
    for _ in range(ROUNDS):
        begun = time.process_time()
        taken = take()
        between = time.process_time()
        work(taken)
        on_loop.append(between - begun)
        in_worker.append(time.process_time() - between)
    print(f"{name:24} loop {1000 * min(on_loop):6.1f} ms   worker {min(in_worker):5.2f} s")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=12_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    options = parser.parse_args()
    cluster = fill(options.jobs, options.nodes)
    state = cluster.core.state
    waiting = [job for job in state.jobs.values() if job.state is JobState.PENDING]
    print(f"{len(waiting)} jobs wait on {options.nodes} nodes")
    now_us = cluster.now_us()
    for name, job in (("first", waiting[0]), ("middle", waiting[len(waiting) // 2]), ("last", waiting[-1])):
        measure(f"why, the {name}", partial(inquire, state, now_us, job, ANN), explain)
    measure("fits", lambda: inquire_fits(state, now_us, ()), find_fits)
    wanted = JobSubmission(name="t", work_dir=b"/", gres_per_node=(("gpu", "", 4),), time_limit_s=3600)
    event = SubmitJob(ANN, "0" * 32, now_us, wanted, SPEC, True)
    measure("sbatch --test-only", lambda: inquire_start(state, now_us, event), estimate_start)


if __name__ == "__main__":
    main()
