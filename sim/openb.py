"""Fractions of GPUs on the openb lists: arrivals as in the published study, placement by a policy, curves and end states.

The protocol is that of "Beware of Fragmentation" (FGD, USENIX ATC'23), so that the published figures come out to the digit:
- Arrivals of a seed: the pods in order of name, shuffled; then pods drawn with replacement until the GPU requests would
  pass 130 % of the cluster (the check adds one GPU's share only, as there), or, if there are more at first, pods removed at
  random until they do not. Ten draws are discarded; a permutation of the nodes, in order of name, is their rank among
  equal scores. All with Go's generator (gorand.py). `sequences` replaces that by recorded orders.
- Pods arrive one at a time and never leave. One that fits nowhere has failed, and counts as arrived.
- The distribution M that policies may know: the most frequent (CPUs, share, count, models) that make up 95 % of the list.
- Curves: after each pod, x = arrived GPU milli in percent of the cluster, rounded; y = the mean in that bucket of the
  allocated (or the fragmented) GPU milli in percent of the cluster.

_fastsched does the placement.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import (
    GPU_MILLI,
    POLICIES,
    RANDOM,
    Classes,
    FragmentNodes,
    NodeSizes,
    Placements,
    Shapes,
)
from _fastsched.fragment_pick import place
from _fastsched.fragment_tables import Tables, prepare
from penstock.values.errors import BadValue
from sim.gorand import GoRand
from sim.openb_files import OpenbNode, OpenbPod

#: The share of the cluster at which arrivals stop.
ARRIVALS_PERCENT = 130
#: The share of the list that the distribution covers.
COVERED = 0.95
_ANY_MODEL = 2**64 - 1
#: Draws of the study's program between arrivals and ranks.
_UNUSED_DRAWS = 10


@dataclass(frozen=True)
class OpenbWorkload:
    """A cluster and a list of pods as columns."""

    nodes: FragmentNodes  # in order of name; rank is their number
    shapes: Shapes
    pod_shape: NDArray[np.int32]  # by pod, in order of name
    tables: Tables

    @property
    def gpu_milli(self) -> int:
        """The cluster's."""
        return int(self.nodes.gpus.sum()) * GPU_MILLI

    @property
    def shape_milli(self) -> NDArray[np.int64]:
        """GPU milli in all, by shape."""
        return self.shapes.gpus.astype(np.int64) * self.shapes.share_milli


class Arrivals(NamedTuple):
    """One seed's order: rows of Workload.pod_shape, and the nodes' ranks."""

    pods: NDArray[np.int32]
    rank: NDArray[np.int32]


@dataclass(frozen=True)
class OpenbOutcome:
    """One run: end state and curves."""

    policy: str
    seed: int
    pods: int
    failed_pods: int
    allocated_gpu_milli: int
    allocated_cpu_milli: int
    gpus_touched: int
    fragmentation_milli: float
    allocated_curve: NDArray[np.float64]  # by percent arrived; nan where no pod fell
    fragmentation_curve: NDArray[np.float64]


def make_workload(nodes: list[OpenbNode], pods: list[OpenbPod]) -> OpenbWorkload:
    """Columns of these lists. BadValue if they cannot be simulated together."""
    nodes = sorted(nodes, key=lambda node: node.name)
    pods = sorted(pods, key=lambda pod: pod.name)
    models = sorted({node.model for node in nodes})
    if len(models) > 64:
        raise BadValue(f"{len(models)} models of GPU; at most 64 are supported")
    if not any(pod.gpus for pod in pods) or not any(node.gpus for node in nodes):
        raise BadValue("no pod requests a GPU, or no node has one: there is nothing to measure")
    kinds = sorted({_kind(pod) for pod in pods})
    number = {kind: at for at, kind in enumerate(kinds)}
    gpus = np.array([node.gpus for node in nodes], np.int32)
    columns = FragmentNodes(
        cpu_milli=np.array([node.cpu_milli for node in nodes], np.int64),
        mem_mb=np.array([node.mem_mb for node in nodes], np.int64),
        gpus=gpus,
        model=np.array([models.index(node.model) for node in nodes], np.int32),
        rank=np.arange(len(nodes), dtype=np.int32),
        free_milli=np.where(np.arange(gpus.max()) < gpus[:, None], GPU_MILLI, 0).astype(np.int32),
    )
    shapes = Shapes(
        cpu_milli=np.array([kind[0] for kind in kinds], np.int64),
        mem_mb=np.array([kind[1] for kind in kinds], np.int64),
        gpus=np.array([kind[2] for kind in kinds], np.int32),
        share_milli=np.array([kind[3] for kind in kinds], np.int32),
        models=np.array([_mask(kind[4], models) for kind in kinds], np.uint64),
    )
    supply = np.bincount(columns.model, columns.gpus, minlength=len(models)).astype(np.int64)
    tables = prepare(frequent_classes(pods, models), supply, NodeSizes(columns.gpus, columns.cpu_milli))
    pod_shape = np.array([number[_kind(pod)] for pod in pods], np.int32)
    return OpenbWorkload(columns, shapes, pod_shape, tables)


