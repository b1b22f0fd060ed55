"""The environment of an allocation: what salloc gives its command, and srun its steps' inherited variables.

The names and values are those of a batch script of the job (the table of penstock/values/jobenv.py; a test compares the
two), except those about a node or task.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from ctld.agents.launch import SENT, facts_of, master_host, trace_parent
from ctld.core.demand.node_kinds import cpus_used
from ctld.core.records.effects import LaunchStep
from ctld.core.records.job import JobRow
from ctld.core.records.request import NodeAlloc
from ctld.core.state.state import ClusterState
from penstock.jobfacts import known_of
from penstock.values.jobenv import Environment, EnvironmentFacts, VariableValue, sources
from penstock.values.jobid import BATCH_STEP


class AllocationFacts(EnvironmentFacts, frozen=True, gc=False, kw_only=True):
    """The facts of an allocation beside its job: its first node, where its command would run."""

    gpus_on_node: int = 0


def _gpus_on(part: NodeAlloc) -> int:
    return sum(mask.bit_count() for name, _, mask in part.gres if name == "gpu")


#: Name -> value; None = the variable does not apply.
TABLE: Final[dict[str, Callable[[AllocationFacts], VariableValue]]] = sources(
    Environment.ALLOCATION, {"SLURM_GPUS_ON_NODE": lambda f: f.gpus_on_node or None}
)


def allocation_environment(state: ClusterState, row: JobRow) -> dict[str, str]:
    """Returns the variables of a job that has its nodes."""
    port = state.steps.master_ports.get(row.job_id, 0)
    used = cpus_used(state.nodes, row.request, row.alloc)
    effect = LaunchStep(
        row.batch_node, row.job_id, row.attempt, BATCH_STEP, state.epoch, row, master_port=port, cpus_used=used
    )
    sent = facts_of(effect, state.config.cluster_name)
    sent.master_host = master_host(state, row)
    sent.trace_parent = trace_parent(state.config, row)
    facts = AllocationFacts(
        job_id=row.job_id,
        user_id=row.user_id,
        group_id=row.group_id,
        user_name=row.user_name,
        group_name=row.group_name,
        nodes=[run for run in sent.node_runs for _ in range(run.count)],
        gpus_on_node=_gpus_on(row.alloc[0]),
    )
    facts = msgspec.structs.replace(facts, **known_of(sent))
    found: dict[str, str] = {}
    for name, make in TABLE.items():
        value = make(facts)
        if value is not None:
            found[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    found |= {name: str(value) for name, make in SENT.items() if (value := make(row.request))}
    return found
