"""`penstock sim order`: the simulation that `penstock restd` starts for a user, who may have sent the log.

Reads from stdin one line of JSON, then the log to its end; writes one document to stdout:

    {"name": TEXT, "policies": [NAME, ...], "processors": N, "nodes": [NODES, ...], "is_memory_allocated": BOOL,
     "conf": TEXT, "partition": TEXT}
    -> {"name", "jobs", "processors", "left_out", "doubts", "notes", "interval_s", "runs": [RUN, ...]}    status 0
    -> {"error": TEXT}                                                                              status 1

NODES: count, cpus, memory_mb, gpus, weight; without them the machine is `processors`, else what the log's header says. `conf`:
the cluster's slurm.conf, for policy site alone, whose jobs go to `partition` ("" = the default one). RUN: policy, engine, notes,
figures (sim/metrics.py), and lines: means over equal intervals since the first submission.

Or the line is {"replay": DOCUMENT} of sim/policyplay.py, without a log: {"name", "jobs", "waits": [ROW, ...]}.

The log, which a user may have sent, is read under limits that this process gives itself first: processor time, memory, no files,
no children. It opens no file from then on and has no thread, so that a hostile log can only spend its own budget.
"""

import json
import os
import resource
import sys
from dataclasses import replace
from typing import Final, NotRequired, TypedDict, cast

import click
import numpy as np
from numpy.typing import NDArray

from penstock.commandline import CommandLine
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.gres import Gres
from sim import policyplay, siteconf
from sim.choice import AUTO, SITE
from sim.metrics import Array
from sim.outcome import Options, Outcome
from sim.pictures import Curve, steps
from sim.policies import node_policy, policy_of
from sim.tracefile import GZIP
from sim.traces import parse_trace
from sim.trial import Trial, capacity_of, tried
from sim.workload import Workload, usable

_Json = dict[str, object]


class OrderedNodes(TypedDict):
    """Nodes of one kind."""

    count: int
    cpus: int
    memory_mb: int
    gpus: int
    weight: int


class SimulationOrder(TypedDict):
    """What restd asks for."""

    name: str
    policies: list[str]
    processors: int
    nodes: list[OrderedNodes]
    is_memory_allocated: bool
    conf: NotRequired[str]
    partition: NotRequired[str]


#: The budget. A million jobs under five policies take some 30 s and 2 GiB.
CPU_S: Final = 60
MEMORY_BYTES: Final = 3 * 1024**3
#: Values of a line over time.
POINTS: Final = 240
NODES_MAX: Final = 100_000
LOG_BYTES_MAX: Final = 64 * 1024**2
PROCESSORS_MAX: Final = 100_000_000
_NICE: Final = 10


@click.command(
    "order",
    cls=CommandLine,
    help="Run a log under policies: an order and the log on standard input, one JSON document on standard output.",
    examples=(("penstock restd --web", "what calls it"),),
)
@click.option("--json", is_flag=True, expose_value=False, help="Accepted: the answer is JSON anyway.")
def command() -> int:
    """Reads the order and writes the answer."""
    order: policyplay.ReplayDocument = json.loads(sys.stdin.buffer.readline())
    try:
        answer = replayed(order["replay"]) if "replay" in order else run_order(cast("SimulationOrder", order))
    except BadValue as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    except MemoryError:
        json.dump(
            {"error": f"the simulation needs more than {MEMORY_BYTES >> 30} GiB: send a part of the log"}, sys.stdout
        )
        return 1
    json.dump(answer, sys.stdout, allow_nan=False)
    return 0


def run_order(order: SimulationOrder) -> _Json:
    """The answer to an order and the log that follows it on standard input. Raises BadValue."""
    conf = order.get("conf", "")
    site = siteconf.read(conf, order.get("partition", "")) if conf else None
    limit_self()
    data = sys.stdin.buffer.read(LOG_BYTES_MAX + 1)
    if len(data) > LOG_BYTES_MAX:
        raise BadValue(f"the log has more than {LOG_BYTES_MAX} bytes")
    return simulated(order, data, site)


def replayed(document: policyplay.ReplayDocument) -> _Json:
    """The waits of the last days' jobs under two policies. Raises BadValue."""
    config = policyplay.site_config(document["conf"])
    limit_self()
    found = policyplay.compare_under(config, document)
    return {"name": "policy", "jobs": len(document["jobs"]), "waits": policyplay.by_account(found)}


def limit_self() -> None:
    """Gives this process its budget. It cannot be raised again by a process without privileges."""
    for which, limit in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        hard = resource.getrlimit(which)[1]
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (least, least))
    os.nice(_NICE)


