"""Chooses the engine of a run by the contents of the log and of the configuration, and says what a run ignores.

The replay counts processors alone. On a machine where jobs also wait for nodes, GPUs or memory its waits are too short,
so that such a machine gets the fastest engine that has them, and a user who insists on the replay reads what it ignores.
Every run carries its notes into the table and the files.
"""

from collections.abc import Callable

from _fastsched import NODE_POLICIES
from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim.metrics import Schedule
from sim.onnodes import beyond, usable_nodes
from sim.outcome import Options
from sim.pictures import steps
from sim.policies import node_policy, policy_of
from sim.workload import Workload

AUTO = "auto"
SITE = "site"  # as sim.cluster.SITE: importing that imports the whole core


def choose(engine: str, workload: Workload, options: Options) -> tuple[str, tuple[str, ...]]:
    """The name of an engine, and notes for the reader. Raises BadValue where no engine has policy and machine."""
    config = options.config
    if options.policy == SITE and config is None:
        raise BadValue("policy site is the configuration of --conf: give --conf")
    unseen = ignored(workload, config)
    if engine == AUTO:
        engine = _automatic(options, unseen)
    if options.bound and engine != "nodes":
        raise BadValue(f"--bound is engine nodes', and policy {options.policy} would run on engine {engine}")
    if engine != "replay" and options.mode == "event":
        raise BadValue(f"--mode event is the replay's; engine {engine} makes one pass for each time: leave out --mode")
    if engine == "replay" or config is None:
        why = "counts processors alone and" if engine == "replay" else "without --conf"
        return engine, (f"engine {engine} {why} ignores {', '.join(unseen)}",) if unseen else ()
    notes = []
    if (count := int((workload.gpu_milli > 0).sum())) and not any(node.gpu_count() for node in usable_nodes(config)):
        notes.append(f"the machine of --conf has no GPUs: those of {count:,} jobs are ignored")
    if engine == "nodes" and (missing := beyond(config)):
        notes.append(f"engine nodes ignores {', '.join(missing)} of --conf")
    return engine, tuple(notes)


def _automatic(options: Options, unseen: list[str]) -> str:
    """The fastest engine that has policy and machine."""
    if options.policy == SITE:
        return "core"
    config, is_nodes = options.config, _has(node_policy, options.policy)
    if config is None or not unseen:
        return "nodes" if is_nodes and (options.bound or not _has(policy_of, options.policy)) else "replay"
    missing = beyond(config)
    if is_nodes and not missing:
        return "nodes"
    from sim.cluster import POLICIES as CORE_POLICIES  # the whole core

    if options.policy in CORE_POLICIES:
        return "core"
    if is_nodes:
        raise BadValue(
            f"policy {options.policy} is not the core's, and only the core has {', '.join(missing)}: give one of "
            f"{', '.join(CORE_POLICIES)}, or --engine nodes to run it nevertheless"
        )
    policy_of(options.policy)  # a mistake in its name is said first
    raise BadValue(
        f"policy {options.policy} is the replay's, which counts processors alone and would ignore {', '.join(unseen)}: "
        f"give one of {', '.join(sorted({*NODE_POLICIES, *CORE_POLICIES}))}, or --engine replay to run it nevertheless"
    )


def _has(parse: Callable[[str], object], policy: str) -> bool:
    try:
        parse(policy)
    except BadValue:
        return False
    return True


def ignored(workload: Workload, config: Config | None) -> list[str]:
    """What the replay would ignore of this log and machine."""
    found = []
    if with_gpus := int((workload.gpu_milli > 0).sum()):
        found.append(f"the GPUs of {with_gpus:,} jobs")
    if config is None:
        return found
    nodes = usable_nodes(config)
    if len(nodes) > 1:
        found.append(f"the borders of {len(nodes):,} nodes")
    if config.memory_is_consumable() and (with_memory := int((workload.mem_mb > 0).sum())):
        found.append(f"the memory of {with_memory:,} jobs")
    return found


def impossible(
    schedule: Schedule, config: Config | None, what: str = "this schedule cannot run: it"
) -> tuple[str, ...]:
    """Notes about resources of which the schedule uses more than the machine has."""
    names = {"cpu", "gres/gpu"} | ({"mem"} if config is not None and config.memory_is_consumable() else set())
    found = []
    for name, (amount, total) in schedule.tres.items():
        peak = float(steps(schedule.start_s, schedule.end_s, amount)[1].max(initial=0.0))
        if name in names and peak > total > 0:
            found.append(f"{what} uses {peak / total:.2f} times the machine's {name} at its peak")
    return tuple(found)
