"""Engine `nodes`: jobs on the nodes of a slurm.conf, with their CPUs, memory and GPUs, but without the core's life of a job.

The request of a job is the one that engine core submits (sim/cluster.py, wanted_sizes), and the rules of nodes are the
planner's, so that both start every job in the same second. The machine is the default partition. Without a slurm.conf it
is one node with all processors.

Deliberately absent: what `beyond` names, since only the core has it; priorities, limits, preemption and partitions, which
are the configuration's own policy (`site`).
"""

import itertools
import time

import numpy as np

import _fastsched
from _fastsched import RunJobs, RunNodes, fitting, run_on_nodes
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from sim.bounded import run_bounded
from sim.metrics import Array
from sim.outcome import Options, Outcome
from sim.policies import node_policy
from sim.workload import Workload, user_numbers

_MILLI = 1000


def nodes(workload: Workload, options: Options) -> Outcome:
    """Runs the workload. Raises BadValue for what this engine cannot do."""
    policy = node_policy(options.policy)
    jobs, machine = job_table(workload, options), node_table(options)
    began = time.process_time()
    try:
        note = ""
        if options.bound:
            found, note = run_bounded(jobs, machine, policy, options.bound)
        else:
            found = run_on_nodes(jobs, machine, policy)
    except ValueError as error:
        raise BadValue(f"policy {options.policy}: {error}") from None
    cpu_s = time.process_time() - began
    about = "compiled" if _fastsched.NODERUN_COMPILED else "plain Python"
    placed: tuple[tuple[int, ...], ...] = ()
    if len(machine.cpus) > 1:
        names = _order(options.config)[found.node].tolist()
        first = found.first.tolist()
        placed = tuple(tuple(names[a:b]) for a, b in itertools.pairwise(first))
    return Outcome(found.start_s, found.start_s + workload.run_s, cpu_s, about, placed, note=note)


def those_that_fit(workload: Workload, options: Options) -> Workload:
    """The jobs that can run on the empty machine; the others are counted."""
    fits = fitting(job_table(workload, options), node_table(options))
    return workload.without([("fits on no nodes of the machine", ~fits)])


def default_partition(config: Config) -> PartitionConfig | None:
    """The partition that jobs of a log are submitted to."""
    return next((partition for partition in config.partitions if partition.is_default), None)


def usable_nodes(config: Config) -> tuple[NodeConfig, ...]:
    """The nodes of the default partition."""
    partition = default_partition(config)
    names = None if partition is None else frozenset(partition.nodes)
    return tuple(node for node in config.nodes if names is None or node.name in names)


def beyond(config: Config) -> list[str]:
    """The parameters of a configuration that decide where a job may run, and that only the core has."""
    found = ["TopologyPlugin"] if config.topology.levels() else []
    partition = default_partition(config)
    for name, is_set in (
        ("OverSubscribe", partition is not None and partition.over_subscribe != "NO"),
        ("ExclusiveUser", partition is not None and partition.exclusive_user),
        ("ExclusiveTopo", partition is not None and partition.exclusive_topo),
        ("MaxCPUsPerNode", partition is not None and partition.limits_cpus()),
        ("MinNodes or MaxNodes", partition is not None and (partition.min_nodes > 1 or partition.max_nodes >= 0)),
        ("MaxTime", partition is not None and partition.max_time_s >= 0),
        ("DefMemPer*", bool(_memory_defaults(config, partition))),
    ):
        if is_set:
            found.append(name)
    return found


def _memory_defaults(config: Config, partition: PartitionConfig | None) -> int:
    found = config.def_mem_per_cpu_mb + config.def_mem_per_node_mb
    if partition is not None:
        found += partition.def_mem_per_cpu_mb + partition.def_mem_per_node_mb + partition.def_mem_per_gpu_mb
    return found


def node_table(options: Options) -> RunNodes:
    """The machine, in the planner's node order."""
    config = options.config
    if config is None:
        one = np.array([options.processors], dtype=np.int32)
        return RunNodes(one, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32))
    found = [config.nodes[k] for k in _order(config).tolist()]
    partition = default_partition(config)
    words = config.select_type_parameters
    kind = 2 if "PENSTOCK_BEST_FIT" in words else 0
    if "CR_LLN" in words or (partition is not None and partition.lln):
        kind = 1
    return RunNodes(
        np.array([node.cpus_for_jobs() for node in found], dtype=np.int32),
        np.array([node.memory_for_jobs_mb() for node in found], dtype=np.int64),
        np.array([node.gpu_count() for node in found], dtype=np.int32),
        np.array([config.cpu_quantum(node) for node in found], dtype=np.int32),
        kind,
    )


def _order(config: Config | None) -> Array:
    """The usable nodes as numbers in config.nodes: by weight, then as in the file."""
    if config is None:
        return np.zeros(1, dtype=np.int64)
    usable = {node.name for node in usable_nodes(config)}
    numbers = [k for k, node in enumerate(config.nodes) if node.name in usable]
    return np.array(sorted(numbers, key=lambda k: (config.nodes[k].weight, k)), dtype=np.int64)


def job_table(workload: Workload, options: Options) -> RunJobs:
    """The requests of the jobs. Fractions of a GPU count as whole ones."""
    config, count = options.config, len(workload)
    given = workload.requested_s if options.estimate == "requested" else np.maximum(workload.run_s, 1)
    procs, node_count = workload.procs, np.maximum(workload.nodes, 0)
    gpus, unknown = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    mem_node_mb, mem_cpu_mb = unknown, unknown
    if config is None:
        node_count = np.ones(count, dtype=np.int64)
    else:
        most = config.gpus_of_largest()
        if most:
            whole = -(-np.maximum(workload.gpu_milli, 0) // _MILLI)
            node_count = np.where(whole > 0, np.maximum(np.maximum(node_count, -(-whole // most)), 1), node_count)
            gpus = -(-whole // np.maximum(node_count, 1))
        if config.memory_is_consumable():
            known, several = workload.mem_mb > 0, node_count > 0
            mem_node_mb = np.where(known & several, -(-workload.mem_mb // np.maximum(node_count, 1)), unknown)
            mem_cpu_mb = np.where(known & ~several, -(-workload.mem_mb // np.maximum(procs, 1)), unknown)
            mem_node_mb = np.where(known, mem_node_mb, 0)  # as the core does: all of the node
    ntasks = np.maximum(procs, node_count)
    return RunJobs(
        workload.submit_s,
        workload.run_s,
        given,
        user_numbers(workload).astype(np.int32),
        ntasks.astype(np.int32),
        np.maximum(node_count, 1).astype(np.int32),
        np.where(node_count > 0, node_count, ntasks).astype(np.int32),
        gpus.astype(np.int32),
        mem_node_mb,
        mem_cpu_mb,
        np.zeros(count, dtype=np.uint8),
    )
