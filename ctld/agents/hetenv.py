"""The variables that say of each component of a heterogeneous job what SLURM_JOB_* say of a job.

Names are those of a job with `_HET_GROUP_n` behind them; SLURM_HET_SIZE is the number of components. The leader's own
stand without the ending, too (srun(1) and Slurm's page on heterogeneous jobs).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ctld.core.model import JobRow
from penstock.values.counts import compress_counts
from penstock.values.hostlist import compress

Value = str | int | None
#: Name -> value of a component that has its nodes; None = the variable does not apply.
TABLE: Final[dict[str, Callable[[JobRow], Value]]] = {
    "SLURM_JOB_ID": lambda row: row.job_id,
    "SLURM_JOB_NAME": lambda row: row.request.name,
    "SLURM_JOB_PARTITION": lambda row: row.partition,
    "SLURM_JOB_ACCOUNT": lambda row: row.request.account or None,
    "SLURM_JOB_QOS": lambda row: row.request.qos or None,
    "SLURM_JOB_RESERVATION": lambda row: row.request.reservation_run or row.request.reservation or None,
    "SLURM_JOB_NODELIST": lambda row: compress(part.node for part in row.alloc),
    "SLURM_JOB_NUM_NODES": lambda row: len(row.alloc),
    "SLURM_JOB_CPUS_PER_NODE": lambda row: compress_counts(part.cpus for part in row.alloc),
    "SLURM_CPUS_PER_TASK": lambda row: row.request.cpus_per_task if row.request.cpus_per_task_asked else None,
    "SLURM_NTASKS": lambda row: row.request.ntasks_over or (row.request.ntasks if row.request.ntasks_asked else None),
    "SLURM_NTASKS_PER_NODE": lambda row: row.request.ntasks_per_node or None,
    "SLURM_TASKS_PER_NODE": lambda row: compress_counts(part.tasks for part in row.alloc),
    "SLURM_MEM_PER_NODE": lambda row: row.request.mem_per_node_mb,
    "SLURM_MEM_PER_CPU": lambda row: row.request.mem_per_cpu_mb,
}


def het_environment(rows: Sequence[JobRow]) -> dict[str, str]:
    """The variables of a job with these components, in their order."""
    found = {"SLURM_HET_SIZE": str(rows[0].request.het_size)}
    for row in rows:
        for name, make in TABLE.items():
            value = make(row) if row.alloc else None
            if value is not None:
                found[f"{name}_HET_GROUP_{row.request.het_offset}"] = str(value)
    return found


def het_variables(rows: Sequence[JobRow]) -> Iterable[bytes]:
    """The same as NAME=VALUE; none of a plain job."""
    return [f"{name}={value}".encode() for name, value in het_environment(rows).items()] if rows else []
