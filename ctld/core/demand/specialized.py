"""CPUs of a job's nodes that it leaves to the system: --core-spec and --thread-spec (sbatch(1)).

Where AllowSpecResourcesUsage is set, such a job has whole nodes, and its own number of cores replaces a node's CoreSpecCount:
it is charged for the node, its tasks get all CPUs but these. They are those of the node first, then as CoreSpecCount
chooses. Elsewhere the options are ignored, with Slurm's message.
"""

from typing import Final

import msgspec

from ctld.core.records.job_submission import JobSubmission
from ctld.core.records.request import JobRequest, NodeAlloc
from penstock.values.config import Config, NodeConfig
from penstock.values.cpusets import spec_order

#: Both fields of a request; at most one is set.
FIELDS: Final = ("core_spec", "thread_spec")
IGNORED: Final = "error: Ignoring {} since it's not allowed by configuration (AllowSpecResourcesUsage = No)"


def is_on(request: JobRequest | JobSubmission) -> bool:
    """Whether the job has a number of its own; 0 is one, too."""
    return request.core_spec is not None or request.thread_spec is not None


def permitted(config: Config, wanted: JobSubmission) -> tuple[JobSubmission, tuple[str, ...]]:
    """Returns the submission as the site lets it have specialized CPUs: with whole nodes, or without; and warnings.
    So it is with --reboot."""
    if not is_on(wanted):
        return (msgspec.structs.replace(wanted, exclusive=True) if wanted.reboot else wanted), ()
    if config.allow_spec_resources_usage:
        return msgspec.structs.replace(wanted, exclusive=True), ()
    option = "-S" if wanted.core_spec is not None else "--thread-spec"
    return msgspec.structs.replace(wanted, core_spec=None, thread_spec=None), (IGNORED.format(option),)


def cpus_left(node: NodeConfig, request: JobRequest) -> int:
    """Returns the number of CPUs of such a node that tasks may have; 0 = the job cannot run there."""
    return max(0, node.cpus - _threads(node, request))


def left_mask(config: Config, node: NodeConfig, request: JobRequest) -> int:
    """Returns these CPUs."""
    first = config.has_word("scheduler_parameters", "spec_cores_first")
    core, left = node.cpus_per_core(), (1 << node.cpus) - 1
    threads = _threads(node, request)
    own = [at for at in range(node.cpus // core) if node.specialized_cpus >> at * core & 1]
    order = dict.fromkeys((*own, *spec_order(node.sockets, node.cpus // core // node.sockets, first)))
    for at in order:
        if threads <= 0:
            break
        taken = min(core, threads)  # of a part of a core the last threads
        left &= ~((1 << taken) - 1 << (at + 1) * core - taken)
        threads -= taken
    return left


def usable(request: JobRequest, alloc: tuple[NodeAlloc, ...]) -> tuple[NodeAlloc, ...]:
    """Returns the allocation as its steps may divide it."""
    if not is_on(request):
        return alloc
    return tuple(part._replace(cpus=part.cpu_ids.bit_count() or part.cpus) for part in alloc)


def _threads(node: NodeConfig, request: JobRequest) -> int:
    if request.core_spec is not None:
        return request.core_spec * node.cpus_per_core()
    return request.thread_spec or 0
