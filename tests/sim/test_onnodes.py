"""Engine `nodes` starts every job in the same second, on the same nodes, as engine `core`: two programs that share no line
of policy but the planner's rules."""

import numpy as np
import pytest

from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from sim.engines import ENGINES
from sim.onnodes import nodes, those_that_fit
from sim.outcome import Options
from sim.workload import Workload, from_columns

POLICIES = ("fcfs", "easy", "easy-sjbf", "learned")
PARAMETERS = (("CR_CPU",), ("CR_CORE_MEMORY",), ("CR_CPU_MEMORY", "CR_LLN"), ("CR_CORE", "PENSTOCK_BEST_FIT"))
GPU_NODES = tuple(
    NodeConfig(f"n{k}", f"n{k}", "127.0.0.1", 8, sockets=1, cores_per_socket=4, threads_per_core=2, real_memory_mb=8000,
               gres=(Gres("gpu", "a100", 4),), weight=3 - k % 2)
    for k in range(4)
)  # fmt: skip
CPU_NODES = tuple(NodeConfig(f"c{k}", f"c{k}", "127.0.0.1", 16, sockets=16, real_memory_mb=4000) for k in range(2))


def site(parameters: tuple[str, ...]) -> Config:
    machine = (*GPU_NODES, *CPU_NODES)
    partition = PartitionConfig("all", tuple(node.name for node in machine), is_default=True)
    return Config(nodes=machine, partitions=(partition,), select_type_parameters=parameters, gres_types=("gpu",))


def workload(seed: int, count: int = 250) -> Workload:
    random = np.random.default_rng(seed)
    requested_s = random.choice([60, 600, 3600, 36_000], count)
    gpus = random.choice([0, 0, 1, 2, 4, 8], count)
    procs = random.integers(1, 20, count)
    return from_columns(
        "random",
        job_id=np.arange(count),
        submit_s=np.sort(random.integers(0, 30_000, count)),
        run_s=np.maximum(1, requested_s // random.integers(1, 50, count)),
        requested_s=requested_s,
        procs=procs,
        nodes=np.where(gpus > 0, -1, random.choice([-1, 1, 2, 3], count)),
        gpu_milli=1000 * gpus,
        mem_mb=random.choice([500, 2000, 6000], count),
        user=random.integers(-1, 6, count),
    )


#: make test has each policy and each of the parameters once.
PAIRS = [
    pytest.param(policy, parameters, marks=[] if i == k else pytest.mark.slow)
    for i, parameters in enumerate(PARAMETERS)
    for k, policy in enumerate(POLICIES)
]


@pytest.mark.parametrize(("policy", "parameters"), PAIRS)
def test_the_core_starts_every_job_in_the_same_second(policy: str, parameters: tuple[str, ...]) -> None:
    config = site(parameters)
    options = Options(64, policy, config=config)
    jobs = those_that_fit(workload(len(policy)), options)
    assert len(jobs) > 100
    found, told = nodes(jobs, options), ENGINES["core"](jobs, options)
    assert found.start_s.tolist() == told.start_s.tolist()
    assert [sorted(one) for one in found.nodes] == [sorted(one) for one in told.nodes]
