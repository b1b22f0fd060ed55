"""The scheduler's bench: the queue is the same each time and is what its text says; what sdiag says is read right."""

import numpy as np

from bench import schedbench, schedslurm
from bench.schedqueue import NODE_CPUS, NODE_GPUS, generate, pending_queue

SDIAG = """
Main schedule statistics (microseconds):
\tLast cycle:   7
\tLast queue length: 12

Backfilling stats
\tTotal cycles: 4
\tLast cycle when: Sat Nov 21 15:51:00 2026 (1795276260)
\tLast cycle: 15548477
\tLast depth cycle: 441
\tLast depth cycle (try sched): 63
"""


def test_the_queue_is_what_its_text_says() -> None:
    queue = generate(12_000)
    again = generate(12_000)
    assert all(np.array_equal(a, b) for a, b in zip(queue, again, strict=True))
    single = queue.nodes == 1
    assert 0.84 < single.mean() < 0.86
    assert set(queue.gpus[single].tolist()) == {1, 2, 4, 8} and set(queue.gpus[~single].tolist()) == {8}
    assert (queue.nodes[~single].min(), queue.nodes.max()) == (2, 32)
    assert (queue.limit_min.min(), queue.limit_min.max()) == (10, 2880)


def test_what_runs_and_what_waits_fill_the_machine() -> None:
    given = pending_queue(500, 40)
    assert len(given.running.run_end_s) + len(given.rows) == 500
    held = np.bincount(given.running.part_node, given.running.part_gres[:, 0], 40)
    assert (held + given.nodes.free_gres[:, 0] == NODE_GPUS).all() and held.sum() > 0.9 * 40 * NODE_GPUS
    assert (given.nodes.free_cpus >= 0).all() and (given.nodes.free_cpus <= NODE_CPUS).all()


def test_the_depth_is_backfills() -> None:
    assert schedslurm.depth_of(SDIAG) == 441
    assert schedslurm.depth_of("Main schedule statistics") == 0


def test_slurm_gets_the_same_jobs() -> None:
    lines = list(schedslurm.sbatch_lines(generate(200)))
    wide = next(line for line in lines if "--nodes=1" not in line)
    assert len(lines) == 200
    assert "--cpus-per-task=64" in wide and "--gres=gpu:8" in wide and "--mem=512000" in wide


def test_the_ratio_is_jobs_for_jobs() -> None:
    figures = {"slurm_tested_jobs": 100, "slurm_s": 50.0, "full_plan_s": 0.1, "full_plan_jobs": 1000}
    assert schedbench.ratio(figures) == 5000
    assert schedbench.ratio({**figures, "slurm_tested_jobs": None}) is None
