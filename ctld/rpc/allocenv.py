"""The environment of an allocation: what salloc gives its command, and srun its steps' inherited variables.

The names and values are those that a batch script of the job would find (nodedaemon/core/environment.py has that table;
a test compares the two), as far as they speak of the job and not of a node or task.
"""

from collections.abc import Callable
from typing import Any, Final

from ctld.agents.launch import facts_of, master_host
from ctld.core.effects import LaunchStep
from ctld.core.model import JobRow, NodeAlloc
from ctld.core.state import ClusterState
from penstock.values.counts import compress_counts
from penstock.values.jobid import BATCH_STEP


def _ntasks(f: Any) -> int:
    return int(f.ntasks or f.ntasks_per_node * len(f.nodes))


def _memory(f: Any, name: str) -> int | None:
    return getattr(f, name) if f.HasField(name) else None


def _gpus_on(part: NodeAlloc) -> int:
    return sum(mask.bit_count() for name, _, mask in part.gres if name == "gpu")


Value = str | int | bytes | None
#: Name -> value of (facts, row); None = the variable does not apply.
TABLE: Final[dict[str, Callable[[Any, JobRow], Value]]] = {
    "SLURM_JOB_ID": lambda f, row: f.het_job_id or row.job_id,
    "SLURM_JOBID": lambda f, row: f.het_job_id or row.job_id,
    "SLURM_JOB_NAME": lambda f, row: f.job_name,
    "SLURM_JOB_USER": lambda f, row: row.user_name,
    "SLURM_JOB_UID": lambda f, row: row.user_id,
    "SLURM_JOB_GROUP": lambda f, row: row.group_name or None,
    "SLURM_JOB_GID": lambda f, row: row.group_id,
    "SLURM_JOB_ACCOUNT": lambda f, row: f.account or None,
    "SLURM_JOB_PARTITION": lambda f, row: f.partition,
    "SLURM_JOB_QOS": lambda f, row: f.qos or None,
    "SLURM_JOB_RESERVATION": lambda f, row: f.reservation or None,
    "SLURM_JOB_DEPENDENCY": lambda f, row: f.dependency or None,
    "SLURM_JOB_LICENSES": lambda f, row: f.licenses or None,
    "SLURM_JOB_COMMENT": lambda f, row: f.comment or None,
    "SLURM_JOB_START_TIME": lambda f, row: f.start_at_us // 1_000_000 or None,
    "SLURM_JOB_END_TIME": lambda f, row: f.end_at_us // 1_000_000 or None,
    "SLURM_JOB_NODELIST": lambda f, row: f.node_list,
    "SLURM_NODELIST": lambda f, row: f.node_list,
    "SLURM_JOB_NUM_NODES": lambda f, row: len(f.nodes),
    "SLURM_NNODES": lambda f, row: len(f.nodes),
    "SLURM_JOB_CPUS_PER_NODE": lambda f, row: compress_counts(n.cpus for n in f.nodes),
    "SLURM_CPUS_PER_TASK": lambda f, row: f.cpus_per_task or None,
    "SLURM_NTASKS": lambda f, row: _ntasks(f) or None,
    "SLURM_NPROCS": lambda f, row: _ntasks(f) or None,
    "SLURM_NTASKS_PER_NODE": lambda f, row: f.ntasks_per_node or None,
    "SLURM_TASKS_PER_NODE": lambda f, row: compress_counts(n.tasks for n in f.nodes),
    "SLURM_MEM_PER_NODE": lambda f, row: (
        None if (mb := _memory(f, "mem_per_node_mb")) is None else mb or row.alloc[0].mem_mb
    ),
    "SLURM_MEM_PER_CPU": lambda f, row: _memory(f, "mem_per_cpu_mb"),
    "SLURM_MEM_PER_GPU": lambda f, row: _memory(f, "mem_per_gpu_mb"),
    "SLURM_CPUS_PER_GPU": lambda f, row: f.cpus_per_gpu or None,
    "SLURM_NTASKS_PER_GPU": lambda f, row: f.ntasks_per_gpu or None,
    "SLURM_GPUS": lambda f, row: f.gpus or None,
    "SLURM_GPUS_PER_TASK": lambda f, row: f.gpus_per_task or None,
    "SLURM_DISTRIBUTION": lambda f, row: f.distribution or None,
    "SLURM_GPUS_PER_NODE": lambda f, row: f.gpus_per_node or None,
    "SLURM_GPUS_ON_NODE": lambda f, row: _gpus_on(row.alloc[0]) or None,
    "SLURM_RESTART_COUNT": lambda f, row: f.restart_count or None,
    "SLURM_SUBMIT_DIR": lambda f, row: f.submit_dir or None,
    "SLURM_SUBMIT_HOST": lambda f, row: f.submit_host or None,
    "SLURM_CLUSTER_NAME": lambda f, row: f.cluster_name,
    "SLURM_EXPORT_ENV": lambda f, row: f.export_env or None,
    "MASTER_ADDR": lambda f, row: f.master_host or None,
    "MASTER_PORT": lambda f, row: f.master_port,
}


def allocation_environment(state: ClusterState, row: JobRow) -> dict[str, str]:
    """The variables of a job that has its nodes."""
    port = state.master_ports.get(row.job_id, 0)
    effect = LaunchStep(row.batch_node, row.job_id, row.attempt, BATCH_STEP, state.epoch, row, master_port=port)
    facts = facts_of(effect, state.config.cluster_name)
    facts.master_host = master_host(state, row)
    found: dict[str, str] = {}
    for name, make in TABLE.items():
        value = make(facts, row)
        if value is not None:
            found[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return found
