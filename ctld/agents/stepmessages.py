"""Encodes steps as messages: the request, the task layout, the stream endpoints and the users who may attach. No
decisions."""

import hmac
from typing import Final

from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import StepPart, StepRequest, StepRow
from penstock.v1 import common_pb2, steps_pb2
from penstock.values.fields import Fields, made_of
from penstock.values.gres import GPU
from penstock.values.hostlist import compress

#: UUIDs of a node's GPUs by place; () = unknown.
Slots = tuple[str, ...]
_KINDS: Final = ("gres_per_node", "gres_per_step", "gres_per_task", "gres_per_socket")
_LISTS: Final = ("nodes_required", "nodes_excluded")
_OTHERS: Final = (*_KINDS, *_LISTS, "rlimits", "multi_prog")
_PLAIN: Final = tuple(name for name in StepRequest.__struct_fields__ if name not in _OTHERS)


def stream_key(secret: bytes, job_id: int, attempt: int, step_id: int) -> bytes:
    """Returns the secret that allows a client to attach to the step's streams. Derived when needed, never stored."""
    return hmac.digest(secret, b"%d.%d.%d" % (job_id, attempt, step_id), "sha256")


def stream_address(node: Node, last_known: bool = False) -> steps_pb2.StreamAddress:
    """Returns the address of the node's streams; port 0 while it has none. A node that is not registered has none, or
    with `last_known` the one that it had: a restarted node daemon takes the same port if it is free."""
    port = node.stream_port if node.connected or last_known else 0
    return steps_pb2.StreamAddress(node=node.name, host=node.config.addr, port=port, tls=node.stream_tls)


def step_spec(request: StepRequest) -> steps_pb2.StepSpec:
    """Encodes the step's request."""
    fields: Fields = {}
    for name in _PLAIN:
        value = getattr(request, name)
        if value is not None and (value or name in _OPTIONAL):
            fields[name] = value
    for name in _KINDS:
        fields[name] = [common_pb2.GresCount(name=n, type=t, count=count) for n, t, count in getattr(request, name)]
    for name in _LISTS:
        fields[name] = ",".join(getattr(request, name))
    fields["rlimits"] = dict(request.rlimits)
    fields["multi_prog"] = [steps_pb2.RankCommand(ranks=one.ranks, argv=one.argv) for one in request.multi_prog]
    return made_of(steps_pb2.StepSpec, fields)


#: Fields for which 0 differs from not given.
_OPTIONAL: Final = (
    "mem_per_node_mb", "mem_per_cpu_mb", "relative", "time_limit_s", "immediate_s", "umask", "het_step",
)  # fmt: skip


def step_plan(row: StepRow, only: str = "") -> steps_pb2.StepPlan:
    """Encodes the task layout. `only`: ranks and allocation of that node alone, the others' are empty."""
    parts = row.parts or ()
    return steps_pb2.StepPlan(
        node_list=row.node_list or compress([row.node]),
        nodes=[part.node for part in parts] or [row.node],
        tasks=[len(part.ranks) for part in parts] or [row.tasks],
        ranks=[
            steps_pb2.RankSet(rank=part.ranks if only in ("", part.node) else ()) for part in parts
        ] or [steps_pb2.RankSet(rank=range(row.tasks))],
        ntasks=row.tasks,
        cpus_per_task=(row.request.cpus_per_task if row.request is not None else 0) or 1,
        ports=row.ports,
        allocation=[
            part_allocation(part) if only in ("", part.node) else common_pb2.NodeAllocation() for part in parts
        ],
    )  # fmt: skip


def part_allocation(part: StepPart, slots: Slots = ()) -> common_pb2.NodeAllocation:
    """Encodes the resources of the step on one node."""
    return allocation_of(
        NodeAlloc(part.node, part.cpus, part.mem_mb, len(part.ranks), part.gres, part.cpu_ids, part.shares), slots
    )


def mask_bytes(mask: int) -> bytes:
    """Encodes a bit mask of CPUs; 0 is empty."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def allocation_of(part: NodeAlloc, slots: Slots = ()) -> common_pb2.NodeAllocation:
    """Encodes a job's allocation on one node. `slots`: the UUIDs of its GPUs, by place."""
    message = common_pb2.NodeAllocation(node=part.node, cpus=part.cpus, mem_mb=part.mem_mb, tasks=part.tasks)
    if part.cpu_ids:
        message.cpu_ids = mask_bytes(part.cpu_ids)
    for name, type_, mask in part.gres:
        uuids = [slots[i] if i < len(slots) else "" for i in indices(mask)] if slots and name == GPU else ()
        message.gres.add(name=name, type=type_, index=indices(mask), uuid=uuids)
    for share in part.shares:
        message.gres.add(
            name=share.name, type=share.type, index=[share.gpu], units=[share.units], of=[share.of],
            uuid=slots[share.gpu : share.gpu + 1],
        )  # fmt: skip
    return message


def indices(mask: int) -> list[int]:
    """Returns the numbers of the set bits."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
