"""The output of srun -v about the job and its step, in Slurm's words."""

from itertools import groupby
from typing import TYPE_CHECKING

from cli.base.run import complain
from cli.steps.outcome import ranks_text
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AllocationReply, AwaitAllocationRequest, CreateStepReply

if TYPE_CHECKING:
    from penstock.client import Client

NAME = "srun"


def report_job(client: "Client", job_id: int) -> None:
    """The job's nodes, and how many CPUs of each it has."""
    try:
        reply: AllocationReply = client.call("AwaitAllocation", AwaitAllocationRequest(job_id=job_id))
    except PenstockError:
        return  # the step's request reports why
    runs = [(cpus, len(list(run))) for cpus, run in groupby(node.cpus for node in reply.nodes)]
    counts = ",".join(f"{cpus}(x{length})" for cpus, length in runs)
    _say(f"jobid {job_id}: nodes({len(reply.nodes)}):`{reply.node_list}', cpu counts: {counts}")


def report_launch(created: CreateStepReply, first: int, cpu_bind: str) -> None:
    """The step's nodes with their tasks. `first`: the rank of its first task."""
    _say(f"CpuBindType={cpu_bind or '(null type)'}")
    title = f"StepId={created.job_id}.{created.step_id}"
    for node, ranks in zip(created.plan.nodes, created.plan.ranks, strict=False):
        listed = ranks_text([first + rank for rank in ranks.rank]).partition(" ")[2]
        listed = listed if len(ranks.rank) == 1 else f"[{listed}]"
        _say(f"launching {title} on host {node}, {len(ranks.rank)} tasks: {listed}")


def _say(text: str) -> None:
    complain(NAME, f"{NAME}: {text}", plain=True)
