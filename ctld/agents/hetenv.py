"""The environment variables of a heterogeneous job: SLURM_JOB_* of each component.

Names are those of a plain job with the suffix `_HET_GROUP_n`; SLURM_HET_SIZE is the number of components. The leader's
variables exist without the suffix, too (srun(1) and Slurm's page on heterogeneous jobs). The table of
penstock/values/jobenv.py lists them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ctld.core.records.job import JobRow
from penstock.values.counts import compress_counts
from penstock.values.hostlist import compress
from penstock.values.jobenv import HET_PART, HET_SIZE, Environment, EnvironmentFacts, VariableValue, sources


class ComponentFacts(EnvironmentFacts, frozen=True, gc=False, kw_only=True):
    """The facts of a component that has its nodes. Its job id is its own, not the leader's."""

    tasks_by_node: list[int]


#: Name -> value; None = the variable does not apply.
TABLE: Final[dict[str, Callable[[ComponentFacts], VariableValue]]] = sources(
    Environment.COMPONENT, {"SLURM_TASKS_PER_NODE": lambda f: compress_counts(f.tasks_by_node)}
)


def _facts(row: JobRow) -> ComponentFacts:
    request = row.request
    if request.ntasks_asked or request.ntasks_over:
        tasks = [part.tasks for part in row.alloc]
    else:
        tasks = [max(1, part.cpus // max(1, request.cpus_per_task)) for part in row.alloc]
    return ComponentFacts(
        job_id=row.job_id,
        nodes=row.alloc,
        job_name=request.name,
        partition=row.partition,
        account=request.account,
        qos=request.qos,
        reservation=request.reservation_run or request.reservation,
        node_list=compress(part.node for part in row.alloc),
        ntasks=request.ntasks_over or (request.ntasks if request.ntasks_asked else 0),
        ntasks_per_node=request.ntasks_per_node,
        cpus_per_task=request.cpus_per_task if request.cpus_per_task_asked else 0,
        mem_per_node_mb=request.mem_per_node_mb,
        mem_per_cpu_mb=request.mem_per_cpu_mb,
        tasks_by_node=tasks,
    )


def het_environment(rows: Sequence[JobRow]) -> dict[str, str]:
    """Returns the variables of a job with these components, in their order."""
    found = {HET_SIZE: str(rows[0].request.het_size)}
    for row in rows:
        if not row.alloc:
            continue
        facts = _facts(row)
        for name, make in TABLE.items():
            value = make(facts)
            if value is not None:
                found[f"{name}{HET_PART}{row.request.het_offset}"] = str(value)
    return found


def het_variables(rows: Sequence[JobRow]) -> Iterable[bytes]:
    """Returns the same as NAME=VALUE; none for a plain job."""
    return [f"{name}={value}".encode() for name, value in het_environment(rows).items()] if rows else []
