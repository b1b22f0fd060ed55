"""Encodes GPUs: read from the core between two steps, one message for each that a node has ever reported.

Rules
- The shown state is the effective one: the worse of the node's and the administrator's, with its reason.
- A GPU's jobs are those that hold it whole or a part of it; a divided one has the jobs of its MIG instances too.
- Only a job that is named leaves a GPU idle, and only while the site has idle GPUs reported (ctld/core/passes/gpu_idle.py).
- Masks and allocations count by place (ctld/core/gpus/inventory.py), users by index, as nvidia-smi and CUDA do. Where each
  place has an index of its own, that is shown; MIG instances share their GPU's, so there places are shown.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ctld.agents.stepmessages import indices
from ctld.core.passes import gpu_idle
from ctld.core.records.gpu import Gpu
from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.state.shares import GPU, slots_of
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility
from penstock.v1 import common_pb2, controller_pb2, node_pb2
from penstock.values.gpustates import CLOSED_STATES

#: Names of the work in progress on a GPU.
WORKS: Final = {int(kind): name.lower() for name, kind in node_pb2.GpuWork.Kind.items() if kind}
_FACTS: Final = ("index", "minor", "type", "memory_mb", "name", "bus_id", "profile", "capability", "serial")
#: Cluster-wide fields of a node's inventory: versions.
NODE_FIELDS: Final = ("gpu_driver", "cuda_version", "nvml_version", "gpu_constraint", "gpu_why")


class _Known(NamedTuple):
    """The messages of a node's GPUs, and all that they are made of."""

    gpus: tuple[Gpu, ...]
    jobs: dict[str, list[int]]
    users: list[str | None]
    idle: list[int]
    messages: list[controller_pb2.GpuInfo]


