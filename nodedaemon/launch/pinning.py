"""Translates a launch's GPUs from the places and UUIDs of the allocation to the variables and bindings of its tasks.

The controller sends UUIDs; number, minor and files are looked up at each launch, since they may have changed with the
last boot. wire.py has checked before that the step's GPUs are present and healthy. Where there are no UUIDs (devices
that gres.conf names), the place is the number.

Deliberately absent: the format of the variables (core/gpupins.py), the assignment to tasks (core/gpubind.py), the
denial of devices (containment.py).
"""

from os.path import exists

import msgspec

from nodedaemon.base import orders
from nodedaemon.core import gpubind, gpupins
from nodedaemon.core.environment import NodeShare
from nodedaemon.core.gpumessages import Device
from nodedaemon.core.gpupins import PinnedGpu, Pinning
from nodedaemon.launch.site import Site
from penstock.v1 import common_pb2, node_pb2
from penstock.values.gres import GPU as GPU

SHARD, MPS = "shard", "mps"
NO_CLOCKS = "is ignored: clocks of GPUs are not changed on this node"


def share_of(message: common_pb2.NodeAllocation, site: Site, node_name: str, uid: int = -1) -> NodeShare:
    """The allocation on this node. `uid`: the job's user; -1 = not needed."""
    name = message.node or node_name
    if not message.gres:  # most jobs
        return NodeShare(name, message.cpus, message.mem_mb, message.tasks, pinning=pinning_of(site))
    parts = [part for part in message.gres if part.units]
    shared = tuple(gpu for part in parts for gpu in _gpus(part, site))
    shards = sum(sum(part.units) for part in parts if part.name == SHARD)
    percents = [max(1, 100 * part.units[0] // max(1, part.of[0])) for part in parts if part.name == MPS]
    return NodeShare(
        name, message.cpus, message.mem_mb, message.tasks,
        gpus=tuple(gpu for part in message.gres if part.name == GPU and not part.units for gpu in _gpus(part, site)),
        shared_gpus=shared, shards=shards, mps_percent=sum(percents),
        mps_folder=_pipe(mps_gpu(message), site, uid),
        mps_mem_mb=sum(_memory_mb(part, site) for part in parts if part.name == MPS),
        pinning=pinning_of(site),
    )  # fmt: skip


def pinning_of(site: Site) -> Pinning:
    """The way in which this node names GPUs to jobs, by its present settings."""
    if site.pinning is None:
        said = site.settings.gpu
        makers = tuple(maker for maker in gpupins.MAKERS if maker in said.env) if said.env else _found_makers(site)
        site.pinning = Pinning(makers, said.env_uuid)
    if not site.fences_devices():
        return site.pinning
    files = [file for gpu in site.inventory() for file in gpu.files]  # none for pretended ones
    is_fenced = site.has_devices(GPU) or any(map(exists, files))  # checked each time: a driver may be loaded later
    return msgspec.structs.replace(site.pinning, is_fenced=is_fenced)


def _found_makers(site: Site) -> tuple[str, ...]:
    """Without configuration: for GPUs that NVML knows NVIDIA's variables; for others all makers'."""
    return (gpupins.NVIDIA,) if site.inventory() or not site.has_devices(GPU) else gpupins.MAKERS


def devices_of(part: common_pb2.GresIndices, site: Site) -> tuple[Device | None, ...]:
    """By index: the device; None where it is unknown. A lost one is returned as it was last seen."""
    uuids = dict(zip(part.index, part.uuid, strict=False))
    if not uuids:
        return (None,) * len(part.index)
    known = {device.uuid: device for device in site.inventory()}
    return tuple(known.get(uuids.get(index, "")) for index in part.index)


def _gpus(part: common_pb2.GresIndices, site: Site) -> list[PinnedGpu]:
    found = []
    for index, device in zip(part.index, devices_of(part, site), strict=True):
        if device is None:
            found.append(PinnedGpu(index))
        else:
            number = index if device.parent else device.index
            by_uuid = bool(device.parent) or part.name == MPS
            found.append(PinnedGpu(number, device.uuid, by_uuid, device.near_cpus))
    return found


def mps_gpu(message: common_pb2.NodeAllocation) -> str:
    """The GPU of which the step has a share by MPS; "" = none, or unknown."""
    return next((uuid for part in message.gres if part.name == MPS and part.units for uuid in part.uuid), "")


def _pipe(uuid: str, site: Site, uid: int) -> str:
    return f"{site.mps_base}/{uid}.{uuid}/pipe" if uuid and site.mps_base and uid >= 0 else ""


def _memory_mb(part: common_pb2.GresIndices, site: Site) -> int:
    """Returns the memory of its share of a GPU; 0 = unknown."""
    device = devices_of(part, site)[0] if part.index else None
    return device.memory_mb * part.units[0] // max(1, part.of[0]) if device else 0


def bind_tasks(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site) -> None:
    """Binds each task of a step of srun to its GPUs. Its cpus are known by now."""
    if not order.tasks:
        return
    spec = message.step.spec
    if spec.gpu_freq and any(part.name == GPU for part in message.allocation.gres):
        first = order.tasks[0]
        first.bind_notes = [*first.bind_notes, f"slurmstepd: error: --gpu-freq={spec.gpu_freq} {NO_CLOCKS}"]
    per_task = sum(count.count for count in spec.gres_per_task if count.name == GPU)
    bind = gpubind.parse(spec.gpu_bind, per_task)
    if not (bind.kind or bind.is_verbose):
        return
    share = share_of(message.allocation, site, order.node_name)
    gpus = share.all_gpus()
    if share.shared_gpus:  # one GPU: every binding that is valid for shares selects it
        bind = bind._replace(kind="none")
    seen = gpubind.SeenGpus(gpus, [task.cpus or order.cpu_ids for task in order.tasks], share.pinning.is_fenced)
    found, problem = gpubind.places_of_tasks(bind, seen)
    for task, places in zip(order.tasks, found, strict=True):
        if len(places) < len(gpus):
            made = gpupins.of_task(gpus, share.pinning, places)
            task.environment |= {name.encode(): value.encode() for name, value in made.items()}
        if bind.is_verbose and gpus:
            task.bind_notes = [*task.bind_notes, verbose_line(gpus, places, share.pinning)]
    if problem:
        first = order.tasks[0]
        first.bind_notes = [*first.bind_notes, f"slurmstepd: error: --gpu-bind={problem}"]


def verbose_line(gpus: tuple[PinnedGpu, ...], places: tuple[int, ...], pinning: Pinning) -> str:
    """Slurm's line about a task's binding. Masks are of the node's numbers."""
    mine = [gpus[place] for place in places]
    usable, everything = (f"0x{sum(1 << gpu.number for gpu in some):X}" for some in (mine, gpus))
    names = gpupins.words(gpus, pinning)
    return (
        f"gpu-bind: usable_gres={usable}; bit_alloc={everything}; local_inx={len(mine)}; "
        f"global_list={gpupins.numbers(mine) or ''}; local_list={','.join(names[place] for place in places)}"
    )
