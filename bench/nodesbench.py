"""`python -m bench.nodesbench`: the speed of the simulator's engine `nodes` on generated jobs of GPUs.

Independent jobs of 1 to 16 GPUs, on nodes of 8 GPUs and 64 CPUs with memory; `load` is the share of the GPUs that the jobs
would use if none waited. The rate is jobs divided by the CPU time of the engine, the best of five.
"""

import sys

import numpy as np

from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from sim.onnodes import nodes
from sim.outcome import Options
from sim.workload import Workload, from_columns

JOBS = 100_000
ROUNDS = 5
CASES = ((32, 0.8), (32, 1.2), (128, 0.8), (128, 1.2), (512, 0.8), (512, 1.2), (1024, 0.8), (1024, 1.2))
POLICIES = ("easy", "learned", "wfp3")


def machine(count: int) -> Config:
    """Identical nodes in one partition."""
    found = tuple(
        NodeConfig(
            f"n{k}", f"n{k}", "127.0.0.1", 64, sockets=64, real_memory_mb=512_000, gres=(Gres("gpu", "a100", 8),)
        )
        for k in range(count)
    )
    partition = PartitionConfig("all", tuple(node.name for node in found), is_default=True)
    return Config(nodes=found, partitions=(partition,), select_type_parameters=("CR_CPU_MEMORY",), gres_types=("gpu",))


def workload(count: int, load: float) -> Workload:
    """Jobs for so many nodes, with a heavy tail of run times."""
    random = np.random.default_rng(1)
    gpus = random.choice([1, 1, 1, 1, 2, 4, 8, 8, 16], JOBS)
    run_s = np.maximum(1, random.lognormal(6.5, 2, JOBS).astype(int))
    span_s = int((gpus * run_s).sum() / (count * 8 * load))
    return from_columns(
        "generated",
        job_id=np.arange(JOBS),
        submit_s=np.sort(random.integers(0, span_s, JOBS)),
        run_s=run_s,
        requested_s=np.minimum(run_s * random.integers(1, 10, JOBS) + 60, 7 * 86_400),
        procs=gpus * 4,
        gpu_milli=gpus * 1000,
        mem_mb=gpus * random.choice([8000, 16_000, 32_000], JOBS),
        user=random.integers(0, 100, JOBS),
    )


def main() -> int:
    """Prints a line for each machine and load."""
    print(f"{'nodes':>6} {'load':>5}", *(f"{policy:>12}" for policy in POLICIES), " (jobs/s)")
    for count, load in CASES:
        config, jobs = machine(count), workload(count, load)
        rates = []
        for policy in POLICIES:
            options = Options(64 * count, policy, config=config)
            rates.append(JOBS / min(nodes(jobs, options).cpu_s for _ in range(ROUNDS)))
        print(f"{count:>6} {load:>5}", *(f"{rate:>12,.0f}" for rate in rates), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