class GpuInfos:
    """Makes the messages, and keeps those of each node as long as they are the same: a cluster has thousands of GPUs, of which a
    job changes some."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def of_nodes(
        self, state: ClusterState, nodes: Iterable[Node], users: Mapping[int, str], visibility: JobVisibility = ALL_JOBS
    ) -> dict[str, list[controller_pb2.GpuInfo]]:
        """Returns the GPUs by node, in the node's own order, each before its MIG instances; missing ones come last. Not to be
        changed.

        `users`: names of `drain_uids`; `visibility`: jobs that may be named. Nodes without GPUs are skipped.
        """
        having = [node for node in nodes if node.gpus]
        parts = _parts_by_node(state, having)
        for name in [name for name in self._known if name not in state.nodes]:
            del self._known[name]
        found: dict[str, list[controller_pb2.GpuInfo]] = {}
        for node in having:
            mine = [(job, part) for job, part in parts.get(node.name, ()) if visibility.sees(state.jobs[job])]
            found[node.name] = self._of_node(state, node, _jobs_by_uuid(node, mine), users)
        return found

    def _of_node(
        self, state: ClusterState, node: Node, jobs: dict[str, list[int]], users: Mapping[int, str]
    ) -> list[controller_pb2.GpuInfo]:
        gpus = tuple(node.gpus.values())  # a record is never changed, only replaced
        names = [users.get(gpu.drain_uid) for gpu in gpus if gpu.drained]
        idle = [_idle_job_id(state, gpu, jobs.get(gpu.uuid, ())) for gpu in gpus if gpu.idle_job]
        known = self._known.get(node.name)
        if known is None or known[:-1] != (gpus, jobs, names, idle):
            messages = [_info(state, gpu, jobs.get(gpu.uuid, ()), users) for gpu in sorted(gpus, key=_order)]
            known = self._known[node.name] = _Known(gpus, jobs, names, idle, messages)
        return known.messages


def drain_uids(nodes: Iterable[Node]) -> list[int]:
    """Returns the users who have drained a GPU by hand."""
    return list(dict.fromkeys(gpu.drain_uid for node in nodes for gpu in node.gpus.values() if gpu.drained))


def _order(gpu: Gpu) -> tuple[bool, int, bool, bool, int, str]:
    """Sorts whole GPUs by index, each before its instances; those without an index of their own by place."""
    facts = gpu.facts
    return not gpu.is_there, facts.index, bool(facts.parent), gpu.slot < 0, gpu.slot, gpu.uuid


def _info(state: ClusterState, gpu: Gpu, jobs: Collection[int], users: Mapping[int, str]) -> controller_pb2.GpuInfo:
    by_hand = gpu.drained and gpu.reason() == gpu.drain_reason
    idle_job_id = _idle_job_id(state, gpu, jobs)
    return controller_pb2.GpuInfo(
        **{name: getattr(gpu.facts, name) for name in _FACTS},
        uuid=gpu.uuid,
        state=gpu.state().name,
        reason=gpu.reason(),
        reason_user=users.get(gpu.drain_uid, str(gpu.drain_uid)) if by_hand else "",
        since_us=gpu.drain_at_us if by_hand else gpu.opinion.since_us,
        job_ids=jobs,
        parent_uuid=gpu.facts.parent,
        work=_work(gpu),
        many_only=gpu.is_for_one() and not gpu.drained,
        slot=gpu.slot,
        xids=[common_pb2.GpuXid(xid=xid, times=times, last_us=at_us) for xid, times, at_us in gpu.opinion.xids],
        notes=gpu.opinion.notes,
        idle_job_id=idle_job_id,
        idle_since_us=gpu.idle_since_us if idle_job_id else 0,
    )


def _idle_job_id(state: ClusterState, gpu: Gpu, jobs: Collection[int]) -> int:
    """Returns the job, of those that are named, which leaves it idle; 0 = none. What an ended attempt left is still recorded."""
    if not state.config.gpu_idle_warn_s or gpu.idle_job not in jobs:
        return 0
    return gpu.idle_job if gpu_idle.is_idle(gpu, state.jobs[gpu.idle_job]) else 0


def _work(gpu: Gpu) -> str:
    """Describes the work in progress; `waits`: it is healthy, but not allocated before some work is done."""
    if gpu.work_id:
        return WORKS.get(gpu.work_kind, "work")
    return "waits" if gpu.is_closed() and gpu.state() not in CLOSED_STATES else ""


def _parts_by_node(state: ClusterState, nodes: Iterable[Node]) -> dict[str, list[tuple[int, NodeAlloc]]]:
    """Returns what jobs hold, by node, in one pass over the allocations. Ascending job ids."""
    found: dict[str, list[tuple[int, NodeAlloc]]] = {node.name: [] for node in nodes}
    for job_id in sorted(dict.fromkeys(job_id for node in nodes for job_id in node.jobs)):
        for part in state.jobs[job_id].alloc:
            if part.node in found and (part.gres or part.shares):
                found[part.node].append((job_id, part))
    return found


def _jobs_by_uuid(node: Node, parts: Iterable[tuple[int, NodeAlloc]]) -> dict[str, list[int]]:
    """Returns the jobs of each GPU, including those of its instances; ascending ids."""
    found: dict[str, dict[int, None]] = {}
    for job_id, part in parts:
        for slot in indices(slots_of(part)):
            uuid = node.gpu_slots[slot] if slot < len(node.gpu_slots) else ""
            found.setdefault(uuid, {})[job_id] = None
    for gpu in node.gpus.values():
        if gpu.facts.parent and gpu.uuid in found:
            found.setdefault(gpu.facts.parent, {}).update(found[gpu.uuid])
    return {uuid: sorted(ids) for uuid, ids in found.items()}


def shown_indices(node: Node) -> tuple[int, ...]:
    """Returns the index of each GPU as users see it, by place."""
    places = tuple(range(len(node.gpu_slots)))
    gpus = [node.gpus.get(uuid) for uuid in node.gpu_slots]
    indices = tuple(gpu.facts.index for gpu in gpus if gpu is not None and not gpu.facts.parent)
    return indices if len(dict.fromkeys(indices)) == len(places) else places


def with_indices(held: common_pb2.GresIndices, node: Node | None) -> common_pb2.GresIndices:
    """Replaces places with the shown indices: only of GPUs and parts of one, modified in place."""
    if node is not None and (held.name == GPU or held.units):
        shown = shown_indices(node)
        found = [shown[slot] if slot < len(shown) else slot for slot in held.index]
        order = range(len(found)) if held.units else sorted(range(len(found)), key=found.__getitem__)
        if held.uuid and not held.units:
            held.uuid[:] = [held.uuid[i] for i in order]
        held.index[:] = [found[i] for i in order]
    return held
