"""Computes the priority factors of a job: a pure function of the request, the partition and the configuration.

Every factor is a part of 1 times its weight (PriorityWeight*), rounded down to a whole number, as sprio shows it:

    age         time since the job could start, up to PriorityMaxAge
    size        nodes and CPUs asked for, as parts of the cluster (PriorityFavorSmall: the complement;
                SMALL_RELATIVE_TO_TIME: CPUs for each minute of the time limit)
    partition   PriorityJobFactor, as a part of the highest of all partitions
    QOS         its priority, as a part of the highest
    TRES        for each TRES of PriorityWeightTRES, the request as a part of what the partition has
    assoc       the association's priority, as a part of the highest

Fair-share is state/fairshare.py's. NO_NORMAL_* use the number itself instead of the part. Nice is subtracted and the
site factor added at the end. Everything is integers: products of 32-bit numbers stay inside 64 bits.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ctld.core.demand.gpu_parts import total_of
from ctld.core.records.node import Node
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest
from penstock.values.config import Config, PartitionConfig
from penstock.values.tres import gres_keys, there_is
from penstock.values.weights import WEIGHT_ONE, Weight

_POINTS_MAX = 2**32 - 1


class Points(NamedTuple):
    """The priority factors that do not change while a job waits."""

    size: int = 0
    partition: int = 0
    qos: int = 0
    tres: tuple[int, ...] = ()  # in the order of PriorityWeightTRES
    site: int = 0
    nice: int = 0

    def total(self) -> int:
        """The sum of all factors."""
        return self.size + self.partition + self.qos + sum(self.tres) + self.site - self.nice


class Scale(NamedTuple):
    """The scale of the factors under a configuration: weights, and the maximum of each."""

    config: Config
    flags: frozenset[str] = frozenset()
    nodes: int = 1
    cpus: int = 1
    partition_points: dict[str, int] = {}  # noqa: RUF012 (by partition; a new one for each Scale)
    partition_tres: dict[str, dict[str, int]] = {}  # noqa: RUF012
    qos_points: dict[str, int] = {}  # noqa: RUF012

    def has(self, flag: str) -> bool:
        """Whether a PriorityFlag is set. NO_NORMAL_ALL implies all flags of its kind."""
        return flag in self.flags


def scale_of(config: Config, nodes: Iterable[Node], qos: Mapping[str, Qos]) -> Scale:
    """Computes the scale of a configuration."""
    flags = set(config.priority_flags)
    if "NO_NORMAL_ALL" in flags:
        flags |= {"NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"}
    by_name = {node.name: node for node in nodes}
    highest = max((p.priority_job_factor for p in config.partitions), default=0)
    points = {
        p.name: part(p.priority_job_factor, highest, config.priority_weight_partition, "NO_NORMAL_PART" not in flags)
        for p in config.partitions
    }
    tres = {p.name: _tres_of(p, by_name) for p in config.partitions} if config.priority_weight_tres else {}
    cpus = sum(node.cpus for node in by_name.values())
    most, weight = max((one.priority for one in qos.values()), default=0), config.priority_weight_qos
    of_qos = {name: part(one.priority, most, weight, "NO_NORMAL_QOS" not in flags) for name, one in qos.items()}
    return Scale(config, frozenset(flags), max(1, len(by_name)), max(1, cpus), points, tres, of_qos)


def part(number: int, highest: int, weight: int, normal: bool = True) -> int:
    """Returns a number as a part of the maximum, weighted; or itself times the weight."""
    if not normal:
        return min(_POINTS_MAX, number * weight)
    return weight * number // highest if highest else 0


def _tres_of(partition: PartitionConfig, nodes: dict[str, Node]) -> dict[str, int]:
    members = [nodes[name] for name in partition.nodes if name in nodes]
    found = there_is((node.cpus, node.real_memory_mb, node.config.gres) for node in members)
    return found | {"billing": found["cpu"]}


def tres_amounts(request: JobRequest) -> dict[str, int]:
    """Computes the total TRES of a request."""
    cpus = request.ntasks * request.cpus_per_task
    mem_mb = (request.mem_per_node_mb or 0) * request.nodes_min + (request.mem_per_cpu_mb or 0) * cpus
    tres = {"cpu": cpus, "mem": mem_mb, "node": request.nodes_min, "billing": cpus}
    for name, type_, count in total_of(request):
        for key in gres_keys(name, type_):
            tres[key] = tres.get(key, 0) + count
    return tres


def points_of(scale: Scale, request: JobRequest, partition: PartitionConfig, time_limit_s: int) -> Points:
    """Computes the factors that do not change while the job waits in that partition."""
    config = scale.config
    return Points(
        size=_size_points(scale, request, partition, time_limit_s) if config.priority_weight_job_size else 0,
        partition=scale.partition_points.get(partition.name, 0),
        qos=scale.qos_points.get(request.qos or "normal", 0),
        tres=_tres_points(scale, request, partition.name) if config.priority_weight_tres else (),
        site=request.site_factor,
        nice=request.nice,
    )


def _size_points(scale: Scale, request: JobRequest, partition: PartitionConfig, time_limit_s: int) -> int:
    config = scale.config
    weight = config.priority_weight_job_size
    nodes = request.nodes_min
    cpus = request.ntasks * request.cpus_per_task
    if scale.has("SMALL_RELATIVE_TO_TIME"):
        limit_s = time_limit_s if time_limit_s > 0 else partition.max_time_s
        minutes = max(1, limit_s // 60) if limit_s > 0 else 365 * 24 * 60
        asked = max(cpus * scale.nodes, nodes * scale.cpus)  # for each node, with an average number of CPUs
        above, below = asked, scale.cpus * scale.nodes * minutes
    else:
        above, below = nodes * scale.cpus + cpus * scale.nodes, 2 * scale.nodes * scale.cpus
    above = min(above, below)
    return weight * (below - above if config.priority_favor_small else above) // below


def _tres_points(scale: Scale, request: JobRequest, partition: str) -> tuple[int, ...]:
    asked, there = tres_amounts(request), scale.partition_tres.get(partition, {})
    points = []
    for weight in scale.config.priority_weight_tres:
        amount = asked.get(weight.tres, 0)
        if scale.has("NO_NORMAL_TRES"):
            number = weight.scaled(amount) // WEIGHT_ONE
        else:
            most = there.get(weight.tres, 0)
            number = weight.micro * min(amount, most) // (most * WEIGHT_ONE) if most else 0
        points.append(min(_POINTS_MAX, number))
    return tuple(points)


def age_points(scale: Scale, age_s: int) -> int:
    """Computes the age factor."""
    most = scale.config.priority_max_age_s
    return scale.config.priority_weight_age * max(0, min(age_s, most)) // most


def billing(weights: tuple[Weight, ...], amounts: dict[str, int], flags: Iterable[str] = ()) -> int:
    """Computes the charge of an allocation for each second, in thousandths (decay.RATE_ONE).

    TRESBillingWeights of its partition: the sum of what each TRES is worth; MAX_TRES: the largest of a node's TRES, and
    the sum of those that belong to no node; MAX_TRES_GRES: GRES are added to the largest. Without weights: its CPUs.
    """
    if not weights:
        return amounts.get("cpu", 0) * 1_000
    worth = {weight.tres: weight.scaled(amounts.get(weight.tres, 0)) for weight in weights}
    if "MAX_TRES" in flags or "MAX_TRES_GRES" in flags:
        aside = ("license/", "bb/", "gres/") if "MAX_TRES_GRES" in flags else ("license/", "bb/")
        total = max((value for name, value in worth.items() if not name.startswith(aside)), default=0)
        total += sum(value for name, value in worth.items() if name.startswith(aside))
    else:
        total = sum(worth.values())
    return total * 1_000 // WEIGHT_ONE
