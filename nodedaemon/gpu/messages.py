"""Encodes GPU devices, health and reports as messages of the wire. No decisions."""

from collections.abc import Iterable

# Any: a number of the wire's enumeration, for which protobuf's type wants its names
from typing import Any

from nodedaemon.base.topology_info import NodeTopology
from nodedaemon.core.gpuhealth_messages import JobAction, Opinion
from nodedaemon.core.gpumessages import Device, Found
from nodedaemon.core.steps import StepKey
from penstock.v1 import common_pb2, node_pb2
from penstock.values.fields import made_of

_SAME = (
    "uuid", "index", "minor", "type", "memory_mb", "name", "bus_id", "capability", "links", "serial", "vbios", "numa_node",
    "profile", "slices", "mig_enabled", "files",
)  # fmt: skip


def fill(
    inventory: node_pb2.Inventory,
    found: Found,
    devices: Iterable[tuple[Device, Opinion]],
    topology: NodeTopology | None,
) -> None:
    """Writes the GPUs and their health into an inventory. topology: None = the cpus are pretended."""
    del inventory.gpus[:]
    for device, opinion in devices:
        inventory.gpus.append(device_message(device, opinion, topology))
    inventory.gpu_driver = found.driver
    inventory.cuda_version = found.cuda
    inventory.nvml_version = found.nvml
    inventory.gpu_why = found.why


def device_message(device: Device, opinion: Opinion, topology: NodeTopology | None) -> node_pb2.GpuDevice:
    """Returns a device with its health."""
    near = device.near_cpus if topology is None else topology.abstracts(device.near_cpus)
    more = {"near_cpus": near, "parent_uuid": device.parent, "health": health_message(opinion)}
    return made_of(node_pb2.GpuDevice, {name: getattr(device, name) for name in _SAME} | more)


def health_message(opinion: Opinion) -> node_pb2.GpuHealth:
    """Returns the health of a GPU."""
    return node_pb2.GpuHealth(
        uuid=opinion.uuid,
        state=int(opinion.state),
        reason=opinion.reason,
        since_us=opinion.since_us,
        many_only=opinion.many_only,
        wants_reset=opinion.wants_reset,
        xids=[common_pb2.GpuXid(xid=xid, times=times, last_us=at_us) for xid, times, at_us in opinion.xids],
        notes=opinion.notes,
    )


def report(
    at_us: int,
    opinions: Iterable[Opinion] = (),
    action: JobAction | None = None,
    inventory: node_pb2.Inventory | None = None,
) -> bytes:
    """Returns a report about an event of GPUs."""
    said = node_pb2.GpuReport(
        at_us=at_us, health=[health_message(opinion) for opinion in opinions], inventory=inventory
    )
    if action is not None:
        number: Any = int(action.action)
        said.action = number
        said.cause = action.cause
        said.jobs.extend(_key(key) for key in action.jobs)
    return node_pb2.Report(gpus=said).SerializeToString()


def work_done(
    work_id: str, uuid: str, ok: bool, text: str, untried: bool = False, inventory: node_pb2.Inventory | None = None
) -> bytes:
    """Returns the result of maintenance of a GPU. untried: nothing was done; `inventory`: the present one."""
    done = node_pb2.GpuWorkDone(work_id=work_id, uuid=uuid, ok=ok, text=text, untried=untried, inventory=inventory)
    return node_pb2.Report(gpu_work_done=done).SerializeToString()


def _key(key: StepKey) -> node_pb2.StepKey:
    return node_pb2.StepKey(job_id=key.job_id, attempt=key.attempt, step_id=key.step_id)
