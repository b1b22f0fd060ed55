"""The compiled planner: signature and answers of reference.plan. Arrays must be C-contiguous; read-only will do."""

import numpy as np
from numpy.typing import NDArray

from _fastsched.contract import PlanResult

def plan(
    free_cpus: NDArray[np.int32],
    free_mem_mb: NDArray[np.int64],
    free_gres: NDArray[np.int32],
    total_cpus: NDArray[np.int32],
    total_mem_mb: NDArray[np.int64],
    total_gres: NDArray[np.int32],
    running_jobs: NDArray[np.int32],
    held_exclusive: NDArray[np.uint8],
    node_order: NDArray[np.int32],
    up: NDArray[np.uint8],
    masks: NDArray[np.uint64],
    job_mask: NDArray[np.int32],
    nodes_min: NDArray[np.int32],
    nodes_max: NDArray[np.int32],
    ntasks: NDArray[np.int32],
    cpus_per_task: NDArray[np.int32],
    ntasks_per_node: NDArray[np.int32],
    mem_node_mb: NDArray[np.int64],
    mem_cpu_mb: NDArray[np.int64],
    gres: NDArray[np.int32],
    exclusive: NDArray[np.uint8],
    count: NDArray[np.int32],
    starts_max: int,
) -> PlanResult: ...