def frequent_classes(pods: list[OpenbPod], models: list[str]) -> Classes:
    """The distribution M: most frequent first, among equals the larger request first."""
    counted = Counter((pod.cpu_milli, pod.share_milli, pod.gpus, pod.gpu_spec) for pod in pods)
    ordered = sorted(counted.items(), key=lambda item: (item[1], item[0]), reverse=True)
    weight = np.array([number for _, number in ordered], np.int64)
    kept = int(np.searchsorted(np.cumsum(weight), COVERED * len(pods))) + 1
    weight = weight[:kept]
    classes = [kind for kind, _ in ordered[:kept]]
    return Classes(
        cpu_milli=np.array([kind[0] for kind in classes], np.int64),
        gpus=np.array([kind[2] for kind in classes], np.int32),
        share_milli=np.array([kind[1] for kind in classes], np.int32),
        models=np.array([_mask(kind[3], models) for kind in classes], np.uint64),
        weight=weight,
        # in this order of divisions it rounds as in the study
        probability=(weight / len(pods)) / (int(weight.sum()) / len(pods)),
    )


def arrivals_of(workload: OpenbWorkload, seed: int) -> Arrivals:
    """The study's arrivals for this seed."""
    chance = GoRand(seed)
    chance.int63()
    milli = workload.shape_milli[workload.pod_shape].tolist()
    share = workload.shapes.share_milli[workload.pod_shape].tolist()
    order = list(range(len(milli)))
    chance.shuffle(order)
    limit, total = ARRIVALS_PERCENT / 100 * workload.gpu_milli, sum(milli)
    if total > limit:
        while total > limit:
            total -= milli[order.pop(chance.intn(len(order)))]
    else:
        while total + share[drawn := chance.intn(len(milli))] <= limit:
            total += milli[drawn]
            order.append(drawn)
    for _ in range(_UNUSED_DRAWS):
        chance.intn(len(milli))
    return Arrivals(np.array(order, np.int32), np.array(chance.perm(len(workload.nodes.rank)), np.int32))


def recorded_arrivals(workload: OpenbWorkload, path: str, seed: int) -> Arrivals:
    """`seqN` and `rankN` of a numpy archive. BadValue if they do not belong to this workload."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = Arrivals(archive[f"seq{seed}"].astype(np.int32), archive[f"rank{seed}"].astype(np.int32))
    except KeyError:
        raise BadValue(f"{path}: no seq{seed} and rank{seed} in it") from None
    except ValueError as error:
        raise BadValue(f"{path}: not an archive of numpy arrays ({error})") from None
    pods, nodes = len(workload.pod_shape), len(workload.nodes.rank)
    if found.pods.ndim != 1 or found.pods.min(initial=0) < 0 or found.pods.max(initial=0) >= pods:
        raise BadValue(f"{path}: seq{seed} is not a row of numbers of the {pods} pods")
    if sorted(found.rank.tolist()) != list(range(nodes)):
        raise BadValue(f"{path}: rank{seed} is not an order of the {nodes} nodes")
    return found


def replay(workload: OpenbWorkload, arrivals: Arrivals, policy: str) -> Placements:
    """Place all arrivals; one row a pod."""
    number = POLICIES.index(policy)
    draws = None
    if number == RANDOM:  # the original's random order depends on threads; any fair draw is equivalent
        draws = np.random.default_rng(arrivals.rank).integers(0, 1 << 63, len(arrivals.pods), dtype=np.uint64)
    nodes = workload.nodes._replace(rank=arrivals.rank)
    return place(nodes, workload.shapes, workload.pod_shape[arrivals.pods], workload.tables, number, draws)


def summarise(workload: OpenbWorkload, arrivals: Arrivals, policy: str, seed: int, placed: Placements) -> OpenbOutcome:
    """End state and curves of a run."""
    shape = workload.pod_shape[arrivals.pods]
    milli, started = workload.shape_milli[shape], placed.node >= 0
    arrived, allocated = np.cumsum(milli), np.cumsum(np.where(started, milli, 0))
    fragmentation = placed.fragmentation / workload.tables.total_weight
    touched = np.zeros(len(workload.nodes.rank), np.uint32)
    np.bitwise_or.at(touched, placed.node[started], placed.gpus[started])
    return OpenbOutcome(
        policy=policy,
        seed=seed,
        pods=len(shape),
        failed_pods=int((~started).sum()),
        allocated_gpu_milli=int(allocated[-1]) if len(shape) else 0,
        allocated_cpu_milli=int(workload.shapes.cpu_milli[shape][started].sum()),
        gpus_touched=int(np.bitwise_count(touched).sum()),
        fragmentation_milli=float(fragmentation[-1]) if len(shape) else 0.0,
        allocated_curve=_curve(arrived, allocated, workload.gpu_milli),
        fragmentation_curve=_curve(arrived, fragmentation, workload.gpu_milli),
    )


def _curve(
    arrived: NDArray[np.int64], value: NDArray[np.int64] | NDArray[np.float64], whole: int
) -> NDArray[np.float64]:
    bucket = np.rint(100 * arrived / whole).astype(np.int64)
    length = max(ARRIVALS_PERCENT, int(bucket.max(initial=0))) + 1
    many = np.bincount(bucket, minlength=length)
    sums = np.bincount(bucket, weights=100 * value / whole, minlength=length)
    return np.where(many > 0, sums / np.maximum(many, 1), np.nan)[: ARRIVALS_PERCENT + 1]


def _kind(pod: OpenbPod) -> tuple[int, int, int, int, str]:
    return pod.cpu_milli, pod.mem_mb, pod.gpus, pod.share_milli, pod.gpu_spec


def _mask(gpu_spec: str, models: list[str]) -> int:
    names = {name for name in gpu_spec.split("|") if name}
    return sum(1 << models.index(name) for name in sorted(names) if name in models) if names else _ANY_MODEL