def simulated(order: SimulationOrder, data: bytes, site: Config | None) -> _Json:
    """The answer. `site`: the configuration of policy site. Raises BadValue."""
    for policy in order["policies"]:
        if policy != SITE or site is None or not order["nodes"]:
            _check(policy, is_on_nodes=bool(order["nodes"]))
    if data.startswith(GZIP):
        raise BadValue("send the log uncompressed")
    log = parse_trace(order["name"], data)
    options = replace(machine(order, log), site=site)
    workload = usable(log, options.processors)
    if not len(workload):
        raise BadValue(f"no job of {len(log):,} can run on {options.processors:,} processors")
    trial = tried(workload, options, order["policies"], AUTO, lambda policy, done, share: None)
    result = trial.result("usable", "", options.processors)
    last_s = max(int(outcome.end_s.max()) for _, outcome in trial.runs.values())
    first_s = int(trial.workload.submit_s.min())
    span = (first_s, max(last_s, first_s + 1))
    runs = [
        {"policy": run.policy, "engine": run.engine, "notes": list(run.notes), "figures": _figures(run.metrics)}
        | {"lines": lines(trial, run.policy, run.metrics, span)}
        for run in result.runs
    ]
    return {
        "name": result.workload, "jobs": result.jobs, "processors": result.processors,
        "left_out": _counts(result.skipped), "doubts": _counts(result.doubts),
        "notes": [result.unrecorded] if result.unrecorded else [],
        "interval_s": (span[1] - span[0]) / POINTS, "runs": runs,
    }  # fmt: skip


def _check(policy: str, *, is_on_nodes: bool) -> None:
    """Raises BadValue for a policy that is none, or that would need the whole core."""
    try:
        node_policy(policy)
    except BadValue:
        policy_of(policy)  # a mistake in its name is said first
        if is_on_nodes:
            raise


def _figures(metrics: dict[str, float]) -> list[_Json]:
    return [{"name": name, "value": value} for name, value in metrics.items()]


def _counts(found: dict[str, int]) -> list[_Json]:
    return [{"reason": reason, "count": count} for reason, count in found.items()]


def machine(order: SimulationOrder, log: Workload) -> Options:
    """The machine of an order. Raises BadValue."""
    config = _config(order)
    processors = int(order["processors"]) or log.processors
    capacity: dict[str, int] = {}
    if config is not None:
        capacity = capacity_of(config)
        processors = capacity.pop("cpu")
    if processors < 1:
        raise BadValue("the log does not say how many processors the machine has: give their number")
    if processors > PROCESSORS_MAX:
        raise BadValue(f"{processors:,} processors: {PROCESSORS_MAX:,} are the most")
    return Options(processors, config=config, capacity={name: total for name, total in capacity.items() if total > 0})


def _config(order: SimulationOrder) -> Config | None:
    """The nodes of an order, numbered."""
    nodes: list[NodeConfig] = []
    for kind in order["nodes"]:
        for _ in range(min(int(kind["count"]), NODES_MAX - len(nodes))):
            gpus = int(kind["gpus"])
            name = f"n{len(nodes)}"
            nodes.append(
                NodeConfig(
                    name, name, "", int(kind["cpus"]), sockets=int(kind["cpus"]),
                    real_memory_mb=int(kind["memory_mb"]), weight=int(kind["weight"]),
                    gres=(Gres("gpu", "", gpus),) if gpus else (),
                )
            )  # fmt: skip
    if not nodes:
        return None
    words = ("CR_CPU_MEMORY",) if order["is_memory_allocated"] else ("CR_CPU",)
    partition = PartitionConfig("machine", tuple(one.name for one in nodes), is_default=True)
    return Config(nodes=tuple(nodes), partitions=(partition,), select_type_parameters=words)


# ---- over time


def lines(trial: Trial, policy: str, metrics: dict[str, float], span: tuple[int, int]) -> list[_Json]:
    """What a run did over time."""
    options, outcome = trial.runs[policy]
    workload = trial.workload
    schedule = outcome.schedule(workload, options)
    one = np.ones(len(workload), dtype=np.int64)
    found = [
        _line("wait_mean_s", waits(workload, outcome, span)),
        _line(
            "jobs_waiting",
            over_time(steps(workload.submit_s, np.maximum(outcome.start_s, workload.submit_s), one), span),
        ),
    ]
    for name, (amount, total) in schedule.tres.items():
        if total > 0:
            used = over_time(steps(outcome.start_s, outcome.end_s, amount), span)
            line = _line(f"{name.rpartition('/')[2]}_percent", 100.0 * used / total)
            found.append(
                line | {"mean": round(100.0 * metrics[f"util_{name}"], 3)}
            )  # over its own time, as in the figures
    return found


def over_time(curve: Curve, span: tuple[int, int]) -> NDArray[np.float64]:
    """The means of a step function over equal intervals of a time."""
    times, values = curve
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    edges = np.linspace(span[0], span[1], POINTS + 1)
    means: NDArray[np.float64] = np.diff(np.interp(edges, times, area)) / (edges[1] - edges[0])
    return means


def waits(workload: Workload, outcome: Outcome, span: tuple[int, int]) -> NDArray[np.float64]:
    """The mean wait of the jobs that were submitted in each interval; not a number where there were none."""
    place = np.minimum((workload.submit_s - span[0]) * POINTS // (span[1] - span[0]), POINTS - 1)
    wait_s: Array = outcome.start_s - workload.submit_s
    sums = np.bincount(place, weights=wait_s.astype(np.float64), minlength=POINTS)
    counts = np.bincount(place, minlength=POINTS).astype(np.float64)
    means: NDArray[np.float64] = np.divide(sums, counts, out=np.full(POINTS, np.nan), where=counts > 0)
    return means


def _line(name: str, values: NDArray[np.float64]) -> _Json:
    known = values[np.isfinite(values)]
    return {
        "name": name, "mean": round(float(known.mean()), 3), "max": round(float(known.max()), 3),
        "means": [round(value, 3) if np.isfinite(value) else None for value in values.tolist()],
    }  # fmt: skip
